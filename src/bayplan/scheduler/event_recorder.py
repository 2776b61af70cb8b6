"""Writes events (events.k8s.io/v1) the way client-go's recorder does, without ever slowing binding.

`record` only appends to a bounded queue; a few workers send what is in it over a client of their
own (own connections, own rate limit). While binding is busy fewer of them work, so that the API
server's time goes to bindings first. When the queue is full the event is dropped and counted.

Two events are the same when type, action, reason, reporter and both objects (their versions
included, the note not) are equal: the second becomes a `series` on the first, further ones only
raise its count, which is written every half hour and when six minutes passed without another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import msgspec
import structlog

from bayplan.client import AlreadyExists, ApiError, Client, NotFound, NotLeading, TransportError
from bayplan.client.resources import EVENTS
from bayplan.engine.loop.actions import truncated

log = structlog.get_logger(__name__)

QUEUE_LIMIT = 50_000
WORKERS = 8
WORKERS_WHILE_BINDING = 3
TRIES = 12
PAUSE = 10.0
FINISH_AFTER = 360.0
REFRESH_EVERY = 1800.0


class Reference(msgspec.Struct, frozen=True, rename="camel"):
    """An ObjectReference."""

    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str = "v1"
    resource_version: str = ""


class _Entry:
    """An event that was recorded and may become a series."""

    __slots__ = ("body", "count", "dirty", "seen")

    def __init__(self, body: dict[str, object], seen: float) -> None:
        self.body = body
        self.count = 1
        self.dirty = False
        self.seen = seen


_Key = tuple[str, str, str, str, Reference, Reference | None]


class EventRecorder:
    """The recorder of one process; `binding_busy` tells whether bindings are waiting."""

    def __init__(
        self,
        client: Client,
        *,
        hostname: str,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        binding_busy: Callable[[], bool] = lambda: False,
        count: Callable[[str], None] = lambda outcome: None,
        limit: int = QUEUE_LIMIT,
    ) -> None:
        self._client = client
        self._hostname = hostname
        self._wall = wall
        self._binding_busy = binding_busy
        self._count = count
        self._limit = limit
        self._queue: deque[_Entry] = deque()
        self._known: dict[_Key, _Entry] = {}
        self._idle: dict[int, asyncio.Future[None]] = {}  # workers, by number
        self._under_way = 0
        self._serial = 0

    def record(
        self,
        regarding: Reference,
        *,
        type_: str,
        reason: str,
        action: str,
        note: str,
        controller: str,
        related: Reference | None = None,
        once: bool = False,
    ) -> None:
        """Queue an event; never blocks. `once`: it cannot repeat, so it is not remembered."""
        key = (type_, reason, action, controller, regarding, related)
        now = asyncio.get_running_loop().time()
        if not once and (known := self._known.get(key)) is not None:
            known.seen = now
            known.count += 1
            if known.count == 2:
                self._enqueue(known)
            else:
                known.dirty = True
            return
        body = self._body(regarding, type_, reason, action, note, controller, related)
        entry = _Entry(body, now)
        if not once:
            self._known[key] = entry
        self._enqueue(entry)

    def _enqueue(self, entry: _Entry) -> None:
        if len(self._queue) >= self._limit:
            self._count("dropped")
            return
        self._queue.append(entry)
        if self._idle:  # the first: later ones may have to wait for bindings
            self._idle.pop(min(self._idle)).set_result(None)

    def _body(
        self,
        regarding: Reference,
        type_: str,
        reason: str,
        action: str,
        note: str,
        controller: str,
        related: Reference | None,
    ) -> dict[str, object]:
        moment = self._wall()
        self._serial += 1
        # Nanoseconds name an event upstream; the serial keeps two of one microsecond apart.
        nanos = int(moment.timestamp() * 1_000_000) * 1000 + self._serial % 1000
        namespace = regarding.namespace or "default"
        body: dict[str, object] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{regarding.name}.{nanos:x}", "namespace": namespace},
            "eventTime": _micro(moment),
            "reportingController": controller,
            "reportingInstance": f"{controller}-{self._hostname}"[:128],
            "action": action,
            "reason": reason,
            "regarding": regarding,
            "note": truncated(note),
            "type": type_,
        }
        if related is not None:
            body["related"] = related
        return body

    # -- sending

    async def run(self) -> None:
        """Send events until cancelled."""
        async with asyncio.TaskGroup() as group:
            for index in range(WORKERS):
                group.create_task(self._worker(index))
            group.create_task(self._upkeep())

    async def drain(self, timeout: float) -> None:
        """Wait until everything queued has been sent, at most `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                while self._queue or self._under_way:  # noqa: ASYNC110 - only at shutdown
                    await asyncio.sleep(0.02)
        except TimeoutError:
            log.warning("events left unsent", count=len(self._queue))

    async def _worker(self, index: int) -> None:
        while True:
            if not self._queue:
                await self._called(index)
                continue
            if index >= WORKERS_WHILE_BINDING and self._binding_busy():
                await asyncio.sleep(0.05)
                continue
            entry = self._queue.popleft()
            self._under_way += 1
            try:
                await self._deliver(entry)
            finally:
                self._under_way -= 1

    async def _called(self, index: int) -> None:
        """Return when this worker is called."""
        call = self._idle[index] = asyncio.get_running_loop().create_future()
        try:
            await call
        finally:
            self._idle.pop(index, None)

    async def _deliver(self, entry: _Entry) -> None:
        for _ in range(TRIES):
            try:
                await self._send(entry)
            except TransportError as problem:
                log.debug("event not written, trying again", err=str(problem))
                await asyncio.sleep(PAUSE)
            except AlreadyExists:
                if entry.count == 1:
                    self._count("rejected")
                    return
            except ApiError as problem:
                self._count("rejected")
                log.debug("server rejected event", err=str(problem))
                return
            except NotLeading:
                self._count("dropped")
                return
            else:
                self._count("written")
                return
        self._count("failed")

    async def _send(self, entry: _Entry) -> None:
        meta = entry.body["metadata"]
        assert isinstance(meta, Mapping)
        namespace, name = str(meta["namespace"]), str(meta["name"])
        if entry.count == 1:
            await self._client.create(EVENTS, entry.body, namespace)
            return
        series = {"count": entry.count, "lastObservedTime": _micro(self._wall())}
        entry.dirty = False
        patch = {"series": series}
        try:
            await self._client.patch(EVENTS, name, patch, namespace, kind="strategic")
        except NotFound:
            await self._client.create(EVENTS, {**entry.body, **patch}, namespace)

    async def _upkeep(self) -> None:
        """Forget events that stopped repeating; write the counts of those that go on."""
        loop = asyncio.get_running_loop()
        refreshed = loop.time()
        while True:
            await asyncio.sleep(FINISH_AFTER / 2)
            now = loop.time()
            refresh = now - refreshed >= REFRESH_EVERY
            refreshed = now if refresh else refreshed
            for key, entry in list(self._known.items()):
                finished = now - entry.seen >= FINISH_AFTER
                if entry.dirty and (finished or refresh):
                    self._enqueue(entry)
                if finished:
                    del self._known[key]


def _micro(moment: datetime) -> str:
    text = moment.astimezone(UTC).isoformat(timespec="microseconds")
    return text.removesuffix("+00:00") + "Z"

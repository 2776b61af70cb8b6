"""Places the API server's objects: watches, queues, decides, binds, and tells why not.

An object's uid is its allocation's id, so a restart between reserving and binding is harmless: the
same allocation is found again and bound. An object that goes, or that others placed elsewhere,
gives back what it took; at start, and when the share moves, allocations of objects that no longer
exist are released.
With several schedulers each object belongs to the one whose share of the hash range it falls in.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import structlog

from bayplan.client import ApiError, Change, Client, ClientError, Informer, NotFound
from bayplan.client.resources import EVENTS
from bayplan.errors import BayplanError
from bayplan.global_scheduler.fields import Problem
from bayplan.global_scheduler.kinds import Adapter, Placeable, node_name
from bayplan.global_scheduler.ledger import Record
from bayplan.global_scheduler.retry import RetryQueue
from bayplan.global_scheduler.service import Allocations, NotFoundError, fingerprint

log = structlog.get_logger(__name__)

COMPONENT = "global-scheduler"
RELEASE_AGAIN = 1.0
"""Seconds until a release that the store did not take is tried again."""
SECOND_LOOK = 2.0
"""Seconds between the two looks for orphans."""


class Placing:
    """One kind of object, from watch to binding."""

    def __init__(
        self,
        client: Client,
        service: Allocations,
        adapter: Adapter,
        *,
        clock: Callable[[], float],
        is_mine: Callable[[str], bool] = lambda uid: True,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._service = service
        self._adapter = adapter
        self._clock = clock
        self._is_mine = is_mine
        self._pause = pause
        self._queue = RetryQueue()
        self._tried: dict[str, str] = {}
        self._keys: dict[str, str] = {}
        """Uid to key."""
        self._work = asyncio.Event()
        self._to_release: dict[str, None] = {}
        self._releasable = asyncio.Event()
        self._moved = asyncio.Event()
        self.informer = Informer(client, adapter.resource, Placeable, optional=True)
        self.informer.add_handler(self._changed)
        service.ledger.on_change(self._ledger_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informer.run())
            group.create_task(self._place_all())
            group.create_task(self._release_all())
            group.create_task(self._sweep())

    def hint(self) -> None:
        """Something changed that may make room."""
        self._queue.hint(_now())
        self._work.set()

    def reconsider(self) -> None:
        """The share of this scheduler changed: look at every object again, and for orphans."""
        self._tried.clear()
        for key, item in self.informer.store.items():
            self._consider(key, item)
        self._moved.set()

    def _ledger_changed(self, record: Record, came: bool) -> None:
        if not came:
            self.hint()
        elif record.key.startswith(self._owner):
            self._look_at(record.id)

    def _look_at(self, uid: str) -> None:
        """Queue a placed object whose allocation may have moved."""
        key = self._keys.get(uid)
        if key is not None and self._moved_away(self.informer.store.get(key)) is not None:
            self._queue.add(key)
            self._work.set()

    def _moved_away(self, item: Placeable | None) -> Record | None:
        """The record of a placed object that does not tell yet where it is now."""
        if item is None or self._adapter.wants_placing(item) or not self._adapter.holds(item):
            return None
        record = self._service.ledger.records.get(item.metadata.uid)
        if record is None or not self._is_mine(record.id):
            return None
        return record if self._adapter.is_behind(item, record) else None

    def _changed(self, changes: Sequence[Change[Placeable]]) -> None:
        for change in changes:
            key = _key(change.new)
            self._keys[change.new.metadata.uid] = key
            if change.type == "DELETED":
                del self._keys[change.new.metadata.uid]
                self._queue.forget(key)
                self._tried.pop(key, None)
                self._release(change.new.metadata.uid)
            else:
                self._consider(key, change.new)

    def _consider(self, key: str, item: Placeable) -> None:
        if not self._adapter.holds(item):
            self._queue.forget(key)
            self._release(item.metadata.uid)
        elif self._adapter.wants_placing(item) and self._is_mine(item.metadata.uid):
            # a change of status only, such as our own, is no reason to try again
            if self._tried.get(key) != _version(item):
                self._tried[key] = _version(item)
                self._queue.add(key)
                self._work.set()
        elif self._moved_away(item) is not None:
            self._queue.add(key)
            self._work.set()
        else:
            self._queue.forget(key)

    def _release(self, uid: str) -> None:
        """Give back in the background, as often as it takes."""
        if uid in self._service.ledger.records and self._is_mine(uid):
            self._to_release[uid] = None
            self._releasable.set()

    async def _release_all(self) -> None:
        while True:
            await self._releasable.wait()
            self._releasable.clear()
            for uid in list(self._to_release):
                try:
                    await self._release_now(uid)
                except BayplanError as problem:
                    log.warning("releasing failed", allocation=uid, error=str(problem))
                    self._releasable.set()
                else:
                    self._to_release.pop(uid, None)
            if self._releasable.is_set():
                await self._pause(RELEASE_AGAIN)

    async def _release_now(self, uid: str) -> None:
        with suppress(NotFoundError):
            await self._service.release(uid)

    async def _place_all(self) -> None:
        await self.informer.wait_synced()
        for uid in self._orphans():
            self._release(uid)
        while True:
            key = self._queue.pop(_now())
            if key is None:
                await self._wait()
                continue
            try:
                await self._place(key)
            except (ClientError, BayplanError) as problem:
                log.warning("placing failed", object=key, error=str(problem))
                self._queue.fail(key, _now())
                self._queue.hint(_now())

    async def _wait(self) -> None:
        self._work.clear()
        next_time = self._queue.next_time()
        if next_time is None:
            await self._work.wait()
            return
        waiter = asyncio.ensure_future(self._work.wait())
        sleeper = asyncio.ensure_future(self._pause(max(next_time - _now(), 0.001)))
        try:
            await asyncio.wait((waiter, sleeper), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiter.cancel()
            sleeper.cancel()

    async def _sweep(self) -> None:
        """After each move of the share, give back what is orphaned now and still is a bit later.

        The second look is for objects that another scheduler placed and that are new here.
        """
        await self.informer.wait_synced()
        while True:
            await self._moved.wait()
            self._moved.clear()
            before = self._orphans()
            await self._pause(SECOND_LOOK)
            for uid in before & self._orphans():
                self._release(uid)

    def _orphans(self) -> set[str]:
        """Allocations of objects of this kind that are gone."""
        live = {
            item.metadata.uid for item in self.informer.store.values() if self._adapter.holds(item)
        }
        records = self._service.ledger.records.values()
        owned = {record.id for record in records if record.key.startswith(self._owner)}
        return owned - live

    @property
    def _owner(self) -> str:
        return f"{self._adapter.resource.plural}.{self._adapter.resource.group}/"

    async def _place(self, key: str) -> None:
        item = self.informer.store.get(key)
        if item is not None and (moved := self._moved_away(item)) is not None:
            await self._follow(key, item, moved)
            return
        if item is None or not self._adapter.wants_placing(item):
            return
        table = self._service.table
        allocation, problems = self._adapter.allocation(item, (table.flavors, table.volume_types))
        if problems:
            await self._refuse(key, item, _explain(problems))
            return
        try:
            record = await self._service.create(
                allocation,
                key=f"{self._owner}{item.metadata.uid}",
                fingerprint=fingerprint(allocation),
            )
        except BayplanError as problem:
            await self._refuse(key, item, str(problem))
            return
        node = node_name(table, record.groups[0].selected.node_id)
        if await self._adapter.placed(self._client, item, record, node):
            # what the watch then tells ends its wait; a move until then is not to be forgotten
            log.info("placed", object=key, node=node, replicas=len(record.groups))
            return
        log.info("gone or placed by another", object=key)
        await self._release_now(record.id)

    async def _follow(self, key: str, item: Placeable, record: Record) -> None:
        """Let an object tell where its allocation has moved to."""
        node = node_name(self._service.table, record.groups[0].selected.node_id)
        told = await self._adapter.placed(self._client, item, record, node)
        log.info("moved", object=key, node=node, told=told)

    async def _refuse(self, key: str, item: Placeable, message: str) -> None:
        self._queue.fail(key, _now())
        time = datetime.fromtimestamp(self._clock(), UTC)
        with suppress(NotFound):
            await self._adapter.refused(
                self._client, item, message, time.strftime("%Y-%m-%dT%H:%M:%SZ")
            )
        await self._tell(item, message, time)

    async def _tell(self, item: Placeable, message: str, time: datetime) -> None:
        """An event; losing one is no reason to fail."""
        meta = item.metadata
        resource = self._adapter.resource
        body = {
            "apiVersion": EVENTS.api_version,
            "kind": "Event",
            "metadata": {
                "name": f"{meta.name}.{int(time.timestamp() * 1e6):x}",
                "namespace": meta.namespace,
            },
            "eventTime": time.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reason": "FailedScheduling",
            "note": message[:1024],
            "type": "Warning",
            "action": "Scheduling",
            "reportingController": COMPONENT,
            "reportingInstance": self._service.name,
            "regarding": {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
            },
        }
        try:
            await self._client.create(EVENTS, body, meta.namespace)
        except ApiError as problem:
            log.warning("event was not taken", object=meta.name, error=str(problem))


def _now() -> float:
    """For waiting: the clock of the day may be set."""
    return asyncio.get_running_loop().time()


def _key(item: Placeable) -> str:
    meta = item.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def _version(item: Placeable) -> str:
    """Changes when the request does, not when its status does."""
    body = b"".join(bytes(raw) for raw in (item.spec or {}).values())
    return f"{item.metadata.uid}/{hash(body)}"


def _explain(problems: list[Problem]) -> str:
    return "; ".join(str(problem) for problem in problems)

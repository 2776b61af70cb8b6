"""Events of controllers, in the form that kubectl and people know (core/v1, with counts).

`record` only appends to a bounded queue; one task writes. A repeated event raises the count of the
first. As upstream, an object may cause 25 events at once and then one in five minutes: a
controller that is refused for ever does not fill the store.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

import structlog

from bayplan.client import AlreadyExists, Client, ClientError, NotFound, Resource
from bayplan.client.resources import CORE_EVENTS
from bayplan.controllers.objects import Json, Meta, timestamp

log = structlog.get_logger(__name__)

QUEUE_LIMIT = 2000
KNOWN_LIMIT = 4096
BURST, REFILL_SECONDS = 25.0, 300.0
MESSAGE_LIMIT = 1024

_Key = tuple[str, str, str, str, str]  # uid, component, type, reason, message


class Recorder:
    """The events of one manager's controllers; `enabled` False makes it do nothing."""

    def __init__(self, client: Client, clock: Callable[[], float], *, enabled: bool) -> None:
        self._client = client
        self._clock = clock
        self._enabled = enabled
        self._queue: asyncio.Queue[tuple[_Key, Json]] = asyncio.Queue(QUEUE_LIMIT)
        self._known: OrderedDict[_Key, tuple[str, int]] = OrderedDict()
        self._spent: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        self._serial = 0
        self.dropped = 0

    def record(
        self,
        resource: Resource,
        about: Meta,
        reason: str,
        message: str,
        component: str,
        *,
        warning: bool = False,
        field_path: str = "",
        host: str = "",
    ) -> None:
        """Queue an event about an object; never blocks."""
        if not self._enabled or not self._allowed((component, about.uid)):
            return
        type_ = "Warning" if warning else "Normal"
        involved: Json = {
            "kind": resource.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
            "apiVersion": resource.api_version,
            "resourceVersion": about.resource_version,
        }
        if field_path:
            involved["fieldPath"] = field_path
        body: Json = {
            "involvedObject": {key: value for key, value in involved.items() if value},
            "reason": reason,
            "message": message[:MESSAGE_LIMIT],
            "type": type_,
            "source": {"component": component} | ({"host": host} if host else {}),
            "reportingComponent": component,
            **({"reportingInstance": host} if host else {}),
        }
        about_what = f"{about.uid}{field_path}"
        try:
            self._queue.put_nowait(((about_what, component, type_, reason, message), body))
        except asyncio.QueueFull:
            self.dropped += 1

    def _allowed(self, source: tuple[str, str]) -> bool:
        now = self._clock()
        tokens, since = self._spent.pop(source, (BURST, now))
        tokens = min(BURST, tokens + (now - since) / REFILL_SECONDS)
        self._spent[source] = (max(tokens - 1, 0.0) if tokens >= 1 else tokens, now)
        if len(self._spent) > KNOWN_LIMIT:
            self._spent.popitem(last=False)
        return tokens >= 1

    async def run(self) -> None:
        """Write what was recorded, until cancelled."""
        while True:
            key, body = await self._queue.get()
            try:
                await self._write(key, body)
            except ClientError as error:  # its namespace is going, the server is busy
                log.debug("event not written", reason=body["reason"], err=str(error))

    async def _write(self, key: _Key, body: Json) -> None:
        namespace = body["involvedObject"].get("namespace") or "default"
        now = timestamp(self._clock())
        name, count = self._known.pop(key, ("", 0))
        if name:
            try:
                more = {"count": count + 1, "lastTimestamp": now}
                await self._client.patch(CORE_EVENTS, name, more, namespace)
                self._remember(key, name, count + 1)
                return
            except NotFound:
                pass  # it expired: begin again
        self._serial += 1
        stamp = f"{int(self._clock() * 1e9) + self._serial:x}"
        name = f"{body['involvedObject']['name']}.{stamp}"
        times = {"firstTimestamp": now, "lastTimestamp": now, "count": 1}
        try:
            made = {"metadata": {"name": name}, **body, **times}
            await self._client.create(CORE_EVENTS, made, namespace)
        except AlreadyExists:
            return
        self._remember(key, name, 1)

    def _remember(self, key: _Key, name: str, count: int) -> None:
        self._known[key] = (name, count)
        if len(self._known) > KNOWN_LIMIT:
            self._known.popitem(last=False)

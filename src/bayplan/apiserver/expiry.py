"""Events go after an hour, so that a server that runs for weeks does not fill up with them.

Looked at once a minute: an event expires when neither its creation nor its last repetition is
younger than the limit. Only events: nothing else expires. The store's revision of each look is
remembered, so that of hundreds of thousands only those are read that were made long enough ago, or
before this server began.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import gmtime, strftime

import msgspec

from bayplan.apiserver.backend import Backend
from bayplan.store import Conflict, KeyValue, NotFound, StoreError

INTERVAL_SECONDS = 60.0
PREFIX = "core/events/"
PAGE = 2000  # events that are looked at in one step of the loop


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: str = ""


class _Series(msgspec.Struct, rename="camel"):
    last_observed_time: str | None = None


class _Event(msgspec.Struct, rename="camel"):
    metadata: _Metadata
    last_timestamp: str | None = None
    series: _Series | None = None


_decoder = msgspec.json.Decoder(_Event)


def last_seen(value: bytes) -> str:
    """Return when a stored event last happened, to the second: the texts of times are ordered."""
    event = _decoder.decode(value)
    series = event.series.last_observed_time if event.series else None
    times = (event.metadata.creation_timestamp, event.last_timestamp, series)
    return max(text[:19] for text in times if text is not None)


class Expiry:
    """Removes the events of one server's store that are older than the limit."""

    def __init__(self, backend: Backend, ttl: float) -> None:
        self._backend = backend
        self._ttl = ttl
        # When which revision was the newest; nothing is known of the time before.
        self._looks = deque([(float("-inf"), backend.store.revision)])

    async def remove(self) -> int:
        """Delete what is too old; return how many events that were."""
        store, now = self._backend.store, self._backend.clock()
        self._looks.append((now, store.revision))
        while self._looks[1][0] <= now - self._ttl:
            self._looks.popleft()
        made_before = self._looks[0][1]
        limit = strftime("%Y-%m-%dT%H:%M:%S", gmtime(now - self._ttl))
        removed, last = 0, ""
        while True:
            found = await store.range(PREFIX, start_after=last, limit=PAGE)
            old = [kv for kv in found.items if kv.create_revision <= made_before]
            for kv in old:
                if last_seen(kv.value) < limit:
                    removed += await self._delete(kv)
            if len(found.items) < PAGE:
                return removed
            last = found.items[-1].key
            await asyncio.sleep(0)

    async def _delete(self, kv: KeyValue) -> bool:
        try:
            await self._backend.store.delete(kv.key, expect=kv.mod_revision)
        except (Conflict, NotFound):
            return False  # it was repeated or deleted just now
        return True


async def keep_expiring(backend: Backend, ttl: float) -> None:
    """Remove expired events until cancelled."""
    expiry = Expiry(backend, ttl)
    while True:
        await asyncio.sleep(INTERVAL_SECONDS)
        try:
            await expiry.remove()
        except StoreError:
            continue  # the store is away or closing; the next round tries again

"""Events go after an hour, so that a server that runs for weeks does not fill up with them.

Looked at once a minute: an event expires when neither its creation nor its last repetition is
younger than the limit. Only events: nothing else expires.
"""

from __future__ import annotations

import asyncio
from calendar import timegm
from time import strptime

import msgspec

from bayplan.apiserver.backend import Backend
from bayplan.store import Conflict, NotFound, StoreError

INTERVAL_SECONDS = 60.0
PREFIX = "core/events/"


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: str = ""


class _Series(msgspec.Struct, rename="camel"):
    last_observed_time: str | None = None


class _Event(msgspec.Struct, rename="camel"):
    metadata: _Metadata
    last_timestamp: str | None = None
    series: _Series | None = None


_decoder = msgspec.json.Decoder(_Event)


def _seconds(text: str | None) -> float:
    return timegm(strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) if text else 0.0


def last_seen(value: bytes) -> float:
    """Return when a stored event last happened, in seconds since 1970."""
    event = _decoder.decode(value)
    series = event.series.last_observed_time if event.series else None
    times = (event.metadata.creation_timestamp, event.last_timestamp, series)
    return max(_seconds(text) for text in times)


async def remove_expired(backend: Backend, ttl: float) -> int:
    """Delete events that are older than the limit; return how many."""
    limit = backend.clock() - ttl
    found = await backend.store.range(PREFIX)
    removed = 0
    for kv in found.items:
        if last_seen(kv.value) >= limit:
            continue
        try:
            await backend.store.delete(kv.key, expect=kv.mod_revision)
        except (Conflict, NotFound):
            continue  # it was repeated or deleted just now
        removed += 1
    return removed


async def keep_expiring(backend: Backend, ttl: float) -> None:
    """Remove expired events until cancelled."""
    while True:
        await asyncio.sleep(INTERVAL_SECONDS)
        try:
            await remove_expired(backend, ttl)
        except StoreError:
            continue  # the store is away or closing; the next round tries again

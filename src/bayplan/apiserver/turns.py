"""Turns, where what one request counts the next one must find stored.

Admission counts stored objects and the store writes later, so requests at the same time would all
find room for themselves. Creates in a namespace with a quota go one after the other; so do bindings
to a node whose room is checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bayplan.apiserver.reader import CachedReader


class Turns:
    """One lock for each namespace or node at which requests have to wait for each other."""

    def __init__(self, reader: CachedReader) -> None:
        self._reader = reader
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    def needed(self, namespace: str) -> bool:
        return bool(namespace) and any(self._reader.list("", "resourcequotas", namespace))

    @asynccontextmanager
    async def taken(self, place: str) -> AsyncIterator[None]:
        """Wait for this request's turn, and hold it while the block runs."""
        lock, users = self._locks.get(place) or (asyncio.Lock(), 0)
        self._locks[place] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[place]
            if users == 1:
                del self._locks[place]
            else:
                self._locks[place] = (lock, users - 1)

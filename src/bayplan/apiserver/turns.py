"""Turns, where what one request counts or takes the next one must find stored.

Admission counts stored objects and the store writes later, so requests at the same time would all
find room for themselves. Writes that may use more of a namespace's quota go one after the other; so
do those of services, and bindings to a node whose room is checked.

Services take addresses that nobody else may have, and quotas hold, whichever server of a store is
asked, and so does a node's room: such a write also writes one key that is no object, expecting it
as it was before the stored objects were looked at. Who looked too early loses and looks again.
Nothing is kept for what is taken: an address is free when no stored service has it. A store of this
process alone needs no key for quotas and nodes; others have one for each kind and share of the
namespaces, and for each share of the nodes, so that few wait for others.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from bayplan.apiserver.admission.quota import may_grow
from bayplan.apiserver.admission.types import Attributes
from bayplan.apiserver.codec import Codec
from bayplan.apiserver.reader import CachedReader
from bayplan.store import Op, Put, Store

SERVICES, TAKEN = ("", "services"), "ranges/services"
COUNTED, SHARES = "ranges/quotas", 64
ROOM, ROOM_SHARES = "ranges/nodes", 1024
_NOBODY_WAITS: AbstractAsyncContextManager[tuple[Op, ...]] = nullcontext(())


class Turns:
    """One lock for each place at which requests have to wait for each other."""

    def __init__(self, store: Store, reader: CachedReader) -> None:
        self._store = store
        self._reader = reader
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    def of(self, codec: Codec, attrs: Attributes) -> AbstractAsyncContextManager[tuple[Op, ...]]:
        """Hold the turn of a write while the block settles and stores it.

        Yields what has to be written with it; a `Conflict` at its key means: settle again.
        """
        service = codec.kind.storage == SERVICES and not attrs.subresource
        if service or (may_grow(attrs) and self._quota(attrs.namespace)):
            return self._of(codec, attrs)
        return _NOBODY_WAITS

    @asynccontextmanager
    async def _of(self, codec: Codec, attrs: Attributes) -> AsyncIterator[tuple[Op, ...]]:
        if codec.kind.storage == SERVICES and not attrs.subresource:
            async with self.taken(TAKEN):
                yield (await self._claim(codec, TAKEN),)
        elif self._reader.direct:
            async with self.taken(attrs.namespace):
                yield ()
        else:
            await self._reader.start([codec.kind.storage])
            share = _share(attrs.namespace, SHARES)
            key = "/".join((COUNTED, share, *codec.kind.storage))
            async with self.taken(key):
                yield (await self._claim(codec, key),)

    @asynccontextmanager
    async def of_node(self, pods: Codec, node: str) -> AsyncIterator[tuple[Op, ...]]:
        """Hold the turn of a binding while the block counts the node's pods and stores it.

        Yields as `of` does.
        """
        if self._reader.direct:
            async with self.taken(f"{ROOM}/{node}"):
                yield ()
            return
        key = f"{ROOM}/{_share(node, ROOM_SHARES)}"
        async with self.taken(key):
            yield (await self._claim(pods, key),)

    async def _claim(self, codec: Codec, key: str) -> Op:
        """Return the write of a key as it is; what it was last written with can be read now."""
        found = await self._store.get(key)
        seen = 0 if found is None else found.mod_revision
        await self._reader.caught_up(codec, seen)
        return Put(key, b"{}", expect=seen)

    def _quota(self, namespace: str) -> bool:
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


def _share(name: str, shares: int) -> str:
    return str(zlib.crc32(name.encode()) % shares)

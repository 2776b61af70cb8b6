"""Synchronous reads of stored objects for admission and subresources.

Stores that hold everything in memory answer directly. For others (etcd) the reader keeps a mirror
of each collection that was ever asked for, fed by a watch, which may be a moment behind: the same
freshness that upstream's admission has from its informers. Decoded objects are cached by revision;
callers must not change what they get.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import cast

from bayplan.apiserver.admission.tally import Tally
from bayplan.apiserver.aside import Pauses
from bayplan.apiserver.codec import Codec, Object
from bayplan.apiserver.following import Following
from bayplan.store import Compacted, Event, FastReads, KeyValue, Store, Unavailable, Watcher

CACHED_OBJECTS = 4096
CATCH_UP_SECONDS = 10
TALLY_COST = 8  # of a byte that is read and counted
REMEMBERED_LISTS, REMEMBERED_ITEMS = 256, 64


class CachedReader:
    """Reads the newest objects without a coroutine."""

    def __init__(
        self,
        store: Store,
        codec_of: Callable[[str, str], Codec | None],
        failures: Counter[str] | None = None,
    ) -> None:
        self._failures: Counter[str] = Counter() if failures is None else failures
        self._store = store
        self._codec_of = codec_of
        self._fast = cast("FastReads", store) if hasattr(store, "get_now") else None
        self._decoded: dict[str, tuple[int, Object]] = {}
        self._mirrors: dict[str, Mirror] = {}
        self._starting = asyncio.Lock()
        self._lists: dict[str, tuple[Watcher, list[Object]]] = {}

    @property
    def direct(self) -> bool:
        """Whether what is read is what is stored now, also by others."""
        return self._fast is not None

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        codec = self._codec_of(group, resource)
        if codec is None:
            return None
        kv = self._read(codec, codec.key(namespace, name))
        return self._decode(codec, kv) if kv else None

    async def newest(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        """Return an object as it is stored now, however far behind a mirror is."""
        codec = self._codec_of(group, resource)
        if codec is None:
            return None
        kv = await self._store.get(codec.key(namespace, name))
        return self._decode(codec, kv) if kv else None

    def list(self, group: str, resource: str, namespace: str = "") -> Iterable[Object]:
        codec = self._codec_of(group, resource)
        if codec is None:
            return []
        prefix = codec.collection(namespace)
        if self._fast is None:
            return [self._decode(codec, kv) for kv in self.range(codec, prefix)]
        return self._remembered(codec, prefix)

    def _remembered(self, codec: Codec, prefix: str) -> Iterable[Object]:
        """Return a small collection from memory as long as nothing in it has changed."""
        known = self._lists.get(prefix)
        if known is not None:
            try:
                if not known[0].take():
                    return known[1]
            except Compacted:
                pass
            known[0].close()
            del self._lists[prefix]
        objects = [self._decode(codec, kv) for kv in self.range(codec, prefix)]
        if len(objects) <= REMEMBERED_ITEMS:
            if len(self._lists) >= REMEMBERED_LISTS:
                self._forget_lists()
            watcher = self._store.watch(prefix, after=self._store.revision)
            self._lists[prefix] = (watcher, objects)
        return objects

    def _forget_lists(self) -> None:
        for watcher, _ in self._lists.values():
            watcher.close()
        self._lists.clear()

    def range(self, codec: Codec, prefix: str) -> Iterable[KeyValue]:
        """Return the stored values below a prefix in key order."""
        if self._fast is not None:
            return self._fast.range_now(prefix).items
        return self._mirrors[codec.prefix].below(prefix) if codec.prefix in self._mirrors else []

    def tally(self, group: str, resource: str, namespace: str, tally: Tally) -> None:
        """Let a tally's sums be those of now."""
        codec = self._codec_of(group, resource)
        if codec is None:
            return
        found = list(self.range(codec, codec.collection(namespace)))
        for kv in found:
            if not tally.knows(kv.key, kv.mod_revision):
                tally.see(kv.key, kv.mod_revision, codec.decode(kv))
        tally.keep([kv.key for kv in found])

    async def tallied(self, group: str, resource: str, namespace: str, tally: Tally) -> None:
        """Look into what a tally does not know yet, so that `tally` does not take long."""
        codec, pauses = self._codec_of(group, resource), Pauses()
        if codec is None:
            return
        for kv in self.range(codec, codec.collection(namespace)):
            if not tally.knows(kv.key, kv.mod_revision):
                await pauses.after(len(kv.value) * TALLY_COST)
                tally.see(kv.key, kv.mod_revision, codec.decode(kv))

    def _read(self, codec: Codec, key: str) -> KeyValue | None:
        if self._fast is not None:
            return self._fast.get_now(key)
        mirror = self._mirrors.get(codec.prefix)
        return mirror.items.get(key) if mirror else None

    def _decode(self, codec: Codec, kv: KeyValue) -> Object:
        known = self._decoded.get(kv.key)
        if known is not None and known[0] == kv.mod_revision:
            return known[1]
        obj = codec.decode(kv)
        if len(self._decoded) >= CACHED_OBJECTS:
            self._decoded.clear()
        self._decoded[kv.key] = (kv.mod_revision, obj)
        return obj

    async def start(self, collections: Iterable[tuple[str, str]]) -> None:
        """Mirror these collections if the store cannot be read directly."""
        if self._fast is not None:
            return
        for group, resource in collections:
            codec = self._codec_of(group, resource)
            if codec is None or codec.prefix in self._mirrors:
                continue
            async with self._starting:
                if codec.prefix not in self._mirrors:
                    mirror = Mirror(self._store, codec.prefix, self._failures)
                    await mirror.start()
                    self._mirrors[codec.prefix] = mirror

    async def caught_up(self, codec: Codec, revision: int) -> None:
        """Return when reads show the collection as of this revision, at which it was written."""
        mirror = self._mirrors.get(codec.prefix)
        if mirror is None:
            return
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                await mirror.reached(revision)
        except TimeoutError:
            text = f'following "{codec.prefix}": nothing newer than {revision} came'
            raise Unavailable(text) from None

    async def close(self) -> None:
        self._forget_lists()
        for mirror in self._mirrors.values():
            await mirror.close()
        self._mirrors.clear()


class Mirror:
    """A copy of one collection, kept up to date by a watch."""

    def __init__(self, store: Store, prefix: str, failures: Counter[str]) -> None:
        self._store = store
        self._prefix = prefix
        self.items: dict[str, KeyValue] = {}
        self._revision, self._moved = 0, asyncio.Event()
        self._following = Following(store, prefix, self._load, self._hear, failures)
        self.start, self.close = self._following.start, self._following.close

    async def _load(self) -> int:
        found = await self._store.range(self._prefix)
        self.items = {kv.key: kv for kv in found.items}
        self._move(found.revision)
        return found.revision

    async def _hear(self, batch: list[Event]) -> None:
        for event in batch:
            if event.deleted:
                self.items.pop(event.kv.key, None)
            else:
                self.items[event.kv.key] = event.kv
        self._move(batch[-1].kv.mod_revision)

    def _move(self, revision: int) -> None:
        self._revision = revision
        self._moved.set()
        self._moved = asyncio.Event()

    async def reached(self, revision: int) -> None:
        while self._revision < revision:
            await self._moved.wait()

    def below(self, prefix: str) -> list[KeyValue]:
        found = [kv for key, kv in self.items.items() if key.startswith(prefix)]
        found.sort(key=lambda kv: kv.key)
        return found

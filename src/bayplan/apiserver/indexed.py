"""Collections by the value of one field: what every node asks for must not cost a look at all.

As upstream's watch cache: pods and ResourceSlices by `spec.nodeName`, and nothing else. An index is
read from the store when it is first asked and then kept by a watcher, whose events are only taken
when it is asked again; one that has fallen too far behind is read anew. So it holds what the
watcher told, and the watcher's position is the revision of the answer. A look at the store before
each answer makes that no older than the newest write of any server.

It answers for now alone. Past revisions are read from the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from bayplan.apiserver.codec import Codec
from bayplan.apiserver.kinds import INDEXED
from bayplan.store import Compacted, Event, KeyValue, RangeResult, Store, Watcher

STEP_BYTES = 512 * 1024  # of objects that are looked into without a pause


class Indexed:
    """The indices of one server, made when they are first asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._indices: dict[str, Index] = {}

    def of(self, codec: Codec) -> Index:
        """Return the index of a kind that has one (`INDEXED`)."""
        found = self._indices.get(codec.prefix)
        if found is None:
            path = INDEXED[codec.kind.storage]
            found = self._indices[codec.prefix] = Index(self._store, codec, path)
        return found

    def close(self) -> None:
        for index in self._indices.values():
            index.close()
        self._indices.clear()


class _State(NamedTuple):
    """What is known at the position of the watcher."""

    watcher: Watcher
    objects: dict[str, dict[str, KeyValue]]  # by value and key
    values: dict[str, str]  # by key


class Index:
    """The objects of one collection by the value of one field."""

    def __init__(self, store: Store, codec: Codec, path: str) -> None:
        self.path = path
        self._store = store
        self._codec = codec
        self._state: _State | None = None
        self._loading = asyncio.Lock()

    async def find(self, value: str, prefix: str, start_after: str = "") -> RangeResult:
        """Return the objects below a prefix that have the value now, in the order of their keys."""
        newest = await self._store.range(self._codec.prefix, limit=1)
        await self._store.wait_for(newest.revision)
        state = await self._caught_up()
        there: Mapping[str, KeyValue] = state.objects.get(value, {})
        keys = sorted(key for key in there if key.startswith(prefix) and key > start_after)
        return RangeResult([there[key] for key in keys], state.watcher.progress)

    def close(self) -> None:
        if self._state is not None:
            self._state.watcher.close()
            self._state = None

    async def _caught_up(self) -> _State:
        """Take what has happened; nothing happens between the last look and the answer."""
        while True:
            async with self._loading:
                state = self._state = self._state or await self._load()
            try:
                batch = state.watcher.take()
            except Compacted:
                if self._state is state:
                    self.close()
                continue
            if not batch:
                return state
            for event in batch:
                self._hear(state, event)
            await asyncio.sleep(0)  # others have their turn

    async def _load(self) -> _State:
        found = await self._store.range(self._codec.prefix)
        await self._store.wait_for(found.revision)
        watcher = self._store.watch(self._codec.prefix, after=found.revision)
        watcher.batch_bytes = STEP_BYTES
        state, size = _State(watcher, {}, {}), 0
        try:
            for kv in found.items:
                self._put(state, kv)
                size += len(kv.value)
                if size > STEP_BYTES:
                    await asyncio.sleep(0)
                    size = 0
        except BaseException:
            watcher.close()
            raise
        return state

    def _hear(self, state: _State, event: Event) -> None:
        key = event.kv.key
        if (value := state.values.pop(key, None)) is not None:
            there = state.objects[value]
            del there[key]
            if not there:
                del state.objects[value]
        if not event.deleted:
            self._put(state, event.kv)

    def _put(self, state: _State, kv: KeyValue) -> None:
        value = state.values[kv.key] = self._codec.fields(kv).value_of(self.path)
        state.objects.setdefault(value, {})[kv.key] = kv

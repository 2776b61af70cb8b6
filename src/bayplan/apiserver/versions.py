"""The store as a kind's version sees it: reads, writes and events pass through conversion.

Most kinds have one stored form for all versions, and then these are the store's own functions. A
kind whose definition names a conversion webhook is read in the version that was asked for and
written in the storage version. A converted value keeps the mark of the version in which it is
stored, so that a rewrite in a new storage version counts as a change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from bayplan.apiserver.aside import aside_of, cut, size_of
from bayplan.apiserver.codec import Codec, Object, encode_value, mark, split_mark
from bayplan.apiserver.errors import ApiError
from bayplan.store import Event, KeyValue, Op, Put, RangeResult, Store

if TYPE_CHECKING:
    from bayplan.apiserver.calling import Caller
    from bayplan.apiserver.crd.conversion import Converter


Cache = dict[object, Any]
Made: TypeAlias = "asyncio.Task[list[Event]]"
Taken = list[tuple[str, Object]]
BATCH = 1024 * 1024  # bytes of objects in one review


def converter_of(codec: Codec) -> Converter | None:
    return getattr(codec.kind, "converter", None)


class Versions:
    """Reads and writes the objects of any kind in the version of its codec."""

    def __init__(self, store: Store, caller: Callable[[], Caller]) -> None:
        self._store = store
        self._caller = caller

    async def get(self, codec: Codec, key: str) -> KeyValue | None:
        found = await self._store.get(key)
        if found is None or converter_of(codec) is None:
            return found
        return (await self.shown(codec, [found]))[0]

    async def range(self, codec: Codec, prefix: str, **options: Any) -> RangeResult:
        found = await self._store.range(prefix, **options)
        if converter_of(codec) is None:
            return found
        return RangeResult(await self.shown(codec, found.items), found.revision, found.remaining)

    async def put(
        self, codec: Codec, key: str, value: bytes, *, expect: int, also: Sequence[Op] = ()
    ) -> KeyValue:
        """Write what `codec.encode` made, and `also`; return it as it reads afterwards."""
        converter = converter_of(codec)
        if also:  # only what has no converter
            return (await self._store.transact((Put(key, value, expect), *also)))[0]
        if converter is None:
            return await self._store.put(key, value, expect=expect)
        kind = codec.kind
        if kind.version != kind.storage_version:
            stored, size = kind.storage_version, len(value)
            obj = await aside_of(size, codec.decode_value, value)
            made = await converter.convert(self._caller(), [obj], stored)
            value = (await aside_of(size, encode_value, made[0]))[:-1] + mark(stored)
        written = await self._store.put(key, value, expect=expect)
        return (await self.shown(codec, [written]))[0]

    async def shown(self, codec: Codec, items: list[KeyValue]) -> list[KeyValue]:
        """Return stored values in the version of the codec; one review for those of another.

        Of many, a part is taken apart, converted and put together before the next one.
        """
        result: list[KeyValue] = []
        for part in cut(items, len(items), BATCH):
            result += await self._shown(codec, part)
        return result

    async def _shown(self, codec: Codec, items: list[KeyValue]) -> list[KeyValue]:
        converter, size = converter_of(codec), size_of(items)
        assert converter is not None
        taken = await aside_of(size, _taken_apart, codec, converter, items)
        wanted = codec.kind.api_version
        foreign = [obj for _, obj in taken if obj["apiVersion"] != wanted]
        if foreign:
            made = iter(await converter.convert(self._caller(), foreign, codec.kind.version))
            taken = [
                (stored, obj if obj["apiVersion"] == wanted else next(made))
                for stored, obj in taken
            ]
        return await aside_of(size, _put_together, items, taken)

    async def events(
        self, codec: Codec, batch: list[Event], cache_of: Callable[[Event], Cache]
    ) -> list[Event]:
        """Return events with their objects in the version of the codec, made once for all."""
        if converter_of(codec) is None:
            return batch
        key = ("converted", codec.kind.api_version)
        caches = [cache_of(event) for event in batch]
        new = [event for event, cache in zip(batch, caches, strict=True) if key not in cache]
        if new:
            task = asyncio.ensure_future(self._events(codec, new))
            task.add_done_callback(_heard)
            for place, cache in enumerate([each for each in caches if key not in each]):
                cache[key] = task, place
        places: list[tuple[Made, int]] = [cache[key] for cache in caches]
        try:
            for each in {made for made, _ in places}:
                await asyncio.shield(each)
        except ApiError:
            for cache in caches:  # whoever comes next asks again
                cache.pop(key, None)
            raise
        return [made.result()[place] for made, place in places]

    async def _events(self, codec: Codec, batch: list[Event]) -> list[Event]:
        items = [kv for event in batch for kv in (event.kv, event.prev) if kv is not None]
        shown = iter(await self.shown(codec, items))
        return [
            Event(next(shown), next(shown) if event.prev is not None else None, event.deleted)
            for event in batch
        ]


def _taken_apart(codec: Codec, converter: Converter, items: list[KeyValue]) -> Taken:
    """Return stored objects, each with the version that it is stored in and shown as."""
    taken: Taken = []
    for kv in items:
        bare, stored = split_mark(kv.value)
        stored = stored or converter.oldest
        obj = codec.decode_value(bare)
        converter.complete(obj, stored)
        obj["apiVersion"] = f"{codec.kind.group}/{stored}"
        obj["metadata"]["resourceVersion"] = str(kv.mod_revision)
        taken.append((stored, obj))
    return taken


def _put_together(items: list[KeyValue], taken: Taken) -> list[KeyValue]:
    return [
        KeyValue(kv.key, encode_value(obj)[:-1] + mark(stored), kv.create_revision, kv.mod_revision)
        for kv, (stored, obj) in zip(items, taken, strict=True)
    ]


def _heard(task: Made) -> None:
    """Nobody may be left to hear that it failed."""
    if not task.cancelled():
        task.exception()

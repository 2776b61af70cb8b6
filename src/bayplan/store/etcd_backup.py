"""A copy of what servers keep in etcd, as a data directory that a server can be started with.

All is read at one revision, page by page, while servers write on. As with a copy of a SQLite store
(`sqlite_backup`), the copy goes on far ahead of what clients have seen, and has no past.

`restore` writes such a copy into an etcd that holds nothing else of ours. Revisions are etcd's own:
a new one counts from the beginning again, which `Restored.behind` tells, so that clients are
started anew. What was interrupted can be done again: what is there already counts, if it is equal.
"""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from bayplan.store.errors import StoreError
from bayplan.store.etcd import PAGE, EtcdStore
from bayplan.store.etcd_wire import PLACE_BITS
from bayplan.store.protocol import KeyValue, RangeResult
from bayplan.store.sqlite_backup import AHEAD
from bayplan.store.sqlite_file import FILE_NAME, Loaded, SqliteFile, read

AT_ONCE = 512  # objects given to the batcher together


class Restored(NamedTuple):
    """What a restore did."""

    objects: int
    behind: bool
    """Clients of the copied store have seen revisions that this etcd has yet to come to."""


def backup(endpoints: Sequence[str], target: Path, *, tls: ssl.SSLContext | None = None) -> int:
    """Copy all objects into a new directory; return how many there are."""
    if target.exists() and any(target.iterdir()):
        raise StoreError(f'"{target}" is not empty; choose another directory')
    unfinished = target.with_name(f".{target.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        with closing(SqliteFile(unfinished)) as file:
            count = asyncio.run(_read(endpoints, tls, file))
        unfinished.replace(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return count


async def _read(endpoints: Sequence[str], tls: ssl.SSLContext | None, file: SqliteFile) -> int:
    store = await EtcdStore.open(endpoints, tls=tls, compact_seconds=0)
    try:
        return await _copy(store, file)
    finally:
        await store.close()


async def _copy(store: EtcdStore, file: SqliteFile) -> int:
    count, revision = 0, 0
    async for page in _pages(store):
        file.fill(page.items)
        count, revision = count + len(page.items), page.revision
    if not count:
        raise StoreError("this etcd holds no objects of ours; check --etcd-servers")
    file.compact(revision + (AHEAD << PLACE_BITS))
    return count


async def _pages(store: EtcdStore) -> AsyncIterator[RangeResult]:
    """All objects as of one revision."""
    page = await store.range("", limit=PAGE)
    yield page
    while page.remaining:
        last = page.items[-1].key
        page = await store.range("", start_after=last, limit=PAGE, revision=page.revision)
        yield page


def restore(source: Path, endpoints: Sequence[str], *, tls: ssl.SSLContext | None) -> Restored:
    """Write all objects of a data directory, which no server uses, into an etcd without others."""
    if not (source / FILE_NAME).is_file():
        raise StoreError(f'"{source}" has no {FILE_NAME}; give what "bayplan backup" made')
    loaded = read(source)
    return asyncio.run(_restore(loaded.items, _seen(loaded), endpoints, tls))


def _seen(loaded: Loaded) -> int:
    """Return the last revision that clients can have seen when the copy was made."""
    newest = loaded.revision
    if not loaded.events:  # no server has used the copy, which was moved ahead
        newest -= next((by for by in (AHEAD << PLACE_BITS, AHEAD) if newest > by), 0)
    return max(newest, max((kv.mod_revision for kv in loaded.items), default=0))


async def _restore(
    items: Sequence[KeyValue], seen: int, endpoints: Sequence[str], tls: ssl.SSLContext | None
) -> Restored:
    store = await EtcdStore.open(endpoints, tls=tls, compact_seconds=0)
    try:
        missing = await _missing(store, items)
        for start in range(0, len(missing), AT_ONCE):
            some = missing[start : start + AT_ONCE]
            writes = (store.put(kv.key, kv.value, expect=0) for kv in some)
            for result in await asyncio.gather(*writes, return_exceptions=True):
                if isinstance(result, BaseException):
                    raise result
        return Restored(len(items), (await store.range("", limit=1)).revision < seen)
    finally:
        await store.close()


async def _missing(store: EtcdStore, items: Sequence[KeyValue]) -> list[KeyValue]:
    """Return what is still to be written; refuse an etcd that holds anything else."""
    left = {kv.key: kv for kv in items}
    async for page in _pages(store):
        for kv in page.items:
            ours = left.pop(kv.key, None)
            if ours is None or ours.value != kv.value:
                raise StoreError(
                    f'this etcd holds "{kv.key}", which is not of the copy; restore into one '
                    "without objects, before a server is started on it"
                )
    return list(left.values())

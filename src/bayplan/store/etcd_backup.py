"""A copy of what servers keep in etcd, as a data directory that a server can be started with.

All is read at one revision, page by page, while servers write on. As with a copy of a SQLite store
(`sqlite_backup`), the copy goes on far ahead of what clients have seen, and has no past.

It does not write into etcd: a new one would count revisions from the beginning again, which only
etcd's own tools can change (docs/how-to/etcd.md).
"""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from bayplan.store.errors import StoreError
from bayplan.store.etcd import PAGE, EtcdStore
from bayplan.store.etcd_wire import PLACE_BITS
from bayplan.store.sqlite_backup import AHEAD
from bayplan.store.sqlite_file import SqliteFile


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
    page, count = await store.range("", limit=PAGE), 0
    if not page.items:
        raise StoreError("this etcd holds no objects of ours; check --etcd-servers")
    while True:
        file.fill(page.items)
        count += len(page.items)
        if not page.remaining:
            break
        last = page.items[-1].key
        page = await store.range("", start_after=last, limit=PAGE, revision=page.revision)
    file.compact(page.revision + (AHEAD << PLACE_BITS))
    return count

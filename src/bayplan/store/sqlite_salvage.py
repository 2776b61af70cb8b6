"""What can still be read of a damaged store, as a new store.

Rows are read in ranges; a range that cannot be read is halved until the rows that are lost stand
alone. The past is not saved: watches list again. The new store goes on far above the last revision
that was found, so none is used twice.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from bayplan.store.errors import StoreError
from bayplan.store.protocol import KeyValue
from bayplan.store.sqlite_file import FILE_NAME, SEQUENCE_BITS, SqliteFile, open_to_read

GAP = 1_000_000  # revisions that may have been used and cannot be read any more
BATCH = 500


def salvage(source: Path, target: Path) -> tuple[int, int]:
    """Write what can be read into a new directory; return how many rows came over and were lost."""
    if not (source / FILE_NAME).is_file():
        raise StoreError(f'"{source}" has no {FILE_NAME}; give the --data directory of a server')
    if (target / FILE_NAME).exists():
        raise StoreError(f'"{target}" has a store already; choose another directory')
    with closing(open_to_read(source)) as damaged:
        rows = _last_row(damaged) + 1  # raises before anything is made
        with closing(SqliteFile(target)) as file:
            return _copy(damaged, rows, file)


def _copy(damaged: sqlite3.Connection, rows: int, file: SqliteFile) -> tuple[int, int]:
    saved, lost, newest = 0, 0, _last_event(damaged)
    batch: list[KeyValue] = []
    for found in _rows(damaged, 0, rows):
        if found is None:
            lost += 1
            continue
        saved, newest = saved + 1, max(newest, found.mod_revision)
        batch.append(found)
        if len(batch) == BATCH:
            file.fill(batch)
            batch = []
    file.fill(batch)
    file.compact(newest + GAP)
    return saved, lost


def _rows(damaged: sqlite3.Connection, low: int, high: int) -> Iterator[KeyValue | None]:
    """Yield the objects of a range of rows, and None for each that cannot be read."""
    query = "SELECT key, value, create_rv, rv FROM objects WHERE rowid >= ? AND rowid < ?"
    try:
        found = damaged.execute(query, (low, high)).fetchall()
    except sqlite3.DatabaseError:
        if high - low <= 1:
            yield None
            return
        middle = (low + high) // 2
        yield from _rows(damaged, low, middle)
        yield from _rows(damaged, middle, high)
        return
    yield from (kv if _is_whole(kv.value) else None for kv in (KeyValue(*row) for row in found))


def _is_whole(value: bytes) -> bool:
    """Tell whether what begins as JSON is JSON: the pages of a long value have no checksum."""
    if not value.startswith(b"{"):
        return True
    try:
        msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _last_row(damaged: sqlite3.Connection) -> int:
    """Return the last row number, from the table or from the index of keys."""
    for query in (
        "SELECT max(rowid) FROM objects",
        "SELECT max(rowid) FROM objects INDEXED BY sqlite_autoindex_objects_1 WHERE key >= ''",
    ):
        try:
            (last,) = damaged.execute(query).fetchone()
        except sqlite3.DatabaseError:
            continue
        return int(last or 0)
    raise StoreError("nothing can be read: neither the objects nor the index of their keys")


def _last_event(damaged: sqlite3.Connection) -> int:
    try:
        (last,) = damaged.execute("SELECT max(id) FROM events").fetchone()
    except sqlite3.DatabaseError:
        return 0
    return int(last or 0) >> SEQUENCE_BITS

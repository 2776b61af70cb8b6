"""A copy of a SQLite data directory, taken while its server runs.

SQLite copies page by page a state that was once committed as a whole; writers go on meanwhile. The
copy is checked before it gets its name, so what is there can be started with.

Clients have seen more than the copy has. So that no revision is used for something else, the copy
goes on far ahead of them, and all before counts as compacted: a watch that is resumed gets 410 and
lists again. `etcdutl snapshot restore --bump-revision --mark-compacted` does the same for etcd.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from bayplan import private
from bayplan.store.errors import StoreError
from bayplan.store.sqlite_file import FILE_NAME, SEQUENCE_BITS, open_to_read

AHEAD = 1_000_000_000  # revisions; what etcd's pages advise
SALVAGE = "the file is damaged: save what can be read with --salvage"
PAGES, PAUSE = 1024, 0.002  # copied at once, and seconds between, so that the server is not slowed


def backup(source: Path, target: Path) -> int:
    """Copy the store of a data directory into a new directory; return how many objects it has."""
    if not (source / FILE_NAME).is_file():
        raise StoreError(f'"{source}" has no {FILE_NAME}; give the --data directory of a server')
    if (target / FILE_NAME).exists():
        raise StoreError(f'"{target}" has a store already; choose another directory')
    was_there = target.exists()
    private.make_directory(target)
    unfinished = target / f".{FILE_NAME}"
    private.write(unfinished, b"")
    try:
        count = _copy(source, unfinished)
        unfinished.replace(target / FILE_NAME)
    except sqlite3.Error as error:
        advice = "" if isinstance(error, sqlite3.OperationalError) else f"; {SALVAGE}"
        raise StoreError(f'copying "{source / FILE_NAME}": {error}{advice}') from error
    finally:
        unfinished.unlink(missing_ok=True)
        if not was_there and not (target / FILE_NAME).exists():
            target.rmdir()
    return count


def _copy(source: Path, target: Path) -> int:
    one = open_to_read(source)
    other = sqlite3.connect(target)
    try:
        one.backup(other, pages=PAGES, sleep=PAUSE)
        other.execute("PRAGMA journal_mode = DELETE")  # one file, no journal beside it
        (verdict,) = other.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            found = verdict.splitlines()[-1]  # below the name of the database
            kept = "the copy was not kept; --salvage saves what can be read"
            raise StoreError(f'"{source}" is damaged: {found}; {kept}')
        _move_ahead(other)
        (count,) = other.execute("SELECT count(*) FROM objects").fetchone()
        return int(count)
    finally:
        one.close()
        other.close()


def _move_ahead(db: sqlite3.Connection) -> None:
    """Forget the past, and go on at revisions that nobody has seen."""
    (known,) = db.execute("SELECT value FROM meta WHERE name = 'compacted'").fetchone()
    (last,) = db.execute("SELECT max(id) FROM events").fetchone()
    newest = max(known, (last or 0) >> SEQUENCE_BITS)
    with db:
        db.execute("DELETE FROM events")
        db.execute("UPDATE meta SET value = ? WHERE name = 'compacted'", (newest + AHEAD,))

"""The SQLite file behind the durable store: schema, loading, writing a batch.

    objects  the current value of each key
    events   an undo log of the kept past: what each change replaced, in revision order
    meta     the revision up to which the past was compacted

An event row holds the *previous* value, because the new one is in `objects` or in the next event of
the same key. So a create writes its value once, an update writes old and new, and the file alone
rebuilds the whole kept history after a restart: watches resume and past revisions stay readable.

Rows live in insertion order with an index of keys beside them, and an update keeps its row: with
values of kilobytes SQLite then needs less CPU and less room than with a table clustered by key,
whose rows overflow their pages (figures in docs/design/store.md).

A batch becomes three statements with many rows each, not many statements: each statement
gives up the interpreter lock once, and getting it back from a busy event loop is what costs.

Everything here blocks and belongs to one thread at a time. It knows no futures and no watchers.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import msgspec

from bayplan import private
from bayplan.store.errors import Full, Locked, StoreError
from bayplan.store.protocol import Event, KeyValue

FILE_NAME = "bayplan.db"
LOCK_NAME = "lock"
RESERVE_NAME, RESERVE_BYTES = "reserve", 8 << 20
SPARE_BYTES = 1 << 20
SCHEMA_VERSION = 1
APPLICATION_ID = 0x42415950  # "BAYP"
SEQUENCE_BITS = 20  # an event's id is its revision and its place in the transaction
PAGE_SIZE = 8192
CHECKPOINT_BYTES = 6 << 20  # below the reserve, which must hold what the log moves on a full disk
MAX_PAGES = 4_294_967_294  # as many as SQLite can count
FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_ROOM = "the disk is full, or a quota, or a file as long as it may be"
GROWTH_BYTES = 1024  # that a change may bring on a full disk: a deletion can begin with a mark
MAX_ROWS = 1024  # in one statement; SQLite allows 32,766 bound values

_SCHEMA = f"""
CREATE TABLE objects (
  key TEXT NOT NULL UNIQUE,
  rv INTEGER NOT NULL,
  create_rv INTEGER NOT NULL,
  value BLOB NOT NULL
);
CREATE TABLE events (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL,
  deleted INTEGER NOT NULL,
  create_rv INTEGER NOT NULL,
  prev_rv INTEGER,
  prev_value BLOB
);
CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('compacted', 0);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""

DAMAGED = (
    "the file is damaged: restore a backup (`bayplan backup` makes them), or save what can be read "
    "into a new directory with `bayplan backup --salvage DATA TARGET`"
)
_Row: TypeAlias = tuple[str | int | bytes | None, ...]
# Each statement is given as what stands before the rows, one row, and what stands after.
_PUT = (
    "INSERT INTO objects VALUES ",
    "(?,?,?,?)",
    " ON CONFLICT (key) DO UPDATE"
    " SET rv = excluded.rv, create_rv = excluded.create_rv, value = excluded.value",
)
_DELETE = ("DELETE FROM objects WHERE key IN (", "?", ")")
_EVENT = ("INSERT INTO events VALUES ", "(?,?,?,?,?,?)", "")
_NOW_IS_THE_BEGINNING = (
    "UPDATE meta SET value = max(value, (SELECT coalesce(max(id), 0) FROM events)"
    f" >> {SEQUENCE_BITS}) WHERE name = 'compacted'"
)


class Loaded(msgspec.Struct):
    """All that a file holds."""

    items: list[KeyValue]
    events: list[Event]
    revision: int
    compacted: int


class Reserve:
    """Room on disk that is kept for the day when there is none: for deletions."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._there = False
        self.fault: OSError | None = None
        """Why the disk refused, if not because it is full."""

    @property
    def there(self) -> bool:
        return self._there

    def restore(self) -> bool:
        """Take the room again if it was given up; say whether it is there."""
        self._there = self._there or self._take(0, RESERVE_BYTES)
        if not self._there:
            self._drop()
        return self._there

    def spare(self) -> bool:
        """Say whether there is room besides, so that objects can be created."""
        found = self._take(RESERVE_BYTES, SPARE_BYTES)
        with contextlib.suppress(OSError):
            os.truncate(self._path, RESERVE_BYTES)
        return found

    def give_up(self) -> None:
        """Free the room."""
        self._there = False
        self._drop()

    def _take(self, at: int, size: int) -> bool:
        """Ask the disk itself: what a file system has free says nothing about quotas."""
        try:
            descriptor = private.open_file(self._path, os.O_WRONLY)
            try:
                _take_room(descriptor, at, size)
            finally:
                os.close(descriptor)
        except OSError as error:
            self.fault = None if error.errno in FULL_DISK else error
            return False
        self.fault = None
        return True

    def _drop(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()


def _take_room(descriptor: int, at: int, size: int) -> None:
    """Have the disk set room aside; a file that is only long has none."""
    if hasattr(os, "posix_fallocate"):  # macOS has no such call
        try:
            os.posix_fallocate(descriptor, at, size)
            return
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:  # of musl: glibc itself writes
                raise
    if os.pwrite(descriptor, bytes(size), at) < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(descriptor)


class SqliteFile:
    """One open data directory."""

    reserve_type: type[Reserve] = Reserve

    def __init__(self, directory: Path, *, synchronous: str = "FULL") -> None:
        if synchronous not in ("FULL", "NORMAL"):
            raise StoreError(f'opening store: synchronous "{synchronous}" is not FULL or NORMAL')
        private.make_directory(directory, (FILE_NAME,))
        self._lock = _lock(directory)
        try:
            _make_private(directory)
            self._db = sqlite3.connect(
                directory / FILE_NAME,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=512,
            )
        except (OSError, sqlite3.Error) as error:
            os.close(self._lock)
            raise StoreError(f'opening "{directory / FILE_NAME}": {error}') from error
        self._log, self._pages = directory / f"{FILE_NAME}-wal", MAX_PAGES
        self._reserve = self.reserve_type(directory / RESERVE_NAME)
        try:
            self._prepare(directory, synchronous)
            self._reserve.restore()
        except BaseException:
            self.close()
            raise

    def _prepare(self, directory: Path, synchronous: str) -> None:
        path = directory / FILE_NAME
        try:
            execute = self._db.execute
            tables = _tables(self._db, path)
            execute(f"PRAGMA page_size = {PAGE_SIZE}")  # of a file that is still empty
            execute("PRAGMA journal_mode = WAL")
            execute(f"PRAGMA synchronous = {synchronous}")
            execute("PRAGMA fullfsync = ON")  # macOS: a plain fsync stops at the disk's own memory
            execute("PRAGMA journal_size_limit = 67108864")
            execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_BYTES // PAGE_SIZE}")
            if not tables:
                self._db.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}COMMIT;")
        except sqlite3.DatabaseError as error:
            advice = "" if isinstance(error, sqlite3.OperationalError) else f"; {DAMAGED}"
            raise StoreError(f'opening "{path}": {error}{advice}') from error

    def load(self) -> Loaded:
        """Read everything, and rebuild the events from the undo log."""
        try:
            return _load(self._db)
        except sqlite3.DatabaseError as error:
            raise StoreError(f"loading the store: {error}; {DAMAGED}") from error

    def write(self, events: Sequence[Event]) -> None:
        """Write the events of one or more transactions, all or none, and sync them to disk.

        On a full disk a reserve is given up for changes and deletions; nothing new is created, and
        nothing grows, until there is room for the reserve again, on the disk or inside the file.
        The log gives back what it can first, then the past is forgotten; while the reserve is
        away none is kept, so that changes without end do not use it up. Raises `Full` when that
        was not enough, StoreError and sqlite3.Error for other reasons.
        """
        grows = any(map(takes_room, events))
        self._bound(RESERVE_BYTES if grows else 0)
        if grows and not self._reserve.there and not self._backed():
            self._shorten_log()
            if not self._backed():
                raise self._no_room(f"{NO_ROOM}: what is left is for changes")
        self._insist(partial(self._write, events), grows)
        if not self._reserve.there:
            self._forget()

    def probe(self) -> None:
        """Write something that changes nothing, and look for room. Raises as `write`."""
        self._bound(RESERVE_BYTES)
        self._insist(self._touch, grows=True)
        for make_room in (self._shorten_log, self._forget, self._shorten_log):
            if self._has_room():
                return
            if self._reserve.fault is not None:
                break
            make_room()
        if not self._has_room():
            raise self._no_room(NO_ROOM)

    def _no_room(self, text: str) -> StoreError:
        fault = self._reserve.fault
        return Full(text) if fault is None else StoreError(f"setting room aside: {fault}")

    def _insist(self, work: Callable[[], None], grows: bool) -> None:
        """Do some work, and again whenever there is more room. Raises `Full`, or what it raises."""
        for make_room in (self._shorten, self._clear_out, lambda _: False):
            try:
                work()
                return
            except sqlite3.OperationalError as error:
                if not self._lacks_room(error):
                    raise
                if not make_room(grows):
                    raise Full(f"{NO_ROOM}: {error}") from error

    def _shorten(self, grows: bool) -> bool:
        if not grows:
            self._reserve.give_up()
        self._shorten_log()
        return True

    def _clear_out(self, grows: bool) -> bool:
        """Let the past go, for which the reserve may be needed; say whether it may be tried."""
        self._reserve.give_up()
        self._shorten_log()
        self._forget()
        self._shorten_log()
        return self._backed() if grows else True

    def _backed(self) -> bool:
        """Say whether there is room for the day when there is none, on the disk or inside."""
        return self._inside() >= RESERVE_BYTES or self._reserve.restore()

    def _forget(self) -> None:
        """Free the pages of the past; who resumes there is told so after a restart."""
        with contextlib.suppress(sqlite3.OperationalError), self._transaction():
            self._db.execute(_NOW_IS_THE_BEGINNING)
            self._db.execute("DELETE FROM events")

    def _touch(self) -> None:
        with self._transaction():  # an update to what a row holds already would write nothing
            self._db.execute("INSERT INTO meta VALUES ('probe', 0)")
            self._db.execute("DELETE FROM meta WHERE name = 'probe'")

    def _lacks_room(self, error: sqlite3.Error) -> bool:
        """SQLite knows a full disk alone: a quota, or a file that may not grow, is an I/O error."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # what Python itself raises has none
        if code == sqlite3.SQLITE_IOERR:
            return not self._has_room() and self._reserve.fault is None
        return code == sqlite3.SQLITE_FULL

    def _has_room(self) -> bool:
        if self._reserve.restore() and self._reserve.spare() and self._may_grow():
            return True
        inside = self._inside() >= RESERVE_BYTES + SPARE_BYTES  # then the log can have the reserve
        return inside and self._reserve.fault is None

    def _inside(self) -> int:
        """Return how many bytes of the file are free."""
        (free,) = self._db.execute("PRAGMA freelist_count").fetchone()
        return int(free) * PAGE_SIZE

    def _bound(self, kept: int) -> None:
        """Let the file end before the kernel lets no file grow (`ulimit -f`).

        So SQLite says that it is full, and what the log holds can always be moved into the file.
        """
        pages = MAX_PAGES
        if (limit := _file_limit()) is not None:
            pages = max(1, (limit - kept) // PAGE_SIZE)
        if pages != self._pages:
            self._db.execute(f"PRAGMA max_page_count = {pages}")
            self._pages = pages

    def _may_grow(self) -> bool:
        """Say whether the file and its log may become longer, or have room inside."""
        limit = _file_limit()
        if limit is None:
            return True
        (count,) = self._db.execute("PRAGMA page_count").fetchone()
        inside: int = (self._pages - count) * PAGE_SIZE + self._inside()
        logged = self._log.stat().st_size if self._log.exists() else 0
        return min(inside, limit - logged) >= SPARE_BYTES

    def _shorten_log(self) -> None:
        """Move what the log holds into the database, whose free pages take it, and cut it."""
        with contextlib.suppress(sqlite3.OperationalError):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def fill(self, items: Sequence[KeyValue]) -> None:
        """Write objects of another store, which have no past here."""
        with self._transaction():
            self._execute_rows(_PUT, [_object_row(kv) for kv in items])

    def _write(self, events: Sequence[Event]) -> None:
        latest = {event.kv.key: event for event in events}
        with self._transaction():
            # A key created and deleted within the batch was never in the table: no harm.
            deletes = [(event.kv.key,) for event in latest.values() if event.deleted]
            puts = [_object_row(event.kv) for event in latest.values() if not event.deleted]
            self._execute_rows(_DELETE, deletes)
            self._execute_rows(_PUT, puts)
            self._execute_rows(_EVENT, _event_rows(events))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        execute = self._db.execute
        execute("BEGIN IMMEDIATE")
        try:
            yield
            execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                execute("ROLLBACK")
            raise

    def _execute_rows(self, statement: tuple[str, str, str], rows: Sequence[_Row]) -> None:
        for at in range(0, len(rows), MAX_ROWS):
            part = rows[at : at + MAX_ROWS]
            self._db.execute(_sql(statement, len(part)), list(chain.from_iterable(part)))

    def compact(self, revision: int) -> None:
        """Forget events up to and including `revision`."""
        execute = self._db.execute
        with self._transaction():
            execute("DELETE FROM events WHERE id < ?", ((revision + 1) << SEQUENCE_BITS,))
            execute("UPDATE meta SET value = max(value, ?) WHERE name = 'compacted'", (revision,))

    def close(self) -> None:
        """Close the file, then let others have the directory."""
        self._db.close()
        os.close(self._lock)


def read(directory: Path) -> Loaded:
    """Return what is in a directory that no server uses; nothing in it is changed."""
    path = directory / FILE_NAME
    with contextlib.ExitStack() as stack:
        if (directory / LOCK_NAME).exists():
            stack.callback(
                os.close, _locked(directory, os.open(directory / LOCK_NAME, os.O_RDONLY))
            )
        try:
            db = stack.enter_context(contextlib.closing(open_to_read(directory, unused=True)))
            _tables(db, path)
            return _load(db)
        except sqlite3.DatabaseError as error:
            raise StoreError(f'reading "{path}": {error}') from error


def open_to_read(directory: Path, *, unused: bool = False) -> sqlite3.Connection:
    """Open a store only to read it, also where nothing can be written.

    SQLite needs files of its own beside one that may be written to meanwhile. A running server has
    a log; none can begin in a directory that cannot be written, nor in one that is said to be
    unused.
    """
    path = (directory / FILE_NAME).resolve()
    still = unused or not os.access(directory, os.W_OK)
    mode = "immutable=1" if still and not Path(f"{path}-wal").exists() else "mode=ro"
    return sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True)


def _tables(db: sqlite3.Connection, path: Path) -> int:
    """Return how many tables there are; refuse what others, or a newer Bayplan, have written."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != APPLICATION_ID:
        raise StoreError(f'opening "{path}": a SQLite file, but not one of Bayplan\'s')
    if version > SCHEMA_VERSION:
        raise StoreError(
            f'opening "{path}": schema version {version} is newer than '
            f"{SCHEMA_VERSION}; use a newer Bayplan"
        )
    return int(tables)


def _load(db: sqlite3.Connection) -> Loaded:
    query = "SELECT key, value, create_rv, rv FROM objects"
    items = [KeyValue(*row) for row in db.execute(query)]
    (compacted,) = db.execute("SELECT value FROM meta").fetchone()
    now: dict[str, KeyValue] = {item.key: item for item in items}
    events: list[Event] = []
    query = "SELECT id, key, deleted, create_rv, prev_rv, prev_value FROM events ORDER BY id DESC"
    for id_, key, deleted, create_rv, prev_rv, prev_value in db.execute(query):
        revision = id_ >> SEQUENCE_BITS
        prev = None if prev_rv is None else KeyValue(key, prev_value, create_rv, prev_rv)
        kv = KeyValue(key, prev_value, create_rv, revision) if deleted else now[key]
        events.append(Event(kv, prev, bool(deleted)))
        if prev is None:
            now.pop(key, None)
        else:
            now[key] = prev
    events.reverse()
    revision = events[-1].kv.mod_revision if events else compacted
    return Loaded(items, events, revision, compacted)


def takes_room(event: Event) -> bool:
    """Say whether a write is refused on a full disk, where it could use up what is left."""
    return event.prev is None or len(event.kv.value) > len(event.prev.value) + GROWTH_BYTES


def _make_private(directory: Path) -> None:
    """Set the modes before SQLite writes: its journals get that of the database."""
    os.close(private.open_file(directory / FILE_NAME, os.O_RDWR))
    for journal in directory.glob(f"{FILE_NAME}-*"):
        os.close(private.open_file(journal, os.O_RDWR))


def _file_limit() -> int | None:
    """Return how many bytes a file of this process may have; it can change at any time."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return None if limit == resource.RLIM_INFINITY else limit


def _lock(directory: Path) -> int:
    """Take the directory for this process; the kernel gives it back however the process ends."""
    handle = _locked(directory, private.open_file(directory / LOCK_NAME, os.O_RDWR))
    os.ftruncate(handle, 0)
    os.write(handle, f"{os.getpid()}\n".encode())
    return handle


def _locked(directory: Path, handle: int) -> int:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.read(handle, 32).decode(errors="replace").strip()
        os.close(handle)
        raise Locked(
            f'opening store "{directory}": in use by process {owner or "unknown"}; '
            "stop it or choose another directory"
        ) from error
    return handle


@cache
def _sql(statement: tuple[str, str, str], rows: int) -> str:
    """Return the statement for a number of rows; the same object each time, so SQLite finds it."""
    head, row, tail = statement
    return head + ",".join([row] * rows) + tail


def _object_row(kv: KeyValue) -> _Row:
    return kv.key, kv.mod_revision, kv.create_revision, kv.value


def _event_rows(events: Iterable[Event]) -> list[_Row]:
    rows: list[_Row] = []
    revision, sequence = 0, 0
    for event in events:
        kv, prev = event.kv, event.prev
        sequence = sequence + 1 if kv.mod_revision == revision else 0
        revision = kv.mod_revision
        id_ = revision << SEQUENCE_BITS | sequence
        if prev is None:
            rows.append((id_, kv.key, event.deleted, kv.create_revision, None, None))
        else:
            before = (prev.mod_revision, prev.value)
            rows.append((id_, kv.key, event.deleted, kv.create_revision, *before))
    return rows

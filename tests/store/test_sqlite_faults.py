"""The file when the disk is full or fails, other programs were there, or nothing can be opened."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from bayplan.store import (
    Check,
    Conflict,
    Delete,
    Event,
    Full,
    KeyValue,
    SqliteStore,
    StoreError,
    sqlite_file,
    sqlite_writer,
)
from bayplan.store.sqlite_file import (
    FILE_NAME,
    PAGE_SIZE,
    RESERVE_BYTES,
    RESERVE_NAME,
    Reserve,
    SqliteFile,
)
from bayplan.store.sqlite_writer import Write, Writer

FULL, IO_ERROR = sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE
PUZZLING = 0  # no code at all
OLD = KeyValue("/a", b"1", 2, 2)
CREATE = Event(KeyValue("/b", b"1", 3, 3), None, False)
CHANGE = Event(KeyValue("/a", b"2", 2, 3), OLD, False)
DELETE = Event(KeyValue("/a", b"1", 2, 3), OLD, True)


class Disk(Reserve):
    """A disk of which the test says when there is room for the reserve, and besides."""

    room = True
    besides = True

    def spare(self) -> bool:
        return self.besides

    def restore(self) -> bool:
        self._there = self._there or self.room
        return self._there

    def give_up(self) -> None:
        self._there = False


class OnDisk(SqliteFile):
    """A file that takes as many writes as it is let, and tells what was done for room."""

    reserve_type = Disk
    problems: Sequence[int] = ()
    shortening_helps = False

    def __init__(self, directory: Path) -> None:
        self.done: list[str | int] = []
        super().__init__(directory)

    def _write(self, events: Sequence[Event]) -> None:
        if not self.problems:
            self.done.append("written")
            return
        code, *self.problems = self.problems
        self.done.append(code)
        error = sqlite3.OperationalError(f"code {code}")
        if code != PUZZLING:
            error.sqlite_errorcode = code
        raise error

    def _shorten_log(self) -> None:
        there = self._reserve._there
        self.done.append("shortened" if there else "shortened without reserve")
        if self.shortening_helps:
            self._reserve.room = True


@pytest.mark.parametrize(
    ("event", "problems", "done"),
    [
        pytest.param(CREATE, [], ["written"], id="room"),
        pytest.param(CREATE, [FULL], [FULL, "shortened", "written"], id="create: the log is cut"),
        pytest.param(
            CHANGE,
            [FULL],
            [FULL, "shortened without reserve", "written"],
            id="change: the reserve is given up",
        ),
        pytest.param(
            DELETE,
            [FULL],
            [FULL, "shortened without reserve", "written"],
            id="deletion: the reserve is given up",
        ),
        pytest.param(
            DELETE,
            [IO_ERROR],
            [IO_ERROR, "shortened without reserve", "written"],
            id="a quota is an I/O error to SQLite",
        ),
    ],
)
def test_a_full_disk_is_given_what_can_be_spared(
    tmp_path: Path, event: Event, problems: list[int], done: list[str | int]
) -> None:
    file = OnDisk(tmp_path)
    file.problems = problems
    file._reserve.besides = False
    file.write([event])
    file.close()

    assert done == file.done


CUT = "shortened without reserve"
SHORT = [FULL, CUT]


@pytest.mark.parametrize(
    ("besides", "problems", "kind", "done"),
    [
        pytest.param(True, [FULL] * 3, Full, [*SHORT, *SHORT, CUT, FULL], id="full"),
        pytest.param(
            False,
            [FULL, FULL, IO_ERROR],
            Full,
            [*SHORT, *SHORT, CUT, IO_ERROR],
            id="full, and a quota",
        ),
        pytest.param(True, [FULL, PUZZLING], sqlite3.Error, [*SHORT, PUZZLING], id="and another"),
        pytest.param(True, [IO_ERROR], sqlite3.Error, [IO_ERROR], id="broken: not again"),
        pytest.param(False, [PUZZLING], sqlite3.Error, [PUZZLING], id="another: not again"),
    ],
)
def test_what_cannot_be_written_all_the_same_fails(
    tmp_path: Path,
    besides: bool,
    problems: list[int],
    kind: type[Exception],
    done: list[str | int],
) -> None:
    file = OnDisk(tmp_path)
    file.problems = problems
    file._reserve.besides = besides
    with pytest.raises(kind, match=f"code {problems[-1]}"):
        file.write([DELETE])
    file.close()

    assert done == file.done


@pytest.mark.parametrize("helps", [False, True])
def test_nothing_is_created_until_there_is_room_for_the_reserve_again(
    tmp_path: Path, helps: bool
) -> None:
    file = OnDisk(tmp_path)
    file.problems = [FULL]
    file._reserve.room = False
    file.write([DELETE])
    file.done.clear()
    file.shortening_helps = helps

    if helps:
        file.write([CHANGE, CREATE])
    else:
        with pytest.raises(Full, match=r"disk is full.*left is for changes"):
            file.write([CHANGE, CREATE])
        file.write([CHANGE])
    file.close()

    assert ["shortened without reserve", "written"] == file.done


def test_the_reserve_is_taken_when_there_is_room_and_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve, file = Reserve(tmp_path / RESERVE_NAME), tmp_path / RESERVE_NAME

    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full, raising=False)
        assert not reserve.restore()
        assert not file.exists(), "what could not be taken is not left half"
    assert reserve.restore()
    assert file.exists()
    file.unlink()
    assert reserve.restore(), "it is looked for once"
    reserve.give_up()
    assert not reserve.there


MIB = 1 << 20


@pytest.fixture
def limit() -> Iterator[Callable[[int], None]]:
    """Set how long a file of this process may become, as `ulimit -f` does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _fill(file: SqliteFile, revision: int) -> list[KeyValue]:
    """Create objects until there is no room, and return them."""
    made: list[KeyValue] = []
    with contextlib.suppress(Full):
        while len(made) < 1000:
            at = revision + len(made)
            new = KeyValue(f"/{at}", bytes(MIB // 4), at, at)
            file.write([Event(new, None, False)])
            made.append(new)
    return made


def test_files_that_may_not_grow_take_changes_and_deletions_and_go_on_when_they_may(
    tmp_path: Path, limit: Callable[[int], None]
) -> None:
    file = SqliteFile(tmp_path, synchronous="NORMAL")
    limit(RESERVE_BYTES + 10 * MIB)
    file.probe()
    made = _fill(file, 2)
    assert len(made) > 8 * 4, "two MiB more would have been the log's"
    with pytest.raises(Full, match="a file as long as it may be"):
        file.probe()
    at = 1000
    for old in made:
        changed = KeyValue(old.key, b"", old.create_revision, at)
        file.write([Event(changed, old, False)])
        gone = KeyValue(old.key, b"", old.create_revision, at + 1)
        file.write([Event(gone, changed, True)])
        at += 2
    assert max(each.stat().st_size for each in tmp_path.iterdir()) <= RESERVE_BYTES + 10 * MIB
    limit(resource.RLIM_INFINITY)
    file.probe()
    file.write([Event(KeyValue("/new", b"1", at, at), None, False)])
    file.close()

    assert ["/new"] == [item.key for item in sqlite_file.read(tmp_path).items]


def test_room_inside_of_a_file_that_may_not_grow_is_used(
    tmp_path: Path, limit: Callable[[int], None]
) -> None:
    file = SqliteFile(tmp_path, synchronous="NORMAL")
    limit(RESERVE_BYTES + 10 * MIB)
    made = _fill(file, 2)
    file.write(
        [Event(KeyValue(old.key, b"", old.create_revision, 1000), old, True) for old in made]
    )
    file.compact(1000)
    file.probe()
    again = _fill(file, 1001)
    file.close()

    assert abs(len(made) - len(again)) <= 1


def test_a_commit_too_large_for_the_log_finds_no_room_and_leaves_it_usable(
    tmp_path: Path, limit: Callable[[int], None]
) -> None:
    file = SqliteFile(tmp_path, synchronous="NORMAL")
    limit(RESERVE_BYTES + 10 * MIB)
    with pytest.raises(Full):
        file.write([Event(KeyValue(f"/{i}", bytes(MIB), 2, 2), None, False) for i in range(30)])
    file.probe()
    file.write([CREATE])
    file.close()

    assert ["/b"] == [item.key for item in sqlite_file.read(tmp_path).items]


def test_whether_the_log_can_be_written_is_found_out_by_writing(
    tmp_path: Path, limit: Callable[[int], None]
) -> None:
    file = SqliteFile(tmp_path)
    file.write([CREATE])
    limit(PAGE_SIZE)
    with pytest.raises(Full, match="disk I/O error"):
        file.probe()
    limit(resource.RLIM_INFINITY)
    file.probe()
    file.close()


def test_how_often_the_file_is_synced_is_one_of_two(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match='synchronous "OFF" is not FULL or NORMAL'):
        SqliteFile(tmp_path / "data", synchronous="OFF")

    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        pytest.param(errno.ENOSPC, Full, id="a full disk"),
        pytest.param(errno.EDQUOT, Full, id="a quota"),
        pytest.param(errno.EFBIG, Full, id="a limit"),
        pytest.param(errno.EIO, sqlite3.Error, id="a broken disk"),
        pytest.param(
            errno.EROFS, sqlite3.Error, id="one that Linux writes no more, as it is broken"
        ),
    ],
)
def test_what_the_disk_says_to_the_reserve_tells_what_an_io_error_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]
) -> None:
    def refuses(*given: object) -> None:
        raise OSError(code, os.strerror(code))

    class Real(OnDisk):
        reserve_type = Reserve

        def _shorten_log(self) -> None:
            pass

    file = Real(tmp_path)
    file.problems = [IO_ERROR] * 3
    monkeypatch.setattr(os, "posix_fallocate", refuses, raising=False)
    monkeypatch.setattr(Path, "unlink", refuses)
    monkeypatch.setattr(os, "truncate", refuses)
    with pytest.raises(kind, match=f"code {IO_ERROR}"):
        file.write([CHANGE])
    file.close()


@pytest.mark.parametrize("error", [OSError(errno.EIO, "bad"), sqlite3.OperationalError("bad")])
def test_a_file_that_cannot_be_opened_says_so_and_leaves_the_directory_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*given: object, **more: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(sqlite_file.sqlite3, "connect", fails)
        with pytest.raises(StoreError, match=rf'opening "{tmp_path / FILE_NAME}": .*bad'):
            SqliteFile(tmp_path)

    SqliteFile(tmp_path).close()


def test_a_file_without_our_tables_is_not_read(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"no database" * 1000)

    with pytest.raises(StoreError, match=rf'reading "{tmp_path / FILE_NAME}": .*not a database'):
        sqlite_file.read(tmp_path)


async def test_what_a_killed_server_left_to_all_becomes_private(tmp_path: Path) -> None:
    """Also its log, which holds as much as the file."""
    store = await SqliteStore.open(tmp_path)
    await store.put("/a", b"secret")
    names = (FILE_NAME, f"{FILE_NAME}-wal", "lock")
    for name in names:
        (tmp_path / name).chmod(0o644)
    sqlite_file._make_private(tmp_path)
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in names[:2]}
    await store.close()

    assert {0o600} == modes


class HeldFile(SqliteFile):
    """Commits when it is let, and tells what it was given at once."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.begun, self.go = threading.Event(), threading.Event()
        self.commits: list[list[int]] = []

    def write(self, events: Sequence[Event]) -> None:
        self.begun.set()
        assert self.go.wait(60)
        self.commits.append([event.kv.mod_revision for event in events])


def _write(revision: int) -> Write:
    return Write(revision, [Event(KeyValue("/a", b"", 2, revision), None, False)])


@pytest.mark.parametrize(
    ("most", "commits"),
    [
        pytest.param(256, [[2], [3, 4, 5, 6, 7]], id="all that has come meanwhile"),
        pytest.param(3, [[2], [3, 4, 5], [6, 7]], id="up to a bound"),
        pytest.param(2, [[2], [3, 4], [5, 6], [7]], id="one that came in larger pieces"),
        pytest.param(1, [[2], [3], [4], [5], [6], [7]], id="one by one"),
    ],
)
async def test_what_comes_while_the_disk_is_busy_shares_a_commit_also_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, commits: list[list[int]]
) -> None:
    monkeypatch.setattr(sqlite_writer, "MAX_BATCH", most)
    file, told = HeldFile(tmp_path), []
    writer = Writer(
        file,
        asyncio.get_running_loop(),
        lambda done, problem: told.extend((one.revision, problem) for one in done),
    )
    writer.submit([_write(2)])
    await asyncio.to_thread(file.begun.wait, 60)
    for revisions in ((3, 4), (5,), (6, 7)):
        writer.submit([_write(revision) for revision in revisions])
    stopping = asyncio.ensure_future(writer.stop())
    await asyncio.sleep(0)
    file.go.set()
    await stopping

    assert commits == file.commits
    assert [(revision, None) for revision in range(2, 8)] == told


def test_a_file_without_room_takes_changes_without_end(
    tmp_path: Path, limit: Callable[[int], None]
) -> None:
    """What each of them replaced would use up the reserve, and then nothing could be deleted."""
    file = SqliteFile(tmp_path, synchronous="NORMAL")
    limit(RESERVE_BYTES + 10 * MIB)
    old = _fill(file, 2)[0]
    for revision in range(1000, 1200):
        new = KeyValue(old.key, bytes(MIB // 4), 2, revision)
        file.write([Event(new, old, False)])
        old = new
    file.write([Event(KeyValue(old.key, old.value, 2, 1200), old, True)])
    loaded = file.load()
    file.close()

    assert old.key not in [item.key for item in loaded.items]
    assert 1200 == loaded.revision, "also where no past tells it"


def test_what_is_deleted_makes_room_for_what_is_new(
    tmp_path: Path, limit: Callable[[int], None]
) -> None:
    file = SqliteFile(tmp_path, synchronous="NORMAL")
    limit(RESERVE_BYTES + 10 * MIB)
    made = _fill(file, 2)
    for at, old in enumerate(made, 1000):
        file.write([Event(KeyValue(old.key, b"", old.create_revision, at), old, True)])
    file.probe()
    again = _fill(file, 2000)
    file.close()

    assert abs(len(made) - len(again)) <= 1


def test_on_a_full_disk_an_object_cannot_grow(tmp_path: Path) -> None:
    file = OnDisk(tmp_path)
    file.problems = [FULL]
    file._reserve.room = False
    file.write([DELETE])
    grown = KeyValue("/a", bytes(sqlite_file.GROWTH_BYTES + 2), 2, 4)
    with pytest.raises(Full, match="what is left is for changes"):
        file.write([Event(grown, OLD, False)])
    file.write([Event(KeyValue("/a", grown.value[1:], 2, 4), OLD, False)])
    file.close()


class NothingNew(SqliteFile):
    """A full disk: what takes room is refused, with all that is written at once."""

    def write(self, events: Sequence[Event]) -> None:
        if any(event.prev is None and event.kv.key != "/old" for event in events):
            raise Full("full")
        super().write(events)


async def test_who_creates_on_a_full_disk_keeps_nobody_from_deleting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same commit, or in one that has begun behind it."""
    monkeypatch.setattr("bayplan.store.sqlite.SqliteFile", NothingNew)
    store = await SqliteStore.open(tmp_path)
    for turn in range(3):
        await store.put("/old", b"1")
        creating = [asyncio.ensure_future(store.put(f"/new{n}", b"1")) for n in range(3)]
        for _ in range(turn):
            await asyncio.sleep(0)
        gone = await store.delete("/old")
        told = await asyncio.gather(*creating, return_exceptions=True)

        assert [Full] * 3 == [type(each) for each in told]
        assert "/old" == gone.key
        assert await store.get("/old") is None
    await store.close()

    assert [] == sqlite_file.read(tmp_path).items


async def test_what_was_checked_against_an_object_that_a_full_disk_refuses_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayplan.store.sqlite.SqliteFile", NothingNew)
    store = await SqliteStore.open(tmp_path)
    old = await store.put("/old", b"1")
    told = await asyncio.gather(
        store.put("/new", b"1"),
        store.transact([Check("/new", old.mod_revision + 1), Delete("/old")]),
        return_exceptions=True,
    )
    await store.close()

    assert [Full, Conflict] == [type(each) for each in told]
    assert [old] == sqlite_file.read(tmp_path).items


def test_a_directory_that_is_gone_is_no_full_disk(tmp_path: Path) -> None:
    """It is told, and the past is kept: that makes no room where none is lacking."""
    file = SqliteFile(tmp_path / "data")
    file.write([CREATE])
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(StoreError, match=r"setting room aside: .*No such file") as caught:
        file.probe()
    loaded = file.load()
    file.close()

    assert StoreError is type(caught.value)
    assert ["/b"] == [event.kv.key for event in loaded.events]


def test_what_cannot_be_created_for_another_reason_than_room_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*given: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", refuses, raising=False)
        file = SqliteFile(tmp_path)
        with pytest.raises(StoreError, match=r"setting room aside: .*Input/output") as caught:
            file.write([CREATE])
    file.write([CREATE])
    file.close()

    assert StoreError is type(caught.value)


def test_where_no_room_can_be_set_aside_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As musl says of file systems for which glibc does that itself."""

    def cannot(*given: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", cannot, raising=False)
    file = SqliteFile(tmp_path)
    file.write([CREATE])
    file.close()

    assert (tmp_path / RESERVE_NAME).stat().st_blocks * 512 >= RESERVE_BYTES


@pytest.mark.parametrize("missing", [0, 1])
def test_room_inside_of_the_file_counts_when_it_is_that_of_the_reserve_and_more(
    tmp_path: Path, missing: int
) -> None:
    class Inside(OnDisk):
        def _inside(self) -> int:
            return RESERVE_BYTES + sqlite_file.SPARE_BYTES - missing

    file = Inside(tmp_path)
    file._reserve.room = False
    file._reserve.give_up()
    if missing:
        with pytest.raises(Full):
            file.probe()
    else:
        file.probe()
    assert [CUT] * 2 * missing == file.done, "where there is room nothing is done for it"
    file.close()

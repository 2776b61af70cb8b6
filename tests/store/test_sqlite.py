"""What is particular to the store on disk."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from bayplan.store import (
    Conflict,
    Delete,
    Event,
    Full,
    KeyValue,
    Locked,
    NotFound,
    Put,
    SqliteStore,
    StoreError,
)
from bayplan.store import sqlite as sqlite_store
from bayplan.store.sqlite import MAX_OPS
from bayplan.store.sqlite_file import (
    FILE_NAME,
    RESERVE_BYTES,
    RESERVE_NAME,
    SPARE_BYTES,
    Reserve,
    SqliteFile,
)
from bayplan.store.sqlite_writer import Commits, Probe


async def test_two_processes_cannot_open_one_directory(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)

    with pytest.raises(Locked, match=f"in use by process {os.getpid()}; stop it"):
        await SqliteStore.open(tmp_path)

    await store.close()
    await (await SqliteStore.open(tmp_path)).close()


async def test_how_much_a_transaction_may_hold_is_told(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)

    with pytest.raises(StoreError, match=f"a transaction of {MAX_OPS + 1} operations; at most"):
        await store.transact([Put("/a", b"")] * (MAX_OPS + 1))

    await store.close()


async def test_a_store_that_cannot_write_says_so_when_it_is_asked(tmp_path: Path) -> None:
    class Broken(Reserve):
        def spare(self) -> bool:
            return False

    class OnBroken(SqliteFile):
        reserve_type = Broken

    file = OnBroken(tmp_path)
    with pytest.raises(Full, match="disk is full"):
        file.probe()
    told = Commits(file)._maintain(Probe())
    assert isinstance(told, Full)
    assert "disk is full" in str(told)
    file.close()


def test_a_file_that_takes_no_writes_says_so_when_it_is_asked(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path)
    file._db.execute("PRAGMA query_only = ON")

    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        file.probe()
    file.close()


async def test_the_file_is_private(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "data")
    await store.close()

    assert 0o600 == stat.S_IMODE((tmp_path / "data" / FILE_NAME).stat().st_mode)
    assert 0o700 == stat.S_IMODE((tmp_path / "data").stat().st_mode)


async def test_revisions_go_on_after_everything_was_deleted_and_compacted(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    await store.put("/a", b"1")
    gone = await store.delete("/a")
    await store.compact(gone.mod_revision)
    await store.close()

    again = await SqliteStore.open(tmp_path)

    assert gone.mod_revision == again.revision == again.compacted
    assert (await again.put("/a", b"2")).mod_revision == gone.mod_revision + 1
    await again.close()


async def test_nothing_is_visible_before_it_is_on_disk(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    watcher = store.watch("/", after=store.revision)
    before = store.revision
    writing = asyncio.create_task(store.put("/a", b"1"))
    await asyncio.sleep(0)  # it is on its way now

    assert store.get_now("/a") is None
    assert before == store.revision
    assert [] == watcher.take()
    written = await writing
    assert written == store.get_now("/a")
    on_disk = sqlite3.connect(tmp_path / FILE_NAME)
    assert [("/a", written.mod_revision, b"1")] == on_disk.execute(
        "SELECT key, rv, value FROM objects"
    ).fetchall()
    on_disk.close()
    await store.close()


async def test_a_conflict_with_a_write_on_its_way_is_reported_when_it_can_be_read(
    tmp_path: Path,
) -> None:
    store = await SqliteStore.open(tmp_path)

    async def lose() -> KeyValue | None:
        with pytest.raises(Conflict) as caught:
            await store.put("/a", b"2", expect=0)
        assert store.get_now("/a") == caught.value.current
        return caught.value.current

    won, *lost = await asyncio.gather(store.put("/a", b"1", expect=0), lose(), lose())

    assert [won, won] == lost
    await store.close()


async def test_who_writes_in_a_loop_does_not_win_for_ever(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    last = (await store.put("/a", b"0")).mod_revision

    async def storm() -> None:
        nonlocal last
        while True:
            try:
                last = (await store.put("/a", b"storm", expect=last)).mod_revision
            except Conflict:
                found = await store.get("/a")
                assert found is not None
                last = found.mod_revision

    storming = asyncio.create_task(storm())
    await asyncio.sleep(0)  # its first write is on its way
    lost = 0
    async with asyncio.timeout(60):
        while True:
            found = await store.get("/a")
            assert found is not None
            try:
                await store.put("/a", b"calm", expect=found.mod_revision)
                break
            except Conflict:
                lost += 1
        with pytest.raises(Conflict):
            await store.put("/a", b"new", expect=0)
    storming.cancel()
    await asyncio.gather(storming, return_exceptions=True)

    assert lost <= 4
    await store.close()


async def test_writes_on_their_way_build_on_each_other(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    results = await asyncio.gather(
        store.put("/a", b"1", expect=0),
        store.put("/a", b"2", expect=2),
        store.delete("/a", expect=3),
        store.put("/a", b"3", expect=0),
        store.put("/b", b"1"),
        store.delete("/b"),
    )

    assert [2, 3, 4, 5, 6, 7] == [kv.mod_revision for kv in results]
    events = store.watch("/a", after=1).take()
    assert [False, False, True, False] == [event.deleted for event in events]
    await store.close()
    again = await SqliteStore.open(tmp_path)
    assert [results[3]] == again.range_now("").items
    assert [(e.kv, e.prev, e.deleted) for e in events] == [
        (e.kv, e.prev, e.deleted) for e in again.watch("/a", after=1).take()
    ]
    await again.close()


async def test_a_full_disk_fails_writes_and_the_store_goes_on(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    kept = await store.put("/kept", b"1")
    database = store._writer._commits.file._db
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages + 2}")

    async def build_on_it() -> None:
        # Checked against the write that is going to fail, so it must fail with it.
        await store.put("/big", b"2", expect=kept.mod_revision + 1)

    results = await asyncio.gather(
        store.put("/big", b"x" * 100_000, expect=0),
        build_on_it(),
        return_exceptions=True,
    )

    assert [True, True] == [isinstance(result, StoreError) for result in results]
    assert "full" in str(results[0])
    assert [kept] == store.range_now("").items
    database.execute("PRAGMA max_page_count = 1000000")
    with pytest.raises(NotFound):
        await store.delete("/big")
    later = await store.put("/big", b"3", expect=0)
    assert later.mod_revision > kept.mod_revision + 2
    await store.close()
    again = await SqliteStore.open(tmp_path)
    assert [later, kept] == again.range_now("").items
    await again.close()


async def test_a_cancelled_write_is_still_written_and_blocks_nobody(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    writing = asyncio.create_task(store.put("/a", b"1", expect=0))
    await asyncio.sleep(0)
    writing.cancel()

    with pytest.raises(Conflict):
        await store.put("/a", b"2", expect=0)

    assert b"1" == store.get_now("/a").value
    await store.close()


async def test_closing_finishes_writes_on_their_way(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    writing = [asyncio.create_task(store.put(f"/{n}", b"1")) for n in range(600)]
    await asyncio.sleep(0)
    await store.close()

    written = await asyncio.gather(*writing)

    again = await SqliteStore.open(tmp_path)
    assert sorted(written, key=lambda kv: kv.key) == again.range_now("").items
    await again.close()


async def test_the_file_is_compacted_when_memory_forgets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "COMPACT_EVERY", 50)
    store = await SqliteStore.open(tmp_path, max_events=20)
    for n in range(200):
        await store.put("/a", b"%d" % n)
    compacted = store.compacted
    await store.close()

    on_disk = sqlite3.connect(tmp_path / FILE_NAME)
    (rows,) = on_disk.execute("SELECT count(*) FROM events").fetchone()
    on_disk.close()
    again = await SqliteStore.open(tmp_path, max_events=20)

    assert rows < 100
    assert 201 == again.revision
    assert again.compacted >= compacted - 75
    await again.close()


async def test_a_large_transaction_survives_a_restart(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    await store.transact([Put(f"/{n:05}", b"%d" % n) for n in range(3000)])
    await store.transact([Delete(f"/{n:05}") for n in range(0, 3000, 2)])
    before = store.range_now("")
    await store.close()

    again = await SqliteStore.open(tmp_path)

    assert before.items == again.range_now("").items
    assert 3000 == len(again.range_now("", revision=2).items)
    assert 4500 == len(again.watch("", after=1).take())
    await again.close()


async def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / FILE_NAME)
    other.execute("CREATE TABLE t (x)")
    other.close()

    with pytest.raises(StoreError, match="not one of Bayplan's"):
        await SqliteStore.open(tmp_path)


async def test_a_file_of_a_newer_bayplan_is_refused(tmp_path: Path) -> None:
    await (await SqliteStore.open(tmp_path)).close()
    newer = sqlite3.connect(tmp_path / FILE_NAME)
    newer.execute("PRAGMA user_version = 99")
    newer.close()

    with pytest.raises(StoreError, match="schema version 99 is newer"):
        await SqliteStore.open(tmp_path)


async def test_a_damaged_file_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"this is no database " * 500)

    with pytest.raises(StoreError, match="not a database"):
        await SqliteStore.open(tmp_path)


def test_room_is_kept_where_the_system_has_no_call_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS: the reserve is written instead."""
    monkeypatch.delattr(os, "posix_fallocate")
    reserve = Reserve(tmp_path / "reserve")

    assert reserve.restore()
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= RESERVE_BYTES
    reserve.give_up()
    assert not (tmp_path / "reserve").exists()


class SmallDisk(Reserve):
    """A disk that has room for the reserve only while the log is short."""

    log = 100_000

    def restore(self) -> bool:
        wal = self._path.with_name(f"{FILE_NAME}-wal")
        self._there = self._there or not wal.exists() or wal.stat().st_size < self.log
        return self._there

    def spare(self) -> bool:
        return True

    def give_up(self) -> None:
        self._there = False


class SmallFile(SqliteFile):
    reserve_type = SmallDisk


def test_a_log_that_takes_the_room_of_the_reserve_gives_it_back(tmp_path: Path) -> None:
    file = SmallFile(tmp_path)
    old: KeyValue | None = None
    for revision in range(2, 30):
        new = KeyValue("/a", b"x" * 20_000, 2, revision)
        file.write([Event(new, old, False)])
        old = new
    file._reserve.give_up()

    file.probe()
    file.write([Event(KeyValue("/b", b"y", 30, 30), None, False)])

    assert (tmp_path / f"{FILE_NAME}-wal").stat().st_size < SmallDisk.log
    assert {"/a", "/b"} == {item.key for item in file.load().items}
    file.close()


def test_the_reserve_holds_what_the_log_may_have_to_move(tmp_path: Path) -> None:
    """Else a full disk takes no deletion either: cutting the log needs the room of all of it."""
    file, longest = SqliteFile(tmp_path, synchronous="NORMAL"), 0
    for revision in range(2, 22):
        new = KeyValue(f"/{revision}", b"x" * 900_000, revision, revision)
        file.write([Event(new, None, False)])
        longest = max(longest, (tmp_path / f"{FILE_NAME}-wal").stat().st_size)
    file.close()

    assert longest < RESERVE_BYTES


def test_a_disk_without_room_to_spare_is_told_before_a_create_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, take = SqliteFile(tmp_path), os.posix_fallocate
    left = RESERVE_BYTES + SPARE_BYTES

    def take_what_is_left(descriptor: int, at: int, size: int) -> None:
        if at + size > left:
            raise OSError(errno.EDQUOT, "quota")  # statvfs would know nothing of it
        take(descriptor, at, size)

    monkeypatch.setattr(os, "posix_fallocate", take_what_is_left)
    file.probe()
    assert RESERVE_BYTES == (tmp_path / RESERVE_NAME).stat().st_size
    left -= 1

    with pytest.raises(Full, match="disk is full"):
        file.probe()
    file.close()


@pytest.mark.parametrize("turns", range(4))
async def test_who_gives_up_opening_leaves_the_directory_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """The thread that reads the file goes on; what it opened must be closed all the same."""
    made: list[SqliteFile] = []

    class Slow(SqliteFile):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            made.append(self)
            assert go.wait(60)

    go = threading.Event()
    monkeypatch.setattr(sqlite_store, "SqliteFile", Slow)
    opening = asyncio.create_task(SqliteStore.open(tmp_path))
    for _ in range(turns):
        await asyncio.sleep(0)
    opening.cancel()
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await opening

    await (await SqliteStore.open(tmp_path)).close()


@pytest.mark.parametrize("turns", range(4))
async def test_a_closer_that_is_cancelled_leaves_nothing_half_closed(
    tmp_path: Path, turns: int
) -> None:
    store = await SqliteStore.open(tmp_path)
    watcher = store.watch("/", after=store.revision)
    writing = asyncio.create_task(store.put("/a", b"1"))
    await asyncio.sleep(0)
    closing = asyncio.create_task(store.close())
    for _ in range(turns):
        await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)

    await store.close()

    assert b"1" == (await writing).value
    assert [] == [batch async for batch in watcher]  # it ends
    await (await SqliteStore.open(tmp_path)).close()

"""What "acknowledged" means: synced before the answer, and nothing built on what failed."""

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bayplan.store import Conflict, Event, KeyValue, SqliteStore, StoreError
from bayplan.store.sqlite_file import FILE_NAME, SqliteFile
from bayplan.store.sqlite_writer import Write, Writer

WRITE_ONE = """
import asyncio, os, sys
from bayplan.store import SqliteStore

async def main():
    store = await SqliteStore.open(sys.argv[1])
    os.write(1, b"begin")
    await store.put("/a", b"1")
    os.write(1, b"acknowledged")
    await store.close()

asyncio.run(main())
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace here")
def test_a_write_is_synced_before_it_is_acknowledged(tmp_path: Path) -> None:
    """The kernel is the witness: it sees a sync of the log between the write and the answer."""
    trace = tmp_path / "trace"
    command = ["strace", "-f", "-y", "-e", "trace=fsync,fdatasync,write", "-o", str(trace)]
    command += [sys.executable, "-c", WRITE_ONE, str(tmp_path / "data")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    text = trace.read_text()
    between = text[text.index('"begin"') : text.index('"acknowledged"')]
    assert re.search(rf"f(data)?sync\(\d+<[^>]*{re.escape(FILE_NAME)}-wal", between), between


async def test_the_file_syncs_every_commit_by_default(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path)

    (level,) = file._db.execute("PRAGMA synchronous").fetchone()
    (whole,) = file._db.execute("PRAGMA fullfsync").fetchone()
    file.close()

    assert 2 == level, "FULL"
    assert 1 == whole, "on a Mac a plain sync stops at the disk's own memory"


async def test_whoever_chooses_so_syncs_less(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path, synchronous="NORMAL")

    (level,) = file._db.execute("PRAGMA synchronous").fetchone()
    file.close()

    assert 1 == level, "NORMAL"


class HeldFile(SqliteFile):
    """Commits only when it is let."""

    may_commit: threading.Event

    def write(self, events):
        self.may_commit.wait(60)
        super().write(events)


async def test_who_lost_against_what_can_be_read_is_told_at_once(tmp_path: Path) -> None:
    """Not when the write on its way, against which it would lose too, is on the disk."""
    store = await SqliteStore.open(tmp_path)
    first = await store.put("/a", b"1")
    file = store._writer._commits.file
    file.__class__, file.may_commit = HeldFile, threading.Event()
    on_its_way = asyncio.create_task(store.put("/a", b"2"))
    await asyncio.sleep(0)

    with pytest.raises(Conflict):
        await store.put("/a", b"3", expect=first.mod_revision + 100)
    early = not on_its_way.done()
    file.may_commit.set()
    await on_its_way
    await store.close()

    assert early


CREATE = Event(KeyValue("/a", b"", 4, 4), None, False)


class FailingFile(SqliteFile):
    """Fails the first commit after `break_next`, as a disk does that is full for a moment."""

    broken = False

    def write(self, events):
        if self.broken:
            self.broken = False
            raise sqlite3.OperationalError("disk I/O error")
        super().write(events)


async def test_a_write_that_was_checked_against_a_failed_one_is_refused(tmp_path: Path) -> None:
    """It comes in a batch of its own, when the disk works again, as does one that builds on it."""
    file = FailingFile(tmp_path)
    told: list[tuple[int, str]] = []
    heard = asyncio.Event()

    def report(requests, problem):
        told.extend((request.revision, str(problem)) for request in requests)
        heard.set()

    writer = Writer(file, asyncio.get_running_loop(), report)
    failed = Write(2, [CREATE])
    builds = Write(3, [CREATE], [failed])
    file.broken = True
    for write in (failed, builds, Write(4, [CREATE]), Write(5, [CREATE], [builds])):
        writer.submit([write])
        await heard.wait()
        heard.clear()
    await writer.stop()

    undone = "writing to disk: a write before it failed"
    assert [(2, "writing to disk: disk I/O error"), (3, undone), (4, "None"), (5, undone)] == told


async def test_after_a_failed_commit_the_store_writes_again(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    database = store._writer._commits.file._db
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(StoreError):
        await store.put("/big", b"x" * 200_000)
    database.execute("PRAGMA max_page_count = 1000000")
    kept = await store.put("/small", b"1")
    await store.close()
    again = await SqliteStore.open(tmp_path)

    assert [kept] == again.range_now("").items
    await again.close()

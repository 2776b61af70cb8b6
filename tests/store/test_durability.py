"""What "acknowledged" means: synced before the answer, and nothing built on what failed."""

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from bayplan.store import SqliteStore, StoreError
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
    file.close()

    assert 2 == level, "FULL"


class FailingFile(SqliteFile):
    """Fails the first commit after `break_next`, as a disk does that is full for a moment."""

    broken = False

    def write(self, events):
        if self.broken:
            self.broken = False
            raise sqlite3.OperationalError("disk I/O error")
        super().write(events)


async def test_a_write_that_was_checked_against_a_failed_one_is_refused(tmp_path: Path) -> None:
    """It comes in a batch of its own, when the disk works again: only its epoch tells."""
    file = FailingFile(tmp_path)
    told: list[tuple[int, str]] = []
    loop = asyncio.get_running_loop()
    heard = asyncio.Event()

    def report(requests, problem):
        told.extend((request.revision, problem) for request in requests)
        heard.set()

    writer = Writer(file, loop, report)
    for revision, epoch in ((2, 0), (3, 0), (4, 1)):
        file.broken = revision == 2
        writer.submit([Write(revision, (), epoch)])
        await heard.wait()
        heard.clear()
    await writer.stop()

    assert [2, 3, 4] == [revision for revision, _ in told]
    assert ["disk I/O error", "a write before it failed", ""] == [problem for _, problem in told]


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

"""A disk that fails, below the real SQLite store.

The store and SQLite itself are the real ones, on a real file; only the thread that writes is
virtual time here. A commit takes as long as the disk says, fails when it says, and finds the disk
full when it says. A crash keeps what was committed; of a commit under way it keeps any number of
bytes of the write-ahead log, the last of them possibly garbage: what a power cut leaves. SQLite's
own recovery then has to find the truth.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from bayplan.store.protocol import Event
from bayplan.store.sqlite import SqliteStore, past_of
from bayplan.store.sqlite_file import FILE_NAME, Reserve, SqliteFile
from bayplan.store.sqlite_writer import MAX_BATCH, Commits, Report, Request

WAL = f"{FILE_NAME}-wal"
BEGUN, SYNCED = "begun", "synced"
MOMENTS = (BEGUN, SYNCED)
"""Of a commit: its bytes are on their way; they are there, and nobody has been told."""
LONGEST_WAIT = 5.0  # seconds, for a commit that may never come


class Disk:
    """One directory that survives crashes, and how its device behaves at the moment."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        self._root = root
        self._rng = rng
        self._lives = 0
        self.full = False
        self.errors = 0.0  # share of commits that fail
        self.latency = 0.002  # seconds, at most, to write and to sync
        self._file: FaultyFile | None = None
        self._writer: VirtualWriter | None = None
        self._awaited: dict[str, asyncio.Event] = {name: asyncio.Event() for name in MOMENTS}

    @property
    def directory(self) -> Path:
        return self._root / str(self._lives)

    def open(self) -> SqliteStore:
        """Open the store that the disk holds."""
        file = self._file = FaultyFile(self)
        loaded = file.load()
        return SqliteStore(file, loaded, past_of(loaded), self._make_writer)

    def _make_writer(
        self, file: SqliteFile, loop: asyncio.AbstractEventLoop, report: Report
    ) -> VirtualWriter:
        self._writer = VirtualWriter(self, file, report)
        return self._writer

    def wait(self) -> float:
        return self._rng.random() * self.latency

    def fails(self) -> str:
        """Say what is wrong with the next commit, if anything."""
        if self._rng.random() >= self.errors:
            return ""
        return self._rng.choice(("write", "sync"))

    def reach(self, moment: str) -> None:
        """Wake whoever waits for this moment of a commit."""
        self._awaited[moment].set()

    async def until(self, moment: str) -> None:
        """Return at this moment of the next commit, if one comes soon."""
        self._awaited[moment].clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_WAIT):
                await self._awaited[moment].wait()

    def crash(self) -> None:
        """Lose power: what was synced stays, a commit under way stays in part."""
        file, writer = self._file, self._writer
        assert file is not None
        assert writer is not None
        old = self.directory
        synced = _size(old / WAL)
        lurking = list(file.lurking) or writer.under_way()
        if lurking and self._rng.random() < 0.8:
            file.write_through(lurking)
        self._lives += 1
        self.directory.mkdir()
        shutil.copyfile(old / FILE_NAME, self.directory / FILE_NAME)
        if (old / WAL).exists():
            shutil.copyfile(old / WAL, self.directory / WAL)
            if _size(old / WAL) > synced:
                self._tear(self.directory / WAL, synced)
        file.close()
        shutil.rmtree(old)

    def _tear(self, wal: Path, synced: int) -> None:
        """Lose some of what had not been synced, or all, or nothing."""
        if self._rng.random() < 0.3:
            return
        size = _size(wal)
        cut = self._rng.randint(synced, size)
        with wal.open("r+b") as handle:
            handle.truncate(cut)
            if self._rng.random() < 0.5:
                handle.seek(cut)
                handle.write(self._rng.randbytes(min(size - cut, 4096)))


class _SimulatedReserve(Reserve):
    """Room that is only counted."""

    disk: Disk | None = None

    def restore(self) -> bool:
        self._there = self._there or self.disk is None or not self.disk.full
        return self._there

    def spare(self) -> bool:
        return self.disk is None or not self.disk.full

    def give_up(self) -> None:
        self._there = False


class FaultyFile(SqliteFile):
    """The data directory, on a disk that fails."""

    reserve_type = _SimulatedReserve

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.lurking: Sequence[Event] = ()
        """Of a commit whose sync failed: perhaps it is on disk, for a crash to find."""
        super().__init__(disk.directory, synchronous="NORMAL")  # syncing is what is simulated
        self._room = cast("_SimulatedReserve", self._reserve)
        self._room.disk = disk

    def _write(self, events: Sequence[Event]) -> None:
        if self._disk.full and self._room.there:
            raise _failure(sqlite3.SQLITE_FULL, "database or disk is full")
        fault = self._disk.fails()
        if fault:
            self.lurking = events if fault == "sync" else ()
            raise _failure(sqlite3.SQLITE_IOERR_WRITE, "disk I/O error")
        super()._write(events)
        self.lurking = ()

    def write_through(self, events: Sequence[Event]) -> None:
        """Write as the last thing before the power goes; it is torn afterwards."""
        super()._write(events)


class VirtualWriter:
    """Commits batch after batch in virtual time; takes the thread's place."""

    def __init__(self, disk: Disk, file: SqliteFile, report: Report) -> None:
        self._disk = disk
        self._commits = Commits(file)
        self._report = report
        self._queue: list[Request] = []
        self._batch: list[Request] = []
        self._task: asyncio.Task[None] | None = None
        self._dead = False

    def submit(self, requests: list[Request]) -> None:
        if self._dead:
            return
        self._queue += requests
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while self._queue:
            self._batch = self._queue[:MAX_BATCH]
            del self._queue[:MAX_BATCH]
            self._disk.reach(BEGUN)
            await asyncio.sleep(self._disk.wait())
            done = list(self._commits.work(self._batch))
            self._batch = []
            self._disk.reach(SYNCED)
            await asyncio.sleep(self._disk.wait())  # nobody knows yet
            for requests, problem in done:
                self._report(requests, problem)
        self._task = None

    def under_way(self) -> list[Event]:
        """End without a word; return the events that were about to be written."""
        self._dead = True
        if self._task is not None:
            self._task.cancel()
        return [event for request in self._batch for event in getattr(request, "events", ())]

    async def stop(self) -> None:
        while self._task is not None:
            await asyncio.wait({self._task})
        self._commits.close()


def _failure(code: int, text: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0

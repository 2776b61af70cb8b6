"""The thread that owns the SQLite file: takes requests in batches, commits, reports back.

While one commit is being synced to disk, requests gather; the next commit takes them all, up to a
bound. Under load the batches grow by themselves, and a lone writer is never made to wait.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol, TypeAlias

import structlog

from bayplan.store.errors import Full, StoreError
from bayplan.store.protocol import Event
from bayplan.store.sqlite_file import SqliteFile, takes_room

log = structlog.get_logger(__name__)

MAX_BATCH = 256  # requests in one commit
WRITING = "writing to disk"


class Write:
    """One transaction on its way to disk.

    `after` are those that it was checked against, on their way too: if one of them is `lost`, this
    is lost as well, because what it saw never happened.
    """

    __slots__ = ("after", "done", "events", "lost", "revision", "rivals")

    def __init__(
        self, revision: int, events: Sequence[Event], after: Collection[Write] = ()
    ) -> None:
        self.revision = revision
        self.events = events
        self.after = after
        self.lost = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Those who lost against this write, in order. Not `done`: its caller may cancel that.
        self.rivals: list[asyncio.Future[None]] = []

    async def settled(self) -> None:
        """Return when this write is on disk or has failed."""
        rival: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.rivals.append(rival)
        await rival

    def wake_rivals(self) -> None:
        """Let those who lost go on, before the writer: else who writes in a loop always wins."""
        for rival in self.rivals:
            if not rival.done():
                rival.set_result(None)


class Compact:
    """A request to compact the file."""

    __slots__ = ("done", "revision")

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Probe:
    """A request to find out whether the file can be written."""

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Undone(StoreError):
    """Nothing of a write was written, as one that it builds on failed: make it again."""


Request: TypeAlias = Write | Compact | Probe
Report: TypeAlias = Callable[[Sequence[Request], StoreError | None], None]


class Commits:
    """What is done to the file, batch after batch, and how each ended: None or what went wrong."""

    def __init__(self, file: SqliteFile) -> None:
        self.file = file

    def work(
        self, requests: Sequence[Request]
    ) -> Iterator[tuple[Sequence[Request], StoreError | None]]:
        """Do the writes in one commit; what else is asked succeeds or fails by itself."""
        writes = [request for request in requests if isinstance(request, Write)]
        if writes:
            yield from self._commit(writes)
        for request in requests:
            if not isinstance(request, Write):
                yield [request], self._maintain(request)

    def close(self) -> None:
        try:
            self.file.close()
        except sqlite3.Error as error:
            log.error("closing the store failed", err=str(error))

    def _commit(
        self, writes: Sequence[Write]
    ) -> Iterator[tuple[Sequence[Write], StoreError | None]]:
        tried = sound(writes)
        problem = self._write(tried)
        refused = [] if problem is None else tried
        if isinstance(problem, Full):
            growing = [write for write in tried if any(map(takes_room, write.events))]
            _lose(growing)
            if self._write(sound(tried)) is None:
                refused = growing
        _lose(refused)
        done = sound(tried)
        told = {*done, *refused}
        if done:
            yield done, None
        if refused:
            log.error("writing the store failed", err=str(problem), requests=len(refused))
            yield refused, problem
        if undone := [write for write in writes if write not in told]:
            yield undone, Undone(f"{WRITING}: a write before it failed")

    def _write(self, writes: Sequence[Write]) -> StoreError | None:
        try:
            if writes:
                self.file.write(list(chain.from_iterable(write.events for write in writes)))
        except (sqlite3.Error, StoreError) as error:
            return _problem(error)
        return None

    def _maintain(self, request: Compact | Probe) -> StoreError | None:
        try:
            if isinstance(request, Compact):
                self.file.compact(request.revision)
            else:
                self.file.probe()
        except (sqlite3.Error, StoreError) as error:
            log.error("the store cannot be written", err=str(error))
            return _problem(error)
        return None


def sound(writes: Iterable[Write]) -> list[Write]:
    """Return the writes of which nothing is lost that they build on."""
    found = []
    for write in writes:
        write.lost = write.lost or any(before.lost for before in write.after)
        if not write.lost:
            found.append(write)
    return found


def _lose(writes: Iterable[Write]) -> None:
    for write in writes:
        write.lost = True


def _problem(error: sqlite3.Error | StoreError) -> StoreError:
    kind = Full if isinstance(error, Full) else StoreError
    return kind(f"{WRITING}: {error}")


class Writing(Protocol):
    """Who brings requests to the file: a thread, or in simulations virtual time."""

    def submit(self, requests: list[Request]) -> None: ...

    async def stop(self) -> None:
        """Finish what was submitted and close the file."""


class Writer:
    """Runs the thread. `report` is called in the event loop with None or what went wrong."""

    def __init__(self, file: SqliteFile, loop: asyncio.AbstractEventLoop, report: Report) -> None:
        self._commits = Commits(file)
        self._loop = loop
        self._report = report
        self._queue: queue.SimpleQueue[list[Request] | None] = queue.SimpleQueue()
        self._stopped = loop.create_future()
        self._thread = threading.Thread(target=self._run, name="bayplan-store", daemon=True)
        self._thread.start()

    def submit(self, requests: list[Request]) -> None:
        self._queue.put(requests)

    async def stop(self) -> None:
        """Finish what was submitted, close the file, end the thread."""
        self._queue.put(None)
        await self._stopped
        self._thread.join()

    def _run(self) -> None:
        requests: list[Request] | None
        while (requests := self._queue.get()) is not None:
            stop = self._gather(requests)
            for at in range(0, len(requests), MAX_BATCH):
                for done, problem in self._commits.work(requests[at : at + MAX_BATCH]):
                    self._tell(self._report, done, problem)
            if stop:
                break
        self._commits.close()
        self._tell(self._stopped.set_result, None)

    def _gather(self, requests: list[Request]) -> bool:
        """Add what has come meanwhile; True when the thread is to end after it."""
        while len(requests) < MAX_BATCH:
            try:
                more = self._queue.get_nowait()
            except queue.Empty:
                return False
            if more is None:
                return True
            requests += more
        return False

    def _tell(self, callback: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            # The loop was closed without closing the store: nobody is left to tell.
            log.debug("the event loop is gone")

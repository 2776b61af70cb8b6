"""The durable store of one process: SQLite is the journal, memory serves the reads.

A write is checked in the event loop against memory and the writes still on their way, takes
its revision, and goes to the one writer thread. That thread takes all that has come meanwhile (at
most 256 requests), commits it as one SQLite transaction and reports back; only then do readers
and watchers see it and the caller returns. So nothing that anybody saw can be lost in a crash,
and the cost of the sync to disk is shared by everyone who waits for it.

A write that loses against one still on its way waits for that one first: a conflict is only
reported against what can be read. Then it comes before whoever won, so nobody loses for ever. When
a commit fails, what builds on it is made again; revisions are skipped, and the store goes on. A
full disk refuses what takes room and commits the rest of a batch.

It does not serve several processes: the directory is locked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from bayplan.store.errors import Conflict, NotFound, StoreError
from bayplan.store.history import MAX_BYTES, MAX_EVENTS, MAX_LAG, History
from bayplan.store.memory import FIRST_REVISION
from bayplan.store.protocol import Delete, Event, FastReads, KeyValue, Op, Put, Store
from bayplan.store.sqlite_file import SEQUENCE_BITS, Loaded, SqliteFile
from bayplan.store.sqlite_writer import (
    Compact,
    Probe,
    Report,
    Request,
    Undone,
    Write,
    Writer,
    Writing,
    sound,
)
from bayplan.store.table import Table, TableStore, build
from bayplan.supervised import to_its_end

MakeWriter = Callable[[SqliteFile, asyncio.AbstractEventLoop, Report], Writing]
MAX_OPS = 1 << SEQUENCE_BITS  # operations in one transaction
COMPACT_EVERY = 10_000  # revisions that fell out of memory before the file is compacted too


class SqliteStore(TableStore):
    """A store in a directory; acknowledged means on disk. Open it with `SqliteStore.open`."""

    def __init__(
        self, file: SqliteFile, loaded: Loaded, history: History, writer: MakeWriter = Writer
    ) -> None:
        super().__init__(Table(history, loaded.items))
        self._next = history.revision + 1
        self._on_disk_compacted = loaded.compacted
        self._loop = asyncio.get_running_loop()
        self._overlay: dict[str, tuple[Event, Write]] = {}  # the newest write on its way, by key
        self._pending: dict[Write, None] = {}  # all of them, in order
        self._batch: list[Request] = []
        self._in_flight = 0
        self._closing: asyncio.Future[None] | None = None
        self._idle: asyncio.Future[None] | None = None
        self._writer = writer(file, self._loop, self._finish)

    @classmethod
    async def open(
        cls,
        directory: Path | str,
        *,
        synchronous: str = "FULL",
        max_events: int = MAX_EVENTS,
        max_bytes: int = MAX_BYTES,
        max_lag: int = MAX_LAG,
    ) -> SqliteStore:
        """Open or create the store in `directory`. Raises `Locked` if a process has it open."""

        def read() -> tuple[SqliteFile, Loaded]:
            file = SqliteFile(Path(directory), synchronous=synchronous)
            try:
                return file, file.load()
            except BaseException:
                file.close()
                raise

        file, loaded = await to_its_end(read, lambda found: found[0].close())
        limits = {"max_events": max_events, "max_bytes": max_bytes, "max_lag": max_lag}
        return cls(file, loaded, past_of(loaded, **limits))

    async def put(self, key: str, value: bytes, *, expect: int | None = None) -> KeyValue:
        return (await self.transact((Put(key, value, expect),)))[0]

    async def delete(self, key: str, *, expect: int | None = None) -> KeyValue:
        return (await self.transact((Delete(key, expect),)))[0]

    async def transact(self, ops: Sequence[Op]) -> list[KeyValue]:
        if len(ops) > MAX_OPS:
            raise StoreError(f"a transaction of {len(ops)} operations; at most {MAX_OPS} fit")
        while True:
            events = await self._built(ops)
            try:
                if events:
                    await self._submit(ops, events)
                return [event.kv for event in events]
            except Undone:
                pass

    async def _built(self, ops: Sequence[Op]) -> list[Event]:
        """Return what the operations change, on top of all that is on its way."""
        while True:
            self._check_open()
            try:
                return build(ops, self._lookup, self._next)
            except (Conflict, NotFound) as error:
                rival = self._overlay.get(error.key)
                if rival is None:
                    raise
            build(ops, self._table.get, self._next)  # lost against what can be read: say so
            # What we lost against cannot be read yet, and may still fail: look again after it.
            await rival[1].settled()

    async def _compact_kept(self, revision: int) -> None:
        if revision > self._on_disk_compacted:
            await asyncio.shield(self._compact_file(revision))

    async def check(self) -> None:
        self._check_open()
        probe = Probe()
        self._enqueue(probe)
        await asyncio.shield(probe.done)

    async def close(self) -> None:
        if self._closing is None:
            self._closed = True
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)  # it goes on, whoever leaves meanwhile

    async def _close(self) -> None:
        if self._in_flight:
            self._idle = self._loop.create_future()
            await self._idle
        await self._writer.stop()
        self._history.close()

    def _lookup(self, key: str) -> KeyValue | None:
        pending = self._overlay.get(key)
        if pending is None:
            return self._table.get(key)
        return None if pending[0].deleted else pending[0].kv

    def _submit(self, ops: Sequence[Op], events: Sequence[Event]) -> asyncio.Future[None]:
        after = [self._overlay[op.key][1] for op in ops if op.key in self._overlay]
        write = Write(self._next, events, after)
        self._pending[write] = None
        self._next += 1
        for event in events:
            self._overlay[event.kv.key] = (event, write)
        self._enqueue(write)
        return write.done

    def _enqueue(self, request: Request) -> None:
        self._in_flight += 1
        self._batch.append(request)
        if len(self._batch) == 1:
            # At the end of this turn of the loop, so that all writes of the turn go together.
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        batch, self._batch = self._batch, []
        self._writer.submit(batch)

    def _finish(self, requests: Sequence[Request], problem: StoreError | None) -> None:
        """Take the writer's report: show what is on disk, wake those who wait."""
        self._in_flight -= len(requests)
        for request in requests:
            if isinstance(request, Write):
                self._finish_write(request, problem)
            _settle(request.done, problem)
        if problem:  # let nothing build on what builds on these
            left = sound(self._pending)
            self._overlay = {event.kv.key: (event, each) for each in left for event in each.events}
        if self._history.compacted - self._on_disk_compacted >= COMPACT_EVERY and not self._closed:
            self._compact_file(self._history.compacted)
        if self._idle is not None and not self._in_flight:
            self._idle.set_result(None)
            self._idle = None

    def _finish_write(self, write: Write, problem: StoreError | None) -> None:
        del self._pending[write]
        write.after = ()
        if not problem:
            self._table.commit(write.revision, write.events)
            self._drop_overlay(write)
        write.wake_rivals()

    def _drop_overlay(self, write: Write) -> None:
        for event in write.events:
            pending = self._overlay.get(event.kv.key)
            if pending is not None and pending[1] is write:
                del self._overlay[event.kv.key]

    def _compact_file(self, revision: int) -> asyncio.Future[None]:
        self._on_disk_compacted = revision
        request = Compact(revision)
        self._enqueue(request)
        return request.done


def past_of(loaded: Loaded, **limits: int) -> History:
    """Return the history that a file tells."""
    revision = max(loaded.revision, FIRST_REVISION)
    history = History(revision=revision, compacted=loaded.compacted, **limits)
    history.record(loaded.events)
    return history


def _settle(done: asyncio.Future[None], problem: StoreError | None) -> None:
    if done.done():
        return  # the caller was cancelled meanwhile
    if problem:
        done.set_exception(type(problem)(str(problem)))  # each waiter gets a traceback of its own
        done.exception()  # nobody has to wait for it
    else:
        done.set_result(None)


def _proof(store: SqliteStore) -> tuple[Store, FastReads]:
    """Let mypy prove that the protocols are met."""
    return store, store

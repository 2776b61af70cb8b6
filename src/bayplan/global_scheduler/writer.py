"""The one writer: steps queue up and are decided and stored in whole batches.

Requests queue up while a batch is being written; then all that wait (up to a limit) are decided one
after another on the table in memory and written in one transaction. So a durable write is shared
by many allocations, and no decision ever sees half of another. When another scheduler was faster,
the batch is undone in memory, its changes are awaited, and the batch is decided again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
import structlog

from bayplan.errors import BayplanError
from bayplan.global_scheduler.ledger import Ledger, Record
from bayplan.store import Conflict, NotFound, StoreError

log = structlog.get_logger(__name__)

BATCH = 64
OPERATIONS = 256
"""Records and fences in one transaction, unless the store takes fewer."""
TRIES = 50
STOP_SECONDS = 5.0
"""How long a batch that is being written may take when the service stops."""
TURN_LOOKS, TURN_PAUSE = 500, 0.01
"""How often and how long to wait for another's turn before it is taken for dead."""
STOPPING = "the scheduler is stopping; ask again in a moment"


class TooWideError(BayplanError):
    """More allocations at once than one transaction takes."""


class UnavailableError(BayplanError):
    """The store does not answer; nothing was changed."""


T = TypeVar("T")
Change = tuple[list[Record], list[Record]]
Step = Callable[[], tuple[T, Change]]


class _Job(msgspec.Struct):
    step: Step[Any]
    done: asyncio.Future[Any]


class _Batch:
    """What one transaction will write, what it answers, and how to take it back."""

    def __init__(self) -> None:
        self.jobs: list[_Job] = []
        self.answers: list[object] = []
        self.puts: list[Record] = []
        self.deletes: list[Record] = []
        self.left: list[_Job] = []
        self.written: set[str] = set()
        self.fences: set[str] = set()
        self.turn = 0
        """The turn under which everything is written, without fences; 0: none."""
        self.wide = False
        """Whether the first step that is left needs a turn."""
        self.undo: list[tuple[Record, bool]] = []


class Writer:
    """Runs steps on the ledger's table and stores what they change."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        name: str,
        operations: int,
        pause: Callable[[float], Awaitable[None]],
    ) -> None:
        self.ledger = ledger
        self._name = name
        self._pause = pause
        self._operations = operations
        self._jobs: asyncio.Queue[_Job] = asyncio.Queue()
        self._writing: list[_Job] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._open = True

    @property
    def waiting(self) -> int:
        """How many steps wait for the batch that is being written."""
        return self._jobs.qsize()

    async def refuse(self, patience: float) -> None:
        """Finish what is being written within `patience`, refuse what waits."""
        self._open = False
        waiting = [self._jobs.get_nowait() for _ in range(self._jobs.qsize())]
        _fail(waiting, UnavailableError(STOPPING))
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._idle.wait()

    def give_up(self) -> None:
        """Answer what the store did not take in time; call when nothing works any more."""
        _fail(self._writing, UnavailableError(f"{STOPPING} and the store did not answer"))

    async def do(self, step: Step[T]) -> T:
        """Run a step and wait until what it changed is stored."""
        if not self._open:
            raise UnavailableError(STOPPING)
        job = _Job(step, asyncio.get_running_loop().create_future())
        self._jobs.put_nowait(job)
        answer: T = await job.done
        return answer

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            jobs = [await self._jobs.get()]
            self._idle.clear()
            while len(jobs) < BATCH and not self._jobs.empty():
                jobs.append(self._jobs.get_nowait())
            self._writing = jobs
            while jobs:
                try:
                    jobs = await self._write(jobs)
                except Exception as cause:  # the writer must live on for the other requests
                    log.exception("writing a batch failed")
                    _fail(jobs, UnavailableError(f"writing failed: {cause}"))
                    jobs = []
            self._writing = []
            self._idle.set()

    async def _write(self, jobs: list[_Job]) -> list[_Job]:
        """Decide and store as many jobs as one transaction takes; returns those left over."""
        for attempt in range(TRIES):
            batch = _Batch()
            try:
                await self._wait_turn()
                batch = self._run(jobs)
                if batch.wide and not batch.jobs:
                    turn = await self._take_turn()
                    batch = self._run(jobs, turn=turn)
                if batch.puts or batch.deletes:
                    await self.ledger.write(
                        batch.puts, batch.deletes, self._name, turn=batch.turn > 0
                    )
                elif batch.turn:
                    await self.ledger.end_turn(batch.turn)
            except (Conflict, NotFound) as lost:
                self._undo(batch)
                if batch.turn:
                    with suppress(StoreError):
                        await self.ledger.end_turn(batch.turn)
                await self._catch_up(lost, attempt)
                continue
            except StoreError as cause:
                self._undo(batch)
                _fail(batch.jobs or jobs, UnavailableError(f"the store did not take it: {cause}"))
                return [job for job in jobs if not job.done.done()]
            except BaseException:
                self._undo(batch)
                raise
            for job, record in zip(batch.jobs, batch.answers, strict=True):
                if not job.done.done():
                    job.done.set_result(record)
            return batch.left
        _fail(jobs, UnavailableError(f"other schedulers were faster {TRIES} times; try again"))
        return []

    async def _wait_turn(self) -> None:
        """While another writes something wide, wait; end its turn when it does not."""
        looks, turn = 0, 0
        while self.ledger.turn_taken:
            if self.ledger.turn_revision != turn:
                looks, turn = 0, self.ledger.turn_revision
            if looks == TURN_LOOKS:
                log.warning("ending the turn of a scheduler that is gone")
                await self.ledger.end_turn(turn)
                return
            looks += 1
            await self._pause(TURN_PAUSE)

    async def _take_turn(self) -> int:
        """Keep all others from writing, and wait for what they wrote."""
        revision = await self.ledger.take_turn()
        for _ in range(TURN_LOOKS):
            if self.ledger.seen >= revision:
                return revision
            await self._pause(TURN_PAUSE)
        await self.ledger.end_turn(revision)
        raise StoreError("what others wrote did not arrive")

    def _run(self, jobs: list[_Job], *, turn: int = 0) -> _Batch:
        """Run steps on the table in memory, until one transaction is full."""
        batch = _Batch()
        batch.turn = turn
        for number, job in enumerate(jobs):
            if job.done.done():
                continue
            try:
                record, change = job.step()
                if not self._add(batch, change):
                    batch.left = jobs[number:]
                    break
            except BayplanError as problem:
                job.done.set_exception(problem)
                continue
            batch.jobs.append(job)
            batch.answers.append(record)
        return batch

    def _add(self, batch: _Batch, change: Change) -> bool:
        """Apply a change and make it part of the batch; False when it must wait for the next."""
        new, gone = change
        keys = {record.id for record in (*new, *gone)}
        if keys & batch.written:
            return False  # a key can be written once in a transaction
        fenced = [] if batch.turn else new
        fences = set().union(*(self.ledger.fences_of(record) for record in fenced))
        operations = 1 + len(batch.written | keys) + len(batch.fences | fences)  # 1: the turn
        if operations > self._operations:
            if not batch.written and 1 + len(keys) > self._operations:
                raise TooWideError(
                    f"{len(keys)} allocations change together; this store takes "
                    f"{self._operations - 1} in one transaction: ask for fewer at once"
                )
            batch.wide = True
            return False
        batch.written |= keys
        batch.fences |= fences
        batch.puts += new
        batch.deletes += gone
        for record in keys:
            if (old := self.ledger.records.get(record)) is not None:
                self.ledger.unapply(old)
                batch.undo.append((old, True))
        for fresh in new:
            self.ledger.apply(fresh)
            batch.undo.append((fresh, False))
        return True

    def _undo(self, batch: _Batch) -> None:
        """Take a batch back, except what the store has told about in the meantime."""
        for record, was_there in reversed(batch.undo):
            if was_there:
                # a store that failed may have done the work all the same: then it is gone
                if record.id not in self.ledger.records and self.ledger.is_stored(record):
                    self.ledger.apply(record)
            elif self.ledger.records.get(record.id) is record:
                self.ledger.unapply(record)

    async def _catch_up(self, lost: Conflict | NotFound, attempt: int) -> None:
        """Wait until what the other scheduler wrote has arrived here."""
        current = lost.current if isinstance(lost, Conflict) else None
        behind = current.mod_revision if current is not None else 0
        for _ in range(1000):
            if self.ledger.seen >= behind:
                break
            await self._pause(0.001)
        await self._pause(min(0.0005 * 2**attempt, 0.05))


def _fail(jobs: list[_Job], problem: BayplanError) -> None:
    for job in jobs:
        if not job.done.done():
            job.done.set_exception(problem)

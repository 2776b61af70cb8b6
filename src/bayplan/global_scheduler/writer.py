"""The one writer: steps queue up and are decided and stored in whole batches.

Requests queue up while a batch is being written; then all that wait (up to a limit) are decided one
after another on the table in memory and written in one transaction. So a durable write is shared
by many allocations, and no decision ever sees half of another. A scheduler that is alone does not
wait for the disk: what comes while a batch is being written is decided on top of it, and written
next; it is decided again if that batch fails. Where other schedulers write too, a batch is staged
first (see `ledger`): what they were faster with is decided again, the rest stands.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
import structlog

from bayplan.errors import BayplanError
from bayplan.global_scheduler.ledger import STAGED, TAKING, Group, Ledger, Record
from bayplan.store import Conflict, NotFound, Op, Put, StoreError

log = structlog.get_logger(__name__)

BATCH = 64
OPERATIONS = 256
"""Records in one transaction, unless the store takes fewer."""
MAX_BYTES = 500_000
"""Of a batch, if it has more than one change."""
TRIES = 50
STOP_SECONDS = 5.0
"""How long a batch that is being written may take when the service stops."""
STAGE_SECONDS = 5.0
"""How long what others wrote may take to arrive."""
STAGE_LOOKS = 12
"""How often the stage of another is found waiting before its writer is taken for dead."""
REFUSALS = 20
"""How often a request is refused while others have something staged, before it is told so."""
CROWDED = 50
"""How many batches are staged after another scheduler was met."""
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
    again: int = 0
    """How often it was refused while others had something staged."""


class _Entry(msgspec.Struct):
    """What one step changes, what it answers, and how to take it back."""

    job: _Job
    answer: object
    ops: list[Op]
    undo: list[tuple[Record, bool]]
    fresh: list[tuple[Record, list[Group]]]
    """What is taken anew."""


class Known(msgspec.Struct, frozen=True):
    """What a batch knew of others when it was decided."""

    others: int
    closed: frozenset[str]
    mark: int
    """Where the key was that is moved with everything taken."""
    table: tuple[int, int]
    """Which table, and which change of it."""


Judge = Callable[[Record, list[Group], Known], bool]


class _Batch:
    """What one transaction will write."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.entries: list[_Entry] = []
        self.refused: list[tuple[_Job, BayplanError]] = []
        """Who is told no, unless the batch before this one fails."""
        self.jobs: list[_Job] = []
        self.left: list[_Job] = []
        self.keys: set[str] = set()
        self.under_way: set[str] = set()
        """Of the batch before this one, when it is not stored yet."""
        self.size = 0

    @property
    def ops(self) -> list[Op]:
        return [op for entry in self.entries for op in entry.ops]


class Writer:
    """Runs steps on the ledger's table and stores what they change."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        name: str,
        operations: int,
        pause: Callable[[float], Awaitable[None]],
        holds: Judge,
        new_id: Callable[[], str],
        crowded: int = 0,
    ) -> None:
        """`holds` says whether what a record takes anew is still right; `crowded`: see CROWDED."""
        self._new_id = new_id
        self._holds = holds
        self._crowded = crowded
        self.ledger = ledger
        self._name = name
        self._pause = pause
        self._operations = operations
        self._jobs: asyncio.Queue[_Job] = asyncio.Queue()
        self._writing: list[_Job] = []
        self._storing: _Batch | None = None
        """The batch that is being written, if others may be decided on top of it."""
        self._ahead: _Batch | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._open = True

    @property
    def waiting(self) -> int:
        """How many steps wait for the batch that is being written."""
        return self._jobs.qsize() + (len(self._ahead.jobs) if self._ahead is not None else 0)

    async def refuse(self, patience: float) -> None:
        """Finish what is being written within `patience`, refuse what waits."""
        self._open = False
        waiting = self._forget_ahead() + self._waiting(self._jobs.qsize())
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
        if self._storing is not None:
            asyncio.get_running_loop().call_soon(self._look_ahead)
        answer: T = await job.done
        return answer

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            jobs = [await self._jobs.get()]
            self._idle.clear()
            jobs += self._waiting(BATCH - 1)
            self._writing = list(jobs)
            while jobs:
                try:
                    jobs = await self._write(jobs)
                except Exception as cause:  # the writer must live on for the other requests
                    log.exception("writing a batch failed")
                    _fail(self._writing, UnavailableError(f"writing failed: {cause}"))
                    jobs = []
            self._writing = []
            self._idle.set()

    def _waiting(self, most: int) -> list[_Job]:
        return [self._jobs.get_nowait() for _ in range(min(most, self._jobs.qsize()))]

    def _look_ahead(self) -> None:
        """Decide what waits on top of the batch that is being written."""
        if self._storing is None or self._jobs.empty():
            return
        if self._ahead is None:
            self._ahead = self._begin()
            self._ahead.under_way = self._storing.keys
        batch = self._ahead
        if batch.left:
            return
        jobs = self._waiting(BATCH - len(batch.jobs))
        self._writing += jobs
        self._run(batch, jobs)

    def _forget_ahead(self) -> list[_Job]:
        """Take back what was decided ahead; returns its jobs."""
        batch, self._ahead = self._ahead, None
        if batch is None:
            return []
        self._undo(batch.entries)
        return batch.jobs

    async def _write(self, jobs: list[_Job]) -> list[_Job]:
        """Decide and store as many jobs as one transaction takes; returns those left over."""
        for attempt in range(TRIES):
            batch = self._decide(jobs)
            try:
                await self._store(batch)
            except (Conflict, NotFound) as lost:
                jobs = jobs + self._forget_ahead()
                self._undo(batch.entries)
                await self._catch_up(lost, attempt)
                continue
            except StoreError as cause:
                jobs = jobs + self._forget_ahead()
                self._undo(batch.entries)
                tried = [entry.job for entry in batch.entries]
                _fail(tried or jobs, UnavailableError(f"the store did not take it: {cause}"))
                return [job for job in jobs if not job.done.done()]
            except BaseException:
                self._forget_ahead()
                self._undo(batch.entries)
                raise
            for entry in batch.entries:
                if not entry.job.done.done():
                    entry.job.done.set_result(entry.answer)
            if self._ahead is not None:
                return self._ahead.jobs
            if batch.entries or not batch.left:
                return batch.left
            await self._pause(_backoff(attempt))
        _fail(jobs, UnavailableError(f"other schedulers were faster {TRIES} times; try again"))
        return []

    async def _store(self, batch: _Batch) -> None:
        """Store a batch, at once or after a stage; what no longer holds goes to what is left."""
        ops = batch.ops
        taking = any(entry.fresh for entry in batch.entries)
        if not ops:
            return
        if self.ledger.staged:
            self._crowded = CROWDED
        if not taking or not self._crowded:
            try:
                return await self._write_alone(batch, taking=taking)
            except Conflict as lost:
                if lost.key != TAKING or self._ahead is not None:
                    raise
                self._crowded = CROWDED
        self._crowded -= 1
        await self._stage(batch)

    async def _write_alone(self, batch: _Batch, *, taking: bool) -> None:
        """Store a batch; what comes meanwhile is decided on top of it."""
        if not self._crowded and not batch.left:
            self._storing = batch
            asyncio.get_running_loop().call_soon(self._look_ahead)
        try:
            written = await self.ledger.write(batch.ops, taking=taking)
        finally:
            self._storing = None
        if self._ahead is not None and taking:
            self._ahead.known = msgspec.structs.replace(self._ahead.known, mark=written)

    async def _stage(self, batch: _Batch) -> None:
        """Stage a batch; when all that came before has arrived, write what still holds."""
        arrived = asyncio.Event()
        lost: list[_Entry] = []

        def judge() -> None:
            lost.extend(self._no_longer_right(batch))
            arrived.set()

        key = f"{STAGED}{self._name}/{self._new_id()}"
        revision = await self.ledger.stage(key, batch.ops, judge)
        try:
            async with asyncio.timeout(STAGE_SECONDS):
                await arrived.wait()
            await self.ledger.write_staged(key, revision, batch.ops)
        except TimeoutError:
            await self.ledger.unstage(key, revision)
            raise StoreError("what others wrote did not arrive") from None
        except StoreError:
            with suppress(StoreError):
                await self.ledger.unstage(key, revision)
            raise
        batch.left = [entry.job for entry in lost] + batch.left

    def _no_longer_right(self, batch: _Batch) -> list[_Entry]:
        """Take back the entries that others have made impossible.

        With them go those that change nothing: they may have answered what is taken back.
        """
        lost = []
        for entry in batch.entries:
            if not all(self._holds(record, new, batch.known) for record, new in entry.fresh):
                self._undo([entry])
                lost.append(entry)
        if lost:
            lost += [entry for entry in batch.entries if not entry.ops]
        gone = {id(entry) for entry in lost}
        batch.entries = [entry for entry in batch.entries if id(entry) not in gone]
        self.ledger.conflicts += len(lost)
        return lost

    async def sweep(self) -> None:
        """Remove the stages of schedulers that are gone; call every half second."""
        for key, held in list(self.ledger.staged.items()):
            held.looks += 1
            if held.looks > STAGE_LOOKS:
                log.warning("removing what a scheduler that is gone had staged", stage=key)
                await self.ledger.unstage(key, held.revision)

    def _begin(self) -> _Batch:
        ledger = self.ledger
        table = (id(ledger.table), ledger.table.epoch)
        return _Batch(Known(ledger.others, frozenset(ledger.closed), ledger.mark, table))

    def _decide(self, jobs: list[_Job]) -> _Batch:
        """The batch that was decided ahead, if nobody else wrote since; or a new one."""
        batch, new = self._ahead, self._begin()
        if batch is not None and batch.jobs is jobs and batch.known == new.known:
            self._ahead = None
        else:
            self._forget_ahead()
            batch = new
            self._run(batch, jobs)
        for job, problem in batch.refused:
            if not job.done.done():
                job.done.set_exception(problem)
        return batch

    def _run(self, batch: _Batch, jobs: list[_Job]) -> None:
        """Run steps on the table in memory, until one transaction is full.

        What others have staged may still be withdrawn, and what replaces something counts twice:
        who is refused meanwhile is tried again.
        """
        refused: list[_Job] = []
        batch.jobs += jobs
        for number, job in enumerate(jobs):
            if job.done.done():
                continue
            try:
                answer, change = job.step()
                entry = self._add(batch, job, answer, change)
            except BayplanError as problem:
                if self.ledger.staged and job.again < REFUSALS:
                    job.again += 1
                    refused.append(job)
                else:
                    batch.refused.append((job, problem))
                continue
            except Exception as cause:  # of this request only: the others are decided already
                log.exception("deciding failed")
                _fail([job], UnavailableError(f"deciding failed: {cause}"))
                continue
            if entry is None:
                batch.left = jobs[number:]
                break
            batch.entries.append(entry)
        batch.left = refused + batch.left

    def _add(self, batch: _Batch, job: _Job, answer: object, change: Change) -> _Entry | None:
        """Apply a change and make it part of the batch; None when it must wait for the next."""
        new, gone = change
        keys = {record.id for record in (*new, *gone)}
        if keys & batch.keys or keys & batch.under_way:
            return None  # a key can be written once in a transaction
        if 1 + len(keys) > self._operations:  # 1: the stage, or the key that is moved
            raise TooWideError(
                f"{len(keys)} allocations change together; this store takes "
                f"{self._operations - 1} in one transaction: ask for fewer at once"
            )
        ops = self.ledger.operations(new, gone)
        size = sum(len(op.value) for op in ops if isinstance(op, Put))
        full = 1 + len(batch.keys) + len(keys) > self._operations
        if full or (batch.keys and batch.size + size > MAX_BYTES):
            return None
        batch.keys |= keys
        batch.size += size
        entry = _Entry(job, answer, ops, [], [])
        before: set[int] = set()
        for identity in keys:
            if (old := self.ledger.records.get(identity)) is not None:
                self.ledger.unapply(old)
                entry.undo.append((old, True))
                before.update(map(id, old.groups))
        for record in new:
            self.ledger.apply(record)
            entry.undo.append((record, False))
            if more := [group for group in record.groups if id(group) not in before]:
                entry.fresh.append((record, more))
        return entry

    def _undo(self, entries: list[_Entry]) -> None:
        """Take entries back, except what the store has told about in the meantime."""
        for record, was_there in (one for entry in reversed(entries) for one in entry.undo[::-1]):
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
        await self._pause(_backoff(attempt))


def _backoff(attempt: int) -> float:
    return min(0.0005 * 2.0**attempt, 0.05)


def _fail(jobs: list[_Job], problem: BayplanError) -> None:
    for job in jobs:
        if not job.done.done():
            job.done.set_exception(problem)

"""Allocations as users see them: reserve, commit, release, look up; one writer, whole batches.

Requests queue up while a batch is being written; then all that wait (up to a limit) are decided one
after another on the table in memory and written in one transaction. So a durable write is shared
by many allocations, and no decision ever sees half of another. When another scheduler was faster,
the batch is undone in memory, its changes are awaited, and the batch is decided again.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
import structlog

from bayplan.errors import BayplanError
from bayplan.global_scheduler.inventory import Inventory
from bayplan.global_scheduler.ledger import (
    COMMITTED,
    RESERVED,
    Group,
    Ledger,
    PlacedResource,
    Record,
    Selected,
)
from bayplan.global_scheduler.placer import NoSite, Placement, Placer
from bayplan.global_scheduler.stack import Allocation
from bayplan.global_scheduler.supervise import keep
from bayplan.global_scheduler.table import SiteTable
from bayplan.global_scheduler.why import Why, explain
from bayplan.store import Compacted, Conflict, NotFound, Store, StoreError

log = structlog.get_logger(__name__)

BATCH = 64
OPERATIONS = 256
"""Records and fences in one transaction, unless the store takes fewer."""
TRIES = 50
STOP_SECONDS = 5.0
"""How long a batch that is being written may take when the service stops."""
STOPPING = "the scheduler is stopping; ask again in a moment"


class NoSiteError(BayplanError):
    """No placement was found; `why` has the reasons by site."""

    def __init__(self, why: NoSite) -> None:
        super().__init__(why.message)
        self.why = why


class ConflictError(BayplanError):
    """The request contradicts what is stored."""


class TooWideError(BayplanError):
    """The allocation spreads over more sites than the store can fence at once."""


class NotFoundError(BayplanError):
    """There is no such allocation."""


class UnavailableError(BayplanError):
    """The store does not answer; nothing was changed."""


Change = tuple[list[Record], list[Record]]
Step = Callable[[], tuple[Record, Change]]


class _Job(msgspec.Struct):
    step: Step
    done: asyncio.Future[Record]


class _Batch:
    """What one transaction will write, what it answers, and how to take it back."""

    def __init__(self) -> None:
        self.jobs: list[_Job] = []
        self.answers: list[Record] = []
        self.puts: list[Record] = []
        self.deletes: list[Record] = []
        self.left: list[_Job] = []
        self.written: set[str] = set()
        self.fences: set[str] = set()
        self.undo: list[tuple[Record, bool]] = []


class Allocations:
    """The service behind the HTTP API and the API server's resources."""

    def __init__(
        self,
        store: Store,
        inventory: Inventory,
        placer: Placer,
        *,
        clock: Callable[[], float],
        name: str = "bayplan",
        operations: int = OPERATIONS,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.ledger = Ledger(store, SiteTable(inventory))
        self.placer = placer
        self.name = name
        self.decided = 0
        self.refused = 0
        self._store = store
        self._clock = clock
        self._pause = pause
        self._operations = operations
        self._jobs: asyncio.Queue[_Job] = asyncio.Queue()
        self._writing: list[_Job] = []
        self._idle = asyncio.Event()
        self._open = True
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Load what is stored and begin to work."""
        await self.ledger.load()
        self._idle.set()
        for name, work in (
            ("following the store", self._follow),
            ("writing allocations", self._write_batches),
            ("expiring reservations", self._expire),
        ):
            self._tasks.append(asyncio.create_task(keep(name, work, pause=self._pause)))

    async def stop(self) -> None:
        """Finish what is being written, refuse what waits, end all work."""
        self._open = False
        waiting = [self._jobs.get_nowait() for _ in range(self._jobs.qsize())]
        _fail(waiting, UnavailableError(STOPPING))
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self._idle.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        _fail(self._writing, UnavailableError(f"{STOPPING} and the store did not answer"))
        self._tasks.clear()

    @property
    def table(self) -> SiteTable:
        return self.ledger.table

    def replace_inventory(self, inventory: Inventory) -> None:
        """Take over a new inventory between two decisions."""
        self.ledger.replace_table(SiteTable(inventory))

    def explain(self, allocation: Allocation) -> Why:
        """Tell why an allocation would be placed now, or not."""
        return explain(self.placer, self.table, allocation)

    def explain_placed(self, identity: str) -> Why:
        """The same for one that is placed, as if it were not."""
        record = self.get(identity)
        for group in record.groups:
            self.table.apply(group.charges, -1)
        try:
            return self.explain(record.allocation)
        finally:
            for group in record.groups:
                self.table.apply(group.charges)

    def dry_run(self, allocation: Allocation) -> Record:
        """Decide without reserving anything."""
        return self._decide(allocation, "", "", 0.0)

    async def create(
        self,
        allocation: Allocation,
        *,
        key: str = "",
        fingerprint: str = "",
        ttl: float = 0.0,
    ) -> Record:
        """Place and store an allocation; with `ttl` it is only reserved until committed.

        The same id (or idempotency key) with the same request gives the stored answer again.
        """

        def step() -> tuple[Record, Change]:
            known = self.ledger.by_key.get(key, "") if key else ""
            old = self.ledger.records.get(known or allocation.id)
            if old is not None:
                if old.fingerprint != fingerprint:
                    what = "idempotency key" if known else "id"
                    raise ConflictError(f"this {what} was used for a different request")
                return old, ([], [])
            record = self._decide(allocation, key, fingerprint, ttl)
            return record, ([record], [])

        return await self._do(step)

    async def commit(self, identity: str) -> Record:
        """Keep a reserved allocation for good."""

        def step() -> tuple[Record, Change]:
            old = self.get(identity)
            if old.state == COMMITTED:
                return old, ([], [])
            new = msgspec.structs.replace(old, state=COMMITTED, expires=0.0)
            return new, ([new], [])

        return await self._do(step)

    async def release(self, identity: str, *, expired_at: float | None = None) -> Record:
        """Give back all that an allocation holds.

        With `expired_at` only a reservation whose time is over by then goes; one that was
        committed since the caller looked stays, and is returned as it is.
        """

        def step() -> tuple[Record, Change]:
            old = self.get(identity)
            if expired_at is not None and not _expired(old, expired_at):
                return old, ([], [])
            return old, ([], [old])

        return await self._do(step)

    def get(self, identity: str) -> Record:
        record = self.ledger.records.get(identity)
        if record is None:
            raise NotFoundError(f'there is no allocation "{identity}"')
        return record

    def _decide(self, allocation: Allocation, key: str, fingerprint: str, ttl: float) -> Record:
        found = self.placer.decide(self.table, allocation)
        if isinstance(found, NoSite):
            self.refused += 1
            raise NoSiteError(found)
        self.decided += 1
        now = self._clock()
        return Record(
            id=allocation.id,
            allocation=allocation,
            groups=tuple(self._group(allocation, placement) for placement in found),
            created=now,
            state=RESERVED if ttl else COMMITTED,
            expires=now + ttl if ttl else 0.0,
            key=key,
            fingerprint=fingerprint,
            owner=self.name,
        )

    def _group(self, allocation: Allocation, placement: Placement) -> Group:
        site = self.table.sites[placement.row]
        return Group(
            name=allocation.stack.name,
            resources=tuple(
                PlacedResource(resource.name, flavor, resource.count)
                for resource, flavor in zip(
                    allocation.stack.resources, placement.flavors, strict=True
                )
            ),
            selected=Selected(site.id, site.region, site.zone, site.cluster),
            charges=placement.charges,
        )

    async def _do(self, step: Step) -> Record:
        if not self._open:
            raise UnavailableError(STOPPING)
        job = _Job(step, asyncio.get_running_loop().create_future())
        self._jobs.put_nowait(job)
        return await job.done

    async def _write_batches(self) -> None:
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
            batch = self._run(jobs)
            try:
                if batch.puts or batch.deletes:
                    await self.ledger.write(batch.puts, batch.deletes, self.name)
            except (Conflict, NotFound) as lost:
                self._undo(batch)
                await self._catch_up(lost, attempt)
                continue
            except StoreError as cause:
                self._undo(batch)
                _fail(batch.jobs, UnavailableError(f"the store did not take it: {cause}"))
                return batch.left
            except BaseException:
                self._undo(batch)
                raise
            for job, record in zip(batch.jobs, batch.answers, strict=True):
                if not job.done.done():
                    job.done.set_result(record)
            return batch.left
        _fail(jobs, UnavailableError(f"other schedulers were faster {TRIES} times; try again"))
        return []

    def _run(self, jobs: list[_Job]) -> _Batch:
        """Run steps on the table in memory, until one transaction is full."""
        batch = _Batch()
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
        fences = set().union(*(self.ledger.fences_of(record) for record in new))
        operations = len(batch.written | keys) + len(batch.fences | fences)
        if operations > self._operations and batch.written:
            return False
        if operations > self._operations:
            raise TooWideError(
                f"the allocation touches {len(fences)} places and address pools; this store takes "
                f"{self._operations - 1} in one transaction: ask for fewer replicas at once"
            )
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

    async def _follow(self) -> None:
        while True:
            try:
                await self.ledger.follow()
            except Compacted:
                await self.ledger.load()
            await self._pause(0.5)

    async def _expire(self) -> None:
        """Release reservations whose time is over."""
        while True:
            await self._pause(0.5)
            now = self._clock()
            for record in list(self.ledger.records.values()):
                if _expired(record, now):
                    with suppress(NotFoundError, UnavailableError):
                        gone = await self.release(record.id, expired_at=now)
                        if gone.state == RESERVED:
                            log.info("reservation expired", allocation=record.id)


def _expired(record: Record, now: float) -> bool:
    return record.state == RESERVED and record.expires <= now


def _fail(jobs: list[_Job], problem: BayplanError) -> None:
    for job in jobs:
        if not job.done.done():
            job.done.set_exception(problem)


def fingerprint(allocation: Allocation) -> str:
    """Equal for equal requests, whatever their id."""
    body = msgspec.json.encode(msgspec.structs.replace(allocation, id=""), order="sorted")
    return hashlib.sha256(body).hexdigest()

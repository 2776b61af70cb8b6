"""Allocations as users see them: reserve, commit, release, resize, move, look up.

Everything that changes something is a step that the writer runs (see `writer`): it reads the ledger
and the table as they are then, and returns its answer with the records to store and to delete.
"""

import asyncio
import hashlib
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec
import structlog

from bayplan.errors import BayplanError
from bayplan.global_scheduler.inventory import Inventory
from bayplan.global_scheduler.layout import Placement
from bayplan.global_scheduler.ledger import (
    COMMITTED,
    RESERVED,
    Group,
    Ledger,
    Record,
    charge_record,
)
from bayplan.global_scheduler.operations import group_of, grown, moved, shrunk, with_event
from bayplan.global_scheduler.placer import NoSite, Placer
from bayplan.global_scheduler.preempt import preempt
from bayplan.global_scheduler.quotas import QuotaError, usage
from bayplan.global_scheduler.quotas import check as check_quota
from bayplan.global_scheduler.rebalance import Plan, make_plan
from bayplan.global_scheduler.request import MAX_REPLICAS
from bayplan.global_scheduler.stack import Allocation
from bayplan.global_scheduler.supervise import keep
from bayplan.global_scheduler.table import SiteTable
from bayplan.global_scheduler.whatif import Answer, Question, what_if
from bayplan.global_scheduler.why import Why, explain
from bayplan.global_scheduler.writer import (
    OPERATIONS,
    STOP_SECONDS,
    Change,
    Known,
    UnavailableError,
    Writer,
)
from bayplan.store import Compacted, Store, StoreError
from bayplan.words import plural

log = structlog.get_logger(__name__)


class NoSiteError(BayplanError):
    """No placement was found; `why` has the reasons by site."""

    def __init__(self, why: NoSite) -> None:
        super().__init__(why.message)
        self.why = why


class ConflictError(BayplanError):
    """The request contradicts what is stored."""


class NotFoundError(BayplanError):
    """There is no such allocation."""


async def _no_pods(record: Record) -> None:
    raise ConflictError("the allocation belongs to a pod, and no API server is connected")


def random_id() -> str:
    """A name that nobody else has drawn."""
    return str(uuid.uuid4())


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
        new_id: Callable[[], str] = random_id,
        crowded: int = 0,
    ) -> None:
        self.inventory = inventory
        self.ledger = Ledger(store, SiteTable(inventory))
        self.placer = placer
        self.name = name
        self.decided = 0
        self.refused = 0
        self._store = store
        self._clock = clock
        self._pause = pause
        self.writer = Writer(
            self.ledger,
            name=name,
            operations=operations,
            pause=pause,
            holds=self._still_holds,
            new_id=new_id,
            crowded=crowded,
        )
        self._tasks: list[asyncio.Task[None]] = []
        self.evict: Callable[[Record], Awaitable[None]] = _no_pods
        """Has the pod of a record go, for its owner to make it again; raises when it stays."""

    async def start(self) -> None:
        """Load what is stored and begin to work."""
        await self.ledger.load()
        for name, work in (
            ("following the store", self._follow),
            ("writing allocations", self.writer.run),
            ("expiring reservations", self._expire),
        ):
            self._tasks.append(asyncio.create_task(keep(name, work, pause=self._pause)))

    async def stop(self, patience: float = STOP_SECONDS) -> None:
        """Finish what is being written within `patience`, refuse what waits, end all work."""
        await self.writer.refuse(patience)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.writer.give_up()
        self._tasks.clear()

    @property
    def table(self) -> SiteTable:
        return self.ledger.table

    def replace_inventory(self, inventory: Inventory) -> None:
        """Take over a new inventory between two decisions."""
        if not self.ledger.adjust_table(self.inventory, inventory):
            self.ledger.replace_table(SiteTable(inventory))
        self.inventory = inventory

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

    async def what_if(self, question: Question) -> Answer:
        """Tell what would become of all allocations; nothing is changed, and nobody waits."""
        records = list(self.ledger.records.values())
        return await asyncio.to_thread(what_if, self.placer, self.inventory, records, question)

    async def plan(self, most: int) -> Plan:
        """Moves that even out what sites have left; nothing is changed, and nobody waits."""
        records, closed = list(self.ledger.records.values()), list(self.ledger.closed)
        return await asyncio.to_thread(
            make_plan, self.placer, self.inventory, records, closed, most
        )

    def dry_run(self, allocation: Allocation) -> Record:
        """Decide without reserving anything."""
        return self._decide(allocation, "", "", 0.0)[0]

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
            record, victims = self._decide(allocation, key, fingerprint, ttl)
            return record, ([record], victims)

        return await self.writer.do(step)

    async def create_all(self, allocations: Sequence[Allocation]) -> list[Record]:
        """Place several allocations together: all of them, or none."""

        def step() -> tuple[list[Record], Change]:
            placed: list[Record] = []
            gone: list[Record] = []
            try:
                for allocation in allocations:
                    if allocation.id in self.ledger.records:
                        raise ConflictError(f'the id "{allocation.id}" is in use')
                    print_ = fingerprint(allocation)
                    spared = {record.id for record in placed}
                    record, victims = self._decide(allocation, "", print_, 0.0, spared)
                    for victim in victims:
                        self.ledger.unapply(victim)
                    gone += victims
                    self.ledger.apply(record)
                    placed.append(record)
            finally:
                for record in placed:
                    self.ledger.unapply(record)
                for victim in gone:
                    self.ledger.apply(victim)
            return placed, (placed, gone)

        return await self.writer.do(step)

    async def resize(self, identity: str, replicas: int) -> Record:
        """Give an allocation more or fewer replicas; those that stay are not moved."""

        def step() -> tuple[Record, Change]:
            old = self._own(identity)
            before = len(old.groups)
            if replicas == before:
                return old, ([], [])
            most = MAX_REPLICAS // len(old.allocation.stack.resources)
            if replicas > most:
                raise ConflictError(f"of its resources at most {plural(most, 'replica')} fit")
            apart = old.allocation.selector.spread
            least = max(apart.min_sites, apart.min_zones, apart.min_regions)
            if replicas < least:
                raise ConflictError(f"the spread asks for at least {plural(least, 'replica')}")
            new: Record | NoSite = shrunk(old, replicas)
            if replicas > before:
                new = grown(self.placer, self.table, old, replicas)
            if isinstance(new, NoSite):
                self.refused += 1
                raise NoSiteError(new)
            self._check_quota(new, old)
            new = with_event(
                new, self._clock(), f"resized from {before} to {plural(replicas, 'replica')}"
            )
            return new, ([new], [])

        return await self.writer.do(step)

    async def move(
        self,
        identity: str,
        leave: Collection[str],
        why: str = "",
        *,
        to: str = "",
        most: int | None = None,
    ) -> Record:
        """Place the replicas on these sites elsewhere, as many as fit; raises when none does.

        With `most` only that many of them, and with `to` on that site.
        """

        def step() -> tuple[Record, Change]:
            old = self._own(identity, moving=True)
            new, refused = moved(self.placer, self.table, old, leave, to=to, most=most)
            if new.groups == old.groups:
                if refused is not None:
                    raise NoSiteError(refused)
                return old, ([], [])
            new = with_event(new, self._clock(), _told(old, new, why))
            return new, ([new], [])

        return await self.writer.do(step)

    def _own(self, identity: str, *, moving: bool = False) -> Record:
        """An allocation that may be changed (or at least moved) here."""
        record = self.get(identity)
        if record.of_object and not (moving and record.movable):
            owner = record.key.partition("/")[0]
            raise ConflictError(f"the allocation belongs to an object of {owner}; change that one")
        return record

    def why_not_elsewhere(self, record: Record, site: str) -> NoSite | None:
        """Why a record could not leave a site now; None when all of it could."""
        return moved(self.placer, self.table, record, {site})[1]

    async def close_site(self, site: str) -> None:
        """Take nothing more on a site, for all schedulers and over restarts."""
        with _stored():
            await self.ledger.close_site(site)

    async def open_site(self, site: str) -> None:
        """Take up a site again."""
        if site not in self.ledger.closed:
            raise NotFoundError(f'the site "{site}" is not drained')
        with _stored():
            await self.ledger.open_site(site)

    async def commit(self, identity: str) -> Record:
        """Keep a reserved allocation for good."""

        def step() -> tuple[Record, Change]:
            old = self.get(identity)
            if old.state == COMMITTED:
                return old, ([], [])
            new = msgspec.structs.replace(old, state=COMMITTED, expires=0.0)
            return new, ([new], [])

        return await self.writer.do(step)

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

        return await self.writer.do(step)

    def get(self, identity: str) -> Record:
        record = self.ledger.records.get(identity)
        if record is None:
            raise NotFoundError(f'there is no allocation "{identity}"')
        return record

    def _decide(
        self,
        allocation: Allocation,
        key: str,
        fingerprint: str,
        ttl: float,
        spared: Collection[str] = (),
    ) -> tuple[Record, list[Record]]:
        """A new record, and those that must go for it (none that is spared)."""
        if 0 < allocation.ends_at <= self._clock():
            raise ConflictError("ends_at is over already")
        with self._at_other_times(allocation):
            found = self.placer.decide(self.table, allocation)
            victims: list[Record] = []
            if isinstance(found, NoSite) and allocation.preempt:
                records = [
                    record
                    for record in self.ledger.records.values()
                    if record.id not in spared
                    and not record.of_object
                    and record.allocation.overlaps(allocation)
                ]
                made = preempt(self.placer, self.table, allocation, records)
                found, victims = made or (found, [])
        if isinstance(found, NoSite):
            self.refused += 1
            raise NoSiteError(found)
        self.decided += 1
        record = self._record(allocation, found, key, fingerprint, ttl)
        self._check_quota(record, *victims)
        if victims:
            log.info("preempting", allocation=record.id, victims=[v.id for v in victims])
        return msgspec.structs.replace(record, preempted=tuple(v.id for v in victims)), victims

    def _still_holds(self, record: Record, new: list[Group], known: Known) -> bool:
        """Whether a decision stands after all that others wrote before it."""
        allocation = record.allocation
        selector = allocation.selector
        if record.key and self.ledger.key_holder(record.key) != record.id:
            return False
        if self.ledger.others == known.others and self.ledger.closed == known.closed:
            return True
        if selector.stack_affinity or selector.stack_antiaffinity:
            return False  # of whom others placed where
        if {group.selected.node_id for group in new} & (self.ledger.closed - known.closed):
            return False
        try:
            self._check_quota(record, record)
        except QuotaError:
            return False
        with self._at_other_times(allocation):
            return all(self.table.covers(group.charges) for group in new)

    @contextmanager
    def _at_other_times(self, allocation: Allocation) -> Iterator[None]:
        """Put aside what does not hold room while the allocation would."""
        others = []
        if allocation.starts_at or allocation.ends_at or self.ledger.timed:
            timed = (self.ledger.records[identity] for identity in self.ledger.timed)
            others = [r for r in timed if not r.allocation.overlaps(allocation)]
        for record in others:
            charge_record(self.table, record, -1)
        try:
            yield
        finally:
            for record in others:
                charge_record(self.table, record)

    def _check_quota(self, record: Record, *instead_of: Record) -> None:
        if not self.table.quotas:
            return
        domain = record.allocation.domain
        used = Counter(self.ledger.used.get(domain, {}))
        for gone in instead_of:
            if gone.allocation.domain == domain:
                used.subtract(usage(group.charges for group in gone.groups))
        more = usage(group.charges for group in record.groups)
        check_quota(self.table.quotas, domain, used, more)

    def _record(
        self,
        allocation: Allocation,
        found: list[Placement],
        key: str,
        fingerprint: str,
        ttl: float,
    ) -> Record:
        now = self._clock()
        return Record(
            id=allocation.id,
            allocation=allocation,
            groups=tuple(group_of(self.table, allocation, placement) for placement in found),
            created=now,
            state=RESERVED if ttl else COMMITTED,
            expires=now + ttl if ttl else 0.0,
            key=key,
            fingerprint=fingerprint,
            owner=self.name,
        )

    async def _follow(self) -> None:
        while True:
            try:
                await self.ledger.follow()
            except Compacted:
                await self.ledger.load()
            await self._pause(0.5)

    async def _expire(self) -> None:
        """Release reservations whose time is over, and what others left half done."""
        while True:
            await self._pause(0.5)
            now = self._clock()
            with suppress(StoreError):
                await self.writer.sweep()
            ending = sorted(self.ledger.ending)  # a set's own order is another in each process
            for record in [self.ledger.records[identity] for identity in ending]:
                if _expired(record, now):
                    with suppress(NotFoundError, UnavailableError):
                        gone = await self.release(record.id, expired_at=now)
                        if record.id not in self.ledger.records:
                            log.info("allocation expired", allocation=gone.id)


@contextmanager
def _stored() -> Iterator[None]:
    try:
        yield
    except StoreError as cause:
        raise UnavailableError(f"the store did not take it: {cause}") from cause


def _expired(record: Record, now: float) -> bool:
    if 0 < record.allocation.ends_at <= now:
        return True
    return record.state == RESERVED and record.expires <= now


def _told(old: Record, new: Record, why: str) -> str:
    """How the groups of a record moved, in words."""
    before = Counter(group.selected.node_id for group in old.groups)
    after = Counter(group.selected.node_id for group in new.groups)
    left = ", ".join(f"{n} from {site}" for site, n in sorted((before - after).items()))
    came = ", ".join(f"{n} to {site}" for site, n in sorted((after - before).items()))
    return f"moved {left}; {came}" + (f" ({why})" if why else "")


def fingerprint(allocation: Allocation) -> str:
    """Equal for equal requests, whatever their id."""
    body = msgspec.json.encode(msgspec.structs.replace(allocation, id=""), order="sorted")
    return hashlib.sha256(body).hexdigest()

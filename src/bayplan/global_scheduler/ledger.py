"""What was placed, kept in a store, and safe against other schedulers on the same store.

A *record* is one allocation with all it takes. The ledger holds every record in memory and applies
it to the site table; the store has the truth. Each write of a batch is one transaction: the
records, and for every source that gives something a *fence* key that must still be at the revision
this process has seen. Another scheduler that took something from the source meanwhile has moved the
fence: the transaction fails, nothing of the batch stays applied, and the caller decides again. So
capacity is never sold twice. Giving back moves no fence, it cannot oversell.

A record that takes from more sources than a transaction can fence needs a *turn*: one key that all
other writes check. Whoever takes the turn makes the writes of all others fail; it waits until all
that was written before has arrived, decides, and writes the record and the end of its turn in one
transaction. So a wide record is there whole or not at all, wherever its writer dies; then the
others end the turn after a while.

Changes by others arrive by watching; applying one twice does nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec

from bayplan.global_scheduler.inventory import Inventory
from bayplan.global_scheduler.quotas import usage
from bayplan.global_scheduler.sources import Charges, OldCharges, fence_of
from bayplan.global_scheduler.stack import Allocation
from bayplan.global_scheduler.table import SiteTable
from bayplan.store import Check, Conflict, Delete, Event, KeyValue, NotFound, Op, Put, Store

PREFIX = "/global/"
RECORDS = f"{PREFIX}allocations/"
FENCES = f"{PREFIX}fences/"
CLOSED = f"{PREFIX}closed/"
TURN = f"{PREFIX}turn"
TAKEN, FREE = b'"taken"', b'"free"'
RESERVED = "reserved"
COMMITTED = "committed"


class PlacedResource(msgspec.Struct, frozen=True, omit_defaults=True):
    """One resource as it was placed; `hosts` has machines by host where hosts are listed."""

    name: str
    flavor_id: str
    count: int
    hosts: dict[str, int] = {}


class Selected(msgspec.Struct, frozen=True):
    """Where a group went; `node_id` is the site, in the words of the first API."""

    node_id: str
    region: str
    availability_zone: str
    cluster: str = ""


class Group(msgspec.Struct, frozen=True):
    """One replica of the stack on its site."""

    name: str
    resources: tuple[PlacedResource, ...]
    selected: Selected
    charges: Charges = Charges()


class Happened(msgspec.Struct, frozen=True):
    """Something that happened to an allocation after it was placed."""

    at: float
    what: str


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """One allocation, as it is stored."""

    id: str
    allocation: Allocation
    groups: tuple[Group, ...]
    created: float
    state: str = COMMITTED
    expires: float = 0.0
    key: str = ""
    fingerprint: str = ""
    owner: str = ""
    history: tuple[Happened, ...] = ()
    preempted: tuple[str, ...] = ()
    """Ids of the allocations that were released to make room for this one."""

    @property
    def of_object(self) -> bool:
        """Whether an object of the API server has this allocation; its uid is the id."""
        return self.key.endswith(f"/{self.id}")


class _OldGroup(msgspec.Struct):
    charges: OldCharges = OldCharges()


class _OldRecord(msgspec.Struct):
    groups: tuple[_OldGroup, ...] = ()


_encode = msgspec.json.encode


def _decode(value: bytes) -> Record:
    """A stored record; one from before charges named sources is brought to these terms."""
    record = msgspec.json.decode(value, type=Record)
    if all(group.charges.takes for group in record.groups):
        return record
    old = msgspec.json.decode(value, type=_OldRecord)
    groups = tuple(
        group if group.charges.takes else _in_sources(group, before.charges)
        for group, before in zip(record.groups, old.groups, strict=True)
    )
    return msgspec.structs.replace(record, groups=groups)


def _in_sources(group: Group, charges: OldCharges) -> Group:
    at = group.selected
    member = bool(at.cluster)
    new = charges.by_source(at.node_id, at.region, at.availability_zone, member=member)
    return msgspec.structs.replace(group, charges=new)


def charge_record(table: SiteTable, record: Record, times: int = 1) -> None:
    """Take what a record holds from a table (`times` -1 gives back)."""
    for group in record.groups:
        table.apply(group.charges, times)
        row = table.row_of(group.selected.node_id)
        if row is not None:
            table.note_stack(row, record.allocation.stack.labels, times)


class Ledger:
    """All records, and the table with all of them applied."""

    def __init__(self, store: Store, table: SiteTable) -> None:
        self.table = table
        self.records: dict[str, Record] = {}
        self.by_key: dict[str, str] = {}
        self.turn_taken = False
        """Whether somebody is writing a wide record."""
        self.closed: set[str] = set()
        """Sites that were drained."""
        self.timed: set[str] = set()
        """Ids of records that begin or end at some time."""
        self.used: dict[str, Counter[str]] = {}
        """What each domain takes, see `quotas`."""
        self.seen = 0
        self.conflicts = 0
        self._store = store
        self._newest: dict[str, int] = {}
        self._live: dict[str, int] = {}
        self._listeners: list[Callable[[Record, bool], None]] = []

    def on_change(self, listener: Callable[[Record, bool], None]) -> None:
        """Be told of every record that comes (True) or goes (False), whoever wrote it."""
        self._listeners.append(listener)

    async def load(self) -> None:
        """Read everything from the store, and forget what it no longer has."""
        found = await self._store.range(PREFIX)
        there = {kv.key for kv in found.items}
        for key, revision in list(self._live.items()):
            # what was written here meanwhile is newer than the answer
            if key not in there and revision <= found.revision:
                self._drop(key)
        for kv in found.items:
            self._note(kv)
        self.seen = max(self.seen, found.revision)

    async def follow(self) -> None:
        """Apply what others write, until cancelled."""
        watcher = self._store.watch(PREFIX, after=self.seen)
        try:
            async for events in watcher:
                self.apply_events(events)
        finally:
            watcher.close()

    def apply_events(self, events: Iterable[Event]) -> None:
        """Bring records and fences up to date; own writes are known already."""
        for event in events:
            self.seen = max(self.seen, event.revision)
            if event.deleted:
                self._forget(event.kv)
            else:
                self._note(event.kv)

    def _note(self, kv: KeyValue) -> None:
        if self._newest.get(kv.key, 0) >= kv.mod_revision:
            return
        self._newest[kv.key] = self._live[kv.key] = kv.mod_revision
        if kv.key.startswith(RECORDS):
            record = _decode(kv.value)
            if (old := self.records.get(record.id)) is not None:
                self.unapply(old)
            self.apply(record)
        elif kv.key == TURN:
            self.turn_taken = kv.value == TAKEN
        elif kv.key.startswith(CLOSED):
            self._close(kv.key.removeprefix(CLOSED))

    async def take_turn(self) -> int:
        """Let nobody else write; returns the revision that must have arrived before deciding.

        Raises Conflict when somebody else was faster.
        """
        return await self._put_turn(TAKEN, self.turn_revision)

    async def end_turn(self, revision: int) -> None:
        """Let others write again; raises Conflict when the turn is no longer this one."""
        await self._put_turn(FREE, revision)

    @property
    def turn_revision(self) -> int:
        """When the turn was last taken or ended, as far as is known here."""
        return self._live.get(TURN, 0)

    async def _put_turn(self, value: bytes, before: int) -> int:
        [written] = await self._store.transact([Put(TURN, value, before)])
        self._note(written)
        return written.mod_revision

    def _close(self, site: str, *, closed: bool = True) -> None:
        (self.closed.add if closed else self.closed.discard)(site)
        self.table.close(site, closed=closed)

    async def close_site(self, site: str) -> None:
        """Store that a site takes nothing more."""
        key = f"{CLOSED}{site}"
        if site not in self.closed:
            with suppress(Conflict):  # another was faster
                [written] = await self._store.transact([Put(key, b"{}", 0)])
                self._newest[key] = self._live[key] = written.mod_revision
        self._close(site)

    async def open_site(self, site: str) -> None:
        """Store that a site takes something again."""
        key = f"{CLOSED}{site}"
        with suppress(NotFound):
            await self._store.transact([Delete(key, self._live.get(key))])
        self._drop(key)

    def _forget(self, kv: KeyValue) -> None:
        newest = self._newest.get(kv.key, 0)
        if newest < kv.mod_revision:
            self._drop(kv.key)
        elif newest == kv.mod_revision:
            del self._newest[kv.key]  # deleted here; nothing older can come any more

    def _drop(self, key: str) -> None:
        """The store no longer has a key."""
        self._newest.pop(key, None)
        self._live.pop(key, None)
        if key.startswith(CLOSED):
            self._close(key.removeprefix(CLOSED), closed=False)
        if key.startswith(RECORDS):
            old = self.records.get(key.removeprefix(RECORDS))
            if old is not None:
                self.unapply(old)

    def is_stored(self, record: Record) -> bool:
        """Whether the store, as far as is known here, has a record of this id."""
        return f"{RECORDS}{record.id}" in self._live

    def apply(self, record: Record) -> None:
        """Take a record's charges from the table."""
        self.records[record.id] = record
        if record.key:
            self.by_key[record.key] = record.id
        self._charge(record, 1)

    def unapply(self, record: Record) -> None:
        """Give a record's charges back to the table."""
        self.records.pop(record.id, None)
        if record.key:
            self.by_key.pop(record.key, None)
        self._charge(record, -1)

    def _charge(self, record: Record, times: int) -> None:
        charge_record(self.table, record, times)
        if record.allocation.starts_at or record.allocation.ends_at:
            (self.timed.add if times > 0 else self.timed.discard)(record.id)
        used = self.used.setdefault(record.allocation.domain, Counter())
        for name, amount in usage(group.charges for group in record.groups).items():
            used[name] += amount * times
        for listener in self._listeners:
            listener(record, times > 0)

    def replace_table(self, table: SiteTable) -> None:
        """Go on with a new inventory; everything placed is applied to it again."""
        self.table = table
        for site in self.closed:
            table.close(site)
        for record in self.records.values():
            charge_record(table, record)

    def adjust_table(self, old: Inventory, new: Inventory) -> bool:
        """Go on with an inventory that differs little; False: it needs a new table."""
        if not self.table.adjust(old, new):
            return False
        for site in self.closed:
            self.table.close(site)
        return True

    def fences_of(self, record: Record) -> set[str]:
        """The keys that must not have moved when this record is written."""
        sources = {source for group in record.groups for source in group.charges.takes}
        return {f"{FENCES}{fence_of(source)}" for source in sources}

    async def write(
        self, puts: Iterable[Record], deletes: Iterable[Record], by: str, *, turn: bool = False
    ) -> None:
        """Store a batch in one transaction; raises Conflict when a fence or record has moved.

        With `turn` this process has the turn: nothing is fenced, and the turn ends.
        """
        records = list(puts)
        gone = list(deletes)
        mark = _encode(by)
        fenced = [] if turn else records
        fences = sorted(set().union(*(self.fences_of(record) for record in fenced)))
        values = [(f"{RECORDS}{record.id}", _encode(record)) for record in records]
        values += [(fence, mark) for fence in fences]
        values += [(TURN, FREE)] if turn else []  # the last: others see the records before it
        ops: list[Op] = [Put(key, value, self._live.get(key, 0)) for key, value in values]
        keys = [f"{RECORDS}{record.id}" for record in gone]
        ops += [Delete(key, self._live.get(key)) for key in keys]
        if not turn:
            ops.append(Check(TURN, self.turn_revision))
        try:
            written = await self._store.transact(ops)
        except Conflict:
            self.conflicts += 1
            raise
        if written[0].mod_revision <= self.seen:
            return  # the watch was faster, and may know more by now
        self._newest.update((kv.key, kv.mod_revision) for kv in written)
        self._live.update((kv.key, kv.mod_revision) for kv in written[: len(values)])
        if turn:
            self.turn_taken = False
        for key in keys:
            self._live.pop(key, None)

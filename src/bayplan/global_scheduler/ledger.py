"""What was placed, kept in a store, and safe against other schedulers on the same store.

A *record* is one allocation with all it takes. The ledger holds every record in memory and applies
it to the site table; the store has the truth, and a batch of changes is one transaction of it.

Whoever takes something moves one key (`TAKING`). A scheduler that is alone writes its records and
moves that key, if it still is where it was last seen: then nobody took anything that the decision
did not know. Where others are at work that would fail most of the time. So they *stage*: the whole
batch goes under one key, without asking anybody; the store puts all stages in an order that every
scheduler sees. When a scheduler's own stage comes back to it, everything that was taken before is
in its table: what still fits is written in one transaction that also removes the stage, the rest
is decided again. What others have staged counts as taken. So capacity is never sold twice, however
many sites a record touches, and a record is there whole or not at all; a stage whose writer died is
removed by the others after a while.

Changes by others arrive by watching; applying one twice does nothing.
"""

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import msgspec

from bayplan.global_scheduler.inventory import Inventory
from bayplan.global_scheduler.quotas import add_usage
from bayplan.global_scheduler.sources import Charges, OldCharges
from bayplan.global_scheduler.stack import Allocation
from bayplan.global_scheduler.table import SiteTable
from bayplan.store import Conflict, Delete, Event, KeyValue, NotFound, Op, Put, Store

PREFIX = "/global/"
RECORDS = f"{PREFIX}allocations/"
STAGED = f"{PREFIX}staged/"
CLOSED = f"{PREFIX}closed/"
TAKING = f"{PREFIX}taking"
LARGE = 100_000
"""Records of more bytes are compressed: etcd takes 1.5 MB at once."""
BOUND = "pods./"
"""How keys of records begin whose object cannot follow a move: a pod's node is for good."""
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

    @property
    def movable(self) -> bool:
        """Whether it may go elsewhere: an object's status follows it, but a pod is bound."""
        return not (self.of_object and self.key.startswith(BOUND))


class _OldGroup(msgspec.Struct):
    charges: OldCharges = OldCharges()


class _OldRecord(msgspec.Struct):
    groups: tuple[_OldGroup, ...] = ()


class _Stage(msgspec.Struct):
    puts: list[bytes]


class Held(msgspec.Struct):
    """What another scheduler has staged: records by id, each as it will be stored."""

    revision: int
    records: dict[str, tuple[bytes, Record]]
    looks: int = 0
    """How often it was found waiting."""


def pack(record: Record) -> bytes:
    """A record as it is stored."""
    value = msgspec.json.encode(record)
    return value if len(value) < LARGE else zlib.compress(value, 1)


def unpack(value: bytes) -> Record:
    """A stored record; one from before charges named sources is brought to these terms."""
    if not value.startswith(b"{"):
        value = zlib.decompress(value)
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
        self.staged: dict[str, Held] = {}
        """What others are about to write, by key."""
        self.closed: set[str] = set()
        """Sites that were drained."""
        self.timed: set[str] = set()
        """Ids of records that begin or end at some time."""
        self.ending: set[str] = set()
        """Ids of records that will expire, or end."""
        self.used: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """What each domain takes, see `quotas`."""
        self.by_site: defaultdict[str, dict[str, int]] = defaultdict(dict)
        """Replicas by site and record."""
        self.seen = 0
        self.conflicts = 0
        self.others = 0
        """How many writes of others have arrived."""
        self._store = store
        self._newest: dict[str, int] = {}
        self._live: dict[str, int] = {}
        self._own: dict[str, Callable[[], None]] = {}
        self._came: dict[str, KeyValue | None] = {}
        """What the watch has told of own stages whose answer is still awaited."""
        self._sent: dict[str, bytes] = {}
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
            if kv.key not in self._own:
                self._note(kv)
        self.seen = max(self.seen, found.revision)
        self._came = {key: kv if key in there else None for key, kv in self._came.items()}
        for kv in found.items:  # everything that was staged before is in the table
            if (arrived := self._own.pop(kv.key, None)) is not None:
                self._has_come(kv, arrived)

    async def follow(self) -> None:
        """Apply what others write, until cancelled."""
        watcher = self._store.watch(PREFIX, after=self.seen)
        try:
            async for events in watcher:
                self.apply_events(events)
        finally:
            watcher.close()

    def apply_events(self, events: Iterable[Event]) -> None:
        """Bring records and stages up to date; own writes are known already."""
        for event in events:
            self.seen = max(self.seen, event.revision)
            if event.deleted:
                self._forget(event.kv)
            elif (arrived := self._own.pop(event.kv.key, None)) is not None:
                self._has_come(event.kv, arrived)
            else:
                self._note(event.kv)

    def _has_come(self, kv: KeyValue, arrived: Callable[[], None]) -> None:
        if kv.key in self._came:
            self._came[kv.key] = kv
        arrived()

    def _note(self, kv: KeyValue) -> None:
        if self._newest.get(kv.key, 0) >= kv.mod_revision:
            return
        self._newest[kv.key] = self._live[kv.key] = kv.mod_revision
        if kv.key.startswith(RECORDS):
            self._note_record(kv)
        elif kv.key.startswith(STAGED):
            self.others += 1
            values = msgspec.msgpack.decode(zlib.decompress(kv.value), type=_Stage).puts
            records = [(value, unpack(value)) for value in values]
            self.staged[kv.key] = Held(kv.mod_revision, {r.id: (v, r) for v, r in records})
            for _, record in records:
                self._charge(record, 1)
        elif kv.key.startswith(CLOSED):
            self._close(kv.key.removeprefix(CLOSED))

    def _note_record(self, kv: KeyValue) -> None:
        identity = kv.key.removeprefix(RECORDS)
        old = self.records.get(identity)
        if old is not None and self._sent.get(kv.key) == kv.value:
            self.records[identity] = msgspec.structs.replace(old)  # no longer to be undone
            return
        self.others += 1
        if old is not None:
            self.unapply(old)
        for held in self.staged.values():
            value, record = held.records.get(identity, (b"", None))
            if record is not None and value == kv.value:
                del held.records[identity]  # its charges stay
                self._register(record, there=True)
                return
        self.apply(unpack(kv.value))

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
        if kv.key in self._came:
            self._came[kv.key] = None
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
        elif (held := self.staged.pop(key, None)) is not None:
            for _, record in held.records.values():
                self._charge(record, -1)
        elif key.startswith(RECORDS):
            old = self.records.get(key.removeprefix(RECORDS))
            if old is not None:
                self.others += 1
                self.unapply(old)

    def is_stored(self, record: Record) -> bool:
        """Whether the store, as far as is known here, has a record of this id."""
        return f"{RECORDS}{record.id}" in self._live

    def key_holder(self, key: str) -> str:
        """The id of the record with an idempotency key; what others have staged goes first."""
        for held in self.staged.values():
            for _, record in held.records.values():
                if record.key == key:
                    return record.id
        return self.by_key.get(key, "")

    def apply(self, record: Record) -> None:
        """Take a record's charges from the table."""
        self._charge(record, 1)
        self._register(record, there=True)

    def unapply(self, record: Record) -> None:
        """Give a record's charges back to the table."""
        self._charge(record, -1)
        self._register(record, there=False)

    def _register(self, record: Record, *, there: bool) -> None:
        if there:
            self.records[record.id] = record
            if record.key:
                self.by_key[record.key] = record.id
        else:
            self.records.pop(record.id, None)
            if self.by_key.get(record.key) == record.id:
                del self.by_key[record.key]
        if record.allocation.starts_at or record.allocation.ends_at:
            (self.timed.add if there else self.timed.discard)(record.id)
        if record.expires or record.allocation.ends_at:
            (self.ending.add if there else self.ending.discard)(record.id)
        for group in record.groups:
            counts = self.by_site[group.selected.node_id]
            counts[record.id] = counts.get(record.id, 0) + (1 if there else -1)
            if not counts[record.id]:
                del counts[record.id]
        for listener in self._listeners:
            listener(record, there)

    def _charge(self, record: Record, times: int) -> None:
        charge_record(self.table, record, times)
        used = self.used[record.allocation.domain]
        add_usage(used, [group.charges for group in record.groups], times)

    def replace_table(self, table: SiteTable) -> None:
        """Go on with a new inventory; everything placed is applied to it again."""
        self.table = table
        for site in self.closed:
            table.close(site)
        for record in self.records.values():
            charge_record(table, record)
        for held in self.staged.values():
            for _, record in held.records.values():
                charge_record(table, record)

    def adjust_table(self, old: Inventory, new: Inventory) -> bool:
        """Go on with an inventory that differs little; False: it needs a new table."""
        if not self.table.adjust(old, new):
            return False
        for site in self.closed:
            self.table.close(site)
        return True

    def operations(self, puts: Iterable[Record], deletes: Iterable[Record]) -> list[Op]:
        """What stores a change, if nobody has changed the same records since."""
        ops: list[Op] = []
        for record in puts:
            key = f"{RECORDS}{record.id}"
            ops.append(Put(key, pack(record), self._live.get(key, 0)))
        for record in deletes:
            key = f"{RECORDS}{record.id}"
            ops.append(Delete(key, self._live.get(key)))
        return ops

    @property
    def mark(self) -> int:
        """Where the key was seen last that is moved with everything taken."""
        return self._live.get(TAKING, 0)

    async def write(self, ops: Sequence[Op], *, taking: bool) -> int:
        """Store changes in one transaction; raises Conflict when something has moved.

        With `taking` also when another took something that is not known here. Returns the revision.
        """
        mark = [Put(TAKING, b"{}", self.mark)] if taking else []
        return await self._transact([*ops, *mark])

    async def stage(self, key: str, ops: Iterable[Op], arrived: Callable[[], None]) -> int:
        """Let all others know what will be written; returns the revision.

        `arrived` is called, maybe before this returns, when all that others have staged or written
        before is in the table and nothing that came later; not when this raises.
        """
        values = [op.value for op in ops if isinstance(op, Put)]
        self._own[key], self._came[key] = arrived, None
        stage = Put(key, zlib.compress(msgspec.msgpack.encode(_Stage(values)), 1), 0)
        try:
            written, mark = await self._store.transact([stage, Put(TAKING, b"{}")])
        except BaseException:
            self._own.pop(key, None)  # if it was done all the same, it is like another's
            if (kv := self._came[key]) is not None:
                self._note(kv)
            raise
        finally:
            del self._came[key]
        if mark.mod_revision > self._newest.get(TAKING, 0):
            self._newest[TAKING] = self._live[TAKING] = mark.mod_revision
        return written.mod_revision

    async def write_staged(self, key: str, revision: int, ops: Sequence[Op]) -> None:
        """Store changes and remove their stage in one transaction; raises as `write`."""
        # the stage goes last: others see the records before it
        await self._transact([*ops, Delete(key, revision)])

    async def unstage(self, key: str, revision: int) -> None:
        """Remove a stage whose writer gave up or is gone; one that stays is tried again later."""
        self._own.pop(key, None)
        held = self.staged.setdefault(key, Held(revision, {}))
        try:
            await self._store.transact([Delete(key, revision)])
        except (Conflict, NotFound):
            if held.records:
                return  # the watch tells what became of them
        self._drop(key)

    async def _transact(self, ops: Sequence[Op]) -> int:
        self._sent = {op.key: op.value for op in ops if isinstance(op, Put)}
        try:
            written = await self._store.transact(ops)
        except Conflict:
            self.conflicts += 1
            raise
        finally:
            self._sent = {}
        revision = written[0].mod_revision
        if revision <= self.seen:
            return revision  # the watch was faster, and may know more by now
        for op, kv in zip(ops, written, strict=True):
            self._newest[kv.key] = kv.mod_revision
            if isinstance(op, Put):
                self._live[kv.key] = kv.mod_revision
            else:
                self._live.pop(kv.key, None)
        return revision

"""All ledgers on one store know the same, whoever wrote it and however they heard of it."""

import asyncio
import random
from collections import Counter
from functools import partial
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.global_scheduler import ledger as module
from bayplan.global_scheduler.inventory import Site
from bayplan.global_scheduler.ledger import (
    CLOSED,
    COMMITTED,
    PREFIX,
    RECORDS,
    RESERVED,
    STAGED,
    TAKING,
    Group,
    Held,
    Ledger,
    Record,
    Selected,
    charge_record,
    pack,
    unpack,
)
from bayplan.global_scheduler.quotas import add_usage
from bayplan.global_scheduler.sources import Charges
from bayplan.global_scheduler.stack import Allocation, Stack
from bayplan.global_scheduler.table import SiteTable
from bayplan.store import Conflict, Delete, MemoryStore, NotFound, Put
from bayplan.store.errors import Unavailable
from tests.global_scheduler.sites import three_sites
from tests.global_scheduler.test_service import snapshot

PLACES = {
    "s-a": ("hosts/regA/az1/gp", "eips/regA/ipA", "volumes/regA/az1/SAS"),
    "s-c": ("hosts/regB/az1/gp", "eips/regB/ipB", "volumes/regB/az1/SAS"),
    "gone": ("hosts/regX/az1/gp", "eips/regX/ipX", "volumes/regX/az1/SAS"),
}


def some_record(choose, name):
    groups = []
    for _ in range(choose((1, 1, 2))):
        site = choose(tuple(PLACES))
        hosts, eips, volumes = PLACES[site]
        takes = {hosts: (choose((1, 2)), choose((1, 4))), eips: (1,), volumes: (choose((5, 9)),)}
        groups.append(Group("g", (), Selected(site, "r", "z"), Charges(takes)))
    ends = choose((0.0, 0.0, 50.0))
    allocation = Allocation(
        name,
        Stack("s", (), {"app": choose("xy")}),
        domain=choose(("", "d")),
        starts_at=choose((0.0, 0.0, 20.0)),
        ends_at=ends,
    )
    state, expires = choose(((COMMITTED, 0.0), (RESERVED, 30.0)))
    key = f"key-{name}" if choose((0, 1)) else ""
    return Record(name, allocation, tuple(groups), choose((1.0, 2.0)), state, expires, key)


def facts(ledger):
    """All that a ledger knows."""
    return {
        "records": ledger.records,
        "keys": ledger.by_key,
        "timed": ledger.timed,
        "ending": ledger.ending,
        "closed": ledger.closed,
        "open": ledger.table.open.tolist(),
        "staged": {record for held in ledger.staged.values() for record in held.records},
        "used": {domain: +used for domain, used in ledger.used.items() if +used},
        "sites": {site: counts for site, counts in ledger.by_site.items() if counts},
        "table": snapshot(ledger.table),
    }


def wanted(records, staged=(), closed=()):
    """The same from nothing but what there is."""
    table = SiteTable(three_sites())
    for site in closed:
        table.close(site)
    used = {"": Counter(), "d": Counter()}
    for record in (*records.values(), *staged):
        charge_record(table, record)
        add_usage(used[record.allocation.domain], [group.charges for group in record.groups])
    sites = {}
    for record in records.values():
        for group in record.groups:
            counts = sites.setdefault(group.selected.node_id, {})
            counts[record.id] = counts.get(record.id, 0) + 1
    asked = {name: one.allocation for name, one in records.items()}
    return {
        "records": records,
        "keys": {record.key: record.id for record in records.values() if record.key},
        "timed": {name for name, one in asked.items() if one.starts_at or one.ends_at},
        "ending": {name for name, one in records.items() if one.expires or asked[name].ends_at},
        "closed": set(closed),
        "open": table.open.tolist(),
        "staged": {record.id for record in staged},
        "used": {domain: +amounts for domain, amounts in used.items() if amounts},
        "sites": sites,
        "table": snapshot(table),
    }


class Lives:
    """Some ledgers on one store, what is stored, and what each was told of."""

    def __init__(self, seed):
        self.choose = random.Random(seed).choice
        self.store = MemoryStore()
        self.records, self.closed = {}, set()
        self.ledgers = []
        for _ in range(3):
            ledger = Ledger(self.store, SiteTable(three_sites()))
            ledger.watcher = self.store.watch(PREFIX, after=self.store.revision)
            ledger.heard = {}
            ledger.on_change(partial(self.hear, ledger.heard))
            self.ledgers.append(ledger)

    @staticmethod
    def hear(heard, record, came):
        assert came == (record.id not in heard)
        if came:
            heard[record.id] = record
        else:
            del heard[record.id]

    async def arrive(self, *, reload=False, staged=(), knows=None):
        """Let all that was written arrive everywhere; then all know the same."""
        for ledger in self.ledgers:
            events = ledger.watcher.take()
            if reload and ledger is not knows:
                await ledger.load()
            for event in events:
                ledger.apply_events([event])
            assert ledger.seen == self.store.revision or not events
            mine = staged if ledger is not knows else ()
            there = self.records | ({one.id: one for one in staged} if ledger is knows else {})
            assert wanted(there, mine, self.closed) == facts(ledger)
            assert there == ledger.heard
            for record in self.records.values():
                assert ledger.is_stored(record)
                assert not record.key or record.id == ledger.key_holder(record.key)
            for record in mine:
                assert not record.key or record.id == ledger.key_holder(record.key)

    async def write(self, ledger):
        """One transaction of a new, a changed and a deleted record, or some of them."""
        choose, new, gone = self.choose, [], []
        for name in "abcd":
            kind = choose(("nothing", "nothing", "put", "delete"))
            if kind == "put":
                new.append(some_record(choose, name))
            elif kind == "delete" and name in self.records:
                gone.append(self.records[name])
        for record in (*gone, *(self.records[one.id] for one in new if one.id in self.records)):
            ledger.unapply(record)
        for record in new:
            ledger.apply(record)
        ops = ledger.operations(new, gone)
        stored = {key.key: key.mod_revision for key in (await self.store.range(RECORDS)).items}
        assert [
            *(Put(f"{RECORDS}{r.id}", pack(r), stored.get(f"{RECORDS}{r.id}", 0)) for r in new),
            *(Delete(f"{RECORDS}{r.id}", stored[f"{RECORDS}{r.id}"]) for r in gone),
        ] == ops
        if not ops:
            return
        revision = await ledger.write(ops, taking=choose((True, False)))
        assert revision == self.store.revision
        for record in gone:
            del self.records[record.id]
        self.records |= {record.id: record for record in new}

    async def stage(self, ledger):
        """Stage a record; then write it, take it back, or have another take it back."""
        choose = self.choose
        record, arrived = some_record(choose, "staged"), []
        key = f"{STAGED}me/{self.store.revision}"
        ledger.apply(record)
        ops = ledger.operations([record], [])
        revision = await ledger.stage(key, ops, lambda: arrived.append(True))
        await self.arrive(staged=[record], knows=ledger, reload=choose((True, False)))
        assert [True] == arrived
        end = choose(("written", "taken back", "removed"))
        if end == "written":
            await ledger.write_staged(key, revision, ops)
            self.records[record.id] = record
            await self.arrive(reload=choose((True, False)))
            ledger.unapply(record)
            await ledger.write(ledger.operations([], [record]), taking=False)
            del self.records[record.id]
        else:
            ledger.unapply(record)
            by = ledger if end == "taken back" else choose(self.ledgers)
            await by.unstage(key, revision)
            with pytest.raises((Conflict, NotFound)):
                await ledger.write_staged(key, revision, ops)
        assert [] == (await self.store.range(STAGED)).items

    async def close(self, ledger):
        site = self.choose(("s-a", "s-b", "gone"))
        if site in self.closed:
            await ledger.open_site(site)
            self.closed.discard(site)
        else:
            await ledger.close_site(site)
            await ledger.close_site(site)  # once is enough
            self.closed.add(site)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_all_ledgers_know_what_is_stored_and_nothing_else(seed):
    async def main():
        lives = Lives(seed)
        for _ in range(8):
            act = lives.choose((lives.write, lives.write, lives.stage, lives.close))
            await act(lives.choose(lives.ledgers))
            await lives.arrive(reload=lives.choose((True, False, False)))
        fresh = Ledger(lives.store, SiteTable(three_sites()))
        await fresh.load()
        assert wanted(lives.records, (), lives.closed) == facts(fresh)
        for ledger in lives.ledgers:
            ledger.replace_table(SiteTable(three_sites()))
            assert wanted(lives.records, (), lives.closed)["table"] == snapshot(ledger.table)
            assert ledger.table.open.tolist() == fresh.table.open.tolist()

    asyncio.run(main())


def record(name="a", **more):
    return Record(name, Allocation(name, Stack("s", ())), (), 1.0, **more)


async def test_who_is_behind_loses_and_it_is_counted():
    store = MemoryStore()
    one, two = (Ledger(store, SiteTable(three_sites())) for _ in range(2))
    await one.write(one.operations([record()], []), taking=True)

    with pytest.raises(Conflict) as lost:
        await two.write(two.operations([record("b")], []), taking=True)
    assert TAKING == lost.value.key
    with pytest.raises(Conflict):
        await two.write(two.operations([record()], []), taking=False)
    await two.write(two.operations([record("b")], []), taking=False)

    assert (0, 2) == (one.conflicts, two.conflicts)


async def test_only_what_others_wrote_is_counted_as_theirs():
    store = MemoryStore()
    one, two = (Ledger(store, SiteTable(three_sites())) for _ in range(2))
    watchers = [store.watch(PREFIX, after=store.revision) for _ in range(2)]
    counts = []

    def hear():
        for ledger, watcher in zip((one, two), watchers, strict=True):
            ledger.apply_events(watcher.take())
        counts.append((one.others, two.others))

    one.apply(record())
    await one.write(one.operations([record()], []), taking=True)
    hear()
    await one.stage(f"{STAGED}one/1", one.operations([record("b")], []), lambda: None)
    hear()
    one.unapply(one.records["a"])
    await one.write(one.operations([], [record()]), taking=False)
    hear()
    await one.close_site("s-a")
    hear()

    assert [(0, 1), (0, 2), (0, 3), (0, 3)] == counts


def test_what_was_told_before_changes_nothing():
    """The watch may tell what is known already, or older things; then nothing comes or goes."""

    async def main():
        store = MemoryStore()
        ledger, told = Ledger(store, SiteTable(three_sites())), []
        watcher = store.watch(PREFIX, after=store.revision)
        other = Ledger(store, SiteTable(three_sites()))
        await other.write(other.operations([record()], []), taking=True)
        events = watcher.take()
        ledger.apply_events(events)
        ledger.on_change(lambda *given: told.append(given))
        ledger.apply_events(events)
        await ledger.load()
        return told, ledger.others

    assert ([], 1) == asyncio.run(main())


@pytest.mark.parametrize("heard", [False, True])
async def test_a_stage_that_failed_is_the_stage_of_another_if_it_was_done(heard):
    """Whether the watch tells of it before the failure comes, or later."""
    store, arrived = MemoryStore(), []
    ledger = Ledger(store, SiteTable(three_sites()))
    watcher = store.watch(PREFIX, after=store.revision)
    whole, key = store.transact, f"{STAGED}one/1"

    async def lost(ops):
        await whole(ops)
        if heard:
            ledger.apply_events(watcher.take())
        raise Unavailable("the connection broke")

    store.transact = lost
    with pytest.raises(Unavailable):
        await ledger.stage(key, ledger.operations([record()], []), lambda: arrived.append(1))
    store.transact = whole
    ledger.apply_events(watcher.take())

    assert [1] * heard == arrived
    assert ["a"] == list(ledger.staged[key].records)
    assert {} == ledger._own == ledger._came
    await ledger.unstage(key, ledger.staged[key].revision)
    assert {} == ledger.staged


async def test_a_stage_that_cannot_be_taken_back_is_kept_in_mind():
    store = MemoryStore()
    ledger = Ledger(store, SiteTable(three_sites()))
    key = f"{STAGED}one/1"
    revision = await ledger.stage(key, [], lambda: None)
    whole = store.transact

    async def away(ops):
        raise Unavailable("away")

    store.transact = away
    with pytest.raises(Unavailable):
        await ledger.unstage(key, revision)
    assert Held(revision, {}) == ledger.staged[key]
    store.transact = whole
    await ledger.unstage(key, revision)
    assert {} == ledger.staged


async def test_a_site_that_another_closed_first_is_closed_as_well():
    store = MemoryStore()
    one, two = (Ledger(store, SiteTable(three_sites())) for _ in range(2))
    await one.close_site("s-a")
    await two.close_site("s-a")
    for ledger in (one, two):
        assert ({"s-a"}, [False, True, True]) == (ledger.closed, ledger.table.open.tolist())

    await one.open_site("s-a")
    await one.open_site("s-a")
    assert [True] * 3 == one.table.open.tolist()
    assert [] == (await store.range(CLOSED)).items


@pytest.mark.parametrize("staged", [False, True])
async def test_a_new_inventory_has_all_that_is_held_and_closed(staged):
    ledger = Ledger(MemoryStore(), SiteTable(three_sites()))
    one = some_record(lambda options: options[0], "a")
    if staged:
        ledger.staged["k"] = Held(1, {"a": (b"", one)})
        ledger._charge(one, 1)
    else:
        ledger.apply(one)
    ledger._close("s-b")
    before = snapshot(ledger.table)

    ledger.replace_table(SiteTable(three_sites()))
    assert (before, [True, False, True]) == (snapshot(ledger.table), ledger.table.open.tolist())

    inventory = three_sites()
    sites = tuple(
        msgspec.structs.replace(site, status="Sellout") if site.id == "s-c" else site
        for site in inventory.sites
    )
    changed = msgspec.structs.replace(inventory, sites=sites)
    assert ledger.adjust_table(inventory, changed)
    assert (before, [True, False, False]) == (snapshot(ledger.table), ledger.table.open.tolist())
    more = msgspec.structs.replace(changed, sites=(*sites, Site("s-d", "r", "z")))
    assert not ledger.adjust_table(changed, more)


@pytest.mark.parametrize(
    ("key", "of_object", "movable"),
    [
        ("", False, True),
        ("mine", False, True),
        ("stacks.bayplan.dev/a", True, True),
        ("stacks.bayplan.dev/b", False, True),
        ("pods./a", True, False),
        ("pods./b", False, True),
    ],
)
def test_whose_allocation_it_is_and_whether_it_may_go_elsewhere(key, of_object, movable):
    one = record(key=key)

    assert (of_object, movable) == (one.of_object, one.movable)


@pytest.mark.parametrize(("size", "plain"), [(-1, True), (0, False), (1, False)])
def test_a_large_record_is_compressed(size, plain):
    one = record(fingerprint="x")
    one = record(fingerprint="x" * (module.LARGE - len(pack(one)) + 1 + size))
    value = pack(one)

    assert plain == value.startswith(b"{") == (len(value) == module.LARGE + size)
    assert one == unpack(value)


def test_a_key_is_of_who_has_staged_it_before_who_has_it():
    ledger = Ledger(MemoryStore(), SimpleNamespace())
    ledger.by_key["k"] = "old"
    ledger.staged["s"] = Held(1, {"b": (b"", record("b")), "a": (b"", record("a", key="k"))})

    assert ["a", ""] == [ledger.key_holder(key) for key in ("k", "other")]
    ledger.staged.clear()
    assert "old" == ledger.key_holder("k")

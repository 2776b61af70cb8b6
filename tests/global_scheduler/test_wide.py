"""Allocations wider than a transaction: whole or not at all, whoever dies when."""

import asyncio
from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.global_scheduler import writer
from bayplan.global_scheduler.inventory import Flavor, Host, Inventory, Site
from bayplan.global_scheduler.ledger import RECORDS, Group, Ledger, Record, Selected
from bayplan.global_scheduler.placer import DEFAULT_POLICY, Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.service import Allocations, NoSiteError
from bayplan.global_scheduler.sources import Charges
from bayplan.global_scheduler.table import SiteTable
from bayplan.global_scheduler.writer import TooWideError, UnavailableError
from bayplan.store import Conflict, MemoryStore
from bayplan.store.errors import Unavailable
from tests.global_scheduler.sites import ask
from tests.global_scheduler.test_service import with_id

SITES, ROOM = 12, 2


def world():
    names = [f"{n:02}" for n in range(SITES)]
    return Inventory(
        sites=tuple(Site(f"s{n}", f"r{n}", "z") for n in names),
        hosts=tuple(Host(f"r{n}", "z", "gp", ROOM, 100) for n in names),
        flavors=tuple(Flavor(f"r{n}", "f", 1, 1, "gp") for n in names),
    )


def request(replicas):
    return with_id(ask(replicas, flavors=("f",), count=1, storage={}, need_eip=False))


async def quickly(seconds):
    await asyncio.sleep(min(seconds, 0.0005))


async def started(store, name="one", operations=4):
    service = Allocations(
        store,
        world(),
        Placer(DEFAULT_POLICY, in_tree_registry()),
        clock=lambda: 1000.0,
        name=name,
        operations=operations,
        pause=quickly,
    )
    await service.start()
    return service


async def assert_not_oversold(store):
    taken = Counter()
    for kv in (await store.range(RECORDS)).items:
        record = msgspec.json.decode(kv.value, type=Record)
        assert record.allocation.replicas == len(record.groups)
        taken.update(group.selected.node_id for group in record.groups)
    assert max(taken.values(), default=0) <= ROOM
    return sum(taken.values())


async def test_an_allocation_of_any_width_fits_a_small_transaction():
    store = MemoryStore()
    service = await started(store)

    wide = await service.create(request(SITES))
    small = await service.create(request(1))

    assert (SITES, 1) == (len(wide.groups), len(small.groups))
    await service.release(wide.id)
    with pytest.raises(TooWideError, match="4 allocations change together"):
        await service.create_all([request(1) for _ in range(4)])
    assert 1 == await assert_not_oversold(store)
    await service.stop()


async def test_schedulers_with_wide_and_narrow_requests_never_oversell():
    store = MemoryStore()
    services = [await started(store, f"s{n}") for n in range(3)]

    async def place(service, replicas):
        try:
            return len((await service.create(request(replicas))).groups)
        except NoSiteError:
            return 0

    wanted = [(service, replicas) for service in services for replicas in (1, 7, 1, 5, 1, 9)]
    placed = await asyncio.gather(*(place(*entry) for entry in wanted))

    assert sum(placed) == await assert_not_oversold(store)
    assert SITES * ROOM - sum(placed) < 9
    for service in services:
        await service.stop()


async def test_who_has_not_seen_a_turn_cannot_write():
    """Neither while it lasts nor after it, until all that was written has arrived."""
    store = MemoryStore()
    one, two = (Ledger(store, SiteTable(world())) for _ in range(2))
    await one.load()
    await two.load()
    wide, narrow = (record(name, {f"hosts/r{name}/z/gp": (1, 1)}) for name in ("00", "01"))
    await one.take_turn()
    with pytest.raises(Conflict):
        await two.write([narrow], [], "two")
    with pytest.raises(Conflict):
        await two.take_turn()
    await one.write([wide], [], "one", turn=True)
    with pytest.raises(Conflict):
        await two.write([narrow], [], "two")
    await two.load()

    assert (False, {"00"}) == (two.turn_taken, set(two.records))
    await two.write([narrow], [], "two")
    with pytest.raises(Conflict):
        await one.end_turn(1)


def record(identity, takes):
    group = Group("g", (), Selected("s", "r", "z"), Charges(takes))
    return Record(identity, ask(), (group,), 1.0)


class Dying(MemoryStore):
    """Loses its writer at one transaction: before it, or after it with the answer lost."""

    def __init__(self):
        super().__init__()
        self.at, self.after = -1, False
        self.count = 0

    async def transact(self, ops):
        self.count += 1
        if self.count - 1 < self.at or self.at < 0:
            return await super().transact(ops)
        if self.count - 1 == self.at and self.after:
            await super().transact(ops)
        raise Unavailable("the writer is gone")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 4), st.booleans(), st.lists(st.integers(1, 12), min_size=1, max_size=3))
def test_wherever_a_writer_dies_its_allocation_is_whole_or_not_there(at, after, wanted):
    asyncio.run(_die(at, after, wanted))


async def _die(at, after, wanted):
    looks, writer.TURN_LOOKS = writer.TURN_LOOKS, 5
    try:
        store = Dying()
        first = await started(store, "first")
        store.at, store.after = at, after
        asked = [request(replicas) for replicas in wanted]
        told = []
        for one in asked:
            try:
                told.append((await first.create(one)).id)
            except (UnavailableError, NoSiteError):
                continue
        await first.stop(0.01)
        store.at = -1
        second = await started(store, "second")

        stored = set(second.ledger.records)
        assert set(told) <= stored <= {one.id for one in asked}
        held = await assert_not_oversold(store)
        more = await second.create(request(SITES * ROOM - held)) if held < SITES * ROOM else None
        assert SITES * ROOM == await assert_not_oversold(store)
        assert more is None or not second.ledger.turn_taken
        await second.stop()
    finally:
        writer.TURN_LOOKS = looks

"""Several schedulers, allocations of any width: whole or not at all, whoever dies when."""

import asyncio
from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.global_scheduler import writer
from bayplan.global_scheduler.inventory import Flavor, Host, Inventory, Quota, Site
from bayplan.global_scheduler.ledger import RECORDS, STAGED, Ledger, Record, pack, unpack
from bayplan.global_scheduler.placer import DEFAULT_POLICY, Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.quotas import QuotaError
from bayplan.global_scheduler.service import Allocations, NoSiteError
from bayplan.global_scheduler.table import SiteTable
from bayplan.global_scheduler.writer import TooWideError, UnavailableError
from bayplan.store import MemoryStore
from bayplan.store.errors import Unavailable
from tests.global_scheduler.sites import ask
from tests.global_scheduler.test_service import snapshot, with_id

SITES, ROOM = 12, 2
CROWD = 1_000_000


def world():
    names = [f"{n:02}" for n in range(SITES)]
    return Inventory(
        sites=tuple(Site(f"s{n}", f"r{n}", "z") for n in names),
        hosts=tuple(Host(f"r{n}", "z", "gp", ROOM, 100) for n in names),
        flavors=tuple(Flavor(f"r{n}", "f", 1, 1, "gp") for n in names),
    )


def request(replicas, count=1):
    return with_id(ask(replicas, flavors=("f",), count=count, storage={}, need_eip=False))


async def quickly(seconds):
    await asyncio.sleep(min(seconds, 0.0005))


async def started(store, name="one", operations=4, crowded=0, inventory=None):
    service = Allocations(
        store,
        inventory or world(),
        Placer(DEFAULT_POLICY, in_tree_registry()),
        clock=lambda: 1000.0,
        name=name,
        operations=operations,
        pause=quickly,
        crowded=crowded,
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
    with pytest.raises(TooWideError, match="4 allocations change together; this store takes 3 in"):
        await service.create_all([request(1) for _ in range(4)])
    assert 1 == await assert_not_oversold(store)
    await service.create_all([request(1) for _ in range(3)])
    assert 4 == await assert_not_oversold(store)
    await service.stop()


@pytest.mark.parametrize("crowded", [0, CROWD])
async def test_schedulers_with_wide_and_narrow_requests_never_oversell(crowded):
    store = MemoryStore()
    services = [await started(store, f"s{n}", crowded=crowded) for n in range(3)]

    async def place(service, replicas):
        try:
            return len((await service.create(request(replicas))).groups)
        except NoSiteError:
            return 0

    wanted = [(service, replicas) for service in services for replicas in (1, 7, 1, 5, 1, 9)]
    placed = await asyncio.gather(*(place(*entry) for entry in wanted))

    assert sum(placed) == await assert_not_oversold(store)
    assert SITES * ROOM - sum(placed) < 9
    assert [] == (await store.range(STAGED)).items
    await assert_all_know_the_same(services)
    for service in services:
        await service.stop()


async def assert_all_know_the_same(services):
    async with asyncio.timeout(60):
        while len({tuple(sorted(one.ledger.records)) for one in services}) > 1:
            await asyncio.sleep(0.001)
    for service in services:
        again = Ledger(service._store, SiteTable(service.inventory))
        await again.load()
        assert snapshot(again.table) == snapshot(service.table)
        assert +again.used.get("", Counter()) == +service.ledger.used.get("", Counter())


async def staging(store, name, wanted):
    """A scheduler whose stage of one allocation is in the store, and nothing more."""
    service = await started(store, name, crowded=CROWD)
    write, gate = service.ledger.write_staged, asyncio.Event()

    async def slowly(*args):
        await gate.wait()
        return await write(*args)

    service.ledger.write_staged = slowly
    task = asyncio.create_task(service.create(*wanted[:1], **dict(wanted[1:])))
    async with asyncio.timeout(60):
        while not (await store.range(f"{STAGED}{name}/")).items:
            await asyncio.sleep(0)
    return service, task, gate


async def test_who_staged_first_gets_the_last_place(monkeypatch):
    """The others see the stage as taken, and decide anew or give up."""
    monkeypatch.setattr(writer, "STAGE_LOOKS", 1_000_000)
    store = MemoryStore()
    full = await started(store, "full")
    await full.create(request(SITES * ROOM - 1))
    await full.stop()
    first, kept, go = await staging(store, "first", [request(1)])
    second = await started(store, "second", crowded=CROWD)
    with pytest.raises(NoSiteError):
        await second.create(request(1))
    go.set()

    assert 1 == len((await kept).groups)
    assert SITES * ROOM == await assert_not_oversold(store)
    await assert_all_know_the_same([first, second])
    for service in (first, second):
        await service.stop()


async def test_what_replaces_something_is_not_counted_twice_for_long():
    """A resize that is staged holds the old and the new; who is refused then is tried again."""
    store = MemoryStore()
    first = await started(store, "first", crowded=CROWD)
    await first.create(request(SITES * ROOM - 4))
    small = await first.create(request(1))
    write, gate = first.ledger.write_staged, asyncio.Event()

    async def slowly(*args):
        await gate.wait()
        return await write(*args)

    first.ledger.write_staged = slowly
    larger = asyncio.create_task(first.resize(small.id, 2))
    second = await started(store, "second")
    async with asyncio.timeout(60):
        while not second.ledger.staged:
            await asyncio.sleep(0)
    wanted = asyncio.create_task(second.create(request(2)))
    async with asyncio.timeout(60):
        while not second.refused:
            await asyncio.sleep(0)
    gate.set()

    assert (2, 2) == (len((await larger).groups), len((await wanted).groups))
    assert SITES * ROOM == await assert_not_oversold(store)
    for service in (first, second):
        await service.stop()


async def test_what_another_was_faster_with_is_decided_again_and_the_rest_stands():
    """Both decide before either has heard of the other; only what no longer fits moves."""
    store = MemoryStore()
    one, two = [await started(store, name, operations=9, crowded=CROWD) for name in "ab"]

    got = await asyncio.gather(
        *(s.create(request(1, count=ROOM)) for s in (one, two) for _ in range(SITES // 2))
    )

    assert SITES == len({record.groups[0].selected.node_id for record in got})
    assert one.ledger.conflicts + two.ledger.conflicts == SITES // 2
    for service in (one, two):
        await service.stop()


async def test_a_site_that_was_closed_meanwhile_takes_nothing():
    store = MemoryStore()
    first = await started(store, "first", crowded=CROWD)
    closer = await started(store, "closer")
    stage = first.ledger.stage

    async def late(*args):
        first.ledger.stage = stage
        await closer.close_site("s00")
        return await stage(*args)

    first.ledger.stage = late
    record = await first.create(request(1))

    assert ["s01"] == [group.selected.node_id for group in record.groups]
    for service in (first, closer):
        await service.stop()


async def test_a_quota_holds_for_all_schedulers_together():
    store = MemoryStore()
    limited = msgspec.structs.replace(world(), quotas=(Quota("*", {"replicas": 5}),))
    services = [
        await started(store, name, crowded=CROWD, inventory=limited) for name in ("a", "b", "c")
    ]

    async def place(service):
        try:
            return len((await service.create(request(2))).groups)
        except QuotaError:
            return 0

    placed = await asyncio.gather(*(place(service) for service in services for _ in range(3)))

    assert 4 == sum(placed) == await assert_not_oversold(store)
    for service in services:
        await service.stop()


async def test_an_idempotency_key_is_one_for_all_schedulers():
    store = MemoryStore()
    services = [await started(store, name, crowded=CROWD) for name in ("a", "b", "c")]

    records = await asyncio.gather(
        *(service.create(request(1), key="k", fingerprint="f") for service in services)
    )

    assert 1 == len({record.id for record in records})
    assert 1 == await assert_not_oversold(store)
    for service in services:
        await service.stop()


async def test_a_key_that_another_has_staged_is_waited_for():
    store = MemoryStore()
    same = [("key", "k"), ("fingerprint", "f")]
    first, kept, go = await staging(store, "first", [request(1), *same])
    second = await started(store, "second")
    again = asyncio.create_task(second.create(request(1), **dict(same)))
    async with asyncio.timeout(60):
        while second.ledger.conflicts < 2:  # it has tried
            await asyncio.sleep(0.001)
    go.set()

    assert (await kept).id == (await again).id
    assert 1 == await assert_not_oversold(store)
    for service in (first, second):
        await service.stop()


async def test_a_repeated_request_is_not_answered_with_what_is_taken_back():
    """The second found the first in memory; another scheduler then took the last place."""
    store = MemoryStore()
    other = await started(store, "other")
    await other.create(request(SITES * ROOM - 1))
    first = await started(store, "first", crowded=CROWD)
    stage = first.ledger.stage

    async def late(*args):
        first.ledger.stage = stage
        await other.create(request(1))
        return await stage(*args)

    first.ledger.stage = late
    twice = [first.create(request(1), key="k", fingerprint="f") for _ in range(2)]
    answers = await asyncio.gather(*twice, return_exceptions=True)

    assert [NoSiteError, NoSiteError] == [type(answer) for answer in answers]
    assert SITES * ROOM == await assert_not_oversold(store)
    for service in (first, other):
        await service.stop()


async def test_a_record_larger_than_etcd_takes_at_once_is_compressed():
    record = msgspec.structs.replace(
        await _wide_record(), groups=(await _wide_record()).groups * 1000
    )

    assert len(msgspec.json.encode(record)) > 1_500_000 > 10 * len(pack(record))
    assert record == unpack(pack(record))


async def _wide_record():
    service = await started(MemoryStore())
    record = await service.create(request(SITES))
    await service.stop()
    return record


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


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 6),
    st.booleans(),
    st.lists(st.integers(1, 12), min_size=1, max_size=3),
    st.sampled_from([0, CROWD]),
)
def test_wherever_a_writer_dies_its_allocation_is_whole_or_not_there(at, after, wanted, crowded):
    asyncio.run(_die(at, after, wanted, crowded))


async def _die(at, after, wanted, crowded):
    looks, writer.STAGE_LOOKS = writer.STAGE_LOOKS, 3
    try:
        store = Dying()
        first = await started(store, "first", crowded=crowded)
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
        async with asyncio.timeout(60):
            while second.ledger.staged:  # what the first left half done is taken away
                await asyncio.sleep(0.001)
        assert [] == (await store.range(STAGED)).items
        assert held == await assert_not_oversold(store)
        if held < SITES * ROOM:
            await second.create(request(SITES * ROOM - held))
        assert SITES * ROOM == await assert_not_oversold(store)
        await assert_all_know_the_same([second])
        await second.stop()
    finally:
        writer.STAGE_LOOKS = looks


async def test_a_slow_writer_whose_stage_was_removed_decides_again():
    store = MemoryStore()
    first, kept, go = await staging(store, "first", [request(1)])
    [stage] = (await store.range(STAGED)).items
    await store.delete(stage.key)
    go.set()

    assert 1 == len((await kept).groups)
    assert 1 == await assert_not_oversold(store)
    assert [] == (await store.range(STAGED)).items
    await first.stop()


@pytest.mark.parametrize("crowded", [0, CROWD])
async def test_no_transaction_is_longer_than_the_store_takes(crowded):
    lengths = []

    class Counted(MemoryStore):
        async def transact(self, ops):
            await asyncio.sleep(0)  # others come meanwhile, and go together
            lengths.append(len(ops))
            return await super().transact(ops)

    service = await started(Counted(), operations=4, crowded=crowded)
    await asyncio.gather(*(service.create(request(1)) for _ in range(12)))
    await service.stop()

    assert 1 < max(lengths) <= 4

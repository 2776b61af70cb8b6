import asyncio
import uuid

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.global_scheduler.ledger import COMMITTED, RESERVED
from bayplan.global_scheduler.placer import DEFAULT_POLICY, Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.service import (
    Allocations,
    ConflictError,
    NoSiteError,
    NotFoundError,
    fingerprint,
)
from bayplan.global_scheduler.table import SiteTable
from bayplan.store import MemoryStore, SqliteStore
from tests.global_scheduler.sites import ask, three_sites


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def service_on(store, clock=None, inventory=None, name="one", **settings):
    return Allocations(
        store,
        inventory or three_sites(),
        Placer(DEFAULT_POLICY, in_tree_registry()),
        clock=clock or Clock(),
        name=name,
        **settings,
    )


def with_id(allocation):
    return msgspec.structs.replace(allocation, id=str(uuid.uuid4()))


def snapshot(table):
    """All that is free, as plain data."""
    machines = {
        key: (pool.free_vcpus.tolist(), pool.free_memory.tolist())
        for key, pool in table.pools.items()
    }
    storage = {kind: column.free.tolist() for kind, column in table.storage.items()}
    stacks = {labels: dict(rows) for labels, rows in table.stacks.items()}
    return machines, storage, table.eip_free.tolist(), stacks


def assert_nothing_oversold(table):
    for pool in table.pools.values():
        assert (pool.free_vcpus >= 0).all()
        assert (pool.free_memory >= 0).all()
    for column in table.storage.values():
        assert (column.free >= 0).all()
    assert (table.eip_free >= 0).all()


async def test_create_takes_and_release_gives_back_everything():
    service = service_on(MemoryStore())
    await service.start()
    before = snapshot(service.table)

    record = await service.create(ask(4, location="centralize"))
    taken = snapshot(service.table)
    await service.release(record.id)

    assert before != taken
    assert before == snapshot(service.table)
    with pytest.raises(NotFoundError):
        service.get(record.id)
    await service.stop()


async def test_the_same_request_again_gives_the_same_answer_and_takes_nothing():
    service = service_on(MemoryStore())
    await service.start()
    request = ask(1)
    first = await service.create(request, fingerprint=fingerprint(request))
    after = snapshot(service.table)

    again = await service.create(request, fingerprint=fingerprint(request))

    assert first == again
    assert after == snapshot(service.table)
    with pytest.raises(ConflictError, match="id was used"):
        await service.create(ask(2), fingerprint=fingerprint(ask(2)))
    await service.stop()


async def test_an_idempotency_key_finds_the_first_answer_also_under_another_id():
    service = service_on(MemoryStore())
    await service.start()
    one, two = with_id(ask(1)), with_id(ask(1))

    first = await service.create(one, key="k", fingerprint=fingerprint(one))
    again = await service.create(two, key="k", fingerprint=fingerprint(two))

    assert first.id == again.id == one.id
    other = with_id(ask(2))
    with pytest.raises(ConflictError, match="idempotency key"):
        await service.create(other, key="k", fingerprint=fingerprint(other))
    await service.stop()


async def test_a_reservation_is_released_after_its_time_unless_it_is_committed():
    clock = Clock()
    service = service_on(MemoryStore(), clock)
    await service.start()
    before = snapshot(service.table)
    kept = await service.create(with_id(ask(1, count=1)), ttl=10)
    lost = await service.create(with_id(ask(1, count=1)), ttl=10)
    assert RESERVED == kept.state

    committed = await service.commit(kept.id)
    clock.now += 11
    async with asyncio.timeout(60):
        while lost.id in service.ledger.records:
            await asyncio.sleep(0.05)

    assert COMMITTED == committed.state
    assert [kept.id] == list(service.ledger.records)
    await service.release(kept.id)
    assert before == snapshot(service.table)
    await service.stop()


async def test_a_restart_changes_nothing(tmp_path):
    store = await SqliteStore.open(tmp_path / "db")
    service = service_on(store)
    await service.start()
    records = [await service.create(with_id(ask(1, count=1))) for _ in range(3)]
    before = snapshot(service.table)
    await service.stop()
    await store.close()

    store = await SqliteStore.open(tmp_path / "db")
    service = service_on(store)
    await service.start()

    assert before == snapshot(service.table)
    assert {record.id: record for record in records} == service.ledger.records
    await service.stop()
    await store.close()


async def test_a_new_inventory_keeps_what_was_placed():
    service = service_on(MemoryStore())
    await service.start()
    await service.create(ask(1))
    before = snapshot(service.table)

    service.replace_inventory(three_sites())

    assert before == snapshot(service.table)
    await service.stop()


async def test_an_inventory_that_cannot_be_taken_leaves_the_one_before():
    """And what comes after it is compared with that one."""

    def of(vcpus):
        host, *others = three_sites().hosts
        return three_sites(hosts=(msgspec.structs.replace(host, vcpus=vcpus), *others))

    service = service_on(MemoryStore())
    with pytest.raises(OverflowError):
        service.replace_inventory(of(2**70))
    service.replace_inventory(of(40))

    assert snapshot(SiteTable(of(40))) == snapshot(service.table)


async def test_schedulers_on_one_store_never_sell_twice():
    """Four schedulers race for the last places; each place is given once."""
    store = MemoryStore()
    services = [service_on(store, name=f"s{n}") for n in range(4)]
    for service in services:
        await service.start()

    async def one(service):
        try:
            return await service.create(with_id(ask(1, count=1, location="centralize")))
        except NoSiteError:
            return None

    placed = await asyncio.gather(*(one(services[n % 4]) for n in range(40)))

    got = [record for record in placed if record]
    assert 8 == len(got)  # six addresses in regA, two in regB
    for service in services:
        async with asyncio.timeout(60):
            while len(service.ledger.records) != len(got):
                await asyncio.sleep(0.01)
        assert_nothing_oversold(service.table)
        assert snapshot(services[0].table) == snapshot(service.table)
    assert sum(service.ledger.conflicts for service in services) > 0
    for service in services:
        await service.stop()


async def test_one_transaction_takes_many_requests():
    store = MemoryStore()
    service = service_on(store)
    await service.start()
    before = store.revision

    await asyncio.gather(*(service.create(with_id(ask(1, count=1))) for _ in range(6)))

    assert store.revision - before <= 2
    await service.stop()


actions = st.lists(
    st.one_of(
        st.tuples(
            st.just("create"),
            st.integers(1, 5),
            st.integers(1, 3),
            st.sampled_from(["", "centralize", "discrete"]),
            st.sampled_from(["", "alone"]),
        ),
        st.tuples(st.just("release"), st.integers(0, 20)),
        st.tuples(st.just("restart")),
        st.tuples(st.just("reload")),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(actions)
def test_whatever_happens_nothing_is_oversold_and_all_replicas_are_placed(steps):
    asyncio.run(_play(steps))


async def _play(steps):
    store = MemoryStore()
    empty = snapshot(service_on(store).table)
    service = service_on(store)
    await service.start()
    placed = []
    for step in steps:
        match step:
            case ("create", replicas, count, location, region):
                request = with_id(ask(replicas, count=count, location=location, region=region))
                try:
                    record = await service.create(request)
                except NoSiteError as refused:
                    assert 3 == sum(refused.why.reasons.values())
                else:
                    assert replicas == len(record.groups)
                    placed.append(record.id)
            case ("release", number) if placed:
                await service.release(placed.pop(number % len(placed)))
            case ("restart",):
                before = snapshot(service.table)
                await service.stop()
                service = service_on(store)
                await service.start()
                assert before == snapshot(service.table)
            case ("reload",):
                service.replace_inventory(three_sites())
        assert_nothing_oversold(service.table)
        assert set(placed) == set(service.ledger.records)
    for identity in placed:
        await service.release(identity)
    assert empty == snapshot(service.table)
    await service.stop()

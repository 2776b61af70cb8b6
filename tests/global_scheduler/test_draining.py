"""Life after placement: drained and lost sites are left by rank, with a record; rebalancing."""

import asyncio
import json

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.cli.global_ import command
from bayplan.global_scheduler.draining import Lost, drain, lines
from bayplan.global_scheduler.rebalance import make_plan, shares
from bayplan.global_scheduler.run import running
from bayplan.global_scheduler.service import ConflictError, NoSiteError, NotFoundError
from bayplan.global_scheduler.whatif import UnknownSiteError
from bayplan.store import MemoryStore
from tests.global_scheduler.test_http import allocation, client  # noqa: F401
from tests.global_scheduler.test_run import conf, options  # noqa: F401
from tests.global_scheduler.test_service import Clock, service_on, snapshot, with_id
from tests.global_scheduler.test_spread import request, world

ROOMS = (6, 0, 0, 0, 2, 0, 0, 0)


def ranked(replicas, priority, name="s"):
    one = with_id(msgspec.structs.replace(request(replicas), priority=priority))
    return msgspec.structs.replace(one, stack=msgspec.structs.replace(one.stack, name=name))


@pytest.fixture
async def placed():
    """Two allocations of two replicas on s0; there is room for three on s4."""
    service = service_on(MemoryStore(), inventory=world((6, 0, 0, 0, 0, 0, 0, 0)))
    await service.start()
    for name, priority in (("low", 0), ("high", 5)):
        await service.create(ranked(2, priority, name))
    service.replace_inventory(world((6, 0, 0, 0, 3, 0, 0, 0)))
    yield service
    await service.stop()


def where(service):
    return {
        record.allocation.stack.name: [group.selected.node_id for group in record.groups]
        for record in service.ledger.records.values()
    }


async def test_a_drained_site_is_left_by_rank_and_stays_closed(placed):
    done = await drain(placed, "s0")

    assert ["high", "low"] == [entry.name for entry in done.moved]
    assert {"high": ["s4", "s4"], "low": ["s4", "s0"]} == where(placed)
    assert (False, "1 replica found no other place") == (done.empty, done.moved[1].message)
    [record] = [r for r in placed.ledger.records.values() if r.allocation.stack.name == "high"]
    assert ["moved 2 from s0; 2 to s4 (s0 drained)"] == [e.what for e in record.history]
    with pytest.raises(NoSiteError):
        await placed.create(ranked(1, 0))
    placed.replace_inventory(world((6, 0, 0, 0, 4, 0, 0, 0)))
    assert (await drain(placed, "s0")).empty
    again = service_on(placed._store, inventory=world(ROOMS), name="two")
    await again.start()
    assert {"s0"} == again.ledger.closed
    await again.open_site("s0")
    assert "s0" == (await again.create(ranked(1, 0))).groups[0].selected.node_id
    async with asyncio.timeout(60):
        while placed.ledger.closed:
            await asyncio.sleep(0.01)
    with pytest.raises(NotFoundError):
        await placed.open_site("s0")
    with pytest.raises(UnknownSiteError):
        await drain(placed, "s99")
    await again.stop()


async def test_a_lost_site_is_left_when_it_stays_lost(placed):
    clock = Clock()
    lost = Lost(placed, lambda: 30.0, clock=clock, pause=asyncio.sleep)
    sites = [msgspec.structs.replace(s, status="Offline") for s in world().sites[:1]]
    placed.replace_inventory(
        msgspec.structs.replace(world((6, 0, 0, 0, 3, 0, 0, 0)), sites=(*sites, *world().sites[1:]))
    )
    await lost.look()
    clock.now += 29
    await lost.look()
    assert {"high": ["s0", "s0"], "low": ["s0", "s0"]} == where(placed)
    clock.now += 1
    await lost.look()

    assert {"high": ["s4", "s4"], "low": ["s4", "s0"]} == where(placed)
    gone = msgspec.structs.replace(world((0, 0, 0, 0, 4, 0, 0, 0)), sites=world().sites[1:])
    placed.replace_inventory(msgspec.structs.replace(gone, hosts=gone.hosts[1:]))
    clock.now += 30
    await lost.look()
    assert {"high": ["s4", "s4"], "low": ["s4", "s4"]} == where(placed)


async def test_what_belongs_to_an_object_is_told_and_left(placed):
    one = ranked(1, 9, "vm")
    await placed.create(one, key=f"pods./{one.id}")
    with pytest.raises(ConflictError, match=r"object of pods\."):
        await placed.resize(one.id, 2)
    site = placed.get(one.id).groups[0].selected.node_id

    done = await drain(placed, site)

    told = next(e.message for e in done.moved if e.name == "vm")
    assert "no API server is connected" in told
    huge = msgspec.structs.replace(ranked(9, 99), preempt=True)
    with pytest.raises(NoSiteError):
        await placed.create(huge)
    assert one.id in placed.ledger.records


async def test_pods_are_evicted_if_there_is_another_place_for_them(placed):
    evicted = []

    async def evict(record):
        evicted.append(record.allocation.stack.name)

    placed.evict = evict
    placed.replace_inventory(world((6, 0, 0, 0, 0, 0, 0, 0)))
    for name in ("vm", "late"):
        one = ranked(1, 9, name)
        await placed.create(one, key=f"pods./{one.id}")
    full = await drain(placed, "s0")
    assert [] == evicted
    assert not any(entry.evicted for entry in full.moved)
    placed.replace_inventory(world((6, 0, 0, 0, 9, 0, 0, 0)))

    done = await drain(placed, "s0")

    assert ["late", "vm"] == sorted(evicted)
    assert ["late", "vm"] == sorted(entry.name for entry in done.moved if entry.evicted)
    assert done.empty
    assert "evicted; its owner makes it again" in "\n".join(lines(done))


@settings(max_examples=30, deadline=None)
@given(
    st.tuples(*[st.integers(0, 6)] * 8),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), max_size=6),
    st.tuples(*[st.integers(0, 6)] * 8),
)
def test_a_plan_is_carried_out_as_promised_and_evens_out(rooms, wanted, more):
    asyncio.run(_rebalance(rooms, wanted, more))


async def _rebalance(rooms, wanted, more):
    service = service_on(MemoryStore(), inventory=world(rooms))
    await service.start()
    for replicas, apart in wanted:
        one = with_id(request(replicas, max_per_region=apart * 2))
        try:
            await service.create(one)
        except NoSiteError:
            continue
    larger = tuple(a + b for a, b in zip(rooms, more, strict=True))
    service.replace_inventory(world(larger))
    before, fullest_first = snapshot(service.table), _fullest_first(service)
    plan = await service.plan(20)
    assert before == snapshot(service.table)

    for step in plan.moves:
        await service.move(step.allocation, {step.source}, to=step.to, most=1)

    assert round(float(shares(service.table).max()), 4) == plan.fullest_after
    assert plan.fullest_after <= plan.fullest_before
    assert _fullest_first(service) < fullest_first or not plan.moves
    for pool in service.table.pools.values():
        assert (pool.free_vcpus >= 0).all()
    again = make_plan(
        service.placer, service.inventory, list(service.ledger.records.values()), (), 20
    )
    assert len(plan.moves) == 20 or not again.moves
    await service.stop()


def _fullest_first(service):
    return sorted(shares(service.table).tolist(), reverse=True)


async def test_draining_and_rebalancing_over_http(client):  # noqa: F811
    placed = await client.post("/v1/allocations", json=allocation())
    drained = await client.post("/v1/sites/site1/drain")
    refused = await client.post("/v1/allocations", json=allocation())
    [site] = (await client.get("/v1/sites")).json()["sites"]
    opened = await client.delete("/v1/sites/site1/drain")
    again = await client.delete("/v1/sites/site1/drain")
    plan = await client.get("/v1/rebalance")
    step = {"allocation": placed.json()["allocation"]["id"], "from": "site1", "to": "site9"}
    done = await client.post("/v1/rebalance", json={"moves": [step]})

    [entry] = drained.json()["drain"]["moved"]
    assert "0/1 sites are available" in entry["message"]
    assert (409, "Drained") == (refused.status_code, site["status"])
    assert (204, 404) == (opened.status_code, again.status_code)
    assert [] == plan.json()["plan"]["moves"]
    assert "0/1 sites are available" in done.json()["moves"][0]["problem"]


async def test_draining_and_rebalancing_on_the_command_line(conf):  # noqa: F811
    sites = json.loads((conf / "sites.json").read_text())
    sites["sites"].append(sites["sites"][0] | {"id": "site2", "az": "az2"})
    nodes = json.loads((conf / "site_nodes.json").read_text())
    nodes["site_nodes"].append(nodes["site_nodes"][0] | {"availability_zone": "az2"})
    (conf / "sites.json").write_text(json.dumps(sites))
    (conf / "site_nodes.json").write_text(json.dumps(nodes))
    async with running(options(conf, store="memory")) as scheduler:
        one = request(3)
        resource = msgspec.structs.replace(one.stack.resources[0], count=100)
        flavor = msgspec.convert({"flavor_id": "c6.large.2"}, type(resource.flavors[0]))
        resource = msgspec.structs.replace(resource, flavors=(flavor,))
        stack = msgspec.structs.replace(one.stack, resources=(resource,))
        record = await scheduler.service.create(with_id(msgspec.structs.replace(one, stack=stack)))
        first = record.groups[0].selected.node_id

        def run(*arguments):
            server = ["--server", f"http://127.0.0.1:{scheduler.port}"]
            return CliRunner().invoke(command, [*arguments, *server])

        drained = await asyncio.to_thread(run, "drain", first)
        opened = await asyncio.to_thread(run, "drain", first, "--undo")
        unknown = await asyncio.to_thread(run, "drain", "site9")
        plan = await asyncio.to_thread(run, "rebalance", "--apply")
        after = {g.selected.node_id for g in scheduler.service.get(record.id).groups}

    assert (0, True) == (drained.exit_code, f"{first} is closed" in drained.output)
    assert f"{first} is open again\n" == opened.output
    assert 'there is no site "site9"' in str(unknown.exception)
    assert plan.output.startswith("1 move; the fullest site")
    assert {"site1", "site2"} == after

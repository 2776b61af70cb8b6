"""What requests may ask for beside flavors and regions, and what quotas allow."""

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.global_scheduler.inventory import Flavor, Host, Inventory, Quota, Site
from bayplan.global_scheduler.placer import DEFAULT_POLICY, NoSite, Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.preempt import TRIES
from bayplan.global_scheduler.quotas import QuotaError
from bayplan.global_scheduler.request import read_allocation
from bayplan.global_scheduler.service import ConflictError, NoSiteError
from bayplan.global_scheduler.stack import Latency, RegionChoice, Residency, Selector
from bayplan.global_scheduler.table import SiteTable
from bayplan.store import MemoryStore
from tests.global_scheduler.sites import ID, ask
from tests.global_scheduler.test_http import allocation, client  # noqa: F401
from tests.global_scheduler.test_service import Clock, service_on, snapshot, with_id

PLACER = Placer(DEFAULT_POLICY, in_tree_registry())


def world(rooms=(10, 10, 10), quotas=()):
    """Three sites in three countries; prices and distances differ."""
    countries, paris = ("de", "fr", ""), ({"paris": 12.0}, {"paris": 3.0}, {})
    regions = ("r0", "r1", "r2")
    return Inventory(
        sites=tuple(
            Site(f"s{n}", region, "z", country=countries[n], latency=paris[n])
            for n, region in enumerate(regions)
        ),
        hosts=tuple(
            Host(region, "z", "gp", room, 100) for region, room in zip(regions, rooms, strict=True)
        ),
        flavors=tuple(
            Flavor(region, flavor, size, 1, "gp", price=price and price * size)
            for region, price in zip(regions, (2.0, 3.0, None), strict=True)
            for flavor, size in (("f1", 1), ("f5", 5))
        ),
        quotas=quotas,
    )


def request(replicas=1, flavors=("f1",), selector=None, **more):
    one = ask(replicas, flavors=flavors, count=1, storage={}, need_eip=False, selector={})
    chosen = msgspec.structs.replace(one.selector, **(selector or {}))
    return with_id(msgspec.structs.replace(one, selector=chosen, **more))


def sites(request, inventory=None):
    found = PLACER.decide(SiteTable(inventory or world()), request)
    return found.reasons if isinstance(found, NoSite) else {p.site_id for p in found}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param({"residency": Residency(("fr",))}, {"s1"}, id="only in France"),
        pytest.param(
            {"residency": Residency((), ("de",))}, {"s1"}, id="not Germany, nor who knows where"
        ),
        pytest.param({"latency": (Latency("paris", 5),)}, {"s1"}, id="near Paris"),
        pytest.param({"max_price": 2.0}, {"s0"}, id="cheap"),
        pytest.param({"max_price": 0.0}, "price", id="for nothing"),
        pytest.param(
            {"latency": (Latency("paris", 50), Latency("rome", 50))}, "far", id="and near Rome"
        ),
        pytest.param({"residency": Residency(("xx",))}, "countries", id="in no known country"),
    ],
)
def test_wishes_leave_the_sites_that_meet_them(selector, expected):
    found = sites(request(selector=selector))

    if isinstance(expected, str):
        assert 3 == sum(found.values()), found
        assert any(expected in reason for reason in found)
    else:
        assert expected == found


def test_a_cheaper_flavor_is_taken_where_the_first_is_too_dear():
    wish = request(flavors=("f5", "f1"), selector={"max_price": 3.0})

    assert {("f1",)} == {p.flavors for p in PLACER.decide(SiteTable(world()), wish)}


def test_alternatives_are_tried_in_order():
    nowhere = RegionChoice("r9")
    others = (Selector(regions=(nowhere,)), Selector(regions=(RegionChoice("r2"),)))
    wish = request(selector={"regions": (nowhere,)}, alternatives=others)

    assert {"s2"} == sites(wish)
    assert {"site(s) weren't in the requested regions and zones": 3} == sites(
        msgspec.structs.replace(wish, alternatives=others[:1])
    )


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def service(clock):
    quotas = (Quota("t", {"vcpus": 4, "replicas": 3}), Quota("*", {"vcpus": 25}))
    found = service_on(MemoryStore(), clock, world(quotas=quotas))
    await found.start()
    yield found
    await found.stop()


async def test_a_domain_takes_no_more_than_its_quota(service):
    first = await service.create(request(2, domain="t"))
    with pytest.raises(QuotaError, match='domain "t" would have 4 replicas and may have 3'):
        await service.create(request(2, domain="t"))
    with pytest.raises(QuotaError, match="7 vcpus and may have 4"):
        await service.create(request(1, flavors=("f5",), domain="t"))
    with pytest.raises(QuotaError):
        await service.resize(first.id, 4)
    await service.resize(first.id, 1)
    await service.create(request(2, domain="t"))
    await service.create(request(20, domain="other"))
    assert {"t": 3, "other": 20} == {d: used["vcpus"] for d, used in service.ledger.used.items()}


async def test_several_are_placed_together_or_not_at_all(service):
    before = snapshot(service.table)
    with pytest.raises(NoSiteError):
        await service.create_all([request(9), request(9), request(5, flavors=("f5",))])
    assert (before, {}) == (snapshot(service.table), service.ledger.records)
    twice = request()
    with pytest.raises(ConflictError):
        await service.create_all([twice, twice])

    placed = await service.create_all([request(9), request(9)])

    assert [9, 9] == [len(record.groups) for record in placed]
    assert {record.id for record in placed} == set(service.ledger.records)


async def test_growing_and_shrinking_leave_the_others_where_they_are(service):
    record = await service.create(request(3))
    grown = await service.resize(record.id, 6)
    again = await service.resize(record.id, 2)

    assert record.groups == grown.groups[:3]
    assert all(group in grown.groups for group in again.groups)
    assert 2 == service.ledger.used[""]["vcpus"]
    assert [
        "resized from 3 to 6 replicas",
        "resized from 6 to 2 replicas",
    ] == [event.what for event in again.history]
    with pytest.raises(NoSiteError):
        await service.resize(record.id, 100)
    assert again == service.get(record.id)


async def test_moving_leaves_sites_and_takes_nothing_twice(service):
    record = await service.create(request(9))
    [site] = {group.selected.node_id for group in record.groups[:1]}
    moved = await service.move(record.id, {site}, "asked for")

    assert 9 == len(moved.groups)
    assert site not in {group.selected.node_id for group in moved.groups}
    assert "(asked for)" in moved.history[0].what
    with pytest.raises(NoSiteError):
        await service.move(record.id, {"s0", "s1", "s2"})
    assert moved == service.get(record.id)
    assert 9 == service.ledger.used[""]["vcpus"]


async def test_lower_priority_makes_room_and_no_more_of_it_than_needed(service, clock):
    first = []
    for n, priority in enumerate((0, 0, 9)):
        clock.now += 1
        first.append(await service.create(request(1, ("f5",), domain=f"d{n}", priority=priority)))
    old, young, high = first
    rest = [await service.create(request(1, ("f5",), domain=f"e{n}", priority=5)) for n in range(3)]
    with pytest.raises(NoSiteError):
        await service.create(request(1, ("f5",), priority=6, domain="f"))

    new = await service.create(request(1, ("f5",), priority=6, preempt=True, domain="f"))

    assert (young.id,) == new.preempted
    assert {old.id, high.id, new.id, *(r.id for r in rest)} == set(service.ledger.records)
    with pytest.raises(NoSiteError):
        await service.create(request(1, ("f5",), priority=0, preempt=True, domain="g"))


async def test_who_is_not_in_the_way_stays_however_many_are_less_important():
    """More than are tried one by one."""
    service = service_on(MemoryStore(), Clock(), world((10, 2 * TRIES, 10)))
    await service.start()
    elsewhere = {"regions": (RegionChoice("r1"),)}
    there = {"regions": (RegionChoice("r0"),)}
    small = [request(1, selector=elsewhere) for _ in range(TRIES + 6)]
    await service.create_all(small)
    large = await service.create(request(10, selector=there, priority=1))

    new = await service.create(request(10, selector=there, priority=2, preempt=True))

    assert (large.id,) == new.preempted
    assert {new.id, *(one.id for one in small)} == set(service.ledger.records)
    await service.stop()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["f1", "f5"]), st.integers(1, 6), st.integers(0, 3)),
        min_size=1,
        max_size=10,
    )
)
def test_preemption_takes_only_lower_ones_and_each_was_needed(wanted):
    asyncio.run(_preempt(wanted))


async def _preempt(wanted):
    service = service_on(MemoryStore(), Clock(), world())
    await service.start()
    for flavor, replicas, priority in wanted:
        one = request(replicas, (flavor,), priority=priority, preempt=True)
        before = dict(service.ledger.records)
        free = snapshot(service.table)
        try:
            record = await service.create(one)
        except NoSiteError:
            assert before == service.ledger.records
            assert free == snapshot(service.table)
            continue
        victims = [before[identity] for identity in record.preempted]
        assert all(victim.allocation.priority < priority for victim in victims)
        assert set(service.ledger.records) == before.keys() - set(record.preempted) | {record.id}
        table = SiteTable(world())
        for other in before.values():
            if other.id not in record.preempted[1:]:
                for group in other.groups:
                    table.apply(group.charges)
        assert not victims or isinstance(PLACER.decide(table, one), NoSite)
    assert all((pool.free_vcpus >= 0).all() for pool in service.table.pools.values())
    await service.stop()


async def test_room_is_held_between_two_times_only():
    clock = Clock()
    service = service_on(MemoryStore(), clock, world((10, 0, 0)))
    await service.start()
    morning = await service.create(request(9, starts_at=2000.0, ends_at=3000.0))
    evening = await service.create(request(9, starts_at=3000.0, ends_at=4000.0))

    with pytest.raises(NoSiteError):
        await service.create(request(2, starts_at=2500.0, ends_at=2600.0))
    with pytest.raises(NoSiteError):
        await service.create(request(2))
    before = await service.create(request(10, ends_at=2000.0))
    assert 10 == len(before.groups)
    with pytest.raises(ConflictError, match="ends_at"):
        await service.create(request(1, ends_at=900.0))
    clock.now = 3500.0
    for record in (morning, before):
        await service.release(record.id, expired_at=clock.now)
    assert {evening.id} == set(service.ledger.records)
    await service.create(request(1))
    await service.stop()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 8), st.integers(0, 6), st.integers(0, 6), st.booleans()),
        max_size=12,
    )
)
def test_at_no_time_is_more_held_than_there_is(wanted):
    asyncio.run(_hold(wanted))


async def _hold(wanted):
    service = service_on(MemoryStore(), Clock(), world((10, 0, 0)))
    await service.start()
    held = []
    for replicas, start, length, preempt in wanted:
        window = {"starts_at": 2000.0 + start, "ends_at": 2000.0 + start + length} if length else {}
        one = request(replicas, priority=start, preempt=preempt, **window)
        try:
            await service.create(one)
        except NoSiteError:
            continue
    held = [record.allocation for record in service.ledger.records.values()]
    for moment in range(2000, 2015):
        now = [
            one.replicas
            for one in held
            if one.starts_at <= moment and (not one.ends_at or moment < one.ends_at)
        ]
        assert sum(now) <= 10
    await service.stop()


def test_the_body_is_read_and_checked():
    body = allocation(
        priority=3,
        preempt=True,
        starts_at="2026-01-31T12:00:00Z",
        ends_at=1.0,
        alternatives=[{"residency": {"countries": ["de"]}, "max_price": 4}],
        selector={"latency": [{"to": "paris"}], "residency": {"except_countries": ["xx"]}},
    )
    found, problems = read_allocation(body, flavors={"c6.large.2"}, volume_types=(), new_id=ID)

    assert (3, True, 1769860800.0) == (found.priority, found.preempt, found.starts_at)
    assert (Residency(("de",)), 4.0) == (
        found.alternatives[0].residency,
        found.alternatives[0].max_price,
    )
    assert ("xx",) == found.selector.residency.except_countries
    assert [
        "allocation.selector.latency[0].max_ms: is missing",
        "allocation.ends_at: must be after starts_at",
    ] == [str(problem) for problem in problems]


async def test_resizing_moving_and_placing_together_over_http(client):  # noqa: F811
    together = [allocation()["allocation"], allocation(replicas=2)["allocation"]]
    placed = await client.post("/v1/allocations", json={"allocations": together})
    wrong = await client.post("/v1/allocations", json={"allocations": [{"id": "x"}]})
    path = f"/v1/allocations/{placed.json()['allocations'][0]['id']}"
    grown = await client.patch(path, json={"replicas": 3})
    huge = await client.patch(path, json={"replicas": 0})
    stuck = await client.post(f"{path}/move", json={"leave": ["site1"]})
    unknown = await client.post(f"{path}/move", json={"leave": ["site9"]})

    assert [1, 2] == [len(one["resource_groups"]) for one in placed.json()["allocations"]]
    assert {"allocations[0].id", "allocations[0].resource_group"} <= {
        entry["field"] for entry in wrong.json()["details"]
    }
    assert 3 == len(grown.json()["allocation"]["resource_groups"])
    assert "resized" in grown.json()["allocation"]["history"][0]["what"]
    assert (400, 409, 404) == (huge.status_code, stuck.status_code, unknown.status_code)

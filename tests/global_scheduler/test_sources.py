"""Every capacity is a source: charged once, whoever shares it."""

import asyncio
from collections import Counter
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.global_scheduler.inventory import EipPool, Flavor, Host, Inventory, Site, VolumePool
from bayplan.global_scheduler.ledger import RECORDS, Group, Ledger, Record, Selected
from bayplan.global_scheduler.placer import DEFAULT_POLICY, NoSite, Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.service import NoSiteError
from bayplan.global_scheduler.sources import Charges, source_id
from bayplan.global_scheduler.stack import FlavorChoice, SpotRequest
from bayplan.global_scheduler.table import SiteTable
from bayplan.store import Conflict, MemoryStore, Put
from tests.global_scheduler.sites import ask, three_sites
from tests.global_scheduler.test_service import service_on, with_id

SPOT = FlavorChoice("f2", SpotRequest("1.5", 2, 3, "delay"))


def plain(replicas=1, **changes):
    """A request for machines only."""
    return with_id(ask(replicas, **({"storage": {}, "need_eip": False} | changes)))


def spot_request(count=1, replicas=1):
    request = plain(replicas, count=count)
    [resource] = request.stack.resources
    resource = msgspec.structs.replace(resource, flavors=(SPOT,))
    stack = msgspec.structs.replace(request.stack, resources=(resource,))
    return msgspec.structs.replace(request, stack=stack)


def with_offer(site, machines):
    offer = {"f2": {"delay": {"infinite": 0, "finite": {"6h": machines}}}}
    return msgspec.convert({**msgspec.to_builtins(site), "spot": offer}, Site)


def decide(inventory, request):
    return Placer(DEFAULT_POLICY, in_tree_registry()).decide(SiteTable(inventory), request)


async def create_all(service, requests):
    """How many were placed."""
    placed = 0
    for request in requests:
        with suppress(NoSiteError):
            placed += len((await service.create(request)).groups)
    return placed


async def test_spot_machines_are_sold_once():
    a, b, c = three_sites().sites
    service = service_on(MemoryStore(), inventory=three_sites(sites=(a, with_offer(b, 2), c)))
    await service.start()

    sold = await create_all(service, [spot_request() for _ in range(20)])

    assert 2 == sold
    await service.release(next(iter(service.ledger.records)))
    assert 1 == await create_all(service, [spot_request() for _ in range(5)])
    await service.stop()


async def test_addresses_stay_taken_when_their_site_leaves_the_inventory():
    a, b, _ = three_sites().sites
    hosts = three_sites().hosts
    pools = (EipPool("regA", "ipA", 4),)
    service = service_on(
        MemoryStore(), inventory=three_sites(sites=(a,), hosts=hosts[:1], eip_pools=pools)
    )
    await service.start()
    few = {"count": 1, "storage": {}, "flavors": ("f2",), "selector": {"regions": ()}}
    assert 4 == await create_all(service, [with_id(ask(1, **few)) for _ in range(6)])

    service.replace_inventory(three_sites(sites=(b,), hosts=hosts[1:2], eip_pools=pools))

    assert 0 == await create_all(service, [with_id(ask(1, **few)) for _ in range(4)])
    assert (0,) == service.table.free("eips/regA/ipA")
    await service.stop()


def test_a_volume_pool_is_shared_by_the_sites_of_its_zone():
    inventory = three_sites(
        sites=(Site("one", "r", "z"), Site("two", "r", "z")),
        hosts=(
            Host("r", "z", "gp", 100, 100, site="one"),
            Host("r", "z", "gp", 100, 100, site="two"),
        ),
        flavors=(Flavor("r", "f2", 2, 4, "gp"),),
        eip_pools=(),
        volume_pools=(VolumePool("r", "z", "SAS", 100),),
    )
    request = {"count": 1, "flavors": ("f2",), "need_eip": False}

    assert 2 == len(decide(inventory, ask(2, **request)))
    assert isinstance(decide(inventory, ask(3, **request)), NoSite)


@pytest.mark.parametrize("quick", [True, False])
def test_what_sites_of_a_zone_share_is_taken_from_all_of_them(quick):
    """Requests that come one after another; the same sites show the same stock all the time."""
    inventory = three_sites(
        sites=(Site("one", "r", "z"), Site("two", "r", "z")),
        hosts=(Host("r", "z", "gp", 8, 16),),
        flavors=(Flavor("r", "f2", 2, 4, "gp"),),
        eip_pools=(),
        volume_pools=(VolumePool("r", "z", "SAS", 100),),
    )
    table = SiteTable(inventory)
    placer = Placer(DEFAULT_POLICY, in_tree_registry(), quick=quick)

    def take_all(request):
        for taken in range(10):
            found = placer.decide(table, request)
            if isinstance(found, NoSite):
                return taken
            [placement] = found
            table.apply(placement.charges)
        return 10

    assert 2 == take_all(ask(1, count=1, flavors=("f2",), need_eip=False))
    assert [0, 0] == table.storage["SAS"].free.tolist()
    assert 2 == take_all(plain(count=1, flavors=("f2",)))
    assert [0, 0] == table.pools["gp"].free_vcpus.tolist()


def test_hosts_that_name_no_site_are_shared_by_the_sites_of_their_zone():
    inventory = three_sites(
        sites=(Site("one", "r", "z"), Site("two", "r", "z")),
        hosts=(Host("r", "z", "gp", 8, 16),),
        flavors=(Flavor("r", "f2", 2, 4, "gp"),),
        eip_pools=(),
    )

    for location in ("centralize", "discrete"):
        assert 4 == len(decide(inventory, plain(4, count=1, flavors=("f2",), location=location)))
    assert isinstance(decide(inventory, plain(5, count=1, flavors=("f2",))), NoSite)


def test_hosts_of_two_members_in_one_zone_count_for_their_own():
    """The big machine fits neither, although both together would have the room."""
    inventory = three_sites(
        sites=(Site("m0", "r", "z", cluster="m0"), Site("m1", "r", "z", cluster="m1")),
        hosts=(Host("r", "z", "gp", 4, 8, site="m0"), Host("r", "z", "gp", 6, 12, site="m1")),
        flavors=(Flavor("r", "f4", 4, 8, "gp"), Flavor("r", "f2", 2, 4, "gp")),
        eip_pools=(),
    )

    placed = decide(inventory, plain(5, count=1, flavors=("f2",)))

    assert {"m0": 2, "m1": 3} == Counter(placement.site_id for placement in placed)
    assert isinstance(decide(inventory, plain(1, count=2, flavors=("f4",))), NoSite)


def test_a_machine_takes_its_vcpus_and_its_memory_from_one_pool():
    """One pool has the vcpus, the other the memory: no machine fits."""
    inventory = three_sites(
        sites=(Site("s", "r", "z"),),
        hosts=(Host("r", "z", "gp", 8, 2), Host("r", "z", "gp||hi", 2, 64)),
        flavors=(Flavor("r", "f2", 2, 4, "gp"), Flavor("r", "f4", 4, 8, "gp")),
        eip_pools=(),
    )

    assert isinstance(decide(inventory, plain(1, count=1, flavors=("f4",))), NoSite)
    [placement] = decide(inventory, plain(1, count=1, flavors=("f2",)))
    assert {"hosts/r/z/gp||hi": (2, 4)} == placement.charges.takes


def record(identity, site, takes):
    group = Group("g", (), Selected(site, "r", "z"), Charges(takes))
    return Record(identity, ask(), (group,), 1.0)


async def test_what_another_scheduler_took_is_noticed():
    store = MemoryStore()
    one, two = (Ledger(store, SiteTable(three_sites())) for _ in range(2))
    await one.load()
    await two.load()
    first, second = (record(name, "s-a", {"eips/regA/ipA": (1,)}) for name in "ab")
    await one.write(one.operations([first], []), taking=True)

    with pytest.raises(Conflict):
        await two.write(two.operations([second], []), taking=True)

    await two.load()
    await two.write(two.operations([second], []), taking=True)


SHARED = [
    "eips/regA/ipA",
    "volumes/regA/az1/SAS",
    "hosts/regA/az1/gp",
    "hosts/regA/az1/gp one host",
]


@pytest.mark.parametrize("source", SHARED)
def test_a_source_or_host_that_gave_too_much_is_noticed(source):
    source, _, host = source.partition(" ")
    inventory = three_sites()
    if host:
        hosts = [
            msgspec.structs.replace(each, name="h", count=2) if each.zone == "az1" else each
            for each in inventory.hosts
        ]
        inventory = msgspec.structs.replace(inventory, hosts=tuple(hosts))
    table = SiteTable(inventory)
    free = table.free(source)
    half = tuple(amount // 2 for amount in free)
    charges = Charges({source: half}, {source: (("h/1", *half),)} if host else {})
    table.apply(charges)
    if not host:
        table.apply(Charges({source: tuple(a - b for a, b in zip(free, half, strict=True))}))

    assert table.covers(charges)
    table.apply(Charges({source: (1,) * len(free)}, {source: (("h/1", 1, 1),)} if host else {}))
    assert not table.covers(charges)


def test_a_slash_in_a_part_does_not_make_two_sources_one():
    assert source_id("eips", "a/b", "c") != source_id("eips", "a", "b/c")


async def test_records_from_before_sources_are_still_charged():
    old = {
        "vcpus": {"gp": 8},
        "memory": {"gp": 16},
        "storage": {"SAS": 100},
        "eips": {"regA/ipA": 2},
    }
    body = msgspec.to_builtins(record("a", "s-a", {}))
    body["groups"][0]["charges"] = old
    body["groups"][0]["selected"] |= {"region": "regA", "availability_zone": "az1"}
    store = MemoryStore()
    await store.put(f"{RECORDS}a", msgspec.json.encode(body))
    ledger = Ledger(store, SiteTable(three_sites()))
    await ledger.load()

    assert (16, 80) == ledger.table.free("hosts/regA/az1/gp")
    assert (600,) == ledger.table.free("volumes/regA/az1/SAS")
    assert (4,) == ledger.table.free("eips/regA/ipA")


SITES = (
    with_offer(Site("a", "r", "z", eip_pool="ip"), 2),
    Site("b", "r", "z", eip_pool="ip"),
    Site("c", "r", "y", eip_pool="ip"),
    with_offer(Site("m", "r", "y", eip_pool="other", cluster="m"), 3),
)
HOSTS = (
    Host("r", "z", "gp", 12, 20),
    Host("r", "z", "gp||hi", 8, 30),
    Host("r", "y", "hi", 6, 12),
    Host("r", "y", "gp", 10, 10),
    Host("r", "y", "gp", 8, 40, site="m"),
)
POOLS = (EipPool("r", "ip", 9), EipPool("r", "other", 3))
VOLUMES = (VolumePool("r", "z", "SAS", 50), VolumePool("r", "y", "SAS", 40))
TOTALS = {
    "hosts/r/z/gp": (12, 20),
    "hosts/r/z/gp||hi": (8, 30),
    "hosts/r/y/hi": (6, 12),
    "hosts/r/y/gp": (10, 10),
    "own/m/gp": (8, 40),
    "volumes/r/z/SAS": (50,),
    "volumes/r/y/SAS": (40,),
    "eips/r/ip": (9,),
    "eips/r/other": (3,),
    "spot/a/f2/delay/6h": (2,),
    "spot/m/f2/delay/6h": (3,),
}


def world(sites=SITES):
    flavors = (Flavor("r", "f2", 2, 4, "gp"), Flavor("r", "f4", 4, 2, "hi"))
    hosts = tuple(host for host in HOSTS if not host.site or host.site in {s.id for s in sites})
    return Inventory(sites, hosts, flavors, POOLS, VOLUMES, frozenset({"SAS"}))


creates = st.tuples(
    st.just("create"),
    st.integers(0, 1),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from(["", "centralize"]),
    st.sampled_from(["", "alone"]),
    st.sampled_from([("f2",), ("f4",), ("f4", "f2"), "spot", "both"]),
    st.booleans(),
)
steps = st.lists(
    st.one_of(
        creates,
        creates,
        st.tuples(st.just("release"), st.integers(0, 1), st.integers(0, 20)),
        st.tuples(st.just("sites"), st.integers(0, 1), st.integers(1, 15)),
        st.tuples(st.just("restart"), st.integers(0, 1)),
    ),
    max_size=25,
)


@settings(max_examples=80, deadline=None)
@given(steps)
def test_no_source_is_ever_over_reserved(steps):
    asyncio.run(_play(steps))


def request_of(replicas, count, location, region, flavors, more):
    changes = {"location": location, "region": region, "need_eip": more, "count": count}
    storage = {"SAS": 15} if more else {}
    if flavors == "spot":
        return spot_request(count, replicas)
    if flavors == "both":
        one = with_id(ask(replicas, flavors=("f2",), storage=storage, **changes))
        other = ask(replicas, flavors=("f4",), storage={}, **changes)
        resources = one.stack.resources + other.stack.resources
        stack = msgspec.structs.replace(one.stack, resources=resources)
        return msgspec.structs.replace(one, stack=stack)
    return with_id(ask(replicas, flavors=flavors, storage=storage, **changes))


async def _play(steps):
    store = MemoryStore()
    services = [service_on(store, inventory=world(), name=f"s{n}") for n in range(2)]
    for service in services:
        await service.start()
    for kind, which, *rest in steps:
        service = services[which]
        if kind == "create":
            request = request_of(*rest)
            try:
                assert request.replicas == len((await service.create(request)).groups)
            except NoSiteError as refused:
                assert refused.why.sites == sum(refused.why.reasons.values())
        elif kind == "release" and service.ledger.records:
            records = sorted(service.ledger.records)
            await service.release(records[rest[0] % len(records)])
        elif kind == "sites":
            left = tuple(site for n, site in enumerate(SITES) if rest[0] >> n & 1)
            service.replace_inventory(world(left))
        elif kind == "restart":
            await service.stop()
            services[which] = service_on(store, inventory=world(), name=f"s{which}")
            await services[which].start()
        await _check(store)
    for service in services:
        await service.stop()


async def _check(store):
    taken = Counter()
    for kv in (await store.range(RECORDS)).items:
        for group in msgspec.json.decode(kv.value, type=Record).groups:
            for source, amounts in group.charges.takes.items():
                for place, amount in enumerate(amounts):
                    taken[source, place] += amount
    for (source, place), amount in taken.items():
        assert amount <= TOTALS[source][place], source


@pytest.mark.parametrize("faster", [False, True])
async def test_a_write_tells_its_revision_also_when_the_watch_was_faster(faster):
    class Late(MemoryStore):
        async def transact(self, ops):
            written = await super().transact(ops)
            if faster:
                ledger.seen = written[0].mod_revision
            return written

    store = Late()
    ledger = Ledger(store, SiteTable(three_sites()))
    await ledger.load()

    assert store.revision + 1 == await ledger.write([Put("/x", b"1")], taking=True)

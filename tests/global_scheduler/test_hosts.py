"""Real hosts inside sites: machines fit them whole, and what is answered can be carried out."""

import asyncio
import itertools
import json
from collections import Counter

import aiohttp
import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.cli.global_ import command
from bayplan.global_scheduler.fields import Fields
from bayplan.global_scheduler.inventory import Flavor, Host, Inventory, Site, read_hosts
from bayplan.global_scheduler.ledger import Ledger, Record
from bayplan.global_scheduler.moving import apply_all
from bayplan.global_scheduler.operations import group_of, grown
from bayplan.global_scheduler.packing import Machines, lay, packs, slots
from bayplan.global_scheduler.placer import DEFAULT_POLICY, NoSite, Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.run import running
from bayplan.global_scheduler.sources import Charges
from bayplan.global_scheduler.stack import (
    Allocation,
    FlavorChoice,
    Resource,
    Selector,
    Spread,
    Stack,
    Strategy,
)
from bayplan.global_scheduler.stranded import Fit, stranded
from bayplan.global_scheduler.stranded import lines as stranded_lines
from bayplan.global_scheduler.table import SiteTable
from bayplan.global_scheduler.view import SiteView
from bayplan.global_scheduler.why import explain
from bayplan.store import MemoryStore
from tests.global_scheduler.test_http import allocation
from tests.global_scheduler.test_run import conf, options  # noqa: F401
from tests.global_scheduler.test_service import service_on

PLACER = Placer(DEFAULT_POLICY, in_tree_registry())
FLAVORS = (
    Flavor("r", "small", 1, 2, "gp"),
    Flavor("r", "middle", 3, 4, "gp"),
    Flavor("r", "large", 4, 8, "gp"),
    Flavor("r", "fast", 2, 3, "hi"),
)


def host(name, vcpus, memory=100, *, count=1, zone="z", types="gp", **more):
    return Host("r", zone, types, vcpus, memory, name=name, count=count, **more)


def inventory(*hosts, sites=None):
    zones = sorted({host.zone for host in hosts})
    found = sites or tuple(Site(f"s-{zone}", "r", zone) for zone in zones)
    return Inventory(found, hosts, FLAVORS)


def ask(*wanted, replicas=1):
    """Resources as (flavor, count, machines of the allocation that may share a host)."""
    resources = tuple(
        Resource(f"r{n}", (FlavorChoice(flavor),), count, max_per_host=most)
        for n, (flavor, count, most) in enumerate(wanted)
    )
    return Allocation("a", Stack("s", resources), Selector(), replicas)


def decide(hosts, request):
    return PLACER.decide(SiteTable(inventory(*hosts)), request)


def test_a_machine_needs_one_host_that_has_room():
    apart = [host("a", 3), host("b", 3)]

    refused = decide(apart, ask(("large", 1, 0)))

    assert {"Insufficient machines of the requested flavors": 1} == refused.reasons
    summed = [Host("r", "z", "gp", 3, 100), Host("r", "z", "gp", 3, 100)]
    assert 1 == len(decide(summed, ask(("large", 1, 0))))


def test_the_answer_names_hosts_and_charges_them():
    [placement] = decide([host("a", 4), host("rack", 3, count=2)], ask(("middle", 3, 0)))

    assert {0: {"a": 1, "rack/1": 1, "rack/2": 1}} == placement.hosts
    assert {"hosts/r/z/gp": (9, 12)} == placement.charges.takes
    assert {("a", 3, 4), ("rack/1", 3, 4), ("rack/2", 3, 4)} == set(
        placement.charges.hosts["hosts/r/z/gp"]
    )


def test_a_flavor_may_be_of_another_type_in_another_region():
    """Where it is `hi`, hosts need no room for `gp`."""
    sites = (Site("one", "r", "z"), Site("two", "q", "z"))
    hosts = (host("a", 4), Host("q", "z", "hi", 4, 100, name="b", count=1))
    flavors = (Flavor("r", "mixed", 2, 2, "gp"), Flavor("q", "mixed", 2, 2, "hi"))
    table = SiteTable(Inventory(sites, hosts, flavors))

    placed = PLACER.decide(table, ask(("mixed", 1, 0), replicas=4))

    assert {"one": 2, "two": 2} == Counter(table.sites[each.row].id for each in placed)
    assert isinstance(PLACER.decide(table, ask(("mixed", 1, 0), replicas=5)), NoSite)


def test_all_hosts_of_a_site_count_also_where_another_site_has_none():
    """There are as many hosts as sites, but not one on each."""
    sites = (Site("one", "r", "z"), Site("two", "r", "y"))
    table = SiteTable(inventory(host("a", 4), host("b", 4), sites=sites))
    wanted = [Machines("gp", 4, 8, 2)]

    found = packs(table, wanted, SiteView(table), np.ones(2, np.int64))

    assert [site.id == "one" for site in table.sites] == found.tolist()


def test_small_machines_leave_empty_hosts_for_large_ones():
    table = SiteTable(inventory(host("a", 4), host("b", 5, used_vcpus=3)))
    [placement] = PLACER.decide(table, ask(("small", 2, 0)))
    table.apply(placement.charges)

    assert {0: {"b": 2}} == placement.hosts
    assert 1 == len(PLACER.decide(table, ask(("large", 1, 0))))


@pytest.mark.parametrize(
    ("hosts", "most", "fits"),
    [
        pytest.param(2, 1, 2, id="each on its own host"),
        pytest.param(2, 2, 4, id="two share a host"),
        pytest.param(2, 0, 8, id="any number"),
    ],
)
def test_machines_of_a_resource_are_kept_apart(hosts, most, fits):
    there = [host("rack", 4, count=hosts)]

    placed = decide(there, ask(("small", 1, most), replicas=fits))

    assert fits == len(placed)
    on = Counter(name for placement in placed for name in placement.hosts[0])
    assert not most or max(on.values()) <= most
    assert isinstance(decide(there, ask(("small", 1, most), replicas=fits + 1)), NoSite)


@pytest.mark.parametrize("location", ["centralize", "discrete"])
@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("first", [1, 2, 3])
def test_keeping_apart_holds_over_sites_that_share_hosts(first, most, location):
    """Of all replicas together, also of those that come later; both sites are needed for all."""
    sites = (Site("one", "r", "z"), Site("two", "r", "z"))
    table = SiteTable(inventory(host("rack", 9, count=3), sites=sites))
    half = Spread(max_per_site=-(-3 * most // 2))
    asked = ask(("small", 1, most), replicas=first)
    asked = msgspec.structs.replace(
        asked, selector=Selector(strategy=Strategy(location), spread=half)
    )
    placed = PLACER.decide(table, asked)
    apply_all(table, asked, placed)
    groups = tuple(group_of(table, asked, placement) for placement in placed)
    record = Record("a", asked, groups, 0.0)

    grew = grown(PLACER, table, record, 3 * most)

    names = Counter(name for group in grew.groups for name in group.resources[0].hosts)
    assert [most] * 3 == list(names.values())
    assert isinstance(grown(PLACER, table, record, 3 * most + 1), NoSite)


@pytest.mark.parametrize(
    ("hosts", "wanted"),
    [
        pytest.param(
            [host("rack", 4, count=25)], [("small", 25, 0), ("middle", 25, 0)], id="large ones"
        ),
        pytest.param(
            [Host("r", "z", "gp||hi", 100, 999), Host("r", "z", "gp||x", 50, 999)],
            [("small", 50, 0), ("fast", 50, 0)],
            id="who has fewer pools",
        ),
    ],
)
def test_who_has_less_choice_goes_first_where_there_is_too_much_to_search(hosts, wanted):
    for order in (wanted, wanted[::-1]):
        assert 1 == len(decide(hosts, ask(*order)))


def test_a_site_without_listed_hosts_cannot_keep_apart():
    refused = decide([Host("r", "z", "gp", 100, 100)], ask(("small", 2, 1)))

    assert {"site(s) didn't list hosts, which max_per_host needs": 1} == refused.reasons


def test_what_the_quick_way_misses_is_found_by_search():
    """The large machine takes the first of two hosts that have room for one; it should not."""
    [placement] = decide([host("a", 6), host("b", 4)], ask(("large", 1, 0), ("middle", 2, 0)))

    assert {0: {"b": 1}, 1: {"a": 2}} == placement.hosts


async def test_hosts_stay_charged_over_restart_and_reload():
    store = MemoryStore()
    service = service_on(store, inventory=inventory(host("a", 4), host("b", 4)))
    await service.start()
    record = await service.create(ask(("middle", 1, 0)))
    await service.stop()
    again = service_on(store, inventory=inventory(host("a", 4), host("b", 4)))
    await again.start()

    for _ in range(2):
        [found] = stranded(again.table)
        assert (5, 0) == (found.free_vcpus, found.stranded_vcpus)
        assert Fit("middle", 1, 1) == found.flavors[1]
        again.replace_inventory(inventory(host("b", 4), host("a", 4)))
    assert ({"a": 1},) == tuple(r.hosts for r in record.groups[0].resources)
    await again.release(record.id)
    assert (8, 200) == again.table.free("hosts/r/z/gp")
    await again.stop()


def test_what_was_placed_before_hosts_were_listed_counts():
    """The sum first, then the emptiest hosts."""
    table = SiteTable(inventory(host("a", 4), host("b", 6), Host("r", "z", "gp", 2, 100)))
    old = Charges({"hosts/r/z/gp": (5, 10)})
    table.apply(old)

    assert (7, 290) == table.free("hosts/r/z/gp")
    assert 1 == len(PLACER.decide(table, ask(("large", 1, 0))))
    assert isinstance(PLACER.decide(table, ask(("large", 2, 0))), NoSite)
    table.apply(old, -1)
    assert 1 == len(PLACER.decide(table, ask(("large", 2, 0))))


def test_a_host_that_leaves_takes_its_machines_with_it():
    table = SiteTable(inventory(host("b", 4)))
    gone = {"hosts/r/z/gp": (("a", 3, 4),)}

    table.apply(Charges({"hosts/r/z/gp": (3, 4)}, gone))

    assert (4, 100) == table.free("hosts/r/z/gp")


def test_stranded_is_what_fits_no_flavor():
    table = SiteTable(inventory(host("a", 9, 1), host("b", 3, 9), host("full", 4, used_vcpus=4)))

    [found] = stranded(table)

    assert (3, 12, 110, 9, 101) == (
        found.hosts,
        found.free_vcpus,
        found.free_memory,
        found.stranded_vcpus,
        found.stranded_memory,
    )
    assert (Fit("large", 3, 0), Fit("middle", 4, 1), Fit("small", 12, 3)) == found.flavors
    assert "stranded 9 (75 %)" in next(stranded_lines([found]))


def test_why_tells_what_is_missing_on_whole_hosts():
    table = SiteTable(inventory(host("a", 3), host("b", 3)))

    near = explain(PLACER, table, ask(("large", 1, 0))).nearest

    assert ("places for large on whole hosts", 1, 0) == msgspec.structs.astuple(near.missing[0])


def test_hosts_are_read_with_counts_and_names():
    problems = []
    body = {
        "region": "r",
        "availability_zone": "z",
        "hosts": [
            {"name": "a", "resource_type": "gp", "total_vcpus": 4, "total_mem": 8, "host_count": 3},
            {"name": "a", "resource_type": "gp", "total_vcpus": 4, "total_mem": 8, "host_count": 1},
            {"resource_type": "gp", "total_vcpus": 4, "total_mem": 8, "host_count": 1},
            {"resource_type": "gp", "total_vcpus": 4, "total_mem": 8},
        ],
    }

    found = read_hosts(Fields(body, problems))

    assert [3, 1, 1, 0] == [host.count for host in found]
    assert ['hosts[1].edge_node_id: "a" is listed twice', "hosts[2].edge_node_id: is missing"] == [
        str(problem) for problem in problems
    ]
    assert [3, 1, 1, 1] == [h.count for h in read_hosts(Fields(body, []), pack=True)]


async def test_hosts_over_http_and_on_the_command_line(conf):  # noqa: F811
    """Real hosts by one line of conf.yaml; the answer names them, stranded counts them."""
    with (conf / "conf.yaml").open("a") as file:
        file.write("\npack_hosts: true\n")
    async with running(options(conf, store="memory")) as scheduler:
        url = f"http://127.0.0.1:{scheduler.port}"
        async with aiohttp.ClientSession() as session:
            path = f"{url}/v1/allocations"
            async with session.post(path, json=allocation(resource={"max_per_host": 1})) as got:
                answer = await got.json(content_type=None)
        report = await asyncio.to_thread(
            CliRunner().invoke, command, ["stranded", "--server", url, "-o", "json"]
        )

    [group] = answer["allocation"]["resource_groups"]
    assert {"host1": 1} == group["resources"][0]["hosts"]
    [entry] = json.loads(report.output)
    assert (1, 2998) == (entry["hosts"], entry["free_vcpus"])


small_hosts = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 9), st.sampled_from(["gp", "hi", "gp||hi"])),
    min_size=1,
    max_size=4,
)
small_requests = st.lists(
    st.tuples(
        st.sampled_from(["small", "middle", "large", "fast"]), st.integers(1, 2), st.integers(0, 2)
    ),
    min_size=1,
    max_size=3,
)


def sizes():
    return {flavor.id: (flavor.vcpus, flavor.memory, flavor.type) for flavor in FLAVORS}


def possible(hosts, request):
    """Whether some assignment of machines to hosts works: all are tried."""
    machines = [
        (n, *sizes()[resource.flavors[0].flavor_id], resource.max_per_host)
        for n, resource in enumerate(request.stack.resources)
        for _ in range(resource.count * request.replicas)
    ]
    return any(
        works(hosts, machines, way)
        for way in itertools.product(range(len(hosts)), repeat=len(machines))
    )


def works(hosts, machines, way):
    used = Counter()
    for at, (resource, vcpus, memory, kind, most) in zip(way, machines, strict=True):
        used[at, "vcpus"] += vcpus
        used[at, "memory"] += memory
        used[at, resource] += 1
        there = hosts[at]
        if (
            kind not in there.types.split("||")
            or used[at, "vcpus"] > there.vcpus
            or used[at, "memory"] > there.memory
            or (most and used[at, resource] > most)
        ):
            return False
    return True


@settings(max_examples=100, deadline=None)
@given(small_hosts, small_requests, st.integers(1, 2))
def test_small_sites_are_packed_exactly_when_it_is_possible(sizes, wanted, replicas):
    hosts = [
        host(f"h{n}", vcpus, memory, types=types) for n, (vcpus, memory, types) in enumerate(sizes)
    ]
    request = ask(*wanted, replicas=replicas)
    if sum(count for _, count, _ in wanted) * replicas > 6:
        request = msgspec.structs.replace(request, replicas=1)
    found = decide(hosts, request)

    assert possible(hosts, request) == (not isinstance(found, NoSite))
    if not isinstance(found, NoSite):
        assert_carried_out(hosts, request, found)


def assert_carried_out(hosts, request, placements):
    """The named hosts really hold what was answered."""
    used = Counter()
    for placement in placements:
        for position, resource in enumerate(request.stack.resources):
            vcpus, memory, kind = sizes()[resource.flavors[0].flavor_id]
            assert resource.count == sum(placement.hosts[position].values())
            for name, count in placement.hosts[position].items():
                used[name, "vcpus"] += vcpus * count
                used[name, "memory"] += memory * count
                used[name, position] += count
                [there] = [host for host in hosts if host.name == name.partition("/")[0]]
                assert kind in there.types.split("||")
                assert not resource.max_per_host or used[name, position] <= resource.max_per_host
    for (name, what), amount in used.items():
        if isinstance(what, str):
            [there] = [host for host in hosts if host.name == name.partition("/")[0]]
            assert amount <= getattr(there, what)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60), st.integers(1, 6)), max_size=6),
    st.lists(small_requests, max_size=8),
    st.integers(1, 12),
)
def test_large_sites_hold_all_that_was_answered(sizes, requests, replicas):
    """Several allocations one after another on classes of hosts, with a sum beside them."""
    hosts = [host(f"h{n}", *size, count=count) for n, (*size, count) in enumerate(sizes)]
    table = SiteTable(inventory(*hosts, Host("r", "z", "hi", 20, 30)))
    before = {source: table.free(source) for source in table.sources}
    ledger = Ledger(MemoryStore(), table)
    placed = []
    for wanted in requests:
        found = PLACER.decide(table, ask(*wanted, replicas=replicas))
        if not isinstance(found, NoSite):
            placed += found
            for placement in found:
                ledger.table.apply(placement.charges)
    used = Counter()
    for placement in placed:
        for source, takes in placement.charges.hosts.items():
            for name, vcpus, memory in takes:
                used[source, name, 0] += vcpus
                used[source, name, 1] += memory
    rooms = {
        f"{h.name}/{n}" if h.count > 1 else h.name: h for h in hosts for n in range(1, h.count + 1)
    }
    for (_, name, what), amount in used.items():
        assert amount <= (rooms[name].vcpus, rooms[name].memory)[what]
    for placement in placed:
        table.apply(placement.charges, -1)
    assert before == {source: table.free(source) for source in table.sources}


def test_what_packs_is_told_without_a_search():
    table = SiteTable(inventory(host("a", 4, count=2, zone="z1"), host("b", 4, zone="z2")))
    large = Machines("gp", 4, 8, count=1)
    for replicas, fits in ((0, [True, True]), (1, [True, True]), (2, [True, False])):
        asked = np.full(2, replicas)

        assert fits == packs(table, (large,), SiteView(table), asked).tolist(), replicas


@pytest.mark.parametrize(
    ("vcpus", "memory", "fits"),
    [(7, 100, True), (6, 100, False), (100, 12, True), (100, 11, False)],
    ids=["both", "no processors left", "both in memory", "no memory left"],
)
def test_what_one_resource_takes_of_a_host_the_next_does_not_find(vcpus, memory, fits):
    """Two large ones leave 2 and 2 of 6 and 6, of which no third makes use."""
    table = SiteTable(inventory(host("a", vcpus, memory, count=2)))
    wanted = (Machines("gp", 4, 8, count=2), Machines("gp", 3, 4, count=1, resource=1))

    assert [fits] == packs(table, wanted, SiteView(table), np.ones(1, np.int64)).tolist()


def test_a_full_site_of_unknown_hosts_takes_no_machine():
    full = Host("r", "z1", "gp", 8, 100, 8, 0)
    overdrawn = Host("r", "z2", "gp", 8, 100, 9, 0)
    table = SiteTable(inventory(full, overdrawn, Host("r", "z3", "gp", 8, 100, 6, 0)))

    assert [0, 0, 2] == slots(table, Machines("gp", 1, 2, count=1), SiteView(table)).tolist()


asked_sizes = st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(1, 3))


@given(st.lists(asked_sizes, min_size=1, max_size=3), st.integers(1, 3))
def test_where_only_sums_are_known_just_what_fits_altogether_is_laid(asked, replicas):
    """All of a stack takes of one sum; of what takes nothing there is nothing to lay."""
    site, host = Site("s", "r", "z"), Host("r", "z", "gp", 12, 18)
    table = SiteTable(Inventory(sites=(site,), hosts=(host,)))
    wanted = [Machines("gp", *size, resource=n) for n, size in enumerate(asked)]

    laid = lay(table, wanted, 0, replicas, {})

    vcpus, memory = (sum(one[at] * one[2] for one in asked) * replicas for at in (0, 1))
    assert (vcpus <= 12 and memory <= 18) == (laid is not None)
    for hand in laid or ():
        there = {piece.resource: piece.count for piece in hand}
        assert {n: one[2] for n, one in enumerate(asked) if any(one[:2])} == there
    assert replicas == len(laid or range(replicas))

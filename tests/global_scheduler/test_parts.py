"""Small parts of the global scheduler, each alone."""

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from bayplan.clock import run_virtual
from bayplan.global_scheduler import listing, members, quotas
from bayplan.global_scheduler.fields import Fields
from bayplan.global_scheduler.inventory import (
    EipPool,
    Flavor,
    Host,
    Inventory,
    Quota,
    Site,
    VolumePool,
    merged,
    read_hosts,
    read_quota,
    read_volume_pools,
)
from bayplan.global_scheduler.ledger import COMMITTED
from bayplan.global_scheduler.levels import together
from bayplan.global_scheduler.packing import UNLIMITED, _slots_of
from bayplan.global_scheduler.placer import DEFAULT_POLICY, NoSite, Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.plugins.scores import (
    STORAGE_WEIGHT,
    SiteResourcesLeastAllocated,
    free_share,
    matches,
)
from bayplan.global_scheduler.sources import Charges
from bayplan.global_scheduler.stack import (
    Allocation,
    FlavorChoice,
    Requirement,
    Resource,
    Stack,
)
from bayplan.global_scheduler.table import SiteTable, _amounts
from bayplan.global_scheduler.view import SiteView
from bayplan.global_scheduler.writer import Writer, _backoff
from bayplan.store import Conflict, KeyValue, MemoryStore, NotFound
from bayplan.testing import make_node
from tests.global_scheduler.sites import ask, three_sites
from tests.global_scheduler.test_service import service_on, snapshot, with_id


@pytest.mark.parametrize(
    ("operator", "values", "labels", "met"),
    [
        ("in", ("b", "c"), {"a": "b"}, True),
        ("in", ("b",), {"a": "x"}, False),
        ("in", ("b",), {}, False),
        ("=", ("b",), {"a": "b"}, True),
        ("==", ("b",), {"a": "x"}, False),
        ("notin", ("b",), {"a": "b"}, False),
        ("notin", ("b",), {"a": "x"}, True),
        ("!=", ("b",), {}, True),
        ("exists", (), {"a": ""}, True),
        ("exists", (), {}, False),
        ("!", (), {"a": ""}, False),
        ("!", (), {}, True),
        ("gt", ("3",), {"a": "4"}, True),
        ("gt", ("3",), {"a": "3"}, False),
        ("lt", ("3",), {"a": "2"}, True),
        ("lt", ("3",), {"a": "3"}, False),
        ("gt", ("3",), {"a": "x"}, False),
        ("gt", ("x",), {"a": "4"}, False),
        ("lt", ("3",), {}, False),
        ("odd", ("b",), {"a": "b"}, False),
    ],
)
def test_what_labels_meet(operator, values, labels, met):
    assert met is matches(labels, [Requirement("a", operator, values)])


def test_labels_meet_all_requirements_or_none_do():
    both = [Requirement("a", "exists", ()), Requirement("b", "exists", ())]

    assert matches({"a": "", "b": ""}, both)
    assert not matches({"a": ""}, both)
    assert matches({}, [])


def test_hosts_of_a_class_count_as_often_as_there_are():
    one = Host("r", "z", "gp", 8, 32, 3, 10)
    three = Host("r", "z", "gp", 4, 16, 1, 2, count=3)

    assert (8 + 12, 32 + 48, 5 + 9, 22 + 42) == _amounts([one, three])


@pytest.mark.parametrize(
    ("left", "capacity", "share"),
    [(5, 10, 50), (10, 10, 100), (0, 10, 0), (-5, 10, 0), (0, 0, 0), (1, 3, 33), (2, 3, 66)],
)
def test_what_stays_free_in_hundredths(left, capacity, share):
    assert [share] == free_share(np.array([left]), np.array([capacity])).tolist()


@pytest.mark.parametrize(
    ("wanted", "shares", "weight"),
    [
        pytest.param({"SAS": 50}, [60, 83, 60], 1, id="one kind"),
        pytest.param({"SAS": 50, "odd": 9}, [60, 83, 60], 1, id="and one that no site knows"),
        pytest.param({"SAS": 1000}, [0, 0, 0], 1, id="more than there is"),
        pytest.param({"odd": 9}, [0, 0, 0], 0, id="none that is known"),
        pytest.param({}, [0, 0, 0], 0, id="none"),
    ],
)
def test_storage_counts_as_far_as_it_is_asked_for(wanted, shares, weight):
    """Two volumes each: 700 of 1000, 600 of 600 and 400 of 500 are free."""
    total, weights = np.zeros(3, np.int64), np.zeros(3, np.int64)
    view = SiteView(SiteTable(three_sites()))

    SiteResourcesLeastAllocated._add_storage(ask(1, storage=wanted), view, total, weights)

    assert [share * STORAGE_WEIGHT for share in shares] == total.tolist()
    assert [weight * STORAGE_WEIGHT] * 3 == weights.tolist()


def test_machines_of_no_size_fit_without_end():
    """Sites may have flavors of other sizes; where one has none, nothing of it is asked for."""
    asked = []

    def slots(vcpus, memory, most):
        asked.append((vcpus, memory, most))
        return np.array([10 * vcpus, 100 * vcpus])

    rooms = SimpleNamespace(of_row=np.array([0, 1, 1, 0]), slots=slots)
    view = SimpleNamespace(count=4, take=lambda column: column)
    sizes = np.array([1, 2, 0, 0]), np.array([0, 4, 0, 4])

    found = _slots_of(rooms, view, *sizes, 7)

    assert [10, 200, int(UNLIMITED), 0] == found.tolist()
    assert {(1, 0, 7), (2, 4, 7), (0, 4, 7)} == set(asked)
    assert [30, 300, 300, 30] == _slots_of(rooms, view, 3, 4, 7).tolist()


def test_volumes_of_all_types_are_one_line():
    lines = np.array([[1, 2], [3, 4], [5, 6], [7, 8]])

    assert lines[:3].tolist() == together(lines[:3]).tolist()
    assert [[1, 2], [3, 4], [12, 14]] == together(lines).tolist()


def fields(value):
    return Fields(value, [], "file.json")


def hosts(*entries, **more):
    place = {"region": "r", "availability_zone": "z"}
    infos = [{"resource_type": "gp", "total_vcpus": 8, "total_mem": 16} | each for each in entries]
    found = fields(place | {"node_infos": infos})
    read = read_hosts(found, **more)
    return [each.count for each in read], found.problems


def test_how_many_hosts_an_entry_is():
    assert ([0, 0, 2], []) == hosts({}, {"host_count": 0}, {"host_count": 2, "name": "a"})
    assert ([1, 3], []) == hosts({"name": "a"}, {"host_count": 3, "name": "b"}, pack=True)
    assert 1 == len(hosts({"host_count": -1})[1])
    assert 1 == len(hosts({"host_count": 1})[1]), "real hosts have names"
    assert 1 == len(hosts({"name": "a"}, {"name": "a"}, pack=True)[1])


@pytest.mark.parametrize(
    ("facts", "honour", "total"),
    [
        ({}, False, 100),
        ({"max_over_subscription_ratio": 2.0}, False, 200),
        ({"max_over_subscription_ratio": 0}, False, 100),
        ({"reserved_percentage": 0.25}, False, 100),
        ({"reserved_percentage": 0.25}, True, 75),
        ({"reserved_percentage": 7}, True, 0),
    ],
)
def test_how_much_a_pool_of_volumes_holds(facts, honour, total):
    capabilities = {"volume_type": "SAS", "total_capacity_gb": 100, "provisioned_capacity_gb": 5}
    pool = {"availability_zone": "z", "capabilities": capabilities | facts}
    found = read_volume_pools(fields({"region": "r", "pools": [pool]}), honour_reserved=honour)

    assert [VolumePool("r", "z", "SAS", total, 5)] == found


def test_a_quota_limits_what_it_names():
    found = read_quota(fields({"domain_id": "d", "vcpus": 0}))

    assert ("d", {"vcpus": 0}) == (found.domain, dict(found.limits))


def test_others_have_their_turn_while_much_is_listed(monkeypatch):
    monkeypatch.setattr(listing, "PIECE", 2)

    async def main():
        turns, loop = [], asyncio.get_running_loop()
        loop.call_soon(turns.append, "other")
        told = listing._told([1, 2, 3], lambda n: {"n": n})
        return [(item["n"], len(turns), loop.time()) async for item in told]

    assert [(1, 0, 0.0), (2, 0, 0.0), (3, 1, 0.0)] == run_virtual(main())


@pytest.mark.parametrize(
    ("lost", "pauses"),
    [
        (Conflict("k", KeyValue("k", b"", 1, 3), 1), [0.001, 0.001, 0.001]),
        (Conflict("k", KeyValue("k", b"", 1, 0), 1), []),
        (Conflict("k", None, 1), []),
        (NotFound("k"), []),
    ],
    ids=["behind", "not behind", "it is gone", "not found"],
)
async def test_who_lost_waits_until_it_has_seen_what_the_other_wrote(lost, pauses):
    writer, waited = object.__new__(Writer), []
    writer.ledger = SimpleNamespace(seen=0)

    async def pause(seconds):
        waited.append(seconds)
        writer.ledger.seen += 1

    writer._pause = pause
    await writer._catch_up(lost, 2)

    assert [*pauses, 0.002] == waited


def test_a_loser_waits_longer_each_time_up_to_a_bound():
    assert [0.0005, 0.001, 0.002, 0.05] == [_backoff(n) for n in (0, 1, 2, 20)]


async def test_what_is_committed_already_stays_as_it_is():
    service = service_on(MemoryStore())
    await service.start()
    made = await service.create(with_id(ask(1, count=1)))
    before = snapshot(service.table)

    again = await service.commit(made.id)

    assert (COMMITTED, made.id, before) == (again.state, again.id, snapshot(service.table))
    await service.stop()


def test_of_a_pool_of_volumes_zone_and_type_must_be_told():
    problems = []
    wrong = {"region": "r", "pools": [{"capabilities": {}}]}
    read_volume_pools(Fields(wrong, problems), honour_reserved=False)

    assert 2 == len(problems)


def test_two_inventories_are_one_with_all_their_parts():
    one, other = (
        Inventory(
            sites=(Site(f"s{n}", "r", f"z{n}"),),
            hosts=(Host("r", f"z{n}", "gp", 1, 1),),
            flavors=(Flavor("r", f"f{n}", 1, 1, "gp"),),
            eip_pools=(EipPool("r", f"ip{n}", 1),),
            volume_pools=(VolumePool("r", f"z{n}", "SAS", 1, 0),),
            volume_types=frozenset({f"T{n}"}),
        )
        for n in (1, 2)
    )

    both = merged(one, other)

    assert {"T1", "T2"} == both.volume_types
    for name in ("sites", "hosts", "flavors", "eip_pools", "volume_pools", "quotas"):
        assert getattr(one, name) + getattr(other, name) == getattr(both, name)


@pytest.mark.parametrize(
    ("used", "more", "text"),
    [
        (3, 2, None),
        (3, 3, 'domain "d" would have 6 vcpus and may have 5; it has 3 now'),
        (9, 0, None),
        (0, 6, 'domain "d" would have 6 vcpus and may have 5; it has 0 now'),
    ],
)
@pytest.mark.parametrize("owner", ["d", "*", "other"])
def test_who_may_have_no_more_is_told_what_it_has(owner, used, more, text):
    known = {} if not used else {"vcpus": used}
    found = {owner: Quota(owner, {"vcpus": 5, "memory": 1})}
    if text is None or owner == "other":
        quotas.check(found, "d", known, {"vcpus": more})
        return
    with pytest.raises(quotas.QuotaError) as told:
        quotas.check(found, "d", known, {"vcpus": more})

    assert text == str(told.value)


@pytest.mark.parametrize(
    ("size", "fits"),
    [((1, 1), True), ((0, 1), False), ((1, 0), False)],
)
@pytest.mark.parametrize("quick", [False, True])
def test_a_machine_has_processors_and_memory(size, fits, quick):
    table = SiteTable(
        Inventory(
            (Site("s", "r", "z"),), (Host("r", "z", "gp", 4, 4),), (Flavor("r", "f", *size, "gp"),)
        )
    )
    stack = Stack("s", (Resource("r", (FlavorChoice("f"),)),))
    found = Placer(DEFAULT_POLICY, in_tree_registry(), quick=quick).decide(
        table, Allocation("a", stack)
    )

    assert fits is not isinstance(found, NoSite)


@pytest.mark.parametrize(("free", "fits"), [(2, True), (1, False)])
@pytest.mark.parametrize("quick", [False, True])
def test_as_many_addresses_as_are_asked_for_are_enough(free, fits, quick):
    table = SiteTable(
        Inventory(
            (Site("s", "r", "z", eip_pool="ip"),),
            (Host("r", "z", "gp", 9, 9),),
            (Flavor("r", "f", 1, 1, "gp"),),
            eip_pools=(EipPool("r", "ip", 5, 5 - free),),
        )
    )
    stack = Stack("s", (Resource("r", (FlavorChoice("f"),), 2, need_eip=True),))
    found = Placer(DEFAULT_POLICY, in_tree_registry(), quick=quick).decide(
        table, Allocation("a", stack)
    )

    assert fits is not isinstance(found, NoSite)


@pytest.mark.parametrize(
    ("node", "usable"),
    [
        (make_node("n").ready(), True),
        (make_node("n").ready().cordon(), False),
        (make_node("n").ready("False"), False),
        (make_node("n").ready("False").cordon(), False),
    ],
    ids=["ready", "closed", "not ready", "neither"],
)
def test_which_nodes_of_a_member_count(node, usable):
    assert usable is members._usable(node.build())


def test_charges_are_taken_from_all_their_sources_wherever_hosts_are_listed():
    """And given back: machines of real hosts, of a sum, and volumes, in one charge."""
    table = SiteTable(
        Inventory(
            (Site("s", "r", "z"),),
            (Host("r", "z", "gp", 4, 4, name="a", count=2), Host("r", "z", "hi", 9, 9)),
            (Flavor("r", "f", 3, 1, "gp"),),
            volume_pools=(VolumePool("r", "z", "SAS", 50, 0),),
            volume_types=frozenset({"SAS"}),
        )
    )
    gp, hi = "hosts/r/z/gp", "hosts/r/z/hi"
    [volumes] = (source for source in table._slots if "SAS" in source)
    takes = {"gone": (1,), gp: (3, 1), hi: (2, 3), volumes: (20,)}
    charges = Charges(takes, {gp: (("a/1", 3, 1),)})
    free = {source: table.free(source) for source in (gp, hi, volumes)}
    assert 2 == table.pools["gp"].machines_at(0, 3, 1)

    table.apply(charges)

    assert 1 == table.pools["gp"].machines_at(0, 3, 1)
    assert 2 == table.pools["hi"].machines_at(0, 3, 3)
    for source, before in free.items():
        left = [a - b for a, b in zip(before, takes[source], strict=False)]
        assert left == [*table.free(source)][: len(left)]
    table.apply(charges, -1)
    assert free == {source: table.free(source) for source in free}

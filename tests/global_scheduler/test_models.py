"""Parts that are written for speed against plain ones: shares, hosts, bins, and quick bounds."""

import itertools
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.global_scheduler import hosts as hosts_module
from bayplan.global_scheduler import quick as quick_module
from bayplan.global_scheduler.bins import Bin, Item, search
from bayplan.global_scheduler.hosts import HostRoom
from bayplan.global_scheduler.inventory import EipPool, Flavor, Host, Inventory, Site
from bayplan.global_scheduler.placer import DEFAULT_POLICY, Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.plugins.capacity import FlavorPlan, replicas_that_fit
from bayplan.global_scheduler.quick import Quick
from bayplan.global_scheduler.stack import Allocation, FlavorChoice, Resource, Spread, Stack
from bayplan.global_scheduler.stack import Strategy as How
from bayplan.global_scheduler.strategy import Candidate, spread
from bayplan.global_scheduler.table import SiteTable
from bayplan.global_scheduler.view import SiteView
from tests.global_scheduler.test_quick import inventory, request

# -- shares of replicas


def shares(candidates, replicas, how, pools, apart, beyond):
    """The rules of `strategy`, with fractions and without shortcuts."""
    if how.region_strategy == "alone":
        rooms = {}
        for one in candidates:
            rooms.setdefault(one.region, Counter())[one.eip_pool] += one.capacity
        whole = {
            region: sum(min(n, pools.get(pool, n)) for pool, n in by_pool.items())
            for region, by_pool in rooms.items()
        }
        how = How(how.location_strategy)
        for region in sorted(whole, key=whole.get, reverse=True):  # the first of equal ones
            some = [one for one in candidates if one.region == region]
            if (found := shares(some, replicas, how, pools, apart, beyond)) is not None:
                return found
        return None
    given, left = Counter(), dict(pools)

    def give(one, most):
        room = [most, replicas - given.total(), one.capacity - given[one.row]]
        if one.eip_pool in left:
            room.append(left[one.eip_pool])
        for cap, part in ((apart.max_per_zone, "zone"), (apart.max_per_region, "region")):
            alike = [c for c in candidates if getattr(c, part) == getattr(one, part)]
            room += [cap - sum(given[c.row] for c in alike)] if cap else []
        some = max(min(room), 0)
        given[one.row] += some
        if one.eip_pool in left:
            left[one.eip_pool] -= some

    if how.location_strategy != "centralize":
        total = beyond + sum(one.capacity for one in candidates)
        part = {one.row: Fraction(replicas * one.capacity, total) for one in candidates}
        for one in candidates:
            give(one, max(int(part[one.row] + Fraction(1, 2)), 1))
        if beyond and given.total() < replicas:
            return None
        for one in sorted(candidates, key=lambda one: -(part[one.row] % 1)):
            give(one, 1)
    for one in candidates:
        give(one, replicas)
    return dict(+given) if given.total() == replicas else None


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_replicas_are_shared_out_by_the_rules(seed):
    choose = random.Random(seed).choice
    candidates = []
    for row in range(choose(range(1, 7))):
        region = choose((0, 1))
        room = choose((1, 1, 2, 3, 5, 8))
        zone = 10 * region + choose((0, 1))
        candidates.append(Candidate(row, room, region, choose((-1, 0, 1)), zone, row))
    pools = {pool: choose((0, 1, 3, 9)) for pool in (0, 1) if choose((0, 1))}
    how = How(choose(["", "centralize", "discrete"]), choose(["", "", "alone"]))
    apart = Spread(0, choose((0, 0, 1, 2)), choose((0, 0, 3)))
    replicas, beyond = choose(range(1, 12)), choose((0, 0, 1, 7))

    wanted = shares(candidates, replicas, how, pools, apart, beyond)

    assert wanted == spread(candidates, replicas, how, pools, beyond, apart)


# -- hosts


class Hosts:
    """What is free on the hosts of one source, worked out from the charges."""

    def __init__(self, hosts):
        self.names, self.start, self.charges = [], {}, []
        known = set()
        for host in hosts:
            if host.name in known:
                continue  # of two of one name the first counts
            known.add(host.name)
            for number in range(host.count):
                name = host.name if host.count == 1 else f"{host.name}/{number + 1}"
                self.names.append(name)
                self.start[name] = [host.vcpus - host.used_vcpus, host.memory - host.used_memory]
        rest = [host for host in hosts if not host.count]
        if rest:
            self.names.append("")
            self.start[""] = [
                sum(host.vcpus - host.used_vcpus for host in rest),
                sum(host.memory - host.used_memory for host in rest),
            ]

    def free(self):
        free = {name: list(amounts) for name, amounts in self.start.items()}
        for _, named in self.charges:
            for name, *take in named:
                for d in (0, 1):
                    if name in free:
                        free[name][d] -= take[d]
        for d in (0, 1):
            loose = sum(a[d] - sum(take[1 + d] for take in named) for a, named in self.charges)
            order = sorted(self.names, key=lambda name: (name != "", -free[name][d]))
            first = order[0] if order else None
            for name in order:
                part = min(loose, max(free[name][d], 0))
                free[name][d] -= part
                loose -= part
            if loose:
                free[first][d] -= loose
        return [tuple(free[name]) for name in self.names]


def some_hosts(choose):
    sizes = (choose((3, 8)), choose((5, 9)), choose((0, 1)), choose((0, 2)))
    found = [Host("r", "z", "gp", *sizes, name="a", count=choose((1, 2, 3)))]
    if choose((0, 1)):
        found.append(Host("r", "z", "gp", choose((4, 9)), 7, name="b", count=1))
    if choose((0, 0, 1)):
        found.append(Host("r", "z", "gp", 99, 99, name="a", count=1))
    rest = [Host("r", "z", "gp", choose((2, 5)), 6, 1, 2) for _ in range(choose((0, 1, 2)))]
    return found + rest


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_hosts_have_free_what_charges_leave(seed):
    choose = random.Random(seed).choice
    groups = {source: some_hosts(choose) for source in ("one", "two")}
    room = HostRoom(groups, np.array([0, 1, 2]))
    models = {source: Hosts(hosts) for source, hosts in groups.items()}
    for source, model in models.items():
        number = room.numbers[source]
        assert model.names == [room.name(number, at) for at in range(len(model.names))]
        assert len([name for name in model.names if name]) == room.listed[number]
    sizes = [(1, 1, 0), (2, 3, 0), (1, 2, 2), (0, 1, 0), (1, 0, 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hosts_module, "CHANGES_KEPT", choose((2, 10_000)))
        patch.setattr(hosts_module, "SIZES_KEPT", choose((1, 128)))
        for _ in range(8):
            source = choose(("one", "two"))
            model = models[source]
            if model.charges and choose((0, 1)):
                charge, times = model.charges.pop(choose(range(len(model.charges)))), -1
            else:
                names = [name for name in model.names if name] + ["gone", "a/9", "a/0", "a/x"]
                named = [(choose(names), choose((0, 1, 2)), choose((0, 2))) for _ in range(2)]
                named = named[: choose((0, 1, 2))]
                whole = [sum(take[d] for take in named) + choose((0, 0, 3, 9)) for d in (1, 2)]
                charge, times = (whole, named), 1
                model.charges.append(charge)
            room.apply(source, *charge, times)
            assert len(room._changes) <= hosts_module.CHANGES_KEPT
            for name, one in models.items():
                number = room.numbers[name]
                free = one.free()

                assert free == list(zip(*room.free[:, room.span(number)].tolist(), strict=True))
                least = (0, 0) if len(free) > 1 else (-99, -99)
                sums = tuple(sum(max(f[d], least[d]) for f in free) for d in (0, 1))
                assert sums == room.left(name)
                named = [take for _, takes in one.charges for take in takes]
                held = {"", *(take[0] for take in named)}
                looked = [f for n, f in zip(one.names, free, strict=True) if n in held]
                assert all(min(f) >= 0 for f in looked) == room.covers(name, named)
            size = choose(sizes)
            assert [
                sum(fits(f, size, bool(n)) for n, f in zip(one.names, one.free(), strict=True))
                for one in models.values()
            ] == room.slots(*size).tolist()[:2]
            assert len(room._slots) <= hosts_module.SIZES_KEPT


def fits(free, size, real):
    """How many machines of a size a host takes."""
    vcpus, memory, most = size
    count = max(min(free[0] // max(vcpus, 1), free[1] // max(memory, 1)), 0)
    return count if not most else min(count, most) if real else 0


# -- bins


def holds(items, bins, way):
    for number, place in enumerate(bins):
        inside = [item for item, at in zip(items, way, strict=True) if at == number]
        count = Counter(place.there) + Counter(item.resource for item in inside)
        if (
            sum(item.vcpus for item in inside) > place.vcpus
            or sum(item.memory for item in inside) > place.memory
            or any(place.pool not in item.pools for item in inside)
            or any(item.most and not place.real for item in inside)
            or any(item.most and count[item.resource] > item.most for item in inside)
        ):
            return False
    return True


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_a_way_to_put_items_into_bins_is_found_where_there_is_one(seed):
    choose = random.Random(seed).choice
    items = []
    for resource in range(choose((1, 2, 3))):
        pools = choose((frozenset("p"), frozenset("pq")))
        size = choose((1, 2, 3)), choose((1, 2, 3))
        items += [Item(resource, pools, *size, choose((0, 0, 1, 2)))] * choose((1, 2))
    bins = [
        Bin(choose("pq"), choose((True, True, False)), choose((2, 4, 5)), choose((2, 4, 5)), {})
        for _ in range(choose((1, 2, 3)))
    ]
    for place in bins:
        place.there.update({0: choose((0, 1))} if choose((0, 1)) else {})
    before = [place.state() for place in bins]
    ways = itertools.product(range(len(bins)), repeat=len(items))
    good = {way for way in ways if holds(items, bins, way)}

    found = search(items, bins, 10_000)

    if found is None:
        assert not good
        assert before == [place.state() for place in bins]
    else:
        assert tuple(found) in good
        assert search(items, [*bins], 0) is None


# -- the quick way


def quick_of():
    placer = Placer(DEFAULT_POLICY, in_tree_registry(), quick=False)
    return Quick.of(placer.filters, placer.scores)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_no_row_that_is_left_out_scores_more_than_its_bound(seed):
    """And what each row has room for is what the plugins say."""
    choose = random.Random(seed).choice
    table = SiteTable(inventory(choose, choose(range(10, 60))))
    quick = quick_of()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quick_module, "SMALL", 1)
        for number in range(8):
            allocation = request(choose, number)
            ask = quick._ask(table, allocation)
            if ask is None:
                continue
            for rows, bound in quick._rounds(table, ask, choose((1, 2))):
                every = np.arange(table.count) if ask.rows is None else ask.rows
                rest = np.setdiff1d(every, rows)
                assert bound is not None or not len(rest)
                _, _, totals = quick._fitting(table, ask, rest)
                assert not len(totals) or totals.max() <= bound
                some, choice, _ = quick._fitting(table, ask, rows)
                view = SiteView(table, some)
                plan = FlavorPlan(ask.combinations, ask.needs, choice)
                fit = replicas_that_fit(plan, allocation, view)
                assert fit.tolist() == quick_module._room(ask, view, choice).tolist()


@pytest.mark.parametrize("taken", [0, 50, 98])
def test_one_round_over_some_rows_is_enough_where_sites_differ(taken):
    """Else it would still be right, and slow."""
    table = SiteTable(
        Inventory(
            sites=tuple(Site(f"s{n:03}", "r0", f"z{n}", eip_pool="ip") for n in range(400)),
            hosts=tuple(Host("r0", f"z{n}", "gp", 400, 1600, n, 4 * n) for n in range(400)),
            flavors=(Flavor("r0", "f0", 2, 8, "gp"),),
            eip_pools=(EipPool("r0", "ip", 100, taken),),
        )
    )
    looked, quick = [], quick_of()
    inner = quick._fitting
    quick._fitting = lambda table, ask, rows: looked.append(len(rows)) or inner(table, ask, rows)
    stack = Stack("s", (Resource("r", (FlavorChoice("f0"),), need_eip=True),))

    [found] = quick.decide(table, Allocation("a", stack))

    assert "s000" == table.sites[found.row].id
    assert 1 == len(looked)
    assert looked[0] < 200

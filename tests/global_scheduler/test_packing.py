"""How machines are laid on pools and hosts, against a plain greedy way and all ways there are."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.global_scheduler import needs as needs_module
from bayplan.global_scheduler import packing as module
from bayplan.global_scheduler.inventory import Flavor, Host, Inventory, Site
from bayplan.global_scheduler.needs import Combination, Need, best_first, needed
from bayplan.global_scheduler.packing import (
    Machines,
    Piece,
    charges_of,
    lay,
    packs,
    quotient,
    slots,
)
from bayplan.global_scheduler.stack import FlavorChoice, Resource, SpotRequest, Stack
from bayplan.global_scheduler.table import SiteTable
from bayplan.global_scheduler.view import SiteView

REGIONS = ("r0", "r1")
POOLS = ("gp", "hi", "gp||hi")


def some_table(choose):
    """Sites with pools of sums, of hosts, of both, or of nothing; some overdrawn."""
    sites, hosts = [], []
    for number in range(choose((1, 2, 3, 5))):
        region, zone = choose(REGIONS), f"z{number}"
        sites.append(Site(f"s{number}", region, zone))
        for types in POOLS:
            for name in "abc"[: choose((0, 1, 1, 3))]:
                size = choose((2, 5, 9)), choose((3, 8, 12)), choose((0, 0, 1, 3)), choose((0, 4))
                count = choose((0, 1, 2))
                hosts.append(Host(region, zone, types, *size, name=name, count=count))
    return SiteTable(Inventory(tuple(sites), tuple(hosts)))


def some_machines(choose, table):
    """Machines of one size everywhere, or of another, or of none, in each region."""
    found = []
    for resource in range(choose((1, 1, 2, 3))):
        size = choose((1, 2, 3)), choose((1, 2, 4))
        if choose((False, False, True)):
            there = np.isin(table.facts["region"], [table.code_of("r0")]).astype(np.int64)
            size = size[0] * there, size[1] * there
        count, most = choose((1, 2, 3)), choose((0, 0, 1, 2))
        found.append(Machines(choose(("gp", "hi")), *size, count, resource, most))
    return found


def hosts_of(table, row, key):
    """Name (none for a sum), free vcpus and memory of each host of a pool that a site has."""
    pool = table.pools[key]
    if (source := pool.sources.get(row)) is None:
        return []
    if pool.hosts is None:
        return [["", *table.free(source)]]
    number = pool.hosts.numbers[source]
    free = pool.hosts.free[:, pool.hosts.span(number)].T.tolist()
    return [[pool.hosts.name(number, at), *each] for at, each in enumerate(free)]


def room(host, size, most, there=0):
    name, *free = host
    parts = [have // need for have, need in zip(free, size, strict=True) if need]
    count = max(min(parts), 0) if parts else 0
    return count if not most else max(min(count, most - there), 0) if name else 0


def greedily(table, row, wanted, replicas, used):
    """Pieces by resource; None as soon as one does not fit."""
    ground = {key: hosts_of(table, row, key) for key in table.pools}
    laid = {}
    for machines in wanted:
        size = machines.size(row)
        left = machines.count * replicas if any(size) else 0
        laid[machines.resource] = []
        for key in sorted(table.pools, key=lambda key: (len(key.split("||")), key)):
            if machines.kind not in key.split("||"):
                continue
            source = table.pools[key].sources.get(row)
            rooms = [
                room(h, size, machines.most, used.get((machines.resource, source, h[0]), 0))
                for h in ground[key]
            ]
            for at in sorted(range(len(rooms)), key=lambda at: rooms[at]):
                if some := min(rooms[at], left):
                    left -= some
                    name = ground[key][at][0]
                    ground[key][at][1] -= some * size[0]
                    ground[key][at][2] -= some * size[1]
                    laid[machines.resource].append((source, name, some))
        if left:
            return None
    return laid


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_machines_are_laid_greedily_and_what_is_counted_can_be_laid(seed):
    """For many sites at once as for one in detail; without the search of all ways."""
    choose = random.Random(seed).choice
    table = some_table(choose)
    wanted = some_machines(choose, table)
    rows = np.array([row for row in range(table.count) if choose((True, True, False))], np.int64)
    replicas = np.array([choose((0, 1, 2, 3)) for _ in rows], np.int64)
    view = SiteView(table, rows)
    used = {
        (machines.resource, pool.sources[row], name): choose((1, 2))
        for machines in wanted
        for pool in table.pools.values()
        for row in pool.sources
        for name in choose(((), ("a", "b/1")))
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_search", lambda *_: None)
        found = [
            lay(table, wanted, row, int(n), used)
            for row, n in zip(rows.tolist(), replicas, strict=True)
        ]
    for pieces, row, n in zip(found, rows.tolist(), replicas.tolist(), strict=True):
        expected = greedily(table, row, wanted, n, used)
        assert (expected is None) == (pieces is None)
        if pieces is None:
            continue
        assert n == len(pieces)
        laid = {machines.resource: Counter() for machines in wanted}
        for hand in pieces:
            for machines in wanted:
                mine = [piece for piece in hand if piece.resource == machines.resource]
                assert all(machines.size(row) == (p.vcpus, p.memory) for p in mine)
                count = machines.count if any(machines.size(row)) else 0
                assert count == sum(piece.count for piece in mine)
                for piece in mine:
                    laid[machines.resource][piece.source, piece.host] += piece.count
        for resource, parts in expected.items():
            assert {(source, name): n for source, name, n in parts} == laid[resource]
    fits = packs(table, wanted, view, replicas).tolist()
    alone = [
        greedily(table, row, wanted, n, {}) is not None
        for row, n in zip(rows.tolist(), replicas.tolist(), strict=True)
    ]
    assert alone == fits
    for machines in wanted:
        sizes = [machines.size(row) for row in rows.tolist()]
        rooms = [
            sum(
                room(host, size, machines.most)
                for key in table.pools_of(machines.kind)
                for host in hosts_of(table, row, key)
            )
            for row, size in zip(rows.tolist(), sizes, strict=True)
        ]
        counted = slots(table, machines, view).tolist()
        somewhere = [any(size) for size in sizes]
        assert [n for n, there in zip(rooms, somewhere, strict=True) if there] == [
            n for n, there in zip(counted, somewhere, strict=True) if there
        ]
        count = [machines.count if there else 0 for there in somewhere]
        assert count == needed(machines, view).tolist()


@given(st.lists(st.integers(-20, 20), max_size=5), st.lists(st.integers(0, 5), max_size=5))
def test_how_often_something_fits_is_cut_towards_zero_and_nothing_fits_without_end(free, sizes):
    def often(have, need):
        return int(have / need) if need else int(module.UNLIMITED)

    sizes = (sizes + [1] * 5)[: len(free)]
    have = np.array(free, np.int64)
    pairs = zip(free, sizes, strict=True)
    assert [often(*pair) for pair in pairs] == quotient(have, np.array(sizes, np.int64)).tolist()
    for size in set(sizes):
        assert [often(each, size) for each in free] == quotient(have, size).tolist()


# -- the search of all ways

FLAVORS = (
    Flavor("r", "middle", 3, 4, "gp"),
    Flavor("r", "large", 4, 8, "gp"),
    Flavor("r", "gone", 1, 1, "gp", abandoned=True),
)
HARD = (("large", 1), ("middle", 2))
"""The large one goes first, where two middle ones should: only another way fits."""


def hard(sites):
    """Sites with two hosts for which the greedy way does not fit, and the search does."""
    return SiteTable(
        Inventory(
            tuple(Site(f"s{n}", "r", f"z{n}") for n in range(sites)),
            tuple(
                Host("r", f"z{n}", "gp", vcpus, 99, name=name, count=1)
                for n in range(sites)
                for name, vcpus in (("a", 6), ("b", 4))
            ),
            FLAVORS,
        )
    )


def need_of(table, *wanted, spot=None, fake_spot=False, most=0):
    resources = tuple(
        Resource(f"r{n}", (FlavorChoice(flavor, spot),), count, max_per_host=most)
        for n, (flavor, count) in enumerate(wanted)
    )
    none = Combination((0,) * len(wanted), 10)
    return Need(table, Stack("s", resources), none, fake_spot=fake_spot)


@pytest.mark.parametrize(
    ("limit", "value", "found"),
    [
        ("SEARCH_MACHINES", 3, True),
        ("SEARCH_MACHINES", 2, False),
        ("SEARCH_HOSTS", 2, True),
        ("SEARCH_HOSTS", 1, False),
        ("SEARCH_STEPS", 0, False),
    ],
)
def test_only_small_sites_are_searched(monkeypatch, limit, value, found):
    monkeypatch.setattr(module, limit, value)
    table = hard(1)
    need = need_of(table, *HARD)

    laid = need.lay(0, 1, {})

    assert found == (laid is not None)
    assert [found] == need.fits(SiteView(table)).tolist()
    assert [int(found)] == need.capacity(SiteView(table)).tolist()
    if laid:
        on = Counter((piece.host, piece.vcpus) for piece in laid[0] for _ in range(piece.count))
        assert {("a", 3): 2, ("b", 4): 1} == on


def test_only_so_many_sites_are_searched_and_each_once(monkeypatch):
    monkeypatch.setattr(needs_module, "SEARCHED", 2)
    asked = []
    monkeypatch.setattr(needs_module, "lay", lambda *given: asked.append(given[2:4]) or lay(*given))
    table = hard(3)
    need, view = need_of(table, *HARD), SiteView(table)
    for _ in range(2):
        assert [True, True, False] == need.fits(view).tolist()
        assert [1, 1, 0] == need.capacity(view).tolist()

    assert [(0, 1), (1, 1)] == asked
    assert [True, True] == need.fits(SiteView(table, np.array([1, 2]))).tolist()


def test_the_search_goes_on_as_long_as_one_more_fits():
    """Twice the room: two replicas, which only the search finds, and no third."""
    hosts = [("a", 6), ("b", 4), ("c", 6), ("d", 4)]
    table = SiteTable(
        Inventory(
            (Site("s", "r", "z"),),
            tuple(Host("r", "z", "gp", vcpus, 99, name=name, count=1) for name, vcpus in hosts),
            FLAVORS,
        )
    )
    need = need_of(table, *HARD)

    assert [2] == need.capacity(SiteView(table)).tolist()
    assert need.lay(0, 2, {}) is not None
    assert need.lay(0, 3, {}) is None


def test_large_machines_are_searched_for_first(monkeypatch):
    """So a search is over soon; here it would take more than twice the steps."""
    steps = []
    whole = module.search

    def search(items, bins, most):
        steps.append([max(item.vcpus, item.memory) for item in items])
        return whole(items, bins, most)

    monkeypatch.setattr(module, "search", search)
    table = hard(1)

    assert need_of(table, ("middle", 2), ("large", 1)).lay(0, 1, {}) is not None
    assert [[8, 4, 4]] == steps


@pytest.mark.parametrize(("there", "found"), [({}, True), ({"a": 1}, True), ({"b": 1}, False)])
def test_the_search_keeps_machines_apart_also_from_those_that_are_there(there, found):
    """Only with the large one on `b` there is a way; what another resource has does not count."""
    table = hard(1)
    wanted = [Machines("gp", 4, 8, 1, resource=0, most=1), Machines("gp", 3, 4, 2, resource=1)]
    [source] = table.pools["gp"].sources.values()
    used = {(0, source, name): count for name, count in there.items()}
    used |= {(1, source, "b"): 9, (0, "elsewhere", "b"): 1}

    assert found == (lay(table, wanted, 0, 1, used) is not None)


# -- what a combination needs


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_combinations_come_best_first_each_once_up_to_a_limit(limits):
    """A later choice weighs 10 // place; equal ones in the order of preference."""

    def weight(choices):
        return sum(10 // (choice + 1) for choice in choices)

    every = [()]
    for limit in limits:
        every = [(*before, choice) for before in every for choice in range(limit)]
    ranked = sorted(every, key=lambda choices: (-weight(choices), choices))
    found = list(best_first(limits))

    assert [(weight(choices), choices) for choices in ranked[: needs_module.MAX_COMBINATIONS]] == [
        (one.weight, one.choices) for one in found
    ]


SPOT = SpotRequest(spot_duration_hours=2, spot_duration_count=3)


def test_spot_machines_come_from_the_offer_of_their_hours_alone():
    from bayplan.global_scheduler.inventory import Spot

    offers = {"middle": {"immediate": Spot(1, {"6h": 5}), "delay": Spot(9, {"6h": 9})}}
    table = SiteTable(
        Inventory((Site("s", "r", "z", spot=offers), Site("t", "r", "y")), flavors=FLAVORS)
    )
    need = need_of(table, ("middle", 2), ("middle", 1), spot=SPOT)
    view = SiteView(table)

    assert [1, 0] == need.capacity(view).tolist()
    assert [True, False] == need.fits(view).tolist()
    [(source, taken)] = need.spot_takes(0).items()
    assert (3,) == taken
    assert (5,) == table.free(source)
    fake = need_of(table, ("middle", 2), ("middle", 1), spot=SPOT, fake_spot=True)
    assert [needs_module.FAKE_SPOT // 3] * 2 == fake.capacity(view).tolist()
    assert {} == fake.spot_takes(0)


def test_what_machines_take_is_added_up_by_source_and_host():
    pieces = [
        Piece(0, "one", "a", 2, 3, 4),
        Piece(1, "one", "a", 1, 1, 1),
        Piece(0, "one", "b", 1, 3, 4),
        Piece(0, "two", "", 2, 3, 4),
    ]

    charges = charges_of(pieces, {"eips": (2,)})

    assert {"one": (10, 13), "two": (6, 8), "eips": (2,)} == charges.takes
    assert {"one": (("a", 7, 9), ("b", 3, 4))} == charges.hosts

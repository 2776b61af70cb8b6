"""Replicas over sites, zones and regions: no more than allowed in one, and over enough of them."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.global_scheduler.inventory import Flavor, Host, Inventory, Site
from bayplan.global_scheduler.ledger import Record
from bayplan.global_scheduler.operations import group_of, grown, moved
from bayplan.global_scheduler.placer import DEFAULT_POLICY, NOT_APART, NoSite, Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.request import read_allocation
from bayplan.global_scheduler.stack import Spread, Strategy
from bayplan.global_scheduler.table import SiteTable
from tests.global_scheduler.sites import ID, ask

PLACER = Placer(DEFAULT_POLICY, in_tree_registry())
PLACES = tuple((f"r{n // 4}", f"z{n // 2 % 2}", f"s{n}") for n in range(8))
"""Two regions with two zones each, two sites a zone."""


def world(rooms=(9, 1, 2, 2, 3, 1, 1, 1)):
    return Inventory(
        sites=tuple(Site(site, region, zone) for region, zone, site in PLACES),
        hosts=tuple(
            Host(region, zone, "gp", room, 100, site=site)
            for (region, zone, site), room in zip(PLACES, rooms, strict=True)
        ),
        flavors=tuple(Flavor(region, "f", 1, 1, "gp") for region in ("r0", "r1")),
    )


def request(replicas, location="centralize", **apart):
    one = ask(replicas, flavors=("f",), count=1, storage={}, need_eip=False, location=location)
    selector = msgspec.structs.replace(one.selector, spread=Spread(**apart))
    return msgspec.structs.replace(one, selector=selector)


def place(request, inventory=None):
    return PLACER.decide(SiteTable(inventory or world()), request)


def by(placements, level):
    """Replicas by region, zone or site."""
    places = {site: (region, zone, site) for region, zone, site in PLACES}
    return Counter(places[placement.site_id][:level] for placement in placements)


@pytest.mark.parametrize(
    ("replicas", "apart", "expected"),
    [
        pytest.param(4, {}, {"s0": 4}, id="together without a spread"),
        pytest.param(4, {"max_per_site": 3}, {"s0": 3, "s4": 1}, id="at most three a site"),
        pytest.param(4, {"min_sites": 3}, {"s0": 2, "s2": 1, "s4": 1}, id="over three sites"),
        pytest.param(4, {"min_regions": 2}, {"s0": 3, "s4": 1}, id="over two regions"),
        pytest.param(4, {"max_per_region": 2}, {"s0": 2, "s4": 2}, id="at most two a region"),
        pytest.param(3, {"max_per_zone": 1, "min_zones": 3}, None, id="one a zone, over three"),
    ],
)
def test_replicas_spread_as_asked(replicas, apart, expected):
    placed = place(request(replicas, **apart))

    if expected is None:
        assert {1} == set(by(placed, 2).values())
    else:
        assert expected == Counter(placement.site_id for placement in placed)


def test_a_spread_that_cannot_be_had_is_said():
    refused = place(request(5, max_per_zone=1))

    assert {NOT_APART: 8} == refused.reasons


def test_more_zones_than_replicas_cannot_be_had():
    refused = place(request(1, min_zones=2))

    assert {NOT_APART: 8} == refused.reasons


@settings(max_examples=120, deadline=None)
@given(
    st.tuples(*[st.integers(0, 4)] * 8),
    st.integers(1, 9),
    st.sampled_from(["centralize", "discrete"]),
    st.tuples(*[st.integers(0, 3)] * 6),
)
def test_every_spread_is_kept_and_none_that_exists_is_missed(rooms, replicas, location, numbers):
    apart = Spread(*numbers[:3], *(min(number, replicas) for number in numbers[3:]))
    placed = place(request(replicas, location, **msgspec.structs.asdict(apart)), world(rooms))

    possible = most(rooms, apart) >= replicas and reaches(rooms, apart)
    assert possible == (not isinstance(placed, NoSite))
    if not isinstance(placed, NoSite):
        assert replicas == len(placed)
        caps = (apart.max_per_region, apart.max_per_zone, apart.max_per_site)
        least = (apart.min_regions, apart.min_zones, apart.min_sites)
        for level in (1, 2, 3):
            found = by(placed, level)
            assert not caps[level - 1] or max(found.values()) <= caps[level - 1]
            assert len(found) >= least[level - 1]


def room_by(rooms, apart, level):
    """How many replicas each region, zone or site takes, whatever the levels above say."""
    limits = {3: apart.max_per_site, 2: apart.max_per_zone, 1: apart.max_per_region}
    found = dict(zip(PLACES, rooms, strict=True))
    for deep in (3, 2, 1):
        capped = Counter()
        for place, room in found.items():
            capped[place[:deep]] += room
        found = Counter({p: min(n, limits[deep]) if limits[deep] else n for p, n in capped.items()})
        if deep == level:
            return found
    raise AssertionError(level)


def most(rooms, apart):
    return sum(room_by(rooms, apart, 1).values())


def reaches(rooms, apart):
    """Whether enough regions, zones and sites can have one each."""
    one = Spread(1, apart.max_per_zone, apart.max_per_region)
    sites = most(rooms, one)
    zones = most(rooms, msgspec.structs.replace(one, max_per_zone=1))
    regions = most(rooms, msgspec.structs.replace(one, max_per_region=1))
    return sites >= apart.min_sites and zones >= apart.min_zones and regions >= apart.min_regions


def with_groups_on(table, rows, one):
    """A record whose replicas are on these rows, taken from the table."""
    found = []
    for row in rows:
        selector = msgspec.structs.replace(one.selector, site_id=table.sites[row].id)
        alone = msgspec.structs.replace(one, selector=selector, replicas=1)
        [placement] = PLACER.decide(table, alone)
        table.apply(placement.charges)
        found.append(group_of(table, one, placement))
    return Record(ID, msgspec.structs.replace(one, replicas=len(rows)), tuple(found), 0.0)


def room_for_more(rooms, there, apart, allowed=range(8), *, fresh=0):
    """How many replicas more can be had beside those on the rows `there`, by plain recursion.

    With `fresh` only one in each region (1), zone (2) or site (3) that has none yet.
    """
    caps = (apart.max_per_region, apart.max_per_zone, apart.max_per_site)
    within = Counter(PLACES[row][:level] for row in there for level in (1, 2, 3))

    def left(prefix):
        level = len(prefix)
        if level == 3:
            row = PLACES.index(prefix)
            room = rooms[row] - there.count(row) if row in allowed else 0
        else:
            room = sum(left(p) for p in {x[: level + 1] for x in PLACES} if p[:-1] == prefix)
        if level and caps[level - 1]:
            room = max(0, min(room, caps[level - 1] - within[prefix]))
        return min(room, not within[prefix]) if level and level == fresh else room

    return left(())


@settings(max_examples=150, deadline=None)
@given(
    st.tuples(*[st.integers(0, 4)] * 8),
    st.lists(st.integers(0, 7), min_size=1, max_size=4),
    st.integers(1, 5),
    st.sampled_from(["centralize", "discrete"]),
    st.tuples(*[st.integers(0, 4)] * 6),
)
def test_those_that_are_there_count_for_the_spread_of_those_that_come(
    rooms, there, more, location, numbers
):
    """Of growing, and of moving all that is on one site."""
    rooms = tuple(max(room, there.count(row)) for row, room in enumerate(rooms))
    apart = Spread(*numbers)
    table = SiteTable(world(rooms))
    record = spread_anew(with_groups_on(table, there, request(1, location)), apart)

    grew = grown(PLACER, table, record, len(there) + more)

    room = room_for_more(rooms, there, apart)
    least = (apart.min_regions, apart.min_zones, apart.min_sites)
    lack = [n - len({PLACES[row][:level] for row in there}) for level, n in enumerate(least, 1)]
    reached = [room_for_more(rooms, there, apart, fresh=level) for level in (1, 2, 3)]
    possible = room >= more and all(n <= min(more, m) for n, m in zip(lack, reached, strict=True))
    assert possible == (not isinstance(grew, NoSite))
    if not isinstance(grew, NoSite):
        new = rows_of(grew)[len(there) :]
        assert (record.groups, more) == (grew.groups[: len(there)], len(new))
        assert room - more == room_for_more(rooms, [*there, *new], apart)
        for level, number in enumerate(least, 1):
            assert len({PLACES[row][:level] for row in (*there, *new)}) >= number

    apart = Spread(*numbers[:3])
    left, others = there[0], [row for row in range(8) if row != there[0]]
    went, refused = moved(PLACER, table, spread_anew(record, apart), {f"s{left}"})

    stay = [row for row in there if row != left]
    moves = min(there.count(left), room_for_more(rooms, stay, apart, others))
    assert there.count(left) - moves == rows_of(went).count(left)
    assert (moves == there.count(left)) == (refused is None)


def rows_of(record):
    return [int(group.selected.node_id[1:]) for group in record.groups]


def spread_anew(record, apart):
    selector = msgspec.structs.replace(record.allocation.selector, spread=apart)
    allocation = msgspec.structs.replace(record.allocation, selector=selector)
    return msgspec.structs.replace(record, allocation=allocation)


def test_a_region_that_has_room_but_not_for_the_spread_leaves_it_to_the_next():
    wanted = request(2, max_per_zone=1)
    strategy = Strategy("centralize", "alone")
    selector = msgspec.structs.replace(wanted.selector, strategy=strategy)
    wanted = msgspec.structs.replace(wanted, selector=selector)

    placed = place(wanted, world((9, 9, 0, 0, 1, 0, 1, 0)))

    assert {"s4": 1, "s6": 1} == Counter(placement.site_id for placement in placed)


def test_the_body_is_checked():
    body = {
        "allocation": {
            "resource_group": {
                "name": "g",
                "resources": [{"name": "r", "flavors": [{"flavor_id": "f"}], "max_per_host": 1}],
            },
            "selector": {
                "strategy": {"region_strategy": "alone"},
                "spread": {"min_sites": 3, "minRegions": 2, "max_per_site": -1},
            },
            "replicas": 2,
        }
    }
    allocation, problems = read_allocation(body, flavors={"f"}, volume_types=(), new_id=ID)

    assert 1 == allocation.stack.resources[0].max_per_host
    assert [
        "allocation.selector.spread.max_per_site: must be at least 0, got -1",
        "allocation.selector.spread.min_sites: is 3, but there are 2 replicas",
        "allocation.selector.spread.min_regions: contradicts the region strategy alone",
    ] == [str(problem) for problem in problems]

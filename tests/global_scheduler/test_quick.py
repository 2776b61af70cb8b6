"""The quick way decides as the placer that looks at every site, whatever is asked."""

import itertools
import random
from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.global_scheduler import quick as quick_module
from bayplan.global_scheduler import table as table_module
from bayplan.global_scheduler.files import Policy, PolicyEntry
from bayplan.global_scheduler.inventory import (
    EipPool,
    Flavor,
    Host,
    Inventory,
    Site,
    VolumePool,
)
from bayplan.global_scheduler.levels import Emptiness
from bayplan.global_scheduler.placer import DEFAULT_POLICY, NoSite, Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.plugins.scores import EIP_WEIGHT
from bayplan.global_scheduler.quick import Quick
from bayplan.global_scheduler.sources import Charges
from bayplan.global_scheduler.stack import (
    Allocation,
    FlavorChoice,
    Geo,
    RegionChoice,
    Residency,
    Resource,
    Selector,
    SpotRequest,
    Spread,
    Stack,
    Strategy,
)
from bayplan.global_scheduler.table import SiteTable

REGIONS = ("r0", "r1", "r2")


def inventory(choose, sites):
    """Sites of few sizes, so that ties are many; some share hosts, volumes and addresses."""
    pools = [region for region in REGIONS if choose((False, True))]
    hosts = []
    listed = choose([0, 0, 1])
    for n in range(sites):
        vcpus = choose((8, 16, 64))
        for name in range(1 + listed):
            count = 2 * listed
            size = (vcpus, 4 * vcpus, choose(range(13)), choose(range(13)))
            place = (REGIONS[n % 3], f"z{n // 6}")
            hosts.append(Host(*place, "gp", *size, name=f"{n}-{name}", count=count))
    types = ["gp", choose(["gp", "gp", "hi"])]
    return Inventory(
        sites=tuple(
            Site(
                f"s{choose(range(0, 10))}-{n}",
                REGIONS[n % 3],
                f"z{n // 6}",
                status=choose(["Normal"] * 5 + ["Offline"]),
                operator=f"op{n % 2}",
                country=("de", "fr", "")[n % 3],
                eip_pool=choose(["ip", "ip", "none"]),
                domains=choose([None, None, frozenset({"mine"})]),
            )
            for n in range(sites)
        ),
        hosts=tuple(hosts),
        flavors=tuple(
            Flavor(region, f"f{n}", n + 1 + (region == "r2" and odd), 4 * n + 2, types[n % 2])
            for odd in (choose((False, True)),)
            for region in REGIONS
            for n in range(3)
        ),
        eip_pools=tuple(EipPool(region, "ip", choose([6, 500])) for region in pools),
        volume_pools=tuple(
            VolumePool(region, f"z{zone}", "SAS", 900, choose(range(0, 901)))
            for region in REGIONS
            for zone in range(sites // 6 + 1)
            if choose((False, True))
        ),
        volume_types=frozenset({"SAS"}),
    )


def request(choose, number):
    """Mostly ordinary requests, and some that only the placer knows."""
    resources = []
    for position in range(choose(range(1, 3))):
        names = [choose(("f0", "f1", "f2")) for _ in range(choose((1, 2)))]
        odd = choose([""] * 9 + ["spot", "apart"])
        resources.append(
            Resource(
                f"r{position}",
                tuple(FlavorChoice(n, SpotRequest() if odd == "spot" else None) for n in names),
                choose(range(1, 4)),
                storage=choose([{}, {"SAS": 30}]),
                need_eip=choose((False, True)),
                max_per_host=int(odd == "apart"),
            )
        )
    regions = choose([(), (), ("r0",), ("r0", "r2"), ("r1", "r1"), ("nowhere",), ("r2:z1",)])
    selector = Selector(
        regions=tuple(
            RegionChoice(name.split(":")[0], tuple(name.split(":")[1:])) for name in regions
        ),
        geo_location=Geo(country=choose(["", "", "de"])),
        operator=choose(["", "", "op1"]),
        residency=choose([Residency(), Residency(), Residency(("de", "fr"))]),
        strategy=Strategy(
            choose(["", "centralize", "discrete"]),
            choose(["", "", "", "alone"]),
        ),
        spread=choose([Spread(), Spread(), Spread(), Spread(max_per_site=1), Spread(min_zones=2)]),
    )
    return Allocation(
        f"a{number}",
        Stack("s", tuple(resources), {"app": "x"}),
        selector,
        replicas=choose(range(1, 5)),
        domain=choose(["", "mine"]),
    )


def answer(found):
    return msgspec.to_builtins(found) if isinstance(found, NoSite) else found


@pytest.fixture(scope="module")
def small_rounds():
    """Choose among rows also where there are few, or the first round would take all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quick_module, "SMALL", 1)
        patch.setattr(quick_module, "FIRST_LOOK", 1)
        yield


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_quick_and_flat_decide_the_same_one_after_the_other(small_rounds, seed):
    choose = random.Random(seed).choice
    found = inventory(choose, choose(range(1, 41)))
    weights = choose([(1, 1, 1), (2, 5, 3), (0, 1, 1)])
    policy = Policy(
        DEFAULT_POLICY.predicates,
        tuple(
            PolicyEntry(entry.name, weight)
            for entry, weight in zip(DEFAULT_POLICY.priorities, weights, strict=True)
            if weight
        ),
    )
    flat = Placer(policy, in_tree_registry(), quick=False)
    quick = Placer(policy, in_tree_registry())
    table = SiteTable(found)
    for number in range(choose(range(1, 13))):
        if choose([False] * 5 + [True]):
            site = choose(table.sites).id
            table.close(site, closed=choose((False, True)))
        allocation = request(choose, number)

        expected = flat.decide(table, allocation)

        assert answer(expected) == answer(quick.decide(table, allocation))
        for placement in () if isinstance(expected, NoSite) else expected:
            table.apply(placement.charges)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_emptiness_follows_what_is_taken_and_given_back(seed):
    choose = random.Random(seed).choice
    table = SiteTable(inventory(choose, 70))
    shape = ("gp", tuple(table.storage))
    kept = Emptiness(table, shape)
    placer = Placer(DEFAULT_POLICY, in_tree_registry())
    placed = []
    for number in range(choose(range(1, 9))):
        if placed and choose((False, True)):
            table.apply(placed.pop().charges, -1)
        found = placer.decide(table, request(choose, number))
        for placement in () if isinstance(found, NoSite) else found:
            table.apply(placement.charges)
            placed.append(placement)
        kept.catch_up(table.touched)
        fresh = Emptiness(table, shape)

        assert np.array_equal(fresh.value, kept.value)
        assert np.array_equal(fresh.best, kept.best)


def test_what_was_touched_is_forgotten_when_it_is_much(monkeypatch):
    """Who follows begins anew then, and not at every change from then on."""
    monkeypatch.setattr(table_module, "TOUCHES_KEPT", 5)
    table = SiteTable(inventory(random.Random(1).choice, 9))
    told = []
    for _ in range(12):
        table.apply(Charges({table.pools["gp"].sources[0]: (1, 1)}))
        told.append((table.epoch, len(table.touched)))

    assert [(0, n) for n in range(1, 6)] == told[:5]
    assert [(1, n) for n in range(1, 6)] == told[5:10]
    assert [(2, 1), (2, 2)] == told[10:]


@pytest.mark.parametrize("touched", [3, 40])
def test_the_emptiest_sites_are_found_in_every_block(touched):
    """Also after few or many of them were touched: the same as a look at all of them."""
    table = SiteTable(inventory(random.Random(touched).choice, 150))
    shape = ("gp", tuple(table.storage))
    kept = Emptiness(table, shape)
    rows = np.array(random.Random(1).sample(range(150), touched))
    table.pools["gp"].free_vcpus[rows] -= 3
    table.touched.append(rows)
    kept.catch_up(table.touched)
    fresh = Emptiness(table, shape)

    assert np.allclose(fresh.value, kept.value)
    assert np.allclose(fresh.best, kept.best)
    for value in sorted({0.0, *kept.value[:150:7].tolist()}):
        expected = [row for row in range(150) if kept.value[row] >= value]
        assert expected == kept.rows_from(value).tolist()


@pytest.mark.parametrize("types", ["gp", "gp||hi"])
def test_most_ordinary_requests_are_decided_quickly(types):
    """Else the comparison above would compare the placer with itself."""
    table = SiteTable(
        Inventory(
            sites=tuple(Site(f"s{n:03}", "r0", f"z{n}") for n in range(300)),
            hosts=tuple(Host("r0", f"z{n}", types, 100, 400, n % 7, n % 5) for n in range(300)),
            flavors=(Flavor("r0", "f0", 2, 4, "gp"), Flavor("r0", "f1", 4, 8, "gp")),
        )
    )
    placer = Placer(DEFAULT_POLICY, in_tree_registry(), quick=False)
    quick = Quick.of(placer.filters, placer.scores)
    flavors = (FlavorChoice("f1"), FlavorChoice("f0"))
    for replicas in (1, 3):
        stack = Stack("s", (Resource("r", flavors),))
        allocation = Allocation("a", stack, replicas=replicas)

        assert quick.decide(table, allocation) == placer.decide(table, allocation)
        assert quick.decide(table, allocation) is not None


def test_a_policy_with_other_plugins_has_no_quick_way():
    entries = DEFAULT_POLICY.predicates
    for predicates in (entries[:-1], (*entries, PolicyEntry("Mine"))):
        policy = Policy(predicates, DEFAULT_POLICY.priorities)
        mine = {"Mine": lambda: type("Mine", (), {"name": "Mine", "filter": lambda *_: None})()}
        placer = Placer(policy, in_tree_registry() | mine)

        assert Quick.of(placer.filters, placer.scores) is None


def test_shares_count_what_fits_real_hosts_and_not_their_sum():
    """Of three replicas the site with room for three gets two, whatever the other's sum is."""
    table = SiteTable(
        Inventory(
            sites=(Site("s-a", "r", "z1"), Site("s-b", "r", "z2")),
            hosts=(
                Host("r", "z1", "gp", 3, 100, name="halves", count=2),
                Host("r", "z2", "gp", 6, 100, name="whole", count=1),
            ),
            flavors=(Flavor("r", "f", 2, 1, "gp"),),
        )
    )
    placer = Placer(DEFAULT_POLICY, in_tree_registry(), quick=False)
    quick = Quick.of(placer.filters, placer.scores)
    stack = Stack("s", (Resource("r", (FlavorChoice("f"),)),))
    selector = Selector(strategy=Strategy("discrete", ""))
    allocation = Allocation("a", stack, selector, replicas=3)

    found = quick.decide(table, allocation)

    assert {"s-a": 1, "s-b": 2} == Counter(placement.site_id for placement in found)
    assert found == placer.decide(table, allocation)


def test_the_first_round_looks_at_few_sites():
    table = SiteTable(
        Inventory(
            sites=tuple(Site(f"s{n:03}", "r0", f"z{n}") for n in range(300)),
            hosts=tuple(Host("r0", f"z{n}", "gp", 600, 2400, n, 4 * n) for n in range(300)),
            flavors=(Flavor("r0", "f0", 2, 4, "gp"),),
        )
    )
    placer = Placer(DEFAULT_POLICY, in_tree_registry(), quick=False)
    quick = Quick.of(placer.filters, placer.scores)
    stack = Stack("s", (Resource("r", (FlavorChoice("f0"),)),))
    asked = quick._ask(table, Allocation("a", stack, Selector(regions=(RegionChoice("r0"),))))

    rows, bound = next(quick._rounds(table, asked, 1))

    assert bound is not None
    assert 1 <= len(rows) <= 30


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_a_round_takes_enough_and_not_much_more_and_none_left_out_scores_more(small_rounds, seed):
    choose = random.Random(seed).choice
    table = SiteTable(inventory(choose, choose((10, 40, 700))))
    placer = Placer(DEFAULT_POLICY, in_tree_registry(), quick=False)
    quick = Quick.of(placer.filters, placer.scores)
    for number in range(8):
        ask = quick._ask(table, request(choose, number))
        if ask is None:
            continue
        every = np.arange(table.count) if ask.rows is None else ask.rows
        fit, _, totals = quick._fitting(table, ask, every)
        empty, few = ask.empty, choose((1, 2, 5))
        values = np.sort(empty.best if ask.rows is None else empty.value[every])
        *rounds, (rows, bound) = quick._rounds(table, ask, few)

        assert (every.tolist(), None) == (rows.tolist(), bound)
        for times, (rows, bound) in enumerate(rounds):
            count = (few + quick_module.SPARE) * 8**times
            assert len(rows) >= count
            # two points: one of rounding, one of sites that score less than their emptiness says
            points = 2 * (empty.weight + (EIP_WEIGHT if ask.eips else 0))
            assert empty.value[rows].min() >= values[-count] - points - 1e-4
            assert (totals[~np.isin(fit, rows)] <= bound).all()


def test_scores_with_addresses_are_rounded_as_those_of_the_plugin():
    """The emptier site is second; where both score the same, the first is taken."""
    placer = Placer(DEFAULT_POLICY, in_tree_registry(), quick=False)
    quick = Quick.of(placer.filters, placer.scores)
    stack = Stack("s", (Resource("r", (FlavorChoice("f"),), need_eip=True),))
    allocation = Allocation("a", stack)
    found = set()
    for used in range(40):
        table = SiteTable(
            Inventory(
                sites=tuple(Site(f"s{n}", "r", f"z{n}", eip_pool="ip") for n in range(2)),
                hosts=(
                    Host("r", "z0", "gp", 1000, 1000, used + 7, used),
                    Host("r", "z1", "gp", 1000, 1000, used, used),
                ),
                flavors=(Flavor("r", "f", 1, 1, "gp"),),
                eip_pools=(EipPool("r", "ip", 100),),
            )
        )
        [placement] = quick.decide(table, allocation)
        found.add(placement.site_id)

        assert [placement] == placer.decide(table, allocation), used
    assert {"s0", "s1"} == found


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_tie_with_what_was_not_looked_at_goes_to_the_lower_row(small_rounds, replicas):
    """The emptiest sites lack the better flavor; the first ones have it, and are fuller."""
    placer = Placer(DEFAULT_POLICY, in_tree_registry(), quick=False)
    quick = Quick.of(placer.filters, placer.scores)
    flavors = (FlavorChoice("better"), FlavorChoice("plain"))
    stack = Stack("s", (Resource("r", flavors),))
    chosen = (RegionChoice("rich"), RegionChoice("poor"))
    selector = Selector(regions=chosen, strategy=Strategy("discrete", ""))
    allocation = Allocation("a", stack, selector, replicas=replicas)
    regions = ["rich"] * 2 + ["poor"] * 10 + ["far"] * 40
    winners = set()
    for step, rich in itertools.product(range(6, 20, 3), range(40, 100, 5)):
        used = [rich, rich, *range(0, 50 * step, step)]
        table = SiteTable(
            Inventory(
                sites=tuple(Site(f"s{n:03}", where, f"z{n}") for n, where in enumerate(regions)),
                hosts=tuple(
                    Host(where, f"z{n}", "gp", 1000, 1000, *[used[n]] * 2)
                    for n, where in enumerate(regions)
                ),
                flavors=(
                    Flavor("rich", "better", 1, 1, "gp"),
                    *(Flavor(where, "plain", 1, 1, "gp") for where in ("rich", "poor")),
                ),
            )
        )
        found = quick.decide(table, allocation)

        assert found == placer.decide(table, allocation), (step, rich)
        ask = quick._ask(table, allocation)
        rows, _, totals = quick._fitting(table, ask, ask.rows)
        best = rows[np.lexsort((rows, -totals))][:replicas]
        assert best.tolist() == quick._best(table, ask, replicas)[0].tolist(), (step, rich)
        winners.add(found[0].site_id)
    assert {"s000", "s002"} == winners

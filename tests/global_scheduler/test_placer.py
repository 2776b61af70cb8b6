from collections import Counter
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest

from bayplan.errors import ConfigError
from bayplan.global_scheduler.files import Policy, PolicyEntry, must_load
from bayplan.global_scheduler.inventory import EipPool, Flavor, Host, Site, VolumePool
from bayplan.global_scheduler.placer import DEFAULT_POLICY, NoSite, Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.request import read_allocation
from bayplan.global_scheduler.stack import (
    FlavorChoice,
    Geo,
    RegionChoice,
    Requirement,
    SpotRequest,
)
from bayplan.global_scheduler.table import SiteTable
from tests.global_scheduler.sites import ID, ask, three_sites

SAMPLE = Path(str(files("bayplan.global_scheduler") / "sample"))


def decide(allocation, inventory=None, policy=DEFAULT_POLICY, **options):
    placer = Placer(policy, in_tree_registry(**options))
    return placer.decide(SiteTable(inventory or three_sites()), allocation)


def counts(placements):
    return dict(Counter(placement.site_id for placement in placements))


def test_the_seed_example_goes_to_site1():
    base = must_load(SAMPLE)
    table = SiteTable(base.inventory)
    body = msgspec.json.decode((SAMPLE / "sample_allocation_req_body.json").read_bytes())
    allocation, problems = read_allocation(
        body, flavors=table.flavors, volume_types=table.volume_types, new_id=ID
    )
    [placement] = Placer(base.policy, in_tree_registry()).decide(table, allocation)

    assert [] == problems
    assert ("site1", ("c6.large.2",)) == (placement.site_id, placement.flavors)
    assert {
        "hosts/region1/az1/resource_type_1": (2, 2),
        "volumes/region1/az1/SAS": (40,),
    } == placement.charges.takes


@pytest.mark.parametrize(
    ("replicas", "location", "region", "expected"),
    [
        pytest.param(1, "centralize", "", {"s-c": 1}, id="one goes to the best site"),
        pytest.param(1, "discrete", "", {"s-c": 1}, id="one, discrete"),
        pytest.param(4, "centralize", "", {"s-c": 1, "s-a": 3}, id="fill the best, then the next"),
        pytest.param(4, "discrete", "", {"s-c": 1, "s-a": 2, "s-b": 1}, id="share by room"),
        pytest.param(3, "centralize", "alone", {"s-a": 3}, id="the region with most room"),
        # the original counted the shared pool ipA twice and would have placed these
        pytest.param(4, "centralize", "alone", None, id="regA has six addresses: three stacks"),
        pytest.param(5, "discrete", "", None, id="all five would need eight addresses in regA"),
        pytest.param(6, "centralize", "", None, id="more than fit"),
    ],
)
def test_the_three_site_example(replicas, location, region, expected):
    result = decide(ask(replicas, location=location, region=region))

    if expected is None:
        assert isinstance(result, NoSite)
    else:
        assert expected == counts(result)


def test_with_enough_addresses_the_original_answers_come_back():
    inventory = three_sites(eip_pools=(EipPool("regA", "ipA", 20, 4), EipPool("regB", "ipB", 3, 1)))

    alone = decide(ask(4, location="centralize", region="alone"), inventory)
    five = decide(ask(5), inventory)

    assert {"s-a": 3, "s-b": 1} == counts(alone)
    assert {"s-c": 1, "s-a": 3, "s-b": 1} == counts(five)


def test_discrete_places_every_replica_although_shares_are_rounded():
    inventory = three_sites(
        eip_pools=(),
        hosts=tuple(
            Host(r, z, "gp", 80, 160)
            for r, z in [("regA", "az1"), ("regA", "az2"), ("regB", "az1")]
        ),
    )

    placements = decide(ask(4, location="discrete", storage={}), inventory)

    assert [1, 1, 2] == sorted(counts(placements).values())


def test_why_nothing_fits_adds_up_over_all_sites():
    result = decide(ask(1, count=100, selector={"regions": (RegionChoice("regA"),)}))

    assert 3 == sum(result.reasons.values()) == result.sites
    assert {
        "s-a": "Insufficient machines of the requested flavors",
        "s-b": "Insufficient machines of the requested flavors",
        "s-c": "site(s) weren't in the requested regions and zones",
    } == result.by_site
    assert (
        "0/3 sites are available: 1 site(s) weren't in the requested regions and zones, "
        "2 Insufficient machines of the requested flavors."
    ) == result.message


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param({"regions": (RegionChoice("regA", ("az2",)),)}, {"s-b"}, id="zone"),
        pytest.param({"regions": (RegionChoice("", ("az1",)),)}, {"s-a", "s-c"}, id="any region"),
        pytest.param({"site_id": "s-b"}, {"s-b"}, id="site"),
        pytest.param({"site_id": "nowhere"}, set(), id="unknown site"),
        pytest.param({"geo_location": Geo(city="oslo")}, {"s-b"}, id="city"),
        pytest.param({"operator": "telco"}, {"s-c"}, id="operator"),
        pytest.param({"operator": "nobody"}, set(), id="unknown operator"),
    ],
)
def test_selectors(selector, expected):
    a, b, c = three_sites().sites
    inventory = three_sites(
        sites=(
            a,
            msgspec.structs.replace(b, city="oslo"),
            msgspec.structs.replace(c, operator="telco"),
        )
    )

    result = decide(ask(1, count=1, selector=selector), inventory)

    if expected:
        assert counts(result).keys() <= expected
    else:
        assert isinstance(result, NoSite)


@pytest.mark.parametrize("status", ["Offline", "Sellout"])
def test_closed_sites_get_nothing(status):
    sites = tuple(msgspec.structs.replace(site, status=status) for site in three_sites().sites)

    result = decide(ask(), three_sites(sites=sites))

    assert {"site(s) were offline or sold out": 3} == result.reasons


def test_exclusive_sites_are_for_their_domains_only():
    a, b, c = three_sites().sites
    kept = msgspec.structs.replace(c, domains=frozenset({"d1"}))
    inventory = three_sites(sites=(a, b, kept))

    assert {"s-c": 1} == counts(decide(ask(domain="d1"), inventory))
    assert {"s-a": 1} == counts(decide(ask(domain="d2"), inventory))


def test_a_later_flavor_is_taken_where_the_first_does_not_fit():
    hosts = (Host("regA", "az1", "gp", 6, 100),)
    inventory = three_sites(sites=three_sites().sites[:1], hosts=hosts)

    [placement] = decide(ask(1, count=2), inventory)

    assert ("f2",) == placement.flavors


def test_flavors_of_one_type_share_its_machines():
    """Two resources that fit one by one, but not together."""
    request = ask(1, count=2)
    stack = msgspec.structs.replace(request.stack, resources=request.stack.resources * 4)

    result = decide(msgspec.structs.replace(request, stack=stack))

    assert isinstance(result, NoSite)


def test_types_that_share_a_pool_must_fit_it_together():
    flavors = (Flavor("r", "a", 4, 1, "x"), Flavor("r", "b", 4, 1, "y"))
    inventory = three_sites(
        sites=(Site("s", "r", "z"),),
        hosts=(Host("r", "z", "x||y", 6, 100),),
        flavors=flavors,
        eip_pools=(),
        volume_pools=(),
    )
    one = ask(1, flavors=("a",), count=1, storage={}, need_eip=False)
    other = ask(1, flavors=("b",), count=1, storage={}, need_eip=False)
    both = msgspec.structs.replace(
        one,
        stack=msgspec.structs.replace(
            one.stack, resources=one.stack.resources + other.stack.resources
        ),
    )

    assert {"s": 1} == counts(decide(one, inventory))
    assert {"s": 1} == counts(decide(other, inventory))
    assert isinstance(decide(both, inventory), NoSite)


def test_stack_affinity_and_anti_affinity_read_the_stacks_of_sites():
    table = SiteTable(three_sites())
    table.note_stack(table.row_of("s-b"), {"app": "db"})
    placer = Placer(
        Policy(DEFAULT_POLICY.predicates, (PolicyEntry("StackAffinity"),)), in_tree_registry()
    )
    near = ask(count=1, selector={"stack_affinity": (Requirement("app", "in", ("db",)),)})
    far = ask(
        count=1,
        selector={
            "stack_antiaffinity": (Requirement("app", "=", ("db",)),),
            "regions": (RegionChoice("regA"),),
        },
    )

    assert {"s-b": 1} == counts(placer.decide(table, near))
    assert {"s-a": 1} == counts(placer.decide(table, far))


def test_spot_machines_come_from_offers():
    a, b, c = three_sites().sites
    offer = {"f2": {"delay": {"infinite": 0, "finite": {"6h": 2}}}}
    b = msgspec.convert({**msgspec.to_builtins(b), "spot": offer}, Site)
    spot = FlavorChoice("f2", SpotRequest("1.5", 2, 3, "delay"))
    request = ask(1, count=2)
    resource = msgspec.structs.replace(request.stack.resources[0], flavors=(spot,))
    stack = msgspec.structs.replace(request.stack, resources=(resource,))
    request = msgspec.structs.replace(request, stack=stack)

    assert {"s-b": 1} == counts(decide(request, three_sites(sites=(a, b, c))))
    assert isinstance(decide(request), NoSite)
    assert 1 == len(decide(request, fake_spot=True))


def test_abandoned_and_sold_out_flavors():
    flavors = (
        Flavor("regA", "f4", 4, 8, "gp", zone_flags={"az1": "sellout"}),
        Flavor("regB", "f4", 4, 8, "gp", abandoned=True),
    )

    placements = decide(ask(flavors=("f4",), count=1), three_sites(flavors=flavors))

    assert {"s-b": 1} == counts(placements)


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (Policy((PolicyEntry("Nonsense"),)), 'plugin "Nonsense" is not known'),
        (Policy((PolicyEntry("StackAffinity"),)), "is not a filter plugin"),
        (Policy((), (PolicyEntry("regionandaz"),)), "is not a score plugin"),
    ],
)
def test_a_wrong_policy_is_refused(policy, says):
    with pytest.raises(ConfigError, match=says):
        Placer(policy, in_tree_registry())


@pytest.mark.parametrize("region", ["", "alone"], ids=["quickly", "looking at every site"])
def test_what_is_asked_for_counts_against_the_storage_that_is_left(region):
    """Of 190 of 200 and 900 of 1000 free, a request for 100 leaves more of the second."""
    inventory = three_sites(
        sites=(Site("s-a", "regA", "az1"), Site("s-b", "regA", "az2")),
        hosts=(Host("regA", "az1", "gp", 32, 128), Host("regA", "az2", "gp", 32, 128)),
        eip_pools=(),
        volume_pools=(
            VolumePool("regA", "az1", "SAS", 200, 10),
            VolumePool("regA", "az2", "SAS", 1000, 100),
        ),
    )

    request = ask(count=1, storage={"SAS": 100}, need_eip=False, region=region)
    assert {"s-b": 1} == counts(decide(request, inventory))


def test_regions_are_a_wish_nobody_checks_where_the_policy_leaves_their_filter_out():
    kept = tuple(e for e in DEFAULT_POLICY.predicates if e.name != "regionandaz")
    policy = Policy(kept, DEFAULT_POLICY.priorities)
    wish = ask(selector={"regions": (RegionChoice("regB"),)}, flavors=("f4",), count=4)

    anywhere = decide(ask(flavors=("f4",), count=4), policy=policy)
    assert {"s-a": 1} == counts(anywhere)
    assert anywhere == decide(wish, policy=policy)
    assert isinstance(decide(wish), NoSite)  # regB has two addresses left

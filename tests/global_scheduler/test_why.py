import asyncio
import json
from types import SimpleNamespace

import msgspec
import pytest
from click.testing import CliRunner

from bayplan.cli.global_ import command
from bayplan.global_scheduler.inventory import Flavor
from bayplan.global_scheduler.placer import DEFAULT_POLICY, NoSite, Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.relax import _flavors, _Trial
from bayplan.global_scheduler.run import running
from bayplan.global_scheduler.stack import Geo, RegionChoice, Spread
from bayplan.global_scheduler.table import SiteTable
from bayplan.global_scheduler.why import Missing, explain, lines
from tests.global_scheduler.sites import ask, three_sites
from tests.global_scheduler.test_http import allocation, client  # noqa: F401
from tests.global_scheduler.test_run import conf, options  # noqa: F401

HOSTS = three_sites().hosts
PLACER = Placer(DEFAULT_POLICY, in_tree_registry())


def why(request, inventory=None):
    return explain(PLACER, SiteTable(inventory or three_sites()), request)


def test_the_funnel_counts_what_each_filter_leaves():
    found = why(ask(1, count=100, selector={"regions": (RegionChoice("regA"),)}))

    stages = {stage.filter: (stage.sites, stage.left, stage.reasons) for stage in found.funnel}
    region = {"site(s) weren't in the requested regions and zones": 1}
    assert (3, 2, region) == stages["regionandaz"]
    assert (2, 0, {"Insufficient machines of the requested flavors": 2}) == stages["Flavor"]
    assert (0, 0, {}) == stages["Volume"]


def test_the_nearest_site_misses_what_would_make_it_fit():
    request = ask(1, flavors=("f4",), count=7)
    found = why(request)

    near = found.nearest
    assert ("s-a", ("f4",)) == (near.site, near.flavors)
    assert (Missing("vcpus of type gp", 28, 24), Missing("addresses", 7, 6)) == near.missing
    assert [
        "0 of 1 replicas fit together",
        "nearest: s-a (regA, az1) with f4",
        "  vcpus of type gp: needs 28, has 24, 4 short",
        "  addresses: needs 7, has 6, 1 short",
    ] == list(lines(found))[-4 - len(found.relaxations) :][:4]
    a, *hosts = three_sites().hosts
    pool, *pools = three_sites().eip_pools
    more = three_sites(
        hosts=(msgspec.structs.replace(a, vcpus=a.vcpus + 4), *hosts),
        eip_pools=(msgspec.structs.replace(pool, size=pool.size + 1), *pools),
    )
    [placed] = PLACER.decide(SiteTable(more), request)
    assert "s-a" == placed.site_id


@pytest.mark.parametrize(
    ("request_", "site", "missing"),
    [
        pytest.param(
            ask(1, count=33, flavors=("f2",), need_eip=False, storage={}),
            "s-c",
            [Missing("vcpus of type gp", 66, 64), Missing("memory of type gp", 132, 64)],
            id="machines",
        ),
        pytest.param(
            ask(1, storage={"SAS": 5000}),
            "s-a",
            [Missing("GB of storage SAS", 10000, 700)],
            id="storage",
        ),
        pytest.param(
            ask(1, count=7, flavors=("f2",)), "s-a", [Missing("addresses", 7, 6)], id="addresses"
        ),
        pytest.param(
            ask(1, count=4, max_per_host=1),
            "s-a",
            [Missing("places for f4 on whole hosts", 4, 0)],
            id="whole hosts",
        ),
        pytest.param(ask(1, storage={"SSD": 1}), None, [], id="no such storage anywhere"),
        pytest.param(ask(1, selector={"site_id": "s-x"}), None, [], id="no such site"),
    ],
)
def test_the_nearest_site_is_the_one_that_lacks_least(request_, site, missing):
    near = why(request_).nearest

    assert site == (near and near.site)
    assert missing == (list(near.missing) if near else [])


FIRST = "resource_group.resources[0]"
EXACT = {
    "fewer machines": (
        ask(1, flavors=("f4",), count=7),
        [f"{FIRST}.count 6 instead of 7 (s-a)", f"without need_eip of {FIRST} (s-c)"],
    ),
    "fewer replicas": (ask(9), ["replicas 4 instead of 9 (s-c)"]),
    "less storage": (
        ask(1, storage={"SAS": 5000}),
        [f"{FIRST}.storage.SAS 350 instead of 5000 (s-a)"],
    ),
    "storage that is nowhere": (ask(1, storage={"SSD": 1}), []),
    "without the operator": (
        ask(2, count=1, selector={"operator": "nobody"}),
        ["without selector.operator (s-c)"],
    ),
    "without the node": (
        ask(1, selector={"site_id": "s-x"}),
        ["without selector.node_id (s-c)"],
    ),
    "without the regions": (
        ask(1, selector={"regions": (RegionChoice("regX"),)}),
        ["without selector.regions (s-c)"],
    ),
    "without the zones": (
        ask(1, selector={"regions": (RegionChoice("regA", ("az9",)),)}),
        ["without selector.regions (s-c)", "without the zones of selector.regions (s-a)"],
    ),
    "without the spread": (
        ask(3, selector={"spread": Spread(min_sites=4)}),
        ["without selector.spread.min_sites (s-c)"],
    ),
    "two changes when one does not do": (
        ask(1, count=1, selector={"operator": "nobody", "geo_location": Geo(city="none")}),
        ["without selector.operator and without selector.geo_location.city (s-c)"],
    ),
    "more on a host": (
        ask(1, count=4, max_per_host=1),
        [f"without max_per_host of {FIRST} (s-b)"],
    ),
    "a smaller flavor": (
        ask(1, count=17, flavors=("f4",), need_eip=False, storage={}),
        [f"{FIRST}.count 12 instead of 17 (s-c)", f"also flavor f2 for {FIRST} (s-c)"],
    ),
}


@pytest.mark.parametrize("case", EXACT)
def test_the_smallest_changes_that_fit_are_told(case):
    request, expected = EXACT[case]
    inventory = three_sites(hosts=tuple(msgspec.structs.replace(h, memory=100) for h in HOSTS))
    told = list(lines(why(request, inventory)))
    changes = [line.partition(": ")[2] for line in told if line.startswith(("it would", "or:"))]

    assert expected == changes


@pytest.mark.parametrize(
    ("asked", "tried"),
    [(("e",), ["d", "c", "b"]), (("e", "c"), ["b", "a"]), (("a",), []), (("unknown",), [])],
)
def test_the_next_smaller_flavors_are_tried(asked, tried):
    sizes = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 8}
    flavors = tuple(Flavor("regA", name, vcpus, 8, "gp") for name, vcpus in sizes.items())
    table = SiteTable(three_sites(flavors=flavors))

    found = [text for text, _ in _flavors(table, ask(flavors=asked))]

    assert [f"also flavor {flavor} for {FIRST}" for flavor in tried] == found


@pytest.mark.parametrize(
    ("sites", "flavors", "alternatives", "decisions"),
    [
        (0, 1, 0, 200),
        (3, 1, 0, 200),
        (10_000, 1, 0, 200),
        (20_000, 1, 0, 100),
        (20_000, 1, 1, 50),
        (10**6, 1, 0, 20),
        (3, 1000, 0, 31),  # of 64 combinations, no more are looked at
        (5_000, 4, 0, 100),
        (1_000, 1000, 0, 31),
        (3, 10, 16, 11),
        (3, 1000, 16, 1),
        (3, 1000, 63, 1),
    ],
)
def test_where_much_is_tried_for_each_fewer_decisions_are_made(
    sites, flavors, alternatives, decisions
):
    request = ask(1, flavors=["f"] * flavors)
    more = (request.selector,) * alternatives
    request = msgspec.structs.replace(request, alternatives=more)

    assert decisions == _Trial(PLACER, SimpleNamespace(count=sites), request).left


def test_no_more_is_decided_than_allowed():
    trial = _Trial(PLACER, SiteTable(three_sites()), ask(1))
    trial.left = 1

    assert ["s-c", None] == [trial.site(ask(1)), trial.site(ask(1))]
    assert 0 == trial.left


@pytest.mark.parametrize("fits", range(9))
def test_the_largest_number_that_fits_is_found_by_halving(fits, monkeypatch):
    trial = _Trial(PLACER, SiteTable(three_sites()), ask(1))
    monkeypatch.setattr(trial, "site", lambda number: "s" if number <= fits else None)

    found = trial.most(lambda number: number, 1, 8)

    assert (min(fits, 7), "s") == found if fits else (1, "") == found


def test_how_many_replicas_fit_together_is_what_a_decision_gives():
    found = why(ask(9))

    assert isinstance(PLACER.decide(SiteTable(three_sites()), ask(found.fits + 1)), NoSite)
    assert found.fits == len(PLACER.decide(SiteTable(three_sites()), ask(found.fits)))
    assert found.nearest is None


async def test_the_answer_explains_on_request(client):  # noqa: F811
    path = "/v1/allocations?explain=true"
    refused = await client.post(path, json=allocation(resource={"count": 5000}))
    placed = await client.post(path, json=allocation())
    plain = await client.post("/v1/allocations", json=allocation())
    one = f"/v1/allocations/{placed.json()['allocation']['id']}"

    assert 409 == refused.status_code
    assert "site1" == refused.json()["explain"]["nearest"]["site"]
    assert (201, 1) == (placed.status_code, placed.json()["explain"]["fits"])
    assert "explain" not in plain.json()
    before = (await client.get("/v1/sites")).json()
    assert 1 == (await client.get(f"{one}?explain=true")).json()["explain"]["fits"]
    assert before == (await client.get("/v1/sites")).json()


async def test_why_on_the_command_line(conf, tmp_path):  # noqa: F811
    big = tmp_path / "big.json"
    big.write_text(json.dumps(allocation(resource={"count": 5000})))
    async with running(options(conf, store="memory")) as scheduler:
        server = ["--server", f"http://127.0.0.1:{scheduler.port}"]

        def run(*arguments):
            return CliRunner().invoke(command, ["why", *arguments, *server])

        small = await asyncio.to_thread(run, str(conf / "sample_allocation_req_body.json"))
        large = await asyncio.to_thread(run, str(big))
        missing = await asyncio.to_thread(run, "no-such-id")
    away = await asyncio.to_thread(run, "no-such-id")

    assert (0, True) == (small.exit_code, "1 of 1 replicas fit together" in small.output)
    assert (1, True) == (large.exit_code, "nearest: site1 (region1, az1)" in large.output)
    assert 'there is no allocation "no-such-id"' in str(missing.exception)
    assert f"cannot reach {server[1]}: " in str(away.exception)
    assert "[Errno" not in str(away.exception), "what the system says, without its number"
    assert "bayplan global serve" in str(away.exception)

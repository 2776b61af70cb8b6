"""What if sites were lost or added: decided on a copy, by priority, and nothing is changed."""

import asyncio
import json
from collections import Counter

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.cli.global_ import command
from bayplan.global_scheduler.inventory import Inventory, Site
from bayplan.global_scheduler.run import running
from bayplan.global_scheduler.service import NoSiteError
from bayplan.global_scheduler.table import SiteTable
from bayplan.global_scheduler.whatif import Question, UnknownSiteError, lines, sites_named
from bayplan.store import MemoryStore
from tests.effort import at_most
from tests.global_scheduler.sites import ask, three_sites
from tests.global_scheduler.test_http import allocation, client  # noqa: F401
from tests.global_scheduler.test_run import conf, options  # noqa: F401
from tests.global_scheduler.test_service import service_on, snapshot, with_id
from tests.global_scheduler.test_spread import PLACES, request, world


@pytest.fixture
async def placed():
    """Two allocations of three replicas on s0; there is room for two more on s4."""
    service = service_on(MemoryStore(), inventory=world((6, 0, 0, 0, 0, 0, 0, 0)))
    await service.start()
    for name, priority in (("low", 0), ("high", 5)):
        one = with_id(msgspec.structs.replace(request(3), priority=priority))
        stack = msgspec.structs.replace(one.stack, name=name)
        await service.create(msgspec.structs.replace(one, stack=stack))
    service.replace_inventory(world((6, 0, 0, 0, 2, 0, 0, 0)))
    yield service
    await service.stop()


async def test_lost_replicas_are_placed_anew_by_priority(placed):
    before = snapshot(placed.table)

    answer = await placed.what_if(Question(lose=("s0",)))

    high, low = answer.moves
    assert (("s4", "s4"), ()) == (high.to, low.to)
    assert not answer.ok
    text = list(lines(answer))
    assert ["7 sites: 1 lost (s0), 0 added", "2 of 6 replicas on lost sites have a new place"] == (
        text[:2]
    )
    assert "high: 3 s0 -> 2 s4" in text[2]
    assert "1 stay without: 0/7 sites are available" in text[3]
    assert before == snapshot(placed.table)


async def test_added_sites_take_what_was_lost_and_new_requests(placed):
    host = msgspec.structs.replace(world().hosts[0], vcpus=7, site="new", zone="z9")
    more = Inventory((Site("new", "r0", "z9"),), (host,))

    question = Question(lose=("zone=r0/z0",), add=more, place=(request(2), request(2)))
    answer = await placed.what_if(question)

    assert 6 == sum(len(move.to) for move in answer.moves)
    assert [2, 0] == [len(entry.sites) for entry in answer.placed]
    assert ["high", "low"] == [move.name for move in answer.moves]


async def test_an_unknown_site_is_refused(placed):
    with pytest.raises(UnknownSiteError, match="region=REGION"):
        await placed.what_if(Question(lose=("s99",)))
    assert 8 == len((await placed.what_if(Question(lose=("region=r0", "region=r1")))).lost)


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(*[st.integers(0, 4)] * 8),
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(0, 2), st.integers(0, 2), st.integers(0, 3)),
        max_size=6,
    ),
    st.sets(st.integers(0, 7), min_size=1, max_size=4),
)
def test_after_a_loss_nothing_is_oversold_and_spreads_hold(rooms, requests, lost):
    asyncio.run(_lose(rooms, requests, {f"s{n}" for n in lost}))


async def _lose(rooms, requests, lost):
    service = service_on(MemoryStore(), inventory=world(rooms))
    await service.start()
    for replicas, site, region, priority in requests:
        one = request(replicas, max_per_site=site, max_per_region=region)
        try:
            await service.create(with_id(msgspec.structs.replace(one, priority=priority)))
        except NoSiteError:
            continue
    answer = await service.what_if(Question(lose=tuple(sorted(lost))))

    moves = {move.allocation: move for move in answer.moves}
    assert [-move.priority for move in answer.moves] == sorted(-m.priority for m in answer.moves)
    room = dict(zip((site for *_, site in PLACES), rooms, strict=True))
    region_of = {site: region for region, _, site in PLACES}
    used = Counter()
    for record in service.ledger.records.values():
        stay = [g.selected.node_id for g in record.groups if g.selected.node_id not in lost]
        now = [*stay, *(moves[record.id].to if record.id in moves else ())]
        used.update(now)
        apart = record.allocation.selector.spread
        assert not lost & set(now)
        assert max(Counter(now).values(), default=0) <= (apart.max_per_site or 99)
        regions = Counter(region_of[site] for site in now)
        assert max(regions.values(), default=0) <= (apart.max_per_region or 99)
    assert all(number <= room[site] for site, number in used.items())
    await service.stop()


async def test_what_if_over_http(client):  # noqa: F811
    await client.post("/v1/allocations", json=allocation())
    before = (await client.get("/v1/sites")).json()

    good = await client.post("/v1/whatif", json={"lose": ["site1"], "place": [allocation()]})
    unknown = await client.post("/v1/whatif", json={"lose": ["site9"]})
    bad = await client.post("/v1/whatif", json={"lose": "site1", "place": [{}]})

    assert (200, 0) == (good.status_code, good.json()["whatif"]["sites"])
    [move] = good.json()["whatif"]["moves"]
    assert (["site1"], []) == (move["lost"], move["to"])
    assert (404, 400) == (unknown.status_code, bad.status_code)
    fields = [entry["field"] for entry in bad.json()["details"]]
    assert {"lose", "place[0].allocation"} <= set(fields)
    assert before == (await client.get("/v1/sites")).json()


async def test_what_if_on_the_command_line(conf, tmp_path):  # noqa: F811
    more = json.loads((conf / "sites.json").read_text())
    more["sites"][0] |= {"id": "site2", "az": "az2"}
    nodes = json.loads((conf / "site_nodes.json").read_text())
    nodes["site_nodes"][0]["availability_zone"] = "az2"
    new = tmp_path / "new.json"
    new.write_text(json.dumps(more | nodes))
    ask_for = tmp_path / "request.json"
    ask_for.write_text(json.dumps(allocation(resource={"storage": {}})))
    async with running(options(conf, store="memory")) as scheduler:

        def run(*arguments):
            server = ["--server", f"http://127.0.0.1:{scheduler.port}"]
            return CliRunner().invoke(command, ["whatif", *arguments, *server])

        lost = await asyncio.to_thread(run, "--lose", "site1", "--place", str(ask_for))
        moved = await asyncio.to_thread(
            run, "--lose", "site1", "--add", str(new), "--place", str(ask_for)
        )

    assert (1, True) == (lost.exit_code, "g, 1 replica: no place" in lost.output)
    assert (0, True) == (moved.exit_code, "g, 1 replica: site2" in moved.output)


def test_hosts_of_a_lost_zone_make_no_site_of_their_own():
    table = SiteTable(three_sites())
    service = service_on(MemoryStore())
    answer = asyncio.run(service.what_if(Question(lose=("region=regA",), place=(ask(1),))))

    assert 3 == table.count
    assert (1, ("s-c",)) == (answer.sites, answer.placed[0].sites)


def test_names_that_come_again_and_again_cost_no_look_at_all_sites_each():
    sites = [Site(f"s{n}", f"r{n % 10}", f"z{n % 100}") for n in range(1000)]
    names = ["s1", "region=r2", "zone=r3/z3"] * 10_000

    with at_most(20):
        found = sites_named(sites, names)

    assert found == {site.id for site in sites if site.id == "s1" or site.region == "r2"} | {
        site.id for site in sites if site.zone == "z3"
    }

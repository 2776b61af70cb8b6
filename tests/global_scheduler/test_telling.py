"""What is told of sites and allocations: answers, pages, the stream, metrics, what is stranded."""

import asyncio
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest

from bayplan.clock import run_virtual
from bayplan.global_scheduler import answers, listing
from bayplan.global_scheduler import metrics as metrics_module
from bayplan.global_scheduler.fields import Fields
from bayplan.global_scheduler.inventory import EipPool, Flavor, Host, Inventory, Site, VolumePool
from bayplan.global_scheduler.ledger import (
    Group,
    Happened,
    Ledger,
    PlacedResource,
    Record,
    Selected,
)
from bayplan.global_scheduler.listing import Feed, Page
from bayplan.global_scheduler.metrics import Metrics, by_site
from bayplan.global_scheduler.placer import NoSite
from bayplan.global_scheduler.sources import Charges
from bayplan.global_scheduler.stack import Allocation, Stack
from bayplan.global_scheduler.stranded import Fit, Stranded, lines, stranded
from bayplan.global_scheduler.table import SiteTable
from bayplan.store import MemoryStore
from tests.global_scheduler.sites import three_sites


def record(name, created=0.0, *, site="s-a", domain="", charges=None, **more):
    selected = Selected(site, "regA", "az1", more.pop("cluster", ""))
    resources = (PlacedResource("r", "f2", 2), PlacedResource("q", "f4", 1, {"host/1": 1}))
    group = Group("web", resources, selected, charges or Charges())
    facts = {key: more.pop(key) for key in ("priority", "starts_at", "ends_at") if key in more}
    allocation = Allocation(name, Stack("web", ()), domain=domain, **facts)
    return Record(name, allocation, (group,), created, **more)


# -- answers


@pytest.mark.parametrize(
    ("row", "closed", "body"),
    [
        (
            0,
            False,
            {
                "site_id": "s-a",
                "region": "regA",
                "availability_zone": "az1",
                "status": "Normal",
                "machines": {
                    "gp": {
                        "vcpus": {"total": 32, "free": 24},
                        "memory": {"total": 128, "free": 96},
                    }
                },
                "storage": {"SAS": {"total": 1000, "free": 700}},
                "eips": {"pool": "regA/ipA", "total": 10, "free": 6},
            },
        ),
        (3, True, {"site_id": "s-d", "status": "Drained", "machines": {}, "storage": {}}),
        (4, True, {"site_id": "s-e", "status": "Offline", "eips": None}),
        (4, False, {"status": "Offline"}),
    ],
    ids=["all there is", "nothing there, drained", "offline and drained", "offline"],
)
def test_a_site_is_told_with_what_it_has_and_has_left(row, closed, body):
    plain = three_sites()
    more = (Site("s-d", "regC", "az1"), Site("s-e", "regC", "az2", status="Offline"))
    table = SiteTable(three_sites(sites=(*plain.sites, *more)))
    table.close(table.sites[row].id, closed=closed)

    assert body.items() <= answers.site_body(table, row).items()


def test_pools_with_only_processors_or_only_memory_are_told_too():
    hosts = (Host("r", "z", "one", 5, 0), Host("r", "z", "two", 0, 7), Host("r", "z", "none", 0, 0))
    table = SiteTable(Inventory((Site("s", "r", "z"),), hosts))

    assert {"one", "two"} == answers.site_body(table, 0)["machines"].keys()


def test_an_allocation_is_told_with_what_it_has_and_no_more():
    resources = [
        {"name": "r", "flavor_id": "f2", "count": 2},
        {"name": "q", "flavor_id": "f4", "count": 1, "hosts": {"host/1": 1}},
    ]
    selected = {"node_id": "s-a", "region": "regA", "availability_zone": "az1"}
    group = {"name": "web", "resources": resources, "selected": selected}
    plain = {"id": "a", "resource_groups": [group]}
    assert plain == answers.allocation_body(record("a"))
    assert plain | {"state": "committed"} == answers.full_body(record("a"))

    whole = record(
        "a",
        cluster="m",
        preempted=("b", "c"),
        state="reserved",
        expires=12.34567,
        priority=2,
        starts_at=3.0,
        ends_at=4.0,
        history=(Happened(1.00049, "moved"),),
    )
    assert {
        "id": "a",
        "resource_groups": [group | {"selected": selected | {"cluster": "m"}}],
        "preempted": ["b", "c"],
        "state": "reserved",
        "expires": 12.346,
        "priority": 2,
        "starts_at": 3.0,
        "ends_at": 4.0,
        "history": [{"at": 1.0, "what": "moved"}],
    } == answers.full_body(whole)
    assert (
        1.235
        == answers.full_body(record("a", history=(Happened(1.2346, "x"),)))["history"][0]["at"]
    )


def test_of_many_sites_that_refuse_the_first_are_told_one_by_one():
    reasons = {f"s{n:03}": "full" for n in range(answers.SITES_SHOWN + 1)}
    why = NoSite(300, {"full": 201, "closed": 99}, reasons)

    body = answers.no_site_body(why)

    assert list(reasons)[:-1] == list(body["by_site"])
    assert (300, ["closed", "full"]) == (body["sites"], list(body["reasons"]))
    assert ("GS.050006", "0/300 sites are available: 201 full, 99 closed.") == (
        body["error_code"],
        body["error_message"],
    )


# -- pages

entries = st.lists(
    st.tuples(st.sampled_from((0.5, 1.5, 2.0)), st.sampled_from("xy"), st.sampled_from(("", "d"))),
    max_size=12,
)


@given(entries, st.integers(0, 5), st.sampled_from(("", "x")), st.sampled_from((None, "", "d")))
def test_pages_of_allocations_add_up_to_all_of_them_in_order_of_age(found, limit, site, domain):
    records = {
        f"a{n}": record(f"a{n}", created, site=at, domain=whose)
        for n, (created, at, whose) in enumerate(found)
    }
    at_sites = {name: dict.fromkeys(records, 1) for name in "xy"}
    for one in records.values():
        del at_sites["xy".replace(one.groups[0].selected.node_id, "")][one.id]
    service = SimpleNamespace(ledger=SimpleNamespace(records=records, by_site=at_sites))
    expected = sorted(
        (one.created, one.id)
        for one in records.values()
        if one.groups[0].selected.node_id in (site or "xy")
        and domain in (None, one.allocation.domain)
    )

    async def walk():
        told, after = [], ""
        while True:
            page = Page(limit, after, site, domain)
            body = await listing.allocations(service, page, Fields({}, []))
            told += [one["id"] for one in body["allocations"]]
            after = body.get("continue", "")
            assert body.get("remaining", 0) == len(expected) - len(told)
            assert len(body["allocations"]) == limit or not after
            if not after:
                return told

    assert [identity for _, identity in expected] == asyncio.run(walk())


@given(st.integers(0, 7), st.integers(0, 4))
def test_pages_of_sites_add_up_to_all_of_them(count, limit):
    names = [f"s{n}" for n in range(count)]
    table = SiteTable(Inventory(tuple(Site(name, "r", name) for name in names)))

    async def walk():
        told, after = [], ""
        while True:
            body = await listing.sites(table, Page(limit, after))
            told += [site["site_id"] for site in body["sites"]]
            after = body.get("continue", "")
            assert (body.get("remaining", 0), bool(after)) == (count - len(told), told != names)
            if not after:
                return told

    assert names == asyncio.run(walk())


@pytest.mark.parametrize(
    ("query", "page", "problem"),
    [
        ({}, Page(), None),
        ({"limit": "5000"}, Page(5000), None),
        ({"limit": "5001"}, Page(5001), "limit: must be at most 5000, got 5001"),
        ({"limit": "-1"}, Page(0), "limit: must be at least 0, got -1"),
        ({"continue": "1.5/a", "site": "s"}, Page(0, "1.5/a", "s"), None),
        ({"domain_id": ""}, Page(domain=""), None),
        ({"domain_id": "d"}, Page(domain="d"), None),
    ],
    ids=str,
)
def test_which_page_is_asked_for(query, page, problem):
    fields = Fields(query, [])

    assert page == listing.read_page(fields)
    assert [problem] * bool(problem) == [str(each) for each in fields.problems]


async def test_a_page_after_what_is_no_end_of_a_page_is_refused():
    service = SimpleNamespace(ledger=SimpleNamespace(records={"a": record("a")}))
    fields = Fields({}, [])

    assert {} == await listing.allocations(service, Page(after="x/y"), fields)
    assert ["continue: is not what the page before ended with"] == [
        str(problem) for problem in fields.problems
    ]


def test_a_site_tells_of_each_flavor_what_it_could_have_has_and_has_room_for():
    """Also of two pools, and of an allocation with replicas elsewhere."""
    table = SiteTable(
        Inventory(
            (Site("s", "r", "z"), Site("t", "r", "y")),
            (
                Host("r", "z", "gp", 9, 90, 3, 0),
                Host("r", "z", "gp||hi", 4, 4),
                Host("r", "y", "gp", 99, 99),
            ),
            (
                Flavor("r", "f2", 2, 3, "gp"),
                Flavor("r", "hi", 1, 3, "hi"),
                Flavor("q", "x", 1, 1, "gp"),
            ),
        )
    )
    ledger = Ledger(MemoryStore(), table)
    groups = [record("a", site=site).groups[0] for site in ("s", "t", "s")]
    ledger.apply(msgspec.structs.replace(record("a"), groups=tuple(groups)))
    ledger.apply(record("b", site="t"))

    told = listing.one_site(SimpleNamespace(table=table, ledger=ledger), table.row_of("s"))

    assert [
        {"flavor_id": "f2", "stock": 4 + 1, "held": 4, "free": 3 + 1},
        {"flavor_id": "hi", "stock": 1, "held": 0, "free": 1},
    ] == told["flavors"]
    assert ("s", 1) == (told["site_id"], told["allocations"])


# -- the stream


class Told:
    """Follows the stream in virtual time and notes what comes when."""

    def __init__(self, sites=1):
        table = SiteTable(Inventory(tuple(Site(f"s{n}", "r", f"z{n}") for n in range(sites))))
        self.ledger = Ledger(MemoryStore(), table)
        self.feed = Feed(self)
        self.lines = []

    @property
    def table(self):
        return self.ledger.table

    async def follow(self, seconds):
        stream = self.feed.follow()

        async def read():
            async for line in stream:
                body = msgspec.json.decode(line)
                assert line.endswith(b"}\n")
                self.lines.append((asyncio.get_running_loop().time(), self.short(body)))

        try:
            async with asyncio.timeout(seconds):
                await read()
        except TimeoutError:
            await stream.aclose()

    @staticmethod
    def short(body):
        names = {"sites": "site_id", "allocations": "id"}
        return {
            key: [one[names[key]] for one in value] if key in names else value
            for key, value in body.items()
        }


def test_the_stream_says_something_every_ten_seconds_and_changes_after_half_a_one():
    async def main():
        told, loop = Told(), asyncio.get_running_loop()
        told.ledger.apply(record("a", 1.0))
        loop.call_at(12.2, told.ledger.apply, record("b", 2.0))
        loop.call_at(12.3, told.ledger.apply, record("c", 3.0))
        loop.call_at(12.4, told.ledger.unapply, record("c", 3.0))
        loop.call_at(30.1, told.table.close, "s0")
        await told.follow(35)
        assert not told.feed._readers
        return told.lines

    everything = [{"sites": ["s0"]}, {"allocations": ["a", "b"]}, {"live": True}]
    change = {"allocations": ["b"], "gone": ["c"], "eips": {}}
    assert [
        (0.0, {"begin": {"sites": 1, "allocations": 1}}),
        (0.0, {"sites": ["s0"]}),
        (0.0, {"allocations": ["a"]}),
        (0.0, {"live": True}),
        (10.0, {}),
        (12.5, change),
        (22.5, {}),
        (30.5, {"begin": {"sites": 1, "allocations": 2}}),
        *((30.5, line) for line in everything),
        (32.5, {}),
    ] == run_virtual(main())


def test_the_stream_begins_with_the_newest_in_pieces(monkeypatch):
    monkeypatch.setattr(listing, "NEWEST", 3)
    monkeypatch.setattr(listing, "PIECE", 2)

    async def main():
        told = Told(sites=5)
        for name, created in (("d", 4.0), ("a", 1.0), ("c", 2.0), ("b", 2.0)):
            told.ledger.apply(record(name, created))
        await told.follow(0.4)
        return [line for _, line in told.lines]

    assert [
        {"begin": {"sites": 5, "allocations": 4}},
        {"sites": ["s0", "s1"]},
        {"sites": ["s2", "s3"]},
        {"sites": ["s4"]},
        {"allocations": ["b", "c"]},
        {"allocations": ["d"]},
        {"live": True},
    ] == run_virtual(main())


def test_the_stream_tells_the_sites_that_were_touched_once_and_in_order():
    async def main():
        told = Told()
        told.ledger.table = SiteTable(three_sites())
        volumes = next(source for source in told.table.sources if "SAS" in source)
        loop = asyncio.get_running_loop()
        for source in ("hosts/regB/az1/gp", "hosts/regA/az1/gp", "hosts/regB/az1/gp"):
            loop.call_at(0.2, told.table.apply, Charges({source: (1, 1)}))
        loop.call_at(0.7, told.table.apply, Charges({volumes: (1,)}))
        await told.follow(1.9)
        return told.lines[3:]

    assert [(0.5, {"sites": ["s-a", "s-c"]}), (1.0, {"sites": ["s-a"]})] == run_virtual(main())


# -- metrics


def odd_world():
    table = SiteTable(
        Inventory(
            (Site("a", 'r"\\\n', "z", eip_pool="ip"), Site("b", "q", "z")),
            (Host('r"\\\n', "z", "gp", 8, 16, 3, 5), Host('r"\\\n', "z", "hi", 2, 2)),
            eip_pools=(EipPool('r"\\\n', "ip", 9, 4),),
            volume_pools=(VolumePool("q", "z", "SAS", 50, 20),),
            volume_types=frozenset({"SAS"}),
        )
    )
    ledger = Ledger(MemoryStore(), table)
    ledger.apply(record("one", site="b", domain="d"))
    two = record("two", site="b").groups
    ledger.apply(msgspec.structs.replace(record("two", site="b"), groups=two * 2))
    return SimpleNamespace(table=table, ledger=ledger)


@pytest.mark.parametrize("piece", [1, 2, 500])
def test_the_metrics_of_each_site_are_told_in_pieces(monkeypatch, piece):
    monkeypatch.setattr(metrics_module, "PIECE", piece)
    a, b = 'site="a",region="r\\"\\\\\\n",zone="z"', 'site="b",region="q",zone="z"'
    amounts = {
        "free": [(a, "vcpus", 7), (a, "memory", 13), (a, "eips", 5), (b, "vcpus", 0),
                 (b, "memory", 0), (b, "storage/SAS", 30)],
        "total": [(a, "vcpus", 10), (a, "memory", 18), (a, "eips", 9), (b, "vcpus", 0),
                  (b, "memory", 0), (b, "storage/SAS", 50)],
    }  # fmt: skip
    expected = []
    for kind, text in (("free", "What a site has left."), ("total", "What a site has.")):
        name = f"global_scheduler_site_{kind}"
        expected += [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
        expected += [f'{name}{{{at},resource="{what}"}} {n}' for at, what, n in amounts[kind]]
    name = "global_scheduler_site_replicas"
    expected += [f"# HELP {name} Replicas held on a site.", f"# TYPE {name} gauge"]
    expected += [f"{name}{{{a}}} 0", f"{name}{{{b}}} 3"]

    pieces = list(by_site(odd_world()))

    assert "\n".join(expected) + "\n" == b"".join(pieces).decode()
    assert 3 * (1 + -(-2 // piece)) == len(pieces)


def test_the_scheduler_counts_what_it_holds():
    service = odd_world()
    service.ledger.conflicts = 7
    service.ledger.staged = {"a": None, "b": None, "c": None}

    told = generate_latest(Metrics(service).registry).decode().splitlines()

    for line in ("sites 2.0", "allocations 2.0", "conflicts 7.0", "staged 3.0"):
        assert f"global_scheduler_{line}" in told
    assert 'global_scheduler_domain_used{domain="d",resource="replicas"} 1.0' in told


# -- stranded


def test_how_many_machines_a_pool_takes_at_a_site_is_told_host_by_host():
    """Where hosts are listed; elsewhere by the sum, which nothing overfull lessens below none."""
    table = SiteTable(
        Inventory(
            tuple(Site(name, "r", name) for name in "abcd"),
            (
                Host("r", "a", "gp", 3, 9, name="h", count=3),
                Host("r", "a", "gp", 9, 9, 9, 9, name="full", count=1),
                Host("r", "b", "gp", 3, 90),
                Host("r", "b", "gp", 3, 90),
                Host("r", "c", "gp", 4, 4, 5, 0),
                Host("r", "c", "hi", 4, 7, 1, 3),
                Host("r", "d", "hi", 4, 8, 5, 0),
            ),
        )
    )
    listed, plain = table.pools["gp"], table.pools["hi"]

    assert [3, 3, 0, 0] == [listed.machines_at(row, 2, 4) for row in range(4)]
    assert [0, 0, 1, 0] == [plain.machines_at(row, 2, 4) for row in range(4)]
    assert [6, 6, 0, 0] == [listed.machines_at(row, 1, 4) for row in range(4)]


def test_what_is_stranded_is_told_by_source_with_the_first_site_that_refers_to_it():
    table = SiteTable(
        Inventory(
            (Site("b", "r", "z"), Site("a", "r", "z"), Site("c", "r", "y")),
            (
                Host("r", "z", "gp", 4, 9, name="x", count=2),
                Host("r", "z", "gp", 1, 30, name="y", count=1),
                Host("r", "z", "gp", 2, 2, 3, 3, name="over", count=1),
                Host("r", "y", "gp", 50, 50),
            ),
            (
                Flavor("r", "f", 2, 5, "gp"),
                Flavor("r", "g", 1, 40, "gp"),
                Flavor("r", "h", 9, 1, "hi"),
            ),
        )
    )

    [found] = stranded(table)

    fits = (Fit("f", 4, 2), Fit("g", 1, 0))
    assert Stranded("a", "hosts/r/z/gp", 4, 9, 48, 1, 30, fits) == found
    assert [
        "a  hosts/r/z/gp: 4 hosts, 9 vcpus and 48 memory free, stranded 1 (11 %) and 30",
        "  f: 2 on hosts, 4 by the sum",
        "  g: 0 on hosts, 1 by the sum",
    ] == list(lines([found]))
    assert ["no site lists hosts; host_count or pack_hosts in the inventory does"] == list(
        lines([])
    )
    empty = msgspec.structs.replace(found, free_vcpus=0, stranded_vcpus=0)
    assert "stranded 0 (0 %)" in next(lines([empty]))


def test_stranded_sources_come_in_the_order_of_their_sites():
    hosts = [
        Host("r", zone, types, 3, 3, name="h", count=1)
        for zone, types in (("z2", "gp"), ("z1", "hi"), ("z1", "gp"))
    ]
    table = SiteTable(Inventory((Site("b", "r", "z1"), Site("a", "r", "z2")), tuple(hosts)))

    assert [("a", "z2/gp"), ("b", "z1/gp"), ("b", "z1/hi")] == [
        (one.site, one.source.removeprefix("hosts/r/")) for one in stranded(table)
    ]

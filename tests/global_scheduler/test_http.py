import asyncio
import re
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import httpx
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from bayplan.errors import BayplanError
from bayplan.extender.body import BodyError
from bayplan.global_scheduler import answers
from bayplan.global_scheduler.files import must_load
from bayplan.global_scheduler.http import Api
from bayplan.global_scheduler.inventory import Inventory, Quota, Site
from bayplan.global_scheduler.listing import Feed, Page, TooManyReadersError, sites
from bayplan.global_scheduler.metrics import _Tenants
from bayplan.global_scheduler.placer import Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.quotas import QuotaError
from bayplan.global_scheduler.service import Allocations, ConflictError, NotFoundError
from bayplan.global_scheduler.table import SiteTable
from bayplan.global_scheduler.whatif import UnknownSiteError
from bayplan.global_scheduler.writer import TooWideError, UnavailableError
from bayplan.store import MemoryStore

SAMPLE = Path(str(files("bayplan.global_scheduler") / "sample"))
BODY = (SAMPLE / "sample_allocation_req_body.json").read_bytes()
JSON = {"Content-Type": "application/json"}

DOCUMENTED = """\
{
  "allocation": {
   "id": "7a41e0a0-bad9-49cc-9948-9531aa79c2b7",
   "resource_groups": [
    {
     "name": "RTC",
     "resources": [
      {
       "name": "rtc-name",
       "flavor_id": "c6.large.2",
       "count": 1
      }
     ],
     "selected": {
      "node_id": "site1",
      "region": "region1",
      "availability_zone": "az1"
     }
    }
   ]
  }
 }
"""


@pytest.fixture
async def client():
    base = must_load(SAMPLE)
    service = Allocations(
        MemoryStore(),
        base.inventory,
        Placer(base.policy, in_tree_registry()),
        clock=lambda: 1000.0,
    )
    await service.start()
    api = Api(service)
    transport = httpx.ASGITransport(api, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://global") as client:
        client.service = service
        yield client
    await service.stop()


def allocation(**changes):
    resource = {"name": "r", "flavors": [{"flavor_id": "c6.large.2"}]} | changes.pop("resource", {})
    return {"allocation": {"resource_group": {"name": "g", "resources": [resource]}} | changes}


async def test_the_sample_gives_the_documented_answer_word_for_word(client):
    answer = await client.post("/v1/allocations", content=BODY, headers=JSON)

    assert 201 == answer.status_code
    text = re.sub(
        r'"id": "[0-9a-f-]{36}"', '"id": "7a41e0a0-bad9-49cc-9948-9531aa79c2b7"', answer.text
    )
    assert DOCUMENTED == text


async def test_an_allocation_is_looked_up_listed_and_released(client):
    free = (await client.get("/v1/sites")).json()
    created = (await client.post("/v1/allocations", json=allocation())).json()["allocation"]
    path = f"/v1/allocations/{created['id']}"

    found = (await client.get(path)).json()["allocation"]
    assert found == created | {"state": "committed"}
    assert [found] == (await client.get("/v1/allocations")).json()["allocations"]
    assert free != (await client.get("/v1/sites")).json()
    assert 204 == (await client.delete(path)).status_code
    assert free == (await client.get("/v1/sites")).json()
    assert 404 == (await client.get(path)).status_code
    assert 404 == (await client.delete(path)).status_code


async def test_a_dry_run_takes_nothing(client):
    free = (await client.get("/v1/sites")).json()

    answer = await client.post("/v1/allocations?dry_run=true", json=allocation())

    assert 200 == answer.status_code
    assert "site1" == answer.json()["allocation"]["resource_groups"][0]["selected"]["node_id"]
    assert free == (await client.get("/v1/sites")).json()


async def test_a_reservation_waits_for_its_commit(client):
    answer = await client.post("/v1/allocations?reserve=true&ttl_seconds=5", json=allocation())
    path = f"/v1/allocations/{answer.json()['allocation']['id']}"

    reserved = (await client.get(path)).json()["allocation"]
    committed = (await client.post(f"{path}/commit")).json()["allocation"]

    assert ("reserved", 1005.0) == (reserved["state"], reserved["expires"])
    assert "committed" == committed["state"]


async def test_an_idempotency_key_repeats_the_answer(client):
    headers = {"Idempotency-Key": "once"}
    first = await client.post("/v1/allocations", json=allocation(), headers=headers)
    again = await client.post("/v1/allocations", json=allocation(), headers=headers)
    other = await client.post("/v1/allocations", json=allocation(replicas=2), headers=headers)

    assert first.json() == again.json()
    assert (409, "GS.050007") == (other.status_code, other.json()["error_code"])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "allocation"),
        (allocation(replicas=0), "allocation.replicas"),
        (allocation(replicas="x"), "allocation.replicas"),
        (allocation(id="no-uuid"), "allocation.id"),
        (allocation(resource={"count": 0}), "allocation.resource_group.resources[0].count"),
        (allocation(resource={"flavors": []}), "allocation.resource_group.resources[0].flavors"),
        (
            allocation(resource={"flavors": [{"flavor_id": "zz"}]}),
            "allocation.resource_group.resources[0].flavors[0].flavor_id",
        ),
        (
            allocation(resource={"storage": {"TAPE": 1}}),
            "allocation.resource_group.resources[0].storage.TAPE",
        ),
        (
            allocation(resource={"storage": {"SAS": 2**70}}),
            "allocation.resource_group.resources[0].storage.SAS",
        ),
        (allocation(replicas=10**400), "allocation.replicas"),
        (
            allocation(selector={"strategy": {"location_strategy": "x"}}),
            "allocation.selector.strategy.location_strategy",
        ),
        (
            allocation(selector={"stack_affinity": [{"key": "a", "operator": "~"}]}),
            "allocation.selector.stack_affinity[0].operator",
        ),
        (
            {"allocation": {"resource_group": {"name": "bad name!", "resources": []}}},
            "allocation.resource_group.resources",
        ),
    ],
)
async def test_what_is_wrong_is_named_by_its_path(client, body, field):
    answer = await client.post("/v1/allocations", json=body)

    assert (400, "GS.000007") == (answer.status_code, answer.json()["error_code"])
    assert answer.json()["error_message"].startswith("The request body parameter is illegal: ")
    assert field in [detail["field"] for detail in answer.json()["details"]]


@pytest.mark.parametrize(
    ("headers", "content", "status"),
    [
        (JSON, b"{", 400),
        (JSON, b"[" * 100_000, 400),
        (JSON, b'{"allocation": 5}', 400),
        ({"Content-Type": "text/plain"}, BODY, 415),
        (JSON | {"Content-Encoding": "gzip"}, b"nope", 400),
    ],
)
async def test_malformed_bodies_are_refused(client, headers, content, status):
    answer = await client.post("/v1/allocations", content=content, headers=headers)

    assert status == answer.status_code
    assert answer.json()["error_message"]


async def test_no_site_says_why_with_counts_that_add_up(client):
    answer = await client.post("/v1/allocations", json=allocation(resource={"count": 501}))

    body = answer.json()
    assert (409, "GS.050006") == (answer.status_code, body["error_code"])
    assert body["sites"] == sum(body["reasons"].values()) == 1
    assert {"site1": "Insufficient machines of the requested flavors"} == body["by_site"]


async def test_five_hundred_fit_as_in_the_worked_example(client):
    answer = await client.post("/v1/allocations", json=allocation(resource={"count": 500}))

    assert 201 == answer.status_code


async def test_health_metrics_document_and_page(client):
    await client.post("/v1/allocations", json=allocation())

    assert "ok" == (await client.get("/healthz")).text
    metrics = (await client.get("/metrics")).text
    assert 'global_scheduler_requests_total{code="201",method="POST"} 1.0' in metrics
    document = (await client.get("/openapi.json")).json()
    body = document["paths"]["/v1/allocations"]["post"]["requestBody"]
    assert (True, ["application/json"]) == (body["required"], list(body["content"]))
    page = await client.get("/")
    assert "sites_app.js" in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "clusterOf" in (await client.get("/static/sites.js")).text
    assert 404 == (await client.get("/static/index.html")).status_code
    assert 404 == (await client.get("/static/..%2Fapp.py")).status_code
    assert 405 == (await client.put("/v1/allocations")).status_code
    assert 404 == (await client.get("/nothing")).status_code


@pytest.mark.parametrize(
    ("method", "path", "done"), [("GET", "/v1/sites", 200), ("POST", "/v1/allocations", 201)]
)
async def test_a_token_is_asked_for_when_one_is_set(client, method, path, done):
    api = Api(client.service, token="secret")
    transport = httpx.ASGITransport(api)
    body = allocation() if method == "POST" else None
    async with httpx.AsyncClient(transport=transport, base_url="http://global") as guarded:
        for given in ({}, {"Authorization": "Bearer wrong"}):
            refused = await guarded.request(method, path, json=body, headers=given)

            assert 401 == refused.status_code
            assert "GS.000005" == refused.json()["error_code"]
        assert {} == client.service.ledger.records
        headers = {"Authorization": "Bearer secret"}
        allowed = await guarded.request(method, path, json=body, headers=headers)

    assert done == allowed.status_code


async def test_a_page_of_another_site_allocates_nothing(client):
    """What is asked for most takes a way of its own past the routes; the guard stands there too."""
    answer = await client.post(
        "/v1/allocations", json=allocation(), headers={"Origin": "http://evil.example"}
    )

    assert (403, "GS.000005") == (answer.status_code, answer.json()["error_code"])
    assert {} == client.service.ledger.records


async def test_lists_come_in_pages_that_add_up(client):
    for _ in range(5):
        await client.post("/v1/allocations", json=allocation(domain_id="a"))
    await client.post("/v1/allocations", json=allocation(domain_id="b"))
    everything = (await client.get("/v1/allocations")).json()["allocations"]

    pages, query = [], "limit=4"
    while query:
        page = (await client.get(f"/v1/allocations?{query}")).json()
        pages.append(page["allocations"])
        query = f"limit=4&continue={page['continue']}" if "continue" in page else ""

    assert [4, 2] == [len(page) for page in pages]
    assert everything == [one for page in pages for one in page]
    of = (await client.get("/v1/allocations?site=site1&domain_id=b")).json()
    assert (1, None) == (len(of["allocations"]), of.get("continue"))
    assert [] == (await client.get("/v1/allocations?site=other")).json()["allocations"]
    for query in ("continue=x", "limit=5001", "limit=-1"):
        assert 400 == (await client.get(f"/v1/allocations?{query}")).status_code


async def test_sites_come_in_pages_in_their_order():
    names = [f"s{n:02}" for n in range(23)]
    table = SiteTable(Inventory(sites=tuple(Site(name, "r", name) for name in names)))

    found, after = [], ""
    while len(found) < 23:
        page = await sites(table, Page(limit=7, after=after))
        found += [site["site_id"] for site in page["sites"]]
        after = page.get("continue", "")

    assert names == found
    assert ("", 2) == (after, len(page["sites"]))
    assert ["s08"] == [s["site_id"] for s in (await sites(table, Page(1, "s07x")))["sites"]]


async def test_a_site_tells_what_of_each_flavor_it_has_holds_and_has_room_for(client):
    before = (await client.get("/v1/sites/site1")).json()["site"]
    await client.post("/v1/allocations", json=allocation(resource={"count": 3}, replicas=2))
    after = (await client.get("/v1/sites/site1")).json()["site"]

    [was], [now] = before["flavors"], after["flavors"]
    assert {"flavor_id": "c6.large.2", "held": 6, "free": was["free"] - 6} | {
        "stock": was["stock"]
    } == now
    assert (0, 1) == (before["allocations"], after["allocations"])
    assert 404 == (await client.get("/v1/sites/nowhere")).status_code


async def test_metrics_tell_of_sites_and_tenants(client):
    await client.post("/v1/allocations", json=allocation(domain_id='a"b', replicas=2))

    metrics = (await client.get("/metrics")).text
    by_site = (await client.get("/metrics/sites")).text

    families = {one.name: one for one in text_string_to_metric_families(by_site)}
    replicas = families["global_scheduler_site_replicas"].samples
    assert [({"site": "site1", "region": "region1", "zone": "az1"}, 2)] == [
        (sample.labels, sample.value) for sample in replicas
    ]
    totals = {
        s.labels["resource"]: s.value for s in families["global_scheduler_site_total"].samples
    }
    free = {s.labels["resource"]: s.value for s in families["global_scheduler_site_free"].samples}
    assert totals.keys() == free.keys() >= {"vcpus", "memory", "eips"}
    assert 'global_scheduler_domain_used{domain="a\\"b",resource="replicas"} 2.0' in metrics


def test_metrics_tell_what_each_domain_may_take():
    """One without a quota of its own has that of anybody, as soon as it takes something."""
    quotas = {"a": Quota("a", {"vcpus": 4}), "*": Quota("*", {"eips": 2, "vcpus": 1})}
    service = SimpleNamespace(
        table=SimpleNamespace(quotas=quotas),
        ledger=SimpleNamespace(used={"b": {"vcpus": 3}, "a": {"vcpus": 2}}),
    )

    used, quota = (
        [(*sample.labels.values(), sample.value) for sample in family.samples]
        for family in _Tenants(service).collect()
    )
    assert [("a", "vcpus", 2), ("b", "vcpus", 3)] == used
    assert [("*", "eips", 2), ("*", "vcpus", 1), ("a", "vcpus", 4)] == quota[:3]
    assert [("b", "eips", 2), ("b", "vcpus", 1)] == quota[3:]
    del quotas["*"]
    _, quota = _Tenants(service).collect()
    assert [("a", "vcpus")] == [tuple(sample.labels.values()) for sample in quota.samples]


async def lines_of(feed, count):
    async with asyncio.timeout(60):
        return [msgspec.json.decode(await anext(feed)) for _ in range(count)]


async def test_the_stream_tells_everything_and_then_what_changes(client):
    await client.post("/v1/allocations", json=allocation())
    step = asyncio.Event()

    async def pause(seconds):
        await step.wait()

    feed = Feed(client.service, pause=pause, readers=1)
    stream = feed.follow()
    begin, sites_, held, live = await lines_of(stream, 4)
    with pytest.raises(TooManyReadersError):
        feed.follow()
    new = (await client.post("/v1/allocations", json=allocation())).json()["allocation"]
    await client.delete(f"/v1/allocations/{held['allocations'][0]['id']}")
    step.set()
    [change] = await lines_of(stream, 1)

    assert {"begin": {"sites": 1, "allocations": 1}} == begin
    assert (await client.get("/v1/sites")).json()["sites"] == change["sites"] != []
    assert sites_["sites"] == (await client.get("/v1/sites")).json()["sites"]
    assert {"live": True} == live
    assert [new["id"]] == [one["id"] for one in change["allocations"]]
    assert [held["allocations"][0]["id"]] == change["gone"]
    assert {"region1/common_pool1": client.service.table.eip_free.item()} == change["eips"]

    await client.service.close_site("site1")
    again = await lines_of(stream, 2)
    assert ("begin", "Drained") == (*again[0], again[1]["sites"][0]["status"])
    await stream.aclose()
    await feed.follow().aclose()


MOVES = [{"allocation": "a", "from": "s1", "to": "s2"}]
ID_2 = "00000000-0000-0000-0000-000000000002"
ONE = msgspec.json.decode(BODY)["allocation"] | {"id": ID_2[:-1] + "1"}


@pytest.mark.parametrize(
    ("method", "path", "body", "problem"),
    [
        ("POST", "allocations", {"allocations": []}, "must have 1 to 100 entries"),
        ("POST", "allocations", {"allocations": [ONE] * 101}, "at most 100 entries, got 101"),
        (
            "POST",
            "allocations",
            {"allocations": [ONE | {"replicas": 50_001}] * 2},
            "allocations: ask for 100002 resources, each counted in every replica; at most",
        ),
        ("POST", "allocations?dry_run=1", {"allocations": [ONE]}, "is not possible with several"),
        ("POST", "allocations?explain=1", {"allocations": [ONE]}, "is not possible with several"),
        ("POST", "allocations?reserve=1", {"allocations": [ONE]}, "is not possible with several"),
        ("POST", "allocations?dry_run=yes", {"allocation": ONE}, 'expected true or false, got "y'),
        ("POST", "allocations?reserve=1&ttl_seconds=0", {"allocation": ONE}, "at most 86400"),
        ("POST", "allocations?reserve=1&ttl_seconds=86401", {"allocation": ONE}, "at most 86400"),
        (
            "GET",
            f"allocations/{ONE['id']}?explain=maybe",
            None,
            'expected true or false, got "maybe"',
        ),
        ("PATCH", "allocations/a", {"replicas": 0}, "must be from 1 to"),
        ("PATCH", "allocations/a", {"replicas": 10**9}, "must be from 1 to"),
        ("POST", "allocations/a/move", {"leave": []}, "must name at least one site"),
        ("GET", "rebalance?moves=0", None, "must be"),
        ("GET", "rebalance?moves=101", None, "must be at most 100, got 101"),
        ("POST", "rebalance", {"moves": MOVES * 101}, "at most 100 entries, got 101"),
        ("POST", "whatif", {"place": [ONE] * 101}, "place: must have at most 100 entries"),
        (
            "POST",
            "whatif",
            {"place": [{"allocation": ONE | {"replicas": 50_001}}] * 2},
            "place: ask for 100002 resources, each counted in every replica; at most",
        ),
        ("POST", "whatif", {"add": {"sites": [{}] * 2000}}, "sites[99].region: is missing"),
        ("POST", "rebalance", {"moves": [{}]}, "is missing"),
    ],
)
async def test_what_is_out_of_bounds_is_refused(client, method, path, body, problem):
    await client.post("/v1/allocations", json={"allocation": ONE})
    before = dict(client.service.ledger.records)
    assert [ONE["id"]] == list(before)

    answer = await client.request(method, f"/v1/{path}", json=body)

    assert (400, "GS.000007") == (answer.status_code, answer.json()["error_code"]), answer.text
    assert problem in answer.text.replace('\\"', '"')
    assert before == client.service.ledger.records


@pytest.mark.parametrize(
    ("path", "name", "one"),
    [("allocations", "allocations", {}), ("whatif", "place", {"allocation": {}})],
)
async def test_of_several_allocations_the_first_problems_are_told(client, path, name, one):
    """A hundred of them have a thousand problems each."""
    wrong = {"selector": {"residency": {"countries": [0] * 600}}}
    one = {"allocation": one["allocation"] | wrong} if one else wrong

    answer = await client.post(f"/v1/{path}", json={name: [one] * 3})

    assert 400 == answer.status_code
    assert 1000 == len(answer.json()["details"])


async def test_what_is_just_within_bounds_is_taken(client):
    for path in ("rebalance?moves=1", "rebalance?moves=100", "stranded"):
        assert 200 == (await client.get(f"/v1/{path}")).status_code
    answer = await client.post("/v1/rebalance", json={"moves": MOVES * 100})
    assert 100 == len(answer.json()["moves"])
    assert all("problem" in move for move in answer.json()["moves"]), "there is no such allocation"
    several = await client.post("/v1/allocations", json={"allocations": [ONE]})
    assert (201, 1) == (several.status_code, len(several.json()["allocations"]))
    held = "allocations?reserve=1&ttl_seconds=86400"
    one = await client.post(f"/v1/{held}", json={"allocation": ONE | {"id": ID_2}})
    assert 201 == one.status_code, one.text
    for replicas in (2, 1):
        resized = await client.patch(f"/v1/allocations/{ID_2}", json={"replicas": replicas})
        assert 200 == resized.status_code, resized.text
        assert replicas == len(resized.json()["allocation"]["resource_groups"])


@pytest.mark.parametrize(
    ("problem", "status", "code"),
    [
        (lambda: QuotaError("x"), 409, answers.QUOTA),
        (lambda: ConflictError("x"), 409, answers.CONFLICT),
        (lambda: TooWideError("x"), 409, answers.CONFLICT),
        (lambda: NotFoundError("x"), 404, answers.NOT_FOUND),
        (lambda: UnknownSiteError("x"), 404, answers.NOT_FOUND),
        (lambda: UnavailableError("x"), 503, answers.UNAVAILABLE),
        (lambda: TooManyReadersError("x"), 503, answers.UNAVAILABLE),
        (lambda: BodyError(413, "x"), 413, answers.BAD_BODY),
        (lambda: BayplanError("x"), 500, answers.INTERNAL),
    ],
    ids=["quota", "conflict", "wide", "missing", "site", "away", "readers", "body", "other"],
)
async def test_what_fails_has_a_status_and_a_code(client, monkeypatch, problem, status, code):
    async def fails(identity):
        raise problem()

    monkeypatch.setattr(client.service, "release", fails)

    answer = await client.delete("/v1/allocations/a")

    assert (status, code, "x") == (
        answer.status_code,
        answer.json()["error_code"],
        answer.json()["error_message"],
    )


async def test_the_document_names_what_it_has_and_chooses_only_among_several(client):
    document = (await client.get("/openapi.json")).json()
    found = []

    def walk(value):
        if isinstance(value, dict):
            found.append(value)
        for part in value.values() if isinstance(value, dict) else value:
            if isinstance(part, dict | list):
                walk(part)

    walk(document)

    named = {each["$ref"] for each in found if "$ref" in each}
    assert named == {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert all(len(each["anyOf"]) > 1 for each in found if "anyOf" in each)

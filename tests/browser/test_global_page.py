"""The page of the allocations API in a real browser."""

import asyncio
import json
import re
import threading
import urllib.request
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import pytest

from bayplan.global_scheduler.run import Options, running
from tests.browser.kit import CHROMIUM, PATIENCE, make_late

SAMPLE = Path(str(files("bayplan.global_scheduler") / "sample"))

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]


@contextmanager
def serving(conf, token=""):
    options = Options(conf, host="127.0.0.1", port=0, store="memory", token=token)
    ready, stop = threading.Event(), threading.Event()
    found = {}

    async def serve():
        async with running(options) as scheduler:
            found["url"] = f"http://127.0.0.1:{scheduler.port}/"
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(180)
    yield found["url"]
    stop.set()
    thread.join(60)


@pytest.fixture
def conf(tmp_path):
    conf = tmp_path / "conf"
    conf.mkdir()
    for source in SAMPLE.iterdir():
        (conf / source.name).write_bytes(source.read_bytes())
    return conf


@pytest.fixture
def url(conf):
    with serving(conf) as found:
        yield found


@contextmanager
def opening(chromium, url):
    said = []
    page = chromium.new_page()
    page.set_default_timeout(PATIENCE)
    make_late(page)
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: request.url.startswith(url) or said.append(request.url))
    page.goto(url)
    yield page
    page.close()

    # Chromium itself writes a line about every answer that is an error.
    assert [text for text in said if "Failed to load resource" not in text] == []


@pytest.fixture
def opened(chromium, url):
    with opening(chromium, url) as page:
        page.get_by_label("Totals").get_by_text("1 site").wait_for()
        yield page


def test_a_group_is_tried_and_placed_by_the_form(opened, url):
    place = opened.get_by_role("button", name="Place")
    place.click()
    opened.get_by_text("would be placed").wait_for()
    tried = opened.get_by_role("table", name="Allocations").inner_text()
    opened.get_by_label("dry run").uncheck()
    place.click()
    opened.get_by_text("✓ placed").wait_for()
    row = opened.get_by_role("table", name="Allocations").get_by_role("row").nth(1)
    row.get_by_text("committed").wait_for()
    opened.get_by_label("Totals").get_by_text("1 allocation").wait_for()
    row.get_by_role("link", name="site1").click()
    site = opened.get_by_role("region", name="Site")
    site.get_by_text("Normal").wait_for()

    assert "Nothing is held yet" in tried
    assert "1,002 / 4,000" in site.inner_text()
    assert opened.title() == "site1 · Sites · bayplan"
    [flavor] = call(f"{url}v1/sites/site1", "GET")["site"]["flavors"]
    site.get_by_text(f"{flavor['free']:,} free, 1 held by allocations").wait_for()
    row.get_by_role("link", name="web").click()
    allocation = opened.get_by_role("region", name="Allocation")
    allocation.get_by_text("Nothing happened to it").wait_for()
    assert "site1: 1 × c6.large.2" in allocation.inner_text()


def test_what_does_not_fit_comes_with_its_funnel_and_the_nearest_site(opened):
    opened.get_by_label("Machines").fill("100000")
    opened.get_by_role("button", name="Place").click()
    why = opened.get_by_role("region", name="Why")
    why.get_by_text("nearest").wait_for()

    assert "Insufficient machines of the requested flavors" in why.inner_text()
    assert "200,000 needed" in why.inner_text()
    assert "would fit" in why.inner_text()


def test_a_request_is_written_as_json_and_its_fault_named(opened):
    opened.get_by_text("As JSON").click()
    body = opened.get_by_label("Request body")
    written = json.loads(body.input_value())
    body.fill('{"allocation": {}}')
    opened.get_by_role("button", name="Place").click()
    opened.locator("#answer").get_by_text("resource_group").first.wait_for()

    assert written["allocation"]["resource_group"]["name"] == "web"


def test_storage_addresses_and_priority_have_fields(opened, url):
    [before] = call(f"{url}v1/sites", "GET")["sites"]
    opened.get_by_label("Storage").fill("SAS 40")
    opened.get_by_label("public addresses").check()
    opened.get_by_label("Priority").fill("7")
    opened.get_by_label("release lower priorities").check()
    opened.get_by_label("dry run").uncheck()
    opened.get_by_role("button", name="Place").click()
    opened.get_by_text("✓ placed").wait_for()
    [held] = call(f"{url}v1/allocations", "GET")["allocations"]
    [site] = call(f"{url}v1/sites", "GET")["sites"]

    assert 7 == held["priority"]
    assert 40 == before["storage"]["SAS"]["free"] - site["storage"]["SAS"]["free"]
    assert 1 == before["eips"]["free"] - site["eips"]["free"]
    opened.get_by_label("Storage").fill("tape 1")
    opened.get_by_role("button", name="Place").click()
    opened.locator("#answer").get_by_text("is not a known volume type").first.wait_for()


def test_the_sites_are_walked_by_keys(opened):
    canvas = opened.get_by_role("application", name=re.compile("Map of the sites: 1 site"))
    canvas.focus()
    canvas.press("ArrowRight")
    opened.get_by_role("region", name="Site").get_by_role("heading", name="site1").wait_for()
    canvas.press("Escape")
    opened.get_by_role("region", name="Place").wait_for()


def call(url, method="POST", body=None, token=""):
    headers = {"Content-Type": "application/json"} | (
        {"Authorization": f"Bearer {token}"} if token else {}
    )
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def test_what_others_place_move_and_release_is_shown_by_itself(opened, url):
    body = json.loads((SAMPLE / "sample_allocation_req_body.json").read_text())
    held = call(f"{url}v1/allocations", body=body)["allocation"]["id"]
    opened.get_by_label("Totals").get_by_text("1 allocation").wait_for()
    opened.goto(f"{url}#/map?allocation={held}")
    call(f"{url}v1/allocations/{held}", "PATCH", {"replicas": 2})
    allocation = opened.get_by_role("region", name="Allocation")
    allocation.get_by_text("resized from 1 to 2 replicas").wait_for()
    call(f"{url}v1/allocations/{held}", "DELETE")
    opened.get_by_label("Totals").get_by_text("0 allocations").wait_for()
    opened.get_by_role("region", name="Place").wait_for()


def test_the_token_opens_the_stream_and_the_form(chromium, conf):
    with serving(conf, "secret") as url, opening(chromium, url) as page:
        page.get_by_text("a bearer token is needed").wait_for()
        page.get_by_label("token").fill("secret")
        page.get_by_label("token").press("Tab")
        page.get_by_label("Totals").get_by_text("1 site").wait_for()
        page.get_by_role("button", name="Place").click()
        page.get_by_text("would be placed").wait_for()


@pytest.mark.long
def test_ten_thousand_sites_are_shown_and_one_is_found(chromium, conf):
    many(conf, 10_000)
    with serving(conf) as url, opening(chromium, url) as page:
        page.set_default_timeout(90_000)
        page.get_by_label("Totals").get_by_text("10,000 sites").wait_for()
        page.get_by_label("dry run").uncheck()
        page.get_by_label("Flavors").fill("f")
        page.get_by_role("button", name="Place").click()
        page.get_by_text("✓ placed").wait_for()
        page.get_by_label("Totals").get_by_text("1 allocation").wait_for()
        page.goto(f"{url}#/map?site=site-09999")
        page.get_by_role("region", name="Site").get_by_text("free, 0 held").wait_for()


def many(conf, count):
    """An inventory of so many sites in a hundred regions."""
    places = [(f"site-{n:05}", f"r{n % 100}", f"z{n // 100}") for n in range(count)]
    sites = [
        {"id": name, "region": region, "az": zone, "status": "Normal", "operator": {"name": "o"}}
        for name, region, zone in places
    ]
    hosts = [
        {
            "edge_site_id": name,
            "region": region,
            "availability_zone": zone,
            "node_infos": [
                {
                    "edge_node_id": "h",
                    "region": region,
                    "availability_zone": zone,
                    "total_vcpus": 64,
                    "used_vcpus": n % 50,
                    "total_mem": 256,
                    "used_mem": n % 200,
                    "resource_type": "gp",
                }
            ],
        }
        for n, (name, region, zone) in enumerate(places)
    ]
    flavors = [
        {
            "region_flavor_id": f"r{n}|f",
            "region": f"r{n}",
            "id": "f",
            "name": "f",
            "vcpus": "2",
            "ram": 4,
            "os_extra_specs": {"resource_type": "gp"},
        }
        for n in range(100)
    ]
    for name, key, value in (
        ("sites", "sites", sites),
        ("site_nodes", "site_nodes", hosts),
        ("flavors", "flavors", flavors),
        ("eip_pools", "eip_pools", []),
        ("volume_pools", "volume_pools", []),
    ):
        (conf / f"{name}.json").write_text(json.dumps({key: value}))

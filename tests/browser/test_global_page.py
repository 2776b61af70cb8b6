"""The page of the allocations API in a real browser."""

import asyncio
import json
import re
import shutil
import threading
from importlib.resources import files
from pathlib import Path

import pytest

from bayplan.global_scheduler.run import Options, running

CHROMIUM = shutil.which("chromium")
SAMPLE = Path(str(files("bayplan.global_scheduler") / "sample"))

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]


@pytest.fixture
def url(tmp_path):
    conf = tmp_path / "conf"
    conf.mkdir()
    for source in SAMPLE.iterdir():
        (conf / source.name).write_bytes(source.read_bytes())
    options = Options(conf, host="127.0.0.1", port=0, store="memory")
    ready, stop = threading.Event(), threading.Event()
    found = {}

    async def serve():
        async with running(options) as scheduler:
            found["url"] = f"http://127.0.0.1:{scheduler.port}/"
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(20)
    yield found["url"]
    stop.set()
    thread.join(20)


@pytest.fixture
def opened(chromium, url):
    said = []
    page = chromium.new_page()
    page.set_default_timeout(20_000)
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: request.url.startswith(url) or said.append(request.url))
    page.goto(url)
    page.get_by_label("Totals").get_by_text("1 site").wait_for()
    yield page
    page.close()

    # Chromium itself writes a line about every answer that is an error.
    assert [text for text in said if "Failed to load resource" not in text] == []


def test_a_group_is_tried_and_placed_by_the_form(opened):
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


def test_the_sites_are_walked_by_keys(opened):
    canvas = opened.get_by_role("img", name=re.compile("Map of the sites: 1 site"))
    canvas.focus()
    canvas.press("ArrowRight")
    opened.get_by_role("region", name="Site").get_by_role("heading", name="site1").wait_for()
    canvas.press("Escape")
    opened.get_by_role("region", name="Place").wait_for()

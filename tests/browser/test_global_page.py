"""The page of the allocations API in a real browser."""

import asyncio
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


def test_a_stack_is_placed_from_the_page(url):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        page = browser.new_page()
        page.goto(url)
        page.get_by_role("button", name="Place").click()
        page.get_by_text("site1").wait_for()
        text = page.locator("#answer").inner_text()
        page.locator("#body").fill('{"allocation": {}}')
        page.get_by_role("button", name="Place").click()
        page.get_by_text("resource_group").last.wait_for()
        refused = page.locator("#answer").inner_text()
        browser.close()

    assert text.startswith("200")  # a dry run is ticked
    assert refused.startswith("400")

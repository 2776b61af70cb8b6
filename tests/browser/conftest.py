"""The browser and the clusters that it looks at, once a module."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from bayplan.page import runs
from tests.browser.kit import ARGS, CHROMIUM, Tab, many, picture, served


@pytest.fixture(scope="module")
def small():
    with served(lambda: picture(6, 40, 5)) as found:
        yield found


@pytest.fixture(scope="module")
def large():
    with served(many) as found:
        yield found


@pytest.fixture(scope="module")
def story():
    path = runs.find("09-drain")
    variants = [runs.Variant(""), runs.Variant("seed 7", "seed 7", 7)]
    # Playwright keeps a loop running in this thread; virtual time needs one of its own.
    with ThreadPoolExecutor(1) as aside:
        found = aside.submit(runs.played, path, variants).result()
    with served(lambda: found) as here:
        yield here


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium):
    open_tabs = []

    def make(where, **options):
        open_tabs.append(Tab(chromium, where, **options))
        return open_tabs[-1]

    yield make
    for item in open_tabs:
        item.close()

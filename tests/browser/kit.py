"""What tests of the page in a real Chromium share: sources that are served, and a tab that watches.

Screenshots are made where BAYPLAN_SCREENSHOTS names a folder for them.
"""

import asyncio
import contextlib
import itertools
import os
import re
import shutil
import threading
from pathlib import Path

from bayplan.inspect import Cluster, Origin
from bayplan.page.serving import serving
from bayplan.page.sources import Living, Picture
from bayplan.testing import make_node
from bayplan.testing.clusters import cluster_objects

CHROMIUM = shutil.which("chromium")
ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update",
        "--disable-sync", "--renderer-process-limit=1"]  # none beside those in use  # fmt: skip

ENGINE = 90_000
"""Milliseconds that a busy machine may take to fill an engine with 100,000 pods."""

PATIENCE = 60_000
"""Milliseconds until what is waited for is missed."""

SCREENSHOTS = os.environ.get("BAYPLAN_SCREENSHOTS")
LATE = int(os.environ.get("BAYPLAN_PAGE_LATE", "0"))
LATER = """(late) => {
  const {fetch: ask, addEventListener: listen} = window;
  const pause = () => new Promise((done) => setTimeout(done, late));
  window.requestAnimationFrame = (work) => setTimeout(work, late);
  window.cancelAnimationFrame = clearTimeout;
  window.fetch = (...words) => pause().then(() => ask(...words));
  window.addEventListener = (kind, work, ...more) => listen.call(window, kind,
    kind === "hashchange" ? (event) => pause().then(() => work(event)) : work, ...more);
}"""


def make_late(page):
    """Let pictures, answers and addresses come late by BAYPLAN_PAGE_LATE milliseconds.

    So a test fails that looks before a busy browser would have drawn.
    """
    if LATE:
        page.add_init_script(f"({LATER})({LATE})")


@contextlib.contextmanager
def served(make):
    """Serve what `make` returns from a thread of its own."""
    ready, stop, found = threading.Event(), threading.Event(), {}

    async def serve():
        source = make()
        async with serving(source) as url:
            found.update(url=url, source=source, loop=asyncio.get_running_loop())
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        assert ready.wait(120)
        yield found
    finally:  # a test that failed must not keep the process
        stop.set()
        thread.join(60)


def picture(nodes, pods, pending):
    items = cluster_objects(nodes, pods, pending=pending)
    origin = Origin(f"cluster of {nodes}", taken=1_794_000_000.0)
    return Picture(Cluster.from_objects(items, origin=origin))


def living():
    async def read():
        return Cluster.from_objects([])

    source = Living("living", read)
    for number in range(4):
        source.board.put(make_node(f"n{number}").capacity(cpu="4", memory="8Gi", pods="9").build())
    source.board.begin()
    return source


def many():
    """A running cluster of 5,000 nodes and 100,000 pods, with a little past."""
    items = list(cluster_objects(5000, 100_000, pending=400))
    whole = Cluster.from_objects(items, origin=Origin("cluster of 5000"))

    async def read():
        return whole

    source = Living("cluster of 5000", read, clock=itertools.count(1_794_000_000.0).__next__)
    for item in items[:-400]:
        source.board.put(item)
    source.board.begin()
    for item in items[-400:]:
        source.board.put(item)
    source.board.frame()
    return source


SHOWN = {"map": "map-view", "queue": "queue-view", "pod": "pod-view", "what-if": "what-view",
         "time": "time-view"}  # fmt: skip
UP_TO_DATE = """() => document.querySelector("a[download]").getAttribute("href")
    === "api/report?at=" + encodeURIComponent(location.hash)"""
DRAWN = """async () => {
  for (let i = 0; i < 4; i++) await new Promise((done) => requestAnimationFrame(done));
}"""


class Tab:
    """A tab that remembers everything that should not have happened.

    `refused`: some answers will be errors, of each of which the browser itself writes a line.
    """

    def __init__(self, browser, where, *, width=1440, height=900, scheme="light", refused=False):
        self.base = where["url"].partition("?")[0]
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, accept_downloads=True
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.refused, self.wrong = refused, []
        make_late(self.page)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", self._request)
        self.page.goto(where["url"])

    def _said(self, message):
        if not (self.refused and message.text.startswith("Failed to load resource")):
            self.wrong.append(message.text)

    def _request(self, request):
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.wrong.append(f"asks {request.url}")

    def go(self, address):
        self.page.goto(self.base + address)
        try:
            self.arrived(re.match(r"#/([\w-]+)", address)[1])
        except Exception as error:
            error.add_note(f"{self.page.url} shows {self.page.inner_text('body')[:500]!r}")
            error.add_note(f"and said {self.wrong}")
            raise
        return self.page

    def arrived(self, view):
        """Wait until a view is there and shows what the address says."""
        self.page.locator(f"main > .{SHOWN[view]}").wait_for()
        self.page.wait_for_function(UP_TO_DATE)

    def settled(self):
        """Wait until what was done is drawn: the state, the view and its map, one after another."""
        self.page.evaluate(DRAWN)

    def drawn(self):
        self.page.wait_for_function("() => performance.getEntriesByName('map drawn').length > 0")

    def shot(self, name):
        if SCREENSHOTS:
            self.page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png")

    def close(self):
        wide = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        self.context.close()

        assert self.wrong == []
        assert wide <= 0, "the page scrolls sideways"


PENDING = next(
    item.key for item in cluster_objects(6, 40, pending=5) if item.KIND == "Pod"
    and not item.spec.node_name and item.status.conditions
)  # fmt: skip
VIEWS = {
    "map": "#/map",
    "node": "#/map?node=node-0003&colour=pool",
    "table": "#/map?table=1",
    "queue": "#/queue",
    "pod": f"#/pod/{PENDING}",
    "what-if": "#/what-if?change=drain%3Dnode-0004",
    "time": "#/time",
}

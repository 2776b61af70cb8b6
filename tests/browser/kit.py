"""What tests of the page in a real Chromium share: sources that are served, and a tab that watches.

Screenshots go to the folder that BAYPLAN_SCREENSHOTS names, else to pytest's own.
"""

import asyncio
import contextlib
import itertools
import os
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
        "--disable-sync"]  # fmt: skip

ENGINE = 90_000
"""Milliseconds that a busy machine may take to fill an engine with 100,000 pods."""


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
        thread.join(20)


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


class Tab:
    """A tab that remembers everything that should not have happened."""

    def __init__(self, browser, where, *, width=1440, height=900, scheme="light"):
        self.base = where["url"].partition("?")[0]
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, accept_downloads=True
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.wrong = []
        self.page.on("console", lambda message: self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", self._request)
        self.page.goto(where["url"])

    def _request(self, request):
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.wrong.append(f"asks {request.url}")

    def go(self, address):
        self.page.goto(self.base + address)
        try:
            self.page.locator("main > .view").wait_for()
        except Exception as error:
            error.add_note(f"{self.page.url} shows {self.page.inner_text('body')[:500]!r}")
            error.add_note(f"and said {self.wrong}")
            raise
        return self.page

    def drawn(self):
        self.page.wait_for_function("() => performance.getEntriesByName('map drawn').length > 0")

    def shot(self, name, folder):
        target = Path(os.environ.get("BAYPLAN_SCREENSHOTS") or folder)
        target.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=target / f"{name}.png")

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

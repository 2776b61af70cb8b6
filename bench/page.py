"""Measures the page in Chromium: first picture, bytes, panning, memory, and what the server costs.

    .venv/bin/python bench/page.py [--nodes 5000] [--pods 100000] [--minutes 10]
    .venv/bin/python bench/page.py --json docs/results/page.json    (the page's table)

The server runs in a process of its own with a made-up cluster; changes are pods that go and come,
decoded from JSON as an informer would. Frames are those of headless software rendering.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import os
import random
import resource
import shutil
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from figures import write

ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update",
        "--disable-sync"]  # fmt: skip
STEPS = 120
OPENINGS = 5


def serve(nodes: int, pods: int, rate: int, pipe: Connection) -> None:
    """Serve a cluster; begins to change it when told so."""
    asyncio.run(_serve(nodes, pods, rate, pipe))


async def _serve(nodes: int, pods: int, rate: int, pipe: Connection) -> None:
    import msgspec

    from bayplan.api import Pod, encode
    from bayplan.inspect import Cluster
    from bayplan.page.serving import serving
    from bayplan.page.sources import Living
    from bayplan.testing.clusters import cluster_objects, make_cluster_pod, node_name

    async def read() -> Cluster:
        return Cluster.from_objects([])

    source = Living("bench", read)
    placed = []
    for item in cluster_objects(nodes, pods, pending=400):
        source.board.put(item)
        if isinstance(item, Pod) and item.spec.node_name:
            placed.append(item)
    source.board.begin()
    rng = random.Random(7)
    decode = msgspec.json.Decoder(Pod).decode
    made = [
        encode(make_cluster_pod(pods + i, rng, node=node_name(rng.randrange(nodes))))
        for i in range(4000)
    ]
    async with serving(source) as url:
        pipe.send(url)
        while not pipe.poll():
            await asyncio.sleep(0.05)
        pipe.recv()
        alive = placed[:2000]
        begin, done = time.monotonic(), 0
        for text in itertools.cycle(made):
            pod = decode(text)
            gone = alive.pop(0)
            if gone.key != pod.key:
                source.board.delete(gone)
            source.board.put(pod)
            alive.append(pod)
            done += 2
            ahead = begin + done / rate - time.monotonic()
            if ahead > 0.02:
                await asyncio.sleep(ahead)
            if pipe.poll():
                question = pipe.recv()
                if question == "stop":
                    return
                used = resource.getrusage(resource.RUSAGE_SELF)
                pipe.send((used.ru_utime + used.ru_stime, done, _rss(os.getpid())))


def _rss(pid: int) -> float:
    """Return the private memory of a process in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    return 0.0


class Browser:
    """One tab and what can be measured of it."""

    def __init__(self, playwright: Any) -> None:
        self.browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=ARGS
        )
        self.problems: list[str] = []
        self.bytes = 0
        self.fresh()

    def fresh(self) -> None:
        """Begin with an empty cache and no cookie."""
        if self.browser.contexts:
            self.browser.contexts[0].close()
        context = self.browser.new_context(viewport={"width": 1440, "height": 900})
        self.page = context.new_page()
        self.cdp = context.new_cdp_session(self.page)
        self.bytes = 0
        self.cdp.on("Network.dataReceived", self._received)
        self.cdp.send("Network.enable")
        self.cdp.send("Performance.enable")
        self.page.on("console", lambda m: self.problems.append(m.text))
        self.page.on("pageerror", lambda e: self.problems.append(str(e)))

    def _received(self, event: dict[str, Any]) -> None:
        self.bytes += event.get("encodedDataLength", 0)

    def heap(self) -> dict[str, float]:
        """Return the script's memory in MB after a collection, and the number of elements."""
        self.cdp.send("HeapProfiler.collectGarbage")
        found = {m["name"]: m["value"] for m in self.cdp.send("Performance.getMetrics")["metrics"]}
        usage = self.cdp.send("Runtime.getHeapUsage")
        return {
            "heap": found["JSHeapUsedSize"] / 1e6,
            "arrays": usage.get("backingStorageSize", 0) / 1e6,
            "embedder": usage.get("embedderHeapUsedSize", 0) / 1e6,
            "elements": found["Nodes"],
        }

    def under_pressure(self) -> float:
        """Return the renderer's memory once the browser gave back what it kept for later."""
        self.cdp.send("Memory.simulatePressureNotification", {"level": "critical"})
        self.page.wait_for_timeout(3000)
        self.heap()
        return self.tab()

    def tab(self) -> float:
        """Return the private memory of the renderer in MB."""
        session = self.browser.new_browser_cdp_session()
        found = session.send("SystemInfo.getProcessInfo")["processInfo"]
        return max(_rss(item["id"]) for item in found if item["type"] == "renderer")

    def cpu(self) -> float:
        """Return the processor time of all renderers in seconds."""
        session = self.browser.new_browser_cdp_session()
        found = session.send("SystemInfo.getProcessInfo")["processInfo"]
        return float(sum(item["cpuTime"] for item in found if item["type"] == "renderer"))

    def open(self, url: str) -> float:
        """Open the page; return milliseconds until the map was drawn."""
        self.page.goto(url)
        wait = "() => performance.getEntriesByName('map drawn').length > 0"
        self.page.wait_for_function(wait, timeout=60_000)
        return float(self.page.evaluate("performance.getEntriesByName('map drawn')[0].startTime"))

    def pan(self) -> dict[str, float]:
        """Drag the map to and fro; return the times between frames."""
        self.page.evaluate(
            "() => { window.seen = []; let last = performance.now();"
            " const turn = (now) => { window.seen.push(now - last); last = now;"
            " window.turning = requestAnimationFrame(turn); }; requestAnimationFrame(turn); }"
        )
        box = self.page.locator("canvas").first.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        for step in range(STEPS):
            self.page.mouse.move(
                x + 150 * ((step % 40) - 20) / 20, y + 80 * ((step % 30) - 15) / 15
            )
        self.page.mouse.up()
        times = sorted(self.page.evaluate("() => { cancelAnimationFrame(window.turning);"
                                          " return window.seen.slice(2); }"))  # fmt: skip
        return {"frames": len(times), "p50": times[len(times) // 2],
                "p95": times[int(len(times) * 0.95)], "max": times[-1]}  # fmt: skip


def measure(nodes: int, pods: int, rate: int, minutes: float) -> dict[str, Any]:
    """Measure everything; returns the figures."""
    from playwright.sync_api import sync_playwright

    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=serve, args=(nodes, pods, rate, there), daemon=True
    )
    server.start()
    url = here.recv()
    found: dict[str, Any] = {"nodes": nodes, "pods": pods}
    with sync_playwright() as playwright:
        tab = Browser(playwright)
        tab.open(url)  # the first load also starts the browser's processes
        found["first_picture_ms"] = [first_picture(tab, url) for _ in range(OPENINGS)]
        found["sent_mb"] = round(tab.bytes / 1e6, 2)
        # What a busy machine adds is waiting; this is the work of opening it once more.
        before = tab.cpu()
        found["again_ms"] = round(tab.open(url.partition("?")[0]))
        found["again_renderer_cpu_ms"] = round(1000 * (tab.cpu() - before))
        found["load_average"] = os.getloadavg()[0]
        found["pan_far"] = {k: round(v, 1) for k, v in tab.pan().items()}
        tab.page.goto(url.partition("?")[0] + "#/map?node=node-0100")
        tab.page.wait_for_timeout(500)
        found["pan_near"] = {k: round(v, 1) for k, v in tab.pan().items()}
        tab.page.goto(url.partition("?")[0] + "#/map")
        tab.cdp.send("Network.disable")  # it keeps what an event stream brings
        found["churn"] = churn(tab, here, minutes)
        found["tab_mb"] = round(tab.tab(), 1)
        found["problems"] = tab.problems
        tab.browser.close()
    here.send("stop")
    server.join(10)
    return found


def first_picture(tab: Browser, url: str) -> int:
    """Open the printed address as a browser that was never here."""
    tab.fresh()
    return round(tab.open(url))


def churn(tab: Browser, pipe: Connection, minutes: float) -> dict[str, Any]:
    """Let the cluster change; follow memory and what the server costs."""
    pipe.send("go")
    tab.page.wait_for_timeout(3000)
    samples = []
    pipe.send("used")
    cpu, done, _ = pipe.recv()
    begin = time.monotonic()
    while time.monotonic() - begin < minutes * 60:
        tab.page.wait_for_timeout(min(60_000, minutes * 60_000 / 5))
        pipe.send("used")
        now, changes, server = pipe.recv()
        samples.append({**tab.heap(), "tab": tab.tab(), "server": server})
    span = time.monotonic() - begin
    return {
        "tab_under_pressure": round(tab.under_pressure(), 1),
        "changes_per_second": round((changes - done) / span, 1),
        "server_percent_of_core": round(100 * (now - cpu) / span, 2),
        "samples": [{k: round(v, 1) for k, v in sample.items()} for sample in samples],
    }


def shown(found: dict[str, Any]) -> dict[str, str]:
    """What the table of the documentation shows."""
    pictures, churned = sorted(found["first_picture_ms"]), found["churn"]
    return {
        "first picture": f"{pictures[0] / 1000:.1f} to {pictures[-1] / 1000:.1f} s",
        "sent": f"{found['sent_mb']:.1f} MB",
        "frame": f"{max(found['pan_far']['p95'], found['pan_near']['p95']):.0f} ms",
        "tab": f"{found['tab_mb']:.0f} MB",
        "server": f"{churned['server_percent_of_core']:.1f} % of a core",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=100, help="changes a second")
    parser.add_argument("--minutes", type=float, default=10.0, help="of changes")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    if shutil.which("chromium") is None:
        sys.exit("chromium is not installed")
    found = measure(options.nodes, options.pods, options.rate, options.minutes)
    print(json.dumps(found, indent=2))
    if options.json:
        sizes = {name: getattr(options, name) for name in ("nodes", "pods", "rate", "minutes")}
        write(options.json, "bench/page.py", shown(found), **sizes, openings=OPENINGS)


if __name__ == "__main__":
    main()

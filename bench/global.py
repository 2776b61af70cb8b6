"""Measures the global scheduler: decisions, durable HTTP allocations, several schedulers on etcd.

    python bench/global.py decide [--sites 1000,10000,100000]
    python bench/global.py hosts
    python bench/global.py reload
    python bench/global.py http   [--sites 10000] [--requests 3000]
    python bench/global.py etcd   [--schedulers 4] [--requests 400]
    python bench/global.py wide   [--schedulers 4]
    python bench/global.py        all of them

`--json docs/results/global.json` keeps what the documentation shows. Figures are per process and
CPU time is given beside wall time: machines are noisy. `most_per_s` of schedulers on etcd is what
the cores would allow if nobody ever waited.
"""

import argparse
import asyncio
import gc
import json
import multiprocessing
import os
import random
import statistics
import tempfile
import time
import uuid
from collections.abc import Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path

import msgspec
from figures import keep, texts

from bayplan.global_scheduler.inventory import EipPool, Flavor, Host, Inventory, Site, VolumePool
from bayplan.global_scheduler.placer import DEFAULT_POLICY, NoSite, Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.sources import Charges
from bayplan.global_scheduler.stack import (
    Allocation,
    FlavorChoice,
    RegionChoice,
    Resource,
    Selector,
    Spread,
    Stack,
    Strategy,
)
from bayplan.global_scheduler.table import SiteTable

SHOWN = {
    "cpu_us_per_allocation": "{:,} µs",
    "server_cpu_us_per_allocation": "{:,} µs",
    "scheduler_cpu_us_per_allocation": "{:,} µs",
    "etcd_cpu_us_per_allocation": "{:,} µs",
    "allocations_per_s": "{:,}/s",
    "durable_allocations_per_s": "{:,}/s",
    "p50_ms": "{:.0f} ms",
    "p99_ms": "{:.0f} ms",
    "changed_host_ms": "{:.1f} ms",
    "new_table_ms": "{:.0f} ms",
    "peak_rss_mb": "{:,} MB",
    "cores_busy": "{:.1f} cores",
    "most_per_s": "{:,}/s",
    "conflicts": "{:,} conflicts",
    "times_one": "{:.1f} ×",
    "times_flat": "{:.1f} ×",
}
"""What the documentation shows of a row."""
REGIONS = 100
FLAVORS = 50


def inventory(sites: int, seed: int = 1, hosts: int = 0) -> Inventory:
    """Sites spread over 100 regions, with uneven use, 50 flavors each; real hosts if asked for."""
    rng, each = random.Random(seed), hosts or 1
    places = [(f"region-{n % REGIONS}", f"az-{n // REGIONS}") for n in range(sites)]
    regions = sorted({region for region, _ in places})
    return Inventory(
        sites=tuple(
            Site(f"site-{n:06}", region, zone, operator=f"op-{n % 5}", eip_pool="ip")
            for n, (region, zone) in enumerate(places)
        ),
        hosts=tuple(
            Host(
                *place,
                "gp",
                *(4000 // each, 16000 // each),
                *(rng.randrange(2000) // each, rng.randrange(8000) // each),
                name="h",
                count=hosts,
            )
            for place in places
        ),
        flavors=tuple(
            Flavor(region, f"f{n}", 1 + n % 16, 2 + 4 * (n % 16), "gp")
            for region in regions
            for n in range(FLAVORS)
        ),
        eip_pools=tuple(EipPool(region, "ip", 10_000_000) for region in regions),
        volume_pools=tuple(
            VolumePool(r, z, "SAS", 1_000_000, rng.randrange(1000)) for r, z in places
        ),
        volume_types=frozenset({"SAS"}),
    )


def requests(count: int, seed: int = 2) -> list[Allocation]:
    """A third each: anywhere, in one region, over regions by share."""
    rng = random.Random(seed)
    result = []
    for n in range(count):
        flavors = tuple(FlavorChoice(f"f{rng.randrange(FLAVORS)}") for _ in range(2))
        resource = Resource(
            "r", flavors, rng.randint(1, 3), storage={"SAS": 40}, need_eip=n % 2 == 0
        )
        regions: tuple[RegionChoice, ...] = ()
        if n % 3 == 1:
            regions = (RegionChoice(f"region-{rng.randrange(REGIONS)}"),)
        if n % 3 == 2:
            chosen = rng.sample(range(REGIONS), 5)
            regions = tuple(RegionChoice(f"region-{region}") for region in chosen)
        strategy = Strategy("discrete" if n % 3 == 2 else "centralize")
        result.append(
            Allocation(
                id=str(uuid.UUID(int=rng.getrandbits(128), version=4)),
                stack=Stack("s", (resource,), {"app": f"a{n % 20}"}),
                selector=Selector(regions=regions, strategy=strategy),
                replicas=1 + 2 * (n % 3 == 2),
            )
        )
    return result


class Decider:
    """A placer with a table of its own, which every decision is applied to."""

    def __init__(self, sites: int, *, quick: bool) -> None:
        self.table = SiteTable(inventory(sites))
        self.placer = Placer(DEFAULT_POLICY, in_tree_registry(), quick=quick)
        self.cpu = 0.0

    def decide(self, some: list[Allocation]) -> list[list[str]]:
        """Where each went; CPU time is added up."""
        placed = []
        start = time.process_time()
        for allocation in some:
            found = self.placer.decide(self.table, allocation)
            assert not isinstance(found, NoSite), found.message
            for placement in found:
                self.table.apply(placement.charges)
                self.table.note_stack(placement.row, allocation.stack.labels)
            placed.append([placement.site_id for placement in found])
        self.cpu += time.process_time() - start
        return placed


def decide(sites: int, count: int = 2000, slices: int = 20) -> list[dict[str, object]]:
    """Decisions only: looking at every site (flat), and as it is; slice by slice in turns."""
    ways = {"flat": Decider(sites, quick=False), "decide": Decider(sites, quick=True)}
    warm, todo = requests(100, seed=3), requests(count)
    size = count // slices
    for some in (warm, *(todo[start : start + size] for start in range(0, count, size))):
        flat, quick = (way.decide(some) for way in ways.values())
        assert flat == quick, "the quick way decided otherwise"
        if some is warm:
            for way in ways.values():
                way.cpu = 0.0
    return [
        {
            "bench": name,
            "sites": sites,
            "cpu_us_per_allocation": round(way.cpu / count * 1e6),
            "allocations_per_cpu_s": round(count / way.cpu),
        }
        | ({"times_flat": round(ways["flat"].cpu / way.cpu, 2)} if name != "flat" else {})
        for name, way in ways.items()
    ]


def _peak_mb() -> int:
    """The most memory that this program had; getrusage counts its parent's before the exec too."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def hosts(sites: int, each: int, count: int = 300) -> dict[str, object]:
    """Decisions over sites that list real hosts, and the memory of the process."""
    table = SiteTable(inventory(sites, hosts=each))
    placer = Placer(DEFAULT_POLICY, in_tree_registry())
    start = time.process_time()
    for allocation in requests(count):
        found = placer.decide(table, allocation)
        for placement in () if isinstance(found, NoSite) else found:
            table.apply(placement.charges)
    cpu = time.process_time() - start
    return {
        "bench": "hosts",
        "sites": sites,
        "hosts": sites * each,
        "cpu_us_per_allocation": round(cpu / count * 1e6),
        "peak_rss_mb": _peak_mb(),
    }


def reload(sites: int, records: int) -> dict[str, object]:
    """One host of one site changes while many allocations are placed: how long nobody is served."""
    from bayplan.global_scheduler.ledger import Group, Record, Selected
    from bayplan.global_scheduler.service import Allocations
    from bayplan.store import MemoryStore

    before = inventory(sites)
    service = Allocations(
        MemoryStore(), before, Placer(DEFAULT_POLICY, in_tree_registry()), clock=time.time
    )
    [asked] = requests(1)
    for number in range(records):
        site = service.table.sites[number % sites]
        at = Selected(site.id, site.region, site.zone)
        takes = {service.table.pools["gp"].sources[number % sites]: (1, 2)}
        group = Group("g", (), at, Charges(takes))
        service.ledger.apply(Record(str(number), asked, (group,), 0.0))
    host = msgspec.structs.replace(before.hosts[7], used_vcpus=before.hosts[7].used_vcpus + 1)
    after = msgspec.structs.replace(before, hosts=(*before.hosts[:7], host, *before.hosts[8:]))
    figures: dict[str, object] = {"bench": "reload", "sites": sites, "records": records}
    start = time.process_time()
    service.replace_inventory(after)
    figures["changed_host_ms"] = round((time.process_time() - start) * 1000, 1)
    start = time.process_time()
    service.ledger.replace_table(SiteTable(after))
    figures["new_table_ms"] = round((time.process_time() - start) * 1000, 1)
    return figures


def _body(allocation: Allocation) -> bytes:
    resource = allocation.stack.resources[0]
    strategy = {"location_strategy": allocation.selector.strategy.location_strategy}
    return json.dumps(
        {
            "allocation": {
                "resource_group": {
                    "name": "s",
                    "resources": [
                        {
                            "name": "r",
                            "flavors": [{"flavor_id": c.flavor_id} for c in resource.flavors],
                            "storage": resource.storage,
                            "need_eip": resource.need_eip,
                            "count": resource.count,
                        }
                    ],
                },
                "selector": {
                    "regions": [{"region": c.region} for c in allocation.selector.regions],
                    "strategy": strategy,
                },
                "replicas": allocation.replicas,
            }
        }
    ).encode()


def _serve(sites: int, directory: str, port: "multiprocessing.Queue[int]") -> None:
    import uvicorn

    from bayplan.asgi import config as quiet
    from bayplan.global_scheduler.http import Api
    from bayplan.global_scheduler.service import Allocations
    from bayplan.store import SqliteStore

    async def main() -> None:
        store = await SqliteStore.open(directory)
        placer = Placer(DEFAULT_POLICY, in_tree_registry())
        service = Allocations(store, inventory(sites), placer, clock=time.time)
        await service.start()
        gc.freeze()
        config = quiet(Api(service), port=0, log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port.put(server.servers[0].sockets[0].getsockname()[1])
        await task

    _run(main())


def _run(main: "Coroutine[object, object, None]") -> None:
    """As the commands run their event loop."""
    import uvloop

    from bayplan.cli.main import GC_THRESHOLDS

    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _load(url: str, bodies: list[bytes], connections: int) -> list[float]:
    import aiohttp

    times: list[float] = []
    queue = list(reversed(bodies))

    async def worker(session: aiohttp.ClientSession) -> None:
        while queue:
            body = queue.pop()
            start = time.perf_counter()
            async with session.post(
                f"{url}/v1/allocations", data=body, headers={"Content-Type": "application/json"}
            ) as answer:
                text = await answer.text()
                assert answer.status == 201, text
            times.append(time.perf_counter() - start)

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(worker(session) for _ in range(connections)))
    return times


def http(sites: int, count: int, connections: int = 32) -> dict[str, object]:
    """Durable allocations over HTTP, SQLite behind, one server process."""
    bodies = [_body(allocation) for allocation in requests(count)]
    with tempfile.TemporaryDirectory() as directory:
        port: multiprocessing.Queue[int] = multiprocessing.Queue()
        server = multiprocessing.Process(target=_serve, args=(sites, directory, port), daemon=True)
        server.start()
        try:
            url = f"http://127.0.0.1:{port.get(timeout=60)}"
            asyncio.run(_load(url, bodies[:100], connections))
            start, cpu = time.perf_counter(), _cpu(server.pid or 0)
            times = asyncio.run(_load(url, bodies[100:], connections))
            wall, cpu = time.perf_counter() - start, _cpu(server.pid or 0) - cpu
        finally:
            server.kill()
            server.join()
    times.sort()
    return {
        "bench": "http",
        "sites": sites,
        "connections": connections,
        "durable_allocations_per_s": round(len(times) / wall),
        "p50_ms": round(statistics.median(times) * 1000, 2),
        "p99_ms": round(times[int(len(times) * 0.99)] * 1000, 2),
        "server_cpu_us_per_allocation": round(cpu / len(times) * 1e6),
    }


def wide_requests(count: int, seed: int) -> list[Allocation]:
    """Every tenth goes over a hundred sites."""
    todo = requests(count, seed)
    for n in range(0, count, 10):
        spread = Spread(max_per_site=1)
        selector = Selector(strategy=Strategy("discrete"), spread=spread)
        todo[n] = msgspec.structs.replace(todo[n], selector=selector, replicas=100)
    return todo


def _scheduler(
    number: int,
    endpoint: str,
    sites: int,
    count: int,
    wide: bool,
    results: "multiprocessing.Queue[tuple[float, float, float, int]]",
    ready: Barrier,
) -> None:
    from bayplan.global_scheduler.service import Allocations
    from bayplan.store.etcd import EtcdStore
    from bayplan.store.etcd_batch import MAX_OPS

    async def main() -> None:
        store = await EtcdStore.open([endpoint])
        placer = Placer(DEFAULT_POLICY, in_tree_registry())
        service = Allocations(
            store, inventory(sites), placer, clock=time.time, name=f"s{number}", operations=MAX_OPS
        )
        await service.start()
        todo = (wide_requests if wide else requests)(count, seed=10 + number)
        limit = asyncio.Semaphore(16)
        await asyncio.to_thread(ready.wait, 60)
        start, cpu = time.perf_counter(), time.process_time()

        async def one(allocation: Allocation) -> None:
            async with limit:
                await service.create(allocation)

        await asyncio.gather(*(one(allocation) for allocation in todo))
        done = time.perf_counter()
        results.put((start, done, time.process_time() - cpu, service.ledger.conflicts))
        await service.stop()
        await store.close()

    _run(main())


def etcd(
    schedulers: int, count: int, sites: int = 1000, *, wide: bool = False
) -> dict[str, object]:
    """Several scheduler processes on one real etcd: conflicts counted, nothing oversold."""
    from bayplan.global_scheduler.ledger import Ledger
    from bayplan.store.etcd import EtcdStore
    from bayplan.testing.etcd import start_etcd

    with tempfile.TemporaryDirectory() as folder, start_etcd(Path(folder)) as server:
        endpoint = server.url
        results: multiprocessing.Queue[tuple[float, float, float, int]] = multiprocessing.Queue()
        ready = multiprocessing.Barrier(schedulers)
        processes = [
            multiprocessing.Process(
                target=_scheduler, args=(n, endpoint, sites, count, wide, results, ready)
            )
            for n in range(schedulers)
        ]
        for process in processes:
            process.start()
        etcd_cpu = _cpu(server._process.pid)
        found = [results.get(timeout=300) for _ in processes]
        etcd_cpu = _cpu(server._process.pid) - etcd_cpu
        for process in processes:
            process.join()

        async def check() -> tuple[int, bool]:
            store = await EtcdStore.open([endpoint])
            ledger = Ledger(store, SiteTable(inventory(sites)))
            await ledger.load()
            free = [pool.free_vcpus.min() for pool in ledger.table.pools.values()]
            free += [column.free.min() for column in ledger.table.storage.values()]
            free.append(ledger.table.eip_free.min())
            await store.close()
            return len(ledger.records), bool(min(free) >= 0)

        stored, never_negative = asyncio.run(check())
    wall = max(end for _, end, _, _ in found) - min(start for start, _, _, _ in found)
    cpu = sum(cpu for _, _, cpu, _ in found)
    return {
        "bench": "wide" if wide else "etcd",
        "schedulers": schedulers,
        "stored": stored,
        "allocations_per_s": round(stored / wall),
        "scheduler_cpu_us_per_allocation": round(cpu / stored * 1e6),
        "etcd_cpu_us_per_allocation": round(etcd_cpu / stored * 1e6),
        "cores_busy": round((cpu + etcd_cpu) / wall, 2),
        "most_per_s": round((os.cpu_count() or 1) * stored / (cpu + etcd_cpu)),
        "conflicts": sum(conflicts for _, _, _, conflicts in found),
        "over_reserved": not never_negative,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=["decide", "hosts", "reload", "http", "etcd", "wide", "all"],
        default="all",
    )
    parser.add_argument("--sites", default="1000,10000,100000")
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--schedulers", type=int, default=4)
    parser.add_argument("--json", type=Path, help="keep the figures in this file")
    options = parser.parse_args()
    for row in measure(options):
        print(json.dumps(row), flush=True)
        if options.json:
            figures = texts(row, ("bench", "sites", "schedulers"), SHOWN)
            keep(options.json, "bench/global.py", str(row["bench"]), figures)


def measure(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """The rows that were asked for, one by one."""
    sizes = [int(size) for size in options.sites.split(",")]
    if options.what in ("decide", "all"):
        for size in sizes:
            yield from decide(size)
    if options.what in ("hosts", "all"):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
            yield apart.submit(hosts, 10_000, 100).result()  # its peak of memory is its own
    if options.what in ("reload", "all"):
        yield reload(1000, 100_000)
    if options.what in ("http", "all"):
        yield http(10_000 if options.what == "all" else sizes[0], options.requests)
    for name, most in (("etcd", 400), ("wide", 100)):
        if options.what in (name, "all"):
            count = min(options.requests, most)
            rows = [etcd(n, count, wide=name == "wide") for n in (1, options.schedulers)]
            one, many = (row["allocations_per_s"] for row in rows)
            rows[1]["times_one"] = round(many / one, 2)  # type: ignore[operator]
            yield from rows


if __name__ == "__main__":
    main()

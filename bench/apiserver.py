"""The embedded API server beside kube-apiserver and etcd, in one run on one machine.

    python bench/apiserver.py [--pods 2000] [--watchers 1000] [--memory-pods 50000] [--only bayplan]
    python bench/apiserver.py --json docs/results/apiserver.json    (the table of the documentation)

Each server runs alone; the load comes from this process over TLS on 64 connections. CPU is that of
the server's processes (for Kubernetes: kube-apiserver and etcd), read from /proc, so that a busy
machine and this program's own cost do not count. etcd runs without fsync, which flatters it;
bayplan's SQLite store runs with fsync on every commit. Each is started once before,
so that bytecode is at hand and the programs are in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from figures import write

from bayplan.testing.servers import ServedCluster, kube_assets, start_embedded, start_kube

CONNECTIONS = 64
PODS = "/api/v1/namespaces/default/pods"
TICKS = os.sysconf("SC_CLK_TCK")
Request = tuple[str, str, bytes]
SHOWN = {
    "ready s": "{:.2f} s",
    "create CPU ms": "{:.2f} ms",
    "bind CPU ms": "{:.2f} ms",
    "creates/s": "{:,.0f}",
    "binds/s": "{:,.0f}",
    "watch event CPU µs": "{:.0f} µs",
    "list 10,000 pods ms": "{:.0f} ms",
    "memory MB": "{:,.0f} MB",
}
"""The rows of the documentation's table."""


class Connection:
    """One keep-alive HTTP/1.1 connection; as little work a request as Python allows."""

    def __init__(self, cluster: ServedCluster) -> None:
        self.host = cluster.server.split("//")[1]
        self.token = cluster.token
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def open(self) -> Connection:
        context = ssl._create_unverified_context()
        host, port = self.host.split(":")
        self.reader, self.writer = await asyncio.open_connection(
            host, int(port), ssl=context, limit=1 << 26
        )
        return self

    def send(self, method: str, target: str, body: bytes = b"") -> None:
        head = (
            f"{method} {target} HTTP/1.1\r\nHost: {self.host}\r\nUser-Agent: bench/1\r\n"
            f"Authorization: Bearer {self.token}\r\nAccept: application/json\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)

    async def head(self) -> tuple[int, int]:
        """Read a response's head; return its status and length, -1 when it comes in chunks."""
        data = await self.reader.readuntil(b"\r\n\r\n")
        lines = data.decode("latin-1").split("\r\n")
        length = 0
        for line in lines[1:]:
            name, _, value = line.partition(":")
            if name.lower() == "content-length":
                length = int(value)
            elif name.lower() == "transfer-encoding":
                length = -1
        return int(lines[0].split()[1]), length

    async def chunk(self) -> bytes:
        size = int(await self.reader.readline(), 16)
        data = await self.reader.readexactly(size + 2)
        return data[:-2]

    async def ask(self, method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
        self.send(method, target, body)
        status, length = await self.head()
        if length >= 0:
            return status, await self.reader.readexactly(length)
        pieces = []
        while piece := await self.chunk():
            pieces.append(piece)
        return status, b"".join(pieces)

    def close(self) -> None:
        self.writer.close()


def processes(cluster: ServedCluster) -> list[int]:
    found = [cluster.apiserver]
    if hasattr(cluster, "etcd"):
        found.append(cluster.etcd)
    return [process.popen.pid for process in found]


def cpu_seconds(cluster: ServedCluster) -> float:
    total = 0
    for pid in processes(cluster):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def memory_megabytes(cluster: ServedCluster) -> float:
    total = 0
    for pid in processes(cluster):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1])
    return total / 1024


async def run_all(cluster: ServedCluster, requests: Iterable[Request]) -> int:
    """Send requests on all connections, each as soon as its last answer came."""
    queue = iter(requests)
    done = 0

    async def worker(connection: Connection) -> None:
        nonlocal done
        for request in queue:
            status, body = await connection.ask(*request)
            if status >= 300:
                raise RuntimeError(f"{request[0]} {request[1]}: {status} {body[:300]!r}")
            done += 1

    connections = await asyncio.gather(*(Connection(cluster).open() for _ in range(CONNECTIONS)))
    try:
        await asyncio.gather(*map(worker, connections))
    finally:
        for connection in connections:
            connection.close()
    return done


def pod(name: str) -> bytes:
    container = {
        "name": "main",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}},
    }
    metadata = {"name": name, "labels": {"app": "bench"}}
    return json.dumps({"metadata": metadata, "spec": {"containers": [container]}}).encode()


def node(name: str) -> bytes:
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "zone-1"}
    capacity = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [condition]}
    return json.dumps({"metadata": {"name": name, "labels": labels}, "status": status}).encode()


def binding(name: str, target: str) -> bytes:
    return json.dumps(
        {"metadata": {"name": name}, "target": {"kind": "Node", "name": target}}
    ).encode()


class Meter:
    """Wall and CPU time of one measurement."""

    def __init__(self, cluster: ServedCluster) -> None:
        self.cluster = cluster

    async def per_operation(self, work: Callable[[], Awaitable[int]]) -> tuple[float, float]:
        """Return operations a second and CPU milliseconds an operation."""
        wall, cpu = time.perf_counter(), cpu_seconds(self.cluster)
        count = await work()
        wall, cpu = time.perf_counter() - wall, cpu_seconds(self.cluster) - cpu
        return count / wall, cpu / count * 1000


CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


async def open_watches(cluster: ServedCluster, targets: list[str]) -> list[Connection]:
    connections: list[Connection] = []
    for start in range(0, len(targets), 50):  # a server does not wait long for a request
        some = targets[start : start + 50]
        batch = await asyncio.gather(*(Connection(cluster).open() for _ in some))
        for connection, target in zip(batch, some, strict=True):
            connection.send("GET", f"{target}&watch=1&resourceVersion=0")
        for connection in batch:
            await connection.head()
        connections += batch
    return connections


async def beside_kubelets(cluster: ServedCluster, watchers: int, meter: Meter) -> float:
    """Return CPU milliseconds of a create while each of many nodes watches its own pods."""
    mine = "/api/v1/pods?fieldSelector=spec.nodeName%3D"
    watches = await open_watches(cluster, [f"{mine}k{number}" for number in range(watchers)])
    creates = [("POST", PODS, pod(f"k{number}")) for number in range(500)]
    _, cost = await meter.per_operation(lambda: run_all(cluster, creates))
    for connection in watches:
        connection.close()
    return cost


async def watch_events(cluster: ServedCluster, connections: list[Connection], events: int) -> int:
    """Create objects and wait until every watcher has seen them all."""

    async def read(connection: Connection) -> None:
        seen = 0
        while seen < events:
            seen += (await connection.chunk()).count(b'{"type":"ADDED"')

    async def write() -> None:
        writer = await Connection(cluster).open()
        for number in range(events):
            metadata = {"name": f"w{number}", "labels": {"bench": "yes"}}
            body = {"metadata": metadata, "data": {"a": "b"}}
            await writer.ask("POST", CONFIGMAPS, json.dumps(body).encode())
        writer.close()

    await asyncio.gather(write(), *map(read, connections))
    for connection in connections:
        connection.close()
    return len(connections) * events


async def measure(cluster: ServedCluster, options: argparse.Namespace) -> dict[str, float]:
    found: dict[str, float] = {}
    meter = Meter(cluster)
    names = [f"p{number}" for number in range(options.pods)]
    await run_all(cluster, [("POST", PODS, pod(f"warm{n}")) for n in range(200)])
    creates = [("POST", PODS, pod(name)) for name in names]
    rate, cost = await meter.per_operation(lambda: run_all(cluster, creates))
    found |= {"creates/s": rate, "create CPU ms": cost}
    binds = [("POST", f"{PODS}/{name}/binding", binding(name, "n1")) for name in names]
    rate, cost = await meter.per_operation(lambda: run_all(cluster, binds))
    found |= {"binds/s": rate, "bind CPU ms": cost}
    found["create beside kubelets CPU ms"] = await beside_kubelets(cluster, options.watchers, meter)
    watches = await open_watches(
        cluster, [f"{CONFIGMAPS}?labelSelector=bench%3Dyes"] * options.watchers
    )
    rate, cost = await meter.per_operation(lambda: watch_events(cluster, watches, options.events))
    found |= {"watch events/s": rate, "watch event CPU µs": cost * 1000}
    await fill(cluster, options)
    found |= await lists(cluster, meter)
    found["memory MB"] = memory_megabytes(cluster)
    return found


async def fill(cluster: ServedCluster, options: argparse.Namespace) -> None:
    nodes = (("POST", "/api/v1/nodes", node(f"n{n}")) for n in range(options.memory_nodes))
    await run_all(cluster, nodes)
    more = options.memory_pods - options.pods
    await run_all(cluster, (("POST", PODS, pod(f"m{n}")) for n in range(more)))


async def lists(cluster: ServedCluster, meter: Meter) -> dict[str, float]:
    connection = await Connection(cluster).open()

    async def once() -> int:
        for _ in range(3):
            status, _ = await connection.ask("GET", f"{PODS}?limit=10000")
            assert status == 200
        return 3

    rate, cost = await meter.per_operation(once)
    connection.close()
    return {"list 10,000 pods ms": 1000 / rate, "list CPU ms": cost}


def start_time(start: Callable[[], ServedCluster]) -> tuple[ServedCluster, float]:
    began = time.perf_counter()
    cluster = start()
    return cluster, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description="API server benchmark, side by side")
    parser.add_argument("--pods", type=int, default=2000, help="creates and binds to measure")
    parser.add_argument("--watchers", type=int, default=1000)
    parser.add_argument("--events", type=int, default=50, help="events that each watcher gets")
    parser.add_argument("--memory-nodes", type=int, default=5000)
    parser.add_argument("--memory-pods", type=int, default=50000)
    parser.add_argument("--only", choices=("bayplan", "kube"))
    parser.add_argument("--json", type=Path, help="write the figures of both to this file")
    options = parser.parse_args()
    if options.json and (options.only or kube_assets() is None):
        parser.error("--json needs both servers: see make kube-assets")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program is compiled once
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(65536, hard), hard))
    starters: dict[str, Callable[[], ServedCluster]] = {}
    if options.only != "kube":
        starters["bayplan"] = start_embedded
    if options.only != "bayplan" and kube_assets() is not None:
        starters["kube-apiserver + etcd"] = start_kube
    results: dict[str, dict[str, float]] = {}
    for name, start in starters.items():
        start().stop()
        cluster, seconds = start_time(start)
        with cluster:
            found = asyncio.run(measure(cluster, options))
        results[name] = {"ready s": seconds, **found}
        print(name, json.dumps({k: round(v, 3) for k, v in results[name].items()}), flush=True)
    show(results)
    if options.json:
        write(options.json, "bench/apiserver.py", shown(*results.values()), pods=options.pods)


def shown(ours: dict[str, float], real: dict[str, float]) -> dict[str, str]:
    """What the table of the documentation shows, by rows."""
    figures = {}
    for key, form in SHOWN.items():
        figures[key] = form.format(ours[key])
        figures[f"{key}, kube-apiserver"] = form.format(real[key])
        figures[f"{key}, ratio"] = f"{ours[key] / real[key]:.2g}"
    return figures


def show(results: dict[str, dict[str, float]]) -> None:
    names = list(results)
    print(f"\n{'':32}" + "".join(f"{name:>24}" for name in names) + f"{'ratio':>10}")
    for key in results[names[0]]:
        values = [results[name][key] for name in names]
        ratio = f"{values[0] / values[1]:10.2f}" if len(values) == 2 and values[1] else ""
        print(f"{key:32}" + "".join(f"{value:24.2f}" for value in values) + ratio)


if __name__ == "__main__":
    main()

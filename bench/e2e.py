"""Measures whole schedulers on a live API server: kube-scheduler and Bayplan in one run.

    python bench/e2e.py [--workloads basic,affinity] [--nodes 5000] [--pods 1000] [--json]
    python bench/e2e.py --rounds 4 --server embedded
    python bench/e2e.py --latency-only
    python bench/e2e.py --figures docs/results/e2e.json    (the table of README.md)

Pods are created first, then a scheduler is started on them; when all are bound and their events
are written it is stopped, the pods are deleted, and the next scheduler gets the same. In every
other round the other one is first; what is compared are the medians of all rounds. Both read the
same configuration file: client QPS 5000, no leader election, events on. What is measured:

    pods/s          between the first and the last binding that a watch showed
    CPU             of the scheduler process, a pod: from the first binding until all events are
                    written; `with start`: from the start of the process
    first bind      seconds from starting the process to the first binding
    memory          the most that the process held (VmHWM)
    server          CPU of API server and etcd a pod, from the first binding until the last event
    events          written, of those wanted (kube-scheduler drops some when its queue is full)

`latency`: p50 and p99 from sending the creation of a pod to seeing it bound, at a steady rate.
On a machine that does other work too, only the ratios and the CPU figures mean something.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from figures import write

from bayplan.api import yaml
from bayplan.client import ApiError, Client, Resource, connect, load_kubeconfig
from bayplan.client.resources import EVENTS, NAMESPACES, NODES, PODS, REPLICA_SETS, SERVICES
from bayplan.testing.servers import Process, ServedCluster, kube_assets, start_embedded, start_kube

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = 3
SCHEDULERS = ("kube-scheduler", "bayplan")
CONCURRENCY = 32
_GOALS = {  # the design's table: pods/s at least so many times, CPU at most one part in so many
    "basic": (2.5, 4),
    "affinity": (6, 10),
    "anti-affinity": (6, 10),
    "hard-spread": (6, 10),
    "soft-spread": (5, 8),
    "owned": (5, 6),
    "unique": (5, 6),
}


def _near(kind: str, topology: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": "bench"}}, "topologyKey": topology}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _spread(action: str) -> dict[str, Any]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": action,
        "labelSelector": {"matchLabels": {"app": "bench"}},
    }
    return {"topologySpreadConstraints": [constraint]}


# Name of a workload → how many pods, and what their spec has beside a container.
WORKLOADS: dict[str, tuple[int, dict[str, Any]]] = {
    "basic": (10_000, {}),
    "affinity": (3_000, _near("podAffinity", ZONE)),
    "anti-affinity": (3_000, _near("podAntiAffinity", HOST)),
    "hard-spread": (3_000, _spread("DoNotSchedule")),
    "soft-spread": (3_000, _spread("ScheduleAnyway")),
    "owned": (3_000, {}),
    "unique": (3_000, {}),
}
SETS = 50
"""ReplicaSets, each behind a Service, that own the pods of the workload `owned`."""


def make_node(n: int) -> dict[str, Any]:
    """A node of 4 cpu and 32 Gi."""
    room = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    return {
        "metadata": {"name": f"node-{n}", "labels": {HOST: f"node-{n}", ZONE: f"zone-{n % ZONES}"}},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def make_set(n: int) -> dict[str, Any]:
    """A ReplicaSet that asks for nothing; no controller runs."""
    labels = {"app": f"set-{n}"}
    container = {"name": "c", "image": "pause:3.10"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": f"set-{n}"}, "spec": spec}


def make_service(n: int) -> dict[str, Any]:
    """A Service in front of a ReplicaSet."""
    spec = {"selector": {"app": f"set-{n}"}, "ports": [{"port": 80}]}
    return {"metadata": {"name": f"set-{n}"}, "spec": spec}


def pod_of(workload: str, n: int, owners: list[str]) -> dict[str, Any]:
    """A pod of a workload; `owners` are the uids of its sets, if it has any."""
    body = make_pod(n, WORKLOADS[workload][1])
    if workload == "unique":
        body["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = f"pod-{n}"
    if owners:
        number = n % len(owners)
        name = f"set-{number}"
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "controller": True}
        body["metadata"]["labels"]["app"] = name
        body["metadata"]["ownerReferences"] = [{**owner, "uid": owners[number]}]
    return body


def make_pod(n: int, spec: dict[str, Any]) -> dict[str, Any]:
    """A pod of 100m and 500Mi."""
    requests = {"cpu": "100m", "memory": "500Mi"}
    container = {"name": "c", "image": "pause:3.10", "resources": {"requests": requests}}
    return {
        "metadata": {"name": f"pod-{n}", "labels": {"app": "bench"}},
        "spec": {"containers": [container], **spec},
    }


async def create_all(
    client: Client, resource: Resource, bodies: Iterable[dict[str, Any]], namespace: str = ""
) -> None:
    """Create objects, many at a time."""
    rest = iter(bodies)

    async def worker() -> None:
        for body in rest:
            await client.create(resource, body, namespace)

    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))


async def delete_pods(client: Client, namespace: str, count: int) -> None:
    """Delete the pods of a run at once."""
    rest = iter(range(count))

    async def worker() -> None:
        for n in rest:
            with contextlib.suppress(ApiError):
                await client.delete(PODS, f"pod-{n}", namespace, grace_period=0)

    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))


class Bindings:
    """Watches the bound pods of a namespace; calls `seen(name)` for each, once."""

    def __init__(self, client: Client, namespace: str, seen: Callable[[bytes], None]) -> None:
        self._client, self._namespace, self._seen = client, namespace, seen
        self._watching = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        # With this selector a pod is ADDED when it is bound: the line need not be decoded.
        known: set[bytes] = set()
        while True:
            with contextlib.suppress(ApiError):
                async for lines in self._client.watch(
                    PODS, self._namespace, field_selector="spec.nodeName!="
                ):
                    self._watching.set()
                    for line in lines:
                        if line.startswith(b'{"type":"ADDED"'):
                            name = _name_in(line)
                            if name not in known:
                                known.add(name)
                                self._seen(name)

    async def started(self) -> None:
        await self._watching.wait()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def _name_in(line: bytes) -> bytes:
    begin = line.index(b'"name":"') + 8
    return line[begin : line.index(b'"', begin)]


def cpu_of(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> float:
    """The most memory in MiB that a process has held."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


class Bench:
    """One API server with its nodes, on which schedulers are measured one after the other."""

    def __init__(self, cluster: ServedCluster, options: argparse.Namespace) -> None:
        self.cluster, self.options = cluster, options
        self.client = connect(load_kubeconfig(cluster.kubeconfig), qps=0, timeout=120.0)
        self._serial = 0

    async def nodes(self) -> None:
        """Create the nodes."""
        await create_all(self.client, NODES, (make_node(n) for n in range(self.options.nodes)))

    async def namespace(self) -> str:
        """Make a namespace for one run."""
        self._serial += 1
        name = f"bench-{self._serial}"
        await self.client.create(NAMESPACES, {"metadata": {"name": name}})
        return name

    async def sets(self, namespace: str) -> list[str]:
        """Make the owners of a run's pods and the Services in front of them; their uids."""
        await create_all(self.client, SERVICES, map(make_service, range(SETS)), namespace)
        made = [await self.client.create(REPLICA_SETS, make_set(n), namespace) for n in range(SETS)]
        return [json.loads(item)["metadata"]["uid"] for item in made]

    def scheduler(self, name: str) -> Process:
        """Start a scheduler."""
        config = self.cluster.folder / "bench-ksc.yaml"
        connection = {"kubeconfig": str(self.cluster.kubeconfig), "qps": 5000, "burst": 5000}
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": connection,
        }
        config.write_text(yaml.dump(document))
        if name == "kube-scheduler":
            return self.cluster.kube_scheduler(config)
        if not self.options.profile:
            return self.cluster.bayplan_scheduler(config)
        profiled = [sys.executable, "-m", "cProfile", "-o", self.options.profile]
        program = ["-m", "bayplan.cli.main", "scheduler", f"--config={config}", "--secure-port=0"]
        return self.cluster.start([*profiled, *program], "bayplan-profiled.log")

    async def throughput(self, workload: str, name: str) -> dict[str, Any]:
        """Place one workload with one scheduler."""
        count = self.options.pods or WORKLOADS[workload][0]
        namespace = await self.namespace()
        owners = await self.sets(namespace) if workload == "owned" else []
        bodies = (pod_of(workload, n, owners) for n in range(count))
        await create_all(self.client, PODS, bodies, namespace)
        times: list[float] = []
        cpu_at_first: list[float] = []
        done = asyncio.Event()

        def seen(_: bytes) -> None:
            if not times:
                cpu_at_first.extend((cpu_of(process.popen.pid), self._server_cpu()))
            times.append(time.perf_counter())
            if len(times) >= count:
                done.set()

        watch = Bindings(self.client, namespace, seen)
        await watch.started()
        begin = time.perf_counter()
        process = self.scheduler(name)
        try:
            await self._wait(done, process)
            if not times:
                raise SystemExit(f"{name} bound nothing: {process.last_words()}")
            bound_cpu = cpu_of(process.popen.pid)
            events = await self._events_written(namespace, len(times))
            cpu, memory = cpu_of(process.popen.pid), memory_of(process.popen.pid)
            server_cpu = self._server_cpu() - cpu_at_first[1]
        finally:
            process.stop()
            await watch.stop()
        await delete_pods(self.client, namespace, count)
        steady = max(len(times) - 1, 1)
        return {
            "workload": workload,
            "scheduler": name,
            "pods": count,
            "bound": len(times),
            "pods_per_s": steady / max(times[-1] - times[0], 1e-9),
            "pods_per_s_with_start": len(times) / (times[-1] - begin),
            "cpu_ms_per_pod": (cpu - cpu_at_first[0]) / steady * 1000,
            "cpu_ms_per_pod_until_bound": (bound_cpu - cpu_at_first[0]) / steady * 1000,
            "cpu_ms_per_pod_with_start": cpu / len(times) * 1000,
            "first_bind_s": times[0] - begin,
            "first_bind_cpu_s": cpu_at_first[0],
            "memory_mib": memory,
            "server_cpu_ms_per_pod": server_cpu / steady * 1000,
            "events": events,
        }

    def _server_cpu(self) -> float:
        """CPU seconds of the API server and, if there is one, its etcd."""
        servers = [getattr(self.cluster, name, None) for name in ("apiserver", "etcd")]
        return sum(cpu_of(server.popen.pid) for server in servers if server is not None)

    async def _wait(self, done: asyncio.Event, process: Process) -> None:
        """Wait for the end of a run, its time limit, or the end of the scheduler."""
        deadline = time.perf_counter() + self.options.limit
        while not done.is_set() and time.perf_counter() < deadline:
            if not process.running:
                raise SystemExit(f"the scheduler ended: {process.last_words()}")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), 1.0)

    async def _events_written(self, namespace: str, wanted: int) -> int:
        """Wait until all events are there, or no more come."""
        found, since = -1, time.perf_counter()
        while found < wanted and time.perf_counter() - since < 4.0:
            page = msgspec.json.decode(await self.client.list(EVENTS, namespace, limit=1))
            now = len(page["items"]) + page["metadata"].get("remainingItemCount", 0)
            if now > found:
                found, since = now, time.perf_counter()
            await asyncio.sleep(0.25)
        return found

    async def latency(self, name: str) -> dict[str, Any]:
        """Create pods at a steady rate on a running scheduler."""
        rate, count = self.options.rate, int(self.options.rate * self.options.seconds)
        namespace = await self.namespace()
        sent: dict[bytes, float] = {}
        took: dict[bytes, float] = {}
        done = asyncio.Event()

        def seen(pod: bytes) -> None:
            if pod in sent:
                took[pod] = time.perf_counter() - sent[pod]
            if pod == b"pod-0" or len(took) >= count + 1:
                done.set()

        watch = Bindings(self.client, namespace, seen)
        await watch.started()
        process = self.scheduler(name)
        try:
            sent[b"pod-0"] = time.perf_counter()
            await self.client.create(PODS, make_pod(0, {}), namespace)
            await self._wait(done, process)  # the scheduler is up
            done.clear()
            await asyncio.sleep(1.0)
            cpu, begin = cpu_of(process.popen.pid), time.perf_counter()
            async with asyncio.TaskGroup() as group:
                for n in range(1, count + 1):
                    await asyncio.sleep(max(begin + n / rate - time.perf_counter(), 0.0))
                    sent[b"pod-%d" % n] = time.perf_counter()
                    group.create_task(self.client.create(PODS, make_pod(n, {}), namespace))
            await self._wait(done, process)
            await self._events_written(namespace, count + 1)
            cpu = cpu_of(process.popen.pid) - cpu
        finally:
            process.stop()
            await watch.stop()
        await delete_pods(self.client, namespace, count + 1)
        del took[b"pod-0"]
        values = sorted(took.values())
        return {
            "workload": "latency",
            "scheduler": name,
            "pods": count,
            "bound": len(values),
            "rate": rate,
            "p50_ms": values[len(values) // 2] * 1000,
            "p99_ms": values[min(len(values) * 99 // 100, len(values) - 1)] * 1000,
            "max_ms": values[-1] * 1000,
            "cpu_ms_per_pod": cpu / max(len(values), 1) * 1000,
        }


def medians(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each workload and scheduler: the medians of its rounds."""
    rounds: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        rounds.setdefault((row["workload"], row["scheduler"]), []).append(row)
    return [
        {
            key: statistics.median(row[key] for row in same)
            if isinstance(value, int | float)
            else value
            for key, value in same[0].items()
        }
        for same in rounds.values()
    ]


def ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare Bayplan with kube-scheduler, a workload at a time."""
    found = []
    for workload in dict.fromkeys(row["workload"] for row in rows):
        pair = {row["scheduler"]: row for row in rows if row["workload"] == workload}
        if len(pair) < 2 or workload == "latency":
            continue
        real, ours = (pair[name] for name in SCHEDULERS)
        speed, cpu = _GOALS[workload]
        found.append(
            {
                "workload": workload,
                "speed": ours["pods_per_s"] / real["pods_per_s"],
                "speed_with_start": ours["pods_per_s_with_start"] / real["pods_per_s_with_start"],
                "cpu": real["cpu_ms_per_pod"] / ours["cpu_ms_per_pod"],
                "cpu_with_start": real["cpu_ms_per_pod_with_start"]
                / ours["cpu_ms_per_pod_with_start"],
                "goal": f"{speed} x pods/s, 1/{cpu} CPU",
            }
        )
    return found


def figures(rows: list[dict[str, Any]]) -> dict[str, str]:
    """What the table of README.md shows."""
    found = {}
    for pair in ratios(rows):
        name = pair["workload"]
        own = (row for row in rows if row["workload"] == name)
        for row in sorted(own, key=lambda row: SCHEDULERS.index(row["scheduler"])):
            found[f"{name} {row['scheduler']} speed"] = f"{row['pods_per_s']:,.0f} pods/s"
            found[f"{name} {row['scheduler']} cpu"] = f"{row['cpu_ms_per_pod']:.2f} ms"
        found[f"{name} speed"] = f"{pair['speed']:.1f} ×"
        found[f"{name} cpu"] = f"1/{pair['cpu']:.1f}"
        found[f"{name} speed with start"] = f"{pair['speed_with_start']:.1f} ×"
        found[f"{name} cpu with start"] = f"1/{pair['cpu_with_start']:.1f}"
    return found


SHOWN = {
    "kube-scheduler: pods/s, CPU a pod": 2,
    "Bayplan: pods/s, CPU a pod": 2,
    "pods/s": 1,
    "CPU a pod": 1,
    "both with start-up": 2,
}
"""The table's columns, with the number of figures in a cell."""
_COLUMNS = (
    ("workload", "workload", "{:<14}"),
    ("scheduler", "scheduler", "{:<15}"),
    ("bound", "bound", "{:>7}"),
    ("pods/s", "pods_per_s", "{:>8.0f}"),
    ("CPU ms/pod", "cpu_ms_per_pod", "{:>11.2f}"),
    ("with start", "cpu_ms_per_pod_with_start", "{:>11.2f}"),
    ("1st bind s", "first_bind_s", "{:>11.2f}"),
    ("MiB", "memory_mib", "{:>6.0f}"),
    ("events", "events", "{:>7}"),
    ("server ms", "server_cpu_ms_per_pod", "{:>10.2f}"),
)


def show(row: dict[str, Any]) -> None:
    """Print one line of the table."""
    if row["workload"] == "latency":
        print(
            f"latency        {row['scheduler']:<15}{row['bound']:>7} at {row['rate']:g} pods/s: "
            f"p50 {row['p50_ms']:.1f} ms, p99 {row['p99_ms']:.1f} ms, max {row['max_ms']:.0f} ms, "
            f"CPU {row['cpu_ms_per_pod']:.2f} ms/pod",
            flush=True,
        )
        return
    print("".join(form.format(row[key]) for _, key, form in _COLUMNS), flush=True)


def _heading(options: argparse.Namespace) -> None:
    server = "kube-apiserver" if options.server == "kube" else "bayplan apiserver"
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{server}, {options.nodes} nodes, client QPS 5000, load average {load}")
    for title, _, form in _COLUMNS:
        width = form.strip("{:}").split(".")[0]
        print(f"{title:{width.rstrip('f')}}", end="")
    print(flush=True)


async def measure(cluster: ServedCluster, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run everything that was asked for."""
    bench, rows = Bench(cluster, options), []
    await bench.nodes()
    for turn in range(options.rounds):
        order = options.schedulers[:: -1 if turn % 2 else 1]
        for workload in [] if options.latency_only else options.workloads:
            for name in order:
                rows.append(await bench.throughput(workload, name))
                if not options.json:
                    show(rows[-1])
        for name in order if options.seconds else []:
            rows.append(await bench.latency(name))
            if not options.json:
                show(rows[-1])
    await bench.client.close()
    return rows


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--server", choices=["kube", "embedded"], default="kube")
    parser.add_argument("--workloads", default=",".join(WORKLOADS), help="some of them")
    parser.add_argument("--schedulers", default=",".join(SCHEDULERS), help="one or both")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=0, help="for every workload; 0 = as named")
    parser.add_argument("--rounds", type=int, default=2, help="each is first in half of them")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds a workload may take")
    parser.add_argument("--rate", type=float, default=100.0, help="pods/s for the latency")
    parser.add_argument("--seconds", type=float, default=20.0, help="of latency; 0 = none")
    parser.add_argument("--latency-only", action="store_true")
    parser.add_argument("--profile", default="", help="write Bayplan's cProfile here (slows it)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--figures", type=Path, help="write the figures of README.md to this file")
    options = parser.parse_args()
    options.workloads = options.workloads.split(",")
    options.schedulers = options.schedulers.split(",")
    if options.rounds < 1 or (options.figures and options.rounds % 2):
        parser.error("--rounds is a number from 1 on, and an even one with --figures")
    if unknown := set(options.workloads) - set(WORKLOADS):
        parser.error(f"unknown workload {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    if unknown := set(options.schedulers) - set(SCHEDULERS):
        parser.error(f"unknown scheduler {', '.join(unknown)}; there are {', '.join(SCHEDULERS)}")
    if kube_assets() is None:
        if options.server == "kube":
            raise SystemExit("the real programs are not built: run `make kube-assets` first")
        print("kube-scheduler is left out: run `make kube-assets` to build it", file=sys.stderr)
        options.schedulers = ["bayplan"]
    if not options.json:
        _heading(options)
    with tempfile.TemporaryDirectory(prefix="bayplan-e2e-") as folder:
        start = start_kube if options.server == "kube" else start_embedded
        with start(Path(folder)) as cluster:
            rows = asyncio.run(measure(cluster, options))
    middle = medians(rows)
    found = ratios(middle)
    if options.figures:
        facts = {"nodes": options.nodes, "pods": options.pods, "rounds": options.rounds}
        write(options.figures, "bench/e2e.py", figures(middle), columns=SHOWN, **facts)
    if options.json:
        print(json.dumps({"rows": rows, "ratios": found}, indent=1))
        return
    for row in found:
        print(
            f"{row['workload']:<14} {row['speed']:.1f} x pods/s"
            f" ({row['speed_with_start']:.1f} x with start-up),"
            f" 1/{row['cpu']:.1f} of the CPU a pod (1/{row['cpu_with_start']:.1f} with start-up);"
            f" goal {row['goal']}"
        )


if __name__ == "__main__":
    main()

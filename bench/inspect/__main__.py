"""How long questions about a large cluster take, from a kubeconfig and from a snapshot.

    python bench/inspect                        # 5,000 nodes, 100,000 pods, 5,000 more pending
    python bench/inspect --nodes 100 --pods 1000 --pending 50
    python bench/inspect --without-server       # the snapshot only, made without an API server

The cluster is written to the embedded API server (not measured). One process reads it from its
kubeconfig, answers and saves it; another reads the snapshot and answers everything else. Times are
wall seconds, in brackets CPU seconds, of the server too where it takes part: on a busy machine only
those say something. `MISSED` marks a row whose CPU time is over its goal. This is a folder because
a file `inspect.py` would stand in the way of the standard library's for all that lies beside it.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from bayplan.client import Client, connect, load_kubeconfig
from bayplan.client.resources import NODES, PODS, Resource
from bayplan.inspect import Cluster
from bayplan.inspect.sources.snapshot import write_snapshot
from bayplan.testing.servers import start_embedded

Json = dict[str, Any]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ASKED = 50
GOALS = {
    "first answer from a kubeconfig, s": 15.0,
    "memory then, MB": 1500.0,
    "first answer from a snapshot, s": 4.0,
    "each further why, ms": 30.0,
    "why --pending of all, s": 5.0,
    "whatif --each node, s": 60.0,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--pending", type=int, default=5000)
    parser.add_argument("--without-server", action="store_true")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    parser.add_argument("--save", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.save:
        print(json.dumps(measure_live(args.read, args.save)))
    elif args.read:
        print(json.dumps(measure_saved(args.read)))
    else:
        run(args)


def run(args: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.bayplan"
        if args.without_server:
            write_snapshot(Cluster.from_objects(bodies(args)), file)
        else:
            server = start_embedded()
            try:
                asyncio.run(fill(server.kubeconfig, args))
                pid = server.apiserver.popen.pid
                before = cpu_of(pid)
                found = apart("--read", str(server.kubeconfig), "--save", str(file))
                found["first answer from a kubeconfig, s"][1] += cpu_of(pid) - before
                tell(found)
            finally:
                server.stop()
        print(f"{'snapshot, MB':36} {file.stat().st_size / 1e6:8.1f}")
        tell(apart("--read", str(file)))


def apart(*words: str) -> Json:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: Json = json.loads(done.stdout)
    return found


def cpu_of(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(work: Callable[[], Any]) -> list[float]:
    """Wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return [time.perf_counter() - wall, time.process_time() - cpu]


def measure_live(kubeconfig: str, save: str) -> Json:
    made: list[Cluster] = []

    def first() -> None:
        made.append(Cluster.from_kubeconfig(kubeconfig))
        made[0].why(next(made[0].pending()))

    found = {"first answer from a kubeconfig, s": timed(first)}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    write_snapshot(made[0], Path(save))
    return found | {"memory then, MB": [memory, memory]}


def measure_saved(file: str) -> Json:
    made: list[Cluster] = []

    def first() -> None:
        made.append(Cluster.from_files(file))
        made[0].why(next(made[0].pending()))

    found = {"first answer from a snapshot, s": timed(first)}
    cluster = made[0]
    waiting = list(cluster.pending())
    some = waiting[1 :: max(1, len(waiting) // ASKED)][:ASKED]
    each = timed(lambda: [cluster.why(pod) for pod in some])
    found["each further why, ms"] = [value / len(some) * 1000 for value in each]
    found["why --pending of all, s"] = timed(cluster.why_pending)
    found["whatif --each node, s"] = timed(lambda: cluster.each("node"))
    return found


def tell(found: Json) -> None:
    for name, (wall, cpu) in found.items():
        verdict = "" if cpu <= GOALS[name] else "  MISSED"
        print(f"{name:36} {wall:8.2f} ({cpu:.2f}), goal {GOALS[name]:g}{verdict}", flush=True)


# -- the cluster


async def fill(kubeconfig: Path, args: argparse.Namespace) -> None:
    client = connect(load_kubeconfig(kubeconfig), qps=0)
    try:
        found = bodies(args)
        await create_all(client, NODES, islice(found, args.nodes))
        await create_all(client, PODS, found)
    finally:
        await client.close()


def bodies(args: argparse.Namespace) -> Iterator[Json]:
    """Nodes first, then pods."""
    yield from (node(i) for i in range(args.nodes))
    yield from (placed(i, args.nodes) for i in range(args.pods))
    yield from (pending(i) for i in range(args.pending))


async def create_all(client: Client, resource: Resource, bodies: Iterator[Json]) -> None:
    namespace = "default" if resource.namespaced else ""

    async def worker() -> None:
        for body in bodies:
            await client.create(resource, body, namespace)

    await asyncio.gather(*(worker() for _ in range(32)))


def node(i: int) -> Json:
    labels = {HOST: f"node-{i:04}", ZONE: f"z{i % 3}", "disk": "ssd" if i % 2 else "hdd"}
    room = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    taints = [{"key": "gpu", "effect": "NoSchedule"}] if i % 10 == 0 else []
    return {
        "kind": "Node",
        "metadata": {"name": f"node-{i:04}", "labels": labels},
        "spec": {"taints": taints},
        "status": {"capacity": room, "allocatable": room},
    }


def placed(i: int, nodes: int) -> Json:
    app = f"app-{i % 200}"
    body = pod(f"placed-{i}", {"cpu": "700m", "memory": "1Gi"}, app)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app}
    body["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    body["spec"]["nodeName"] = f"node-{i % nodes:04}"
    return body


def pending(i: int) -> Json:
    kind = i % 40
    if kind < 20:
        return pod(f"waits-{i}", {"cpu": f"{8 + kind}", "memory": f"{1 + kind}Gi"}, f"w-{kind}")
    if kind < 30:
        body = pod(f"waits-{i}", {"cpu": "100m"}, f"w-{kind}")
        body["spec"]["nodeSelector"] = {"disk": f"nvme{kind}"}
        return body
    body = pod(f"waits-{i}", {"memory": f"{60 + kind}Gi"}, f"w-{kind}")
    body["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    return body


def pod(name: str, requests: Json, app: str) -> Json:
    environment = [{"name": f"KEY_{n}", "value": "value"} for n in range(4)]
    container = {
        "name": "app",
        "image": "registry.example/app:v1",
        "resources": {"requests": requests},
        "env": environment,
    }
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {"containers": [container]},
    }


if __name__ == "__main__":
    main()

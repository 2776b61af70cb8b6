"""How long a question about a large cluster takes, from a kubeconfig and from a snapshot.

    python bench/why.py                        # 5,000 nodes, 100,000 pods, 5,000 more pending
    python bench/why.py --nodes 100 --pods 1000 --pending 50

The cluster is written to the embedded API server (not measured), read once from its kubeconfig and
saved; then a process of its own reads the snapshot. Told are wall and CPU seconds to the first
answer, the largest memory, the mean of further answers, and all pending pods at once. What-ifs have
`bench/whatif.py`.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--pending", type=int, default=5000)
    parser.add_argument("--read", default="", help=argparse.SUPPRESS)
    parser.add_argument("--save", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.read:
        print(json.dumps(measure(args.read, args.save)))
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.bayplan"
        server = start_embedded()
        try:
            asyncio.run(fill(server.kubeconfig, args))
            tell("kubeconfig", apart(str(server.kubeconfig), str(file)))
        finally:
            server.stop()
        size = file.stat().st_size
        tell(f"snapshot ({size / 1e6:.1f} MB)", apart(str(file), ""))


def apart(source: str, save: str) -> Json:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--read", source, "--save", save]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: Json = json.loads(done.stdout)
    return found


def measure(source: str, save: str) -> Json:
    """Read a cluster and ask it."""
    begin, cpu = time.perf_counter(), time.process_time()
    if save:
        cluster = Cluster.from_kubeconfig(source)
    else:
        cluster = Cluster.from_files(source)
    waiting = list(cluster.pending())
    cluster.why(waiting[0])
    first = time.perf_counter() - begin, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    step = max(1, len(waiting) // ASKED)
    cpu = time.process_time()
    for pod in waiting[1::step][:ASKED]:
        cluster.why(pod)
    further = (time.process_time() - cpu) / ASKED
    cpu = time.process_time()
    found = cluster.why_pending()
    pending = time.process_time() - cpu
    if save:
        write_snapshot(cluster, Path(save))
    return {
        "wall": first[0],
        "cpu": first[1],
        "memory": memory,
        "why": further * 1000,
        "pending": pending,
        "pods": found.count,
        "groups": len(found.groups),
    }


def tell(name: str, found: Json) -> None:
    print(
        f"{name}: first answer {found['wall']:.2f} s ({found['cpu']:.2f} s CPU, "
        f"{found['memory']:.0f} MB), each further why {found['why']:.1f} ms CPU, "
        f"{found['pods']:,} pending in {found['pending']:.2f} s CPU ({found['groups']} groups)"
    )


# -- the cluster


async def fill(kubeconfig: Path, args: argparse.Namespace) -> None:
    client = connect(load_kubeconfig(kubeconfig), qps=0)
    try:
        await create_all(client, NODES, (node(i) for i in range(args.nodes)))
        await create_all(client, PODS, (placed(i, args.nodes) for i in range(args.pods)))
        await create_all(client, PODS, (pending(i) for i in range(args.pending)))
    finally:
        await client.close()


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
        "metadata": {"name": f"node-{i:04}", "labels": labels},
        "spec": {"taints": taints},
        "status": {"capacity": room, "allocatable": room},
    }


def placed(i: int, nodes: int) -> Json:
    body = pod(f"placed-{i}", {"cpu": "700m", "memory": "1Gi"}, f"app-{i % 200}")
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
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"containers": [container]},
    }


if __name__ == "__main__":
    main()

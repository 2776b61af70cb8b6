"""What a cluster costs in which nothing happens: `bayplan up` with many nodes and running pods.

    python bench/idle.py                       # 5,000 nodes, 50,000 pods, 60 s
    python bench/idle.py --nodes 500 --pods 5000 --seconds 30
    python bench/idle.py --data /tmp/idle      # keeps the cluster, and finds it the next time

Prints the share of one core that the whole process takes (API server, controllers, kubelets,
scheduler; CPU time from /proc) once every pod runs and has been left alone for a while, and how
many writes there were. Simulated kubelets renew leases and post heartbeats all the while.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bayplan.client import Client, connect, load_kubeconfig
from bayplan.client.resources import DEPLOYMENTS
from bayplan.testing.servers import Process, bayplan_command

TICKS = os.sysconf("SC_CLK_TCK")
GOAL = 0.05  # of a core
OF_ONE = 1000  # pods of one Deployment
LATE = 3600.0
STILL = 60.0  # seconds before the measurement: what follows a start is over then


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class _Status(msgspec.Struct, rename="camel"):
    ready_replicas: int = 0


class _Deployment(msgspec.Struct):
    status: _Status


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str


class _Deployments(msgspec.Struct):
    metadata: _Meta
    items: list[_Deployment]


async def _look(client: Client) -> tuple[int, int]:
    """Return how many pods are ready, and the revision."""
    found = msgspec.json.decode(await client.list(DEPLOYMENTS), type=_Deployments)
    return sum(d.status.ready_replicas for d in found.items), int(found.metadata.resource_version)


def _deployment(number: int, replicas: int) -> dict[str, object]:
    labels = {"app": f"idle-{number}"}
    requests = {"cpu": "10m", "memory": "16Mi"}
    container = {"name": "main", "image": "idle", "resources": {"requests": requests}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": f"idle-{number}"}, "spec": spec}


async def _fill(client: Client, pods: int) -> None:
    """Make the pods, unless they are there, and wait until each is ready."""
    if not msgspec.json.decode(await client.list(DEPLOYMENTS))["items"]:
        for number in range(-(-pods // OF_ONE)):
            size = min(OF_ONE, pods - number * OF_ONE)
            await client.create(DEPLOYMENTS, _deployment(number, size), "default")
    until = time.monotonic() + LATE
    while (ready := (await _look(client))[0]) < pods:
        if time.monotonic() > until:
            sys.exit(f"only {ready} of {pods} pods became ready")
        print(f"{ready} of {pods} pods are ready", file=sys.stderr)
        await asyncio.sleep(10)


async def measure(process: Process, kubeconfig: Path, args: argparse.Namespace) -> None:
    client = connect(load_kubeconfig(str(kubeconfig)))
    try:
        await _fill(client, args.pods)
        await asyncio.sleep(args.still)
        _, first = await _look(client)
        used, began = cpu_of(process.popen.pid), time.monotonic()
        await asyncio.sleep(args.seconds)
        used, took = cpu_of(process.popen.pid) - used, time.monotonic() - began
        ready, last = await _look(client)
    finally:
        await client.close()
    print(
        f"{args.nodes} nodes, {ready} running pods: {used / took:.1%} of a core over {took:.0f} s "
        f"(goal {GOAL:.0%}), {(last - first) / took:.0f} writes a second, "
        f"{1000 * used / max(last - first, 1):.3f} ms CPU a write"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--still", type=float, default=STILL, help="seconds to wait before")
    parser.add_argument("--data", type=Path, help="keep the cluster here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = args.data or Path(folder) / "data"
        words = ["up", "--nodes", str(args.nodes), "--data", str(data)]
        words += ["--bind", "127.0.0.1:0", "--ui-bind", ""]
        process = Process(bayplan_command(*words), Path(folder) / "log")
        try:
            process.wait_until(lambda: "is ready at" in process.last_words(), 600.0)
            asyncio.run(measure(process, data / "kubeconfig", args))
        finally:
            process.stop(60.0)


if __name__ == "__main__":
    main()

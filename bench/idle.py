"""What a cluster costs in which nothing happens: `bayplan up` with many nodes and running pods.

    python bench/idle.py                       # 5,000 nodes, 50,000 pods, 60 s
    python bench/idle.py --nodes 500 --pods 5000 --seconds 30
    python bench/idle.py --data /tmp/idle      # keeps the cluster, and finds it the next time
    python bench/idle.py --churn 1000 --seconds 10 --json docs/results/churn.json

Prints the share of one core that the whole process takes (API server, controllers, kubelets,
scheduler; CPU time from /proc) once every pod runs and has been left alone for a while, and how
many writes there were. Simulated kubelets renew leases and post heartbeats all the while.

With `--churn` so many pods a second are made on 100 nodes in virtual time, for `--seconds`, and
each is deleted a second later: prints how late the last one runs after it was made, and is gone
after its deletion (a pod takes 0.1 s to start and to stop), and the CPU that all of it took.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from figures import write

from bayplan.apiserver.server import ApiServer
from bayplan.cli.nodes import add_nodes, default_nodes
from bayplan.client import AsgiTransport, Change, Client, Informer, connect, load_kubeconfig
from bayplan.client.resources import DEPLOYMENTS, PODS
from bayplan.clock import run_virtual
from bayplan.controllers.manager import ControllerManager, select
from bayplan.controllers.objects import Object
from bayplan.store import MemoryStore
from bayplan.testing.servers import Process, bayplan_command

TICKS = os.sysconf("SC_CLK_TCK")
GOAL = 0.05  # of a core
OF_ONE = 1000  # pods of one Deployment
LATE = 3600.0
CHURN_NODES, LIFE, EPOCH = 100, 1.0, 1_700_000_000.0
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


class Churn:
    """Pods that come and go, and when each was seen to run and to be gone."""

    def __init__(self, client: Client, rate: int, names: list[str]) -> None:
        self.client, self.rate, self.names = client, rate, names
        self.made: dict[str, float] = {}
        self.deleted: dict[str, float] = {}
        self.running: dict[str, float] = {}
        self.gone: dict[str, float] = {}

    def see(self, changes: Sequence[Change[Object]]) -> None:
        now = asyncio.get_running_loop().time()
        for change in changes:
            if change.type == "DELETED":
                self.gone[change.new.metadata.name] = now
            elif change.new.status.get("phase") == "Running":
                self.running.setdefault(change.new.metadata.name, now)

    async def life(self, number: int) -> None:
        loop, name = asyncio.get_running_loop(), f"p-{number}"
        await asyncio.sleep(number / self.rate)
        self.made[name] = loop.time()
        spec = {"nodeName": self.names[number % len(self.names)]}
        spec |= {"containers": [{"name": "main", "image": "churn"}]}
        await self.client.create(PODS, {"metadata": {"name": name}, "spec": spec}, "default")
        await asyncio.sleep(LIFE)
        self.deleted[name] = loop.time()
        await self.client.delete(PODS, name, "default")

    async def run(self, pods: int) -> None:
        informer = Informer(self.client, PODS, Object)
        informer.add_handler(self.see)
        following = asyncio.create_task(informer.run())
        await informer.wait_synced()
        await asyncio.gather(*map(self.life, range(pods)))
        until = asyncio.get_running_loop().time() + LATE
        while len(self.gone) < pods and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.01)
        following.cancel()

    def shown(self, used: float) -> dict[str, str]:
        if not set(self.made) == set(self.running) == set(self.gone):
            sys.exit(f"of {len(self.made)} pods {len(self.running)} ran, {len(self.gone)} went")
        starts = max(at - self.made[name] for name, at in self.running.items())
        stops = max(at - self.deleted[name] for name, at in self.gone.items())
        return {
            "pods a second": f"{self.rate:,}",
            "last runs after": f"{starts:.2f} s",
            "last is gone after": f"{stops:.2f} s",
            "CPU a pod": f"{1000 * used / len(self.made):.1f} ms",
        }


async def churn(rate: int, pods: int) -> dict[str, str]:
    """Let pods come and go; must run in virtual time."""
    loop = asyncio.get_running_loop()
    server = ApiServer(MemoryStore(), clock=lambda: EPOCH + loop.time())
    await server.start()
    client = Client(AsgiTransport(server, token=server.admin_token))
    manager = ControllerManager(client, select("*"), clock=lambda: EPOCH + loop.time())
    manager.attach(server.backend)
    try:
        async with manager.running():
            await add_nodes(client, default_nodes(CHURN_NODES))
            await asyncio.sleep(5)
            found = Churn(client, rate, [f"node-{n}" for n in range(1, CHURN_NODES + 1)])
            began = time.process_time()
            await found.run(pods)
            return found.shown(time.process_time() - began)
    finally:
        await client.close()
        await server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--still", type=float, default=STILL, help="seconds to wait before")
    parser.add_argument("--data", type=Path, help="keep the cluster here")
    parser.add_argument("--churn", type=int, metavar="RATE", help="pods a second that come and go")
    parser.add_argument("--json", type=Path, help="with --churn: write the figures to this file")
    args = parser.parse_args()
    if args.churn:
        figures = run_virtual(churn(args.churn, int(args.churn * args.seconds)))
        print(", ".join(f"{name} {text}" for name, text in figures.items()))
        if args.json:
            write(args.json, "bench/idle.py", figures, seconds=args.seconds)
        return
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

"""A real API server as a test sees it: makes nodes and pods, waits for what should become of them.

There is no kubelet and no controller: a test that needs one plays it. Pods have no grace period
unless asked for, so that a deleted pod is gone at once.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from bayplan.api import yaml
from bayplan.client import (
    AlreadyExists,
    Client,
    Forbidden,
    NotFound,
    Resource,
    connect,
    load_kubeconfig,
)
from bayplan.client.resources import (
    EVENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
)
from bayplan.conformance.fuzz import minor
from bayplan.testing.servers import Process, ServedCluster

Json = dict[str, Any]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
PATIENCE = 120.0
_CLEANED = (NODES, PERSISTENT_VOLUMES, STORAGE_CLASSES)


def node(name: str, *, cpu: str = "4", pods: str = "110", zone: str = "", **spec: Any) -> Json:
    """A node."""
    room = {"cpu": cpu, "memory": "16Gi", "pods": pods}
    labels = {HOST: name, **({ZONE: zone} if zone else {})}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"capacity": room, "allocatable": room},
    }


def pod(name: str, *, cpu: str = "100m", app: str = "", grace: int = 0, **spec: Any) -> Json:
    """A pod of one container."""
    container = {"name": "c", "image": "pause:3.10", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": name, "labels": {"app": app or name}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": grace, **spec},
    }


def spread(app: str, key: str = ZONE, action: str = "DoNotSchedule") -> list[Json]:
    """Topology spread constraints with a skew of one."""
    selector = {"matchLabels": {"app": app}}
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": action}
    return [{**constraint, "labelSelector": selector}]


def condition(item: Json, kind: str = "PodScheduled") -> Json:
    """The condition of that type, or an empty one."""
    found = [c for c in item["status"].get("conditions", ()) if c["type"] == kind]
    return found[0] if found else {}


def is_bound(item: Json) -> bool:
    """Tell whether a pod has a node."""
    return bool(item["spec"].get("nodeName"))


def is_unschedulable(item: Json) -> bool:
    """Tell whether a scheduler has found no place for a pod."""
    return condition(item).get("reason") == "Unschedulable"


class World:
    """One namespace of a cluster, and the cluster's nodes."""

    def __init__(
        self, cluster: ServedCluster, namespace: str, folder: Path, *, node_pause: float = 0.0
    ) -> None:
        """`node_pause`: seconds to let a scheduler see new nodes."""
        self._node_pause = node_pause
        self.cluster, self.namespace, self.folder = cluster, namespace, folder
        self.client: Client = connect(load_kubeconfig(cluster.kubeconfig), qps=0)
        self._schedulers: list[Process] = []

    # -- schedulers

    def config(self, *, election: Json | None = None, server: str = "", **more: Any) -> Path:
        """Write a configuration; `server`: another address of the API server."""
        kubeconfig = self.cluster.kubeconfig
        if server:
            kubeconfig = self.folder / "kubeconfig-proxied"
            text = self.cluster.kubeconfig.read_text()
            kubeconfig.write_text(text.replace(self.cluster.server, server))
            kubeconfig.chmod(0o600)
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": election or {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
            **more,
        }
        path = self.folder / f"ksc-{len(self._schedulers)}.yaml"
        path.write_text(yaml.dump(document))
        return path

    def scheduler(self, name: str = "bayplan", config: Path | None = None) -> Process:
        """Start a scheduler; it ends with this world."""
        chosen = config or self.config()
        if name == "kube-scheduler":
            started = self.cluster.kube_scheduler(chosen)
        else:  # decides as the real programs beside it do
            version = minor(os.environ.get("KUBE_VERSION", "1.36.4"))
            started = self.cluster.bayplan_scheduler(chosen, f"--emulated-version={version}")
        self._schedulers.append(started)
        return self._schedulers[-1]

    # -- objects

    async def create(self, resource: Resource, *bodies: Json) -> None:
        """Create objects, and write the status that creation ignores."""
        namespace = self.namespace if resource.namespaced else ""
        for body in bodies:
            await self.client.create(resource, body, namespace)
            if "status" in body and resource is not NODES:
                name = body["metadata"]["name"]
                patch = {"status": body["status"]}
                await self.client.patch(resource, name, patch, namespace, subresource="status")

    async def nodes(self, *bodies: Json) -> None:
        """Create nodes."""
        await self.create(NODES, *bodies)
        await asyncio.sleep(self._node_pause)

    async def pods(self, *bodies: Json) -> None:
        """Create pods, several at a time."""
        await each(bodies, self._create_pod)

    async def _create_pod(self, body: Json) -> None:
        """Admission learns of a new PriorityClass by a watch: first tries may be too early."""
        async with asyncio.timeout(60):
            while True:
                try:
                    await self.client.create(PODS, body, self.namespace)
                    return
                except Forbidden as refused:
                    if "no PriorityClass with name" not in str(refused):
                        raise
                    await asyncio.sleep(0.05)

    async def get(self, name: str, resource: Resource = PODS) -> Json:
        """Read one object."""
        namespace = self.namespace if resource.namespaced else ""
        found: Json = msgspec.json.decode(await self.client.get(resource, name, namespace))
        return found

    async def all_pods(self) -> list[Json]:
        """Read all pods of the namespace."""
        found: list[Json] = msgspec.json.decode(await self.client.list(PODS, self.namespace))[
            "items"
        ]
        return found

    async def delete(self, *names: str, resource: Resource = PODS) -> None:
        """Delete at once."""
        namespace = self.namespace if resource.namespaced else ""
        for name in names:
            await self.client.delete(resource, name, namespace, grace_period=0)

    async def events(self, name: str) -> list[tuple[str, str, str]]:
        """Type, reason and note of a pod's events, each once, sorted."""
        listed = msgspec.json.decode(await self.client.list(EVENTS, self.namespace))["items"]
        return sorted(
            {
                (e["type"], e["reason"], e["note"].replace(self.namespace, "<ns>"))
                for e in listed
                if e["regarding"]["name"] == name
            }
        )

    # -- waiting

    async def until(
        self,
        name: str,
        holds: Callable[[Json], object],
        resource: Resource = PODS,
        timeout: float = PATIENCE,
    ) -> Json:
        """Wait until something holds for an object."""
        found: Json = {}
        try:
            async with asyncio.timeout(timeout):
                while True:
                    found = await self.get(name, resource)
                    if holds(found):
                        return found
                    await asyncio.sleep(0.05)
        except TimeoutError:
            words = self._schedulers[-1].last_words() if self._schedulers else "no scheduler"
            raise AssertionError(f"{name} stays {found}\nscheduler: {words}") from None

    async def bound(self, *names: str, timeout: float = PATIENCE) -> list[str]:
        """Wait until pods are bound; their nodes."""
        found = [await self.until(name, is_bound, timeout=timeout) for name in names]
        return [item["spec"]["nodeName"] for item in found]

    async def all_bound(self, count: int, timeout: float = PATIENCE) -> list[Json]:
        """Wait until the namespace has that many pods and all are bound."""
        found: list[Json] = []
        try:
            async with asyncio.timeout(timeout):
                while True:
                    found = await self.all_pods()
                    if len(found) == count and all(map(is_bound, found)):
                        return found
                    await asyncio.sleep(0.2)
        except TimeoutError:
            left = [item["metadata"]["name"] for item in found if not is_bound(item)]
            words = self._schedulers[-1].last_words()
            raise AssertionError(
                f"{len(left)} of {len(found)} pods are pending: {left[:5]}\n{words}"
            ) from None

    async def event(self, name: str, reason: str) -> str:
        """Wait for an event of that reason; its note."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for _, found, note in await self.events(name):
                    if found == reason:
                        return note
                await asyncio.sleep(0.1)

    # -- life

    async def start(self) -> None:
        """Make the namespace and the priority classes."""
        await self.client.create(NAMESPACES, {"metadata": {"name": self.namespace}})
        for name, value in (("high", 1000), ("low", 10)):
            try:
                await self.client.create(
                    PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value}
                )
            except AlreadyExists:
                continue

    async def stop(self) -> None:
        """Stop schedulers, delete what is there."""
        for process in self._schedulers:
            process.stop()
        names = [item["metadata"]["name"] for item in await self.all_pods()]
        await each(names, self._remove_pod)
        for resource in (PERSISTENT_VOLUME_CLAIMS, POD_DISRUPTION_BUDGETS, *_CLEANED):
            await self._remove_all(resource)
        await self.client.close()

    async def _remove_pod(self, name: str) -> None:
        try:
            await self.client.delete(PODS, name, self.namespace, grace_period=0)
        except NotFound:
            return

    async def _remove_all(self, resource: Resource) -> None:
        namespace = self.namespace if resource.namespaced else ""
        listed = msgspec.json.decode(await self.client.list(resource, namespace))["items"]
        for item in listed:
            name = item["metadata"]["name"]
            if item["metadata"].get("finalizers"):
                body = {"metadata": {"finalizers": None}}
                await self.client.patch(resource, name, body, namespace)
            await self.client.delete(resource, name, namespace, grace_period=0)


async def each(items: Iterable[Any], work: Callable[[Any], Awaitable[Any]], many: int = 16) -> None:
    """Do something with each item, `many` at a time."""
    rest = iter(items)

    async def worker() -> None:
        for item in rest:
            await work(item)

    await asyncio.gather(*(worker() for _ in range(many)))


class UnreliableProxy:
    """Forwards TCP to the API server and breaks connections at random, also in the middle of one.

    TLS goes through untouched: the scheduler sees resets, half answers and silent stalls, as from a
    bad network. `calm()` ends the faults.
    """

    def __init__(self, server: str, seed: int, mean_bytes: int = 2_000_000) -> None:
        parts = urlsplit(server)
        assert parts.hostname is not None
        assert parts.port is not None
        self._to = (parts.hostname, parts.port)
        self._scheme = parts.scheme
        self._random = random.Random(seed)
        self._mean_bytes = mean_bytes
        self._faulty = True
        self.broken = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> UnreliableProxy:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        """The address to give to a scheduler."""
        return f"{self._scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def used_by(self, connections: int) -> None:
        """Wait until that many connections are open: a fault needs something to break."""
        async with asyncio.timeout(2 * PATIENCE):
            while len(self._tasks) < connections:
                await asyncio.sleep(0.05)

    def cut(self, share: float) -> None:
        """Break some of the open connections now."""
        for task in list(self._tasks):
            if self._random.random() < share:
                self.broken += 1
                task.cancel()

    def calm(self) -> None:
        """Break nothing from now on."""
        self._faulty = False

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._forward(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: writer.transport.abort())  # it may never have begun

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            other_reader, other_writer = await asyncio.open_connection(*self._to)
        except OSError:  # the API server is away: so is this connection
            return
        budget = [self._random.expovariate(1 / self._mean_bytes)]
        pumps = [
            asyncio.create_task(self._pump(reader, other_writer, budget)),
            asyncio.create_task(self._pump(other_reader, writer, budget)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            other_writer.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, budget: list[float]
    ) -> None:
        while data := await reader.read(65536):
            budget[0] -= len(data)
            if self._faulty and budget[0] < 0:
                self.broken += 1
                writer.write(data[: len(data) // 2])
                return
            if self._faulty and self._random.random() < 0.001:
                await asyncio.sleep(self._random.random())
            writer.write(data)
            await writer.drain()


def freeze(process: Process) -> None:
    """Stop a process as a paused machine would."""
    process.popen.send_signal(signal.SIGSTOP)


def thaw(process: Process) -> None:
    """Let it go on."""
    process.popen.send_signal(signal.SIGCONT)

"""A whole cluster in one process on virtual time: API server, controllers, a naive scheduler."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from bayplan.apiserver.server import ApiServer
from bayplan.client import AsgiTransport, Change, Client, ClientError, Informer, NotFound, Resource
from bayplan.client.resources import NODES, PODS
from bayplan.clock import run_virtual
from bayplan.config import DEFAULT_GATES, FeatureGates
from bayplan.controllers.manager import ControllerManager, select
from bayplan.controllers.objects import Object
from bayplan.store import MemoryStore

Json = dict[str, Any]
EPOCH = 1_700_000_000.0
ZONES = ("a", "b")


def virtual(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test on a virtual-time loop."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(100_000):  # virtual seconds: nothing hangs for ever
                await test(*args, **kwargs)

        run_virtual(bounded())

    return run


class Cluster:
    """The objects of a running cluster, by short calls."""

    def __init__(self, client: Client, server: ApiServer, manager: ControllerManager) -> None:
        self.client = client
        self.server = server
        self.manager = manager

    async def create(self, resource: Resource, body: Json, namespace: str = "default") -> Json:
        where = namespace if resource.namespaced else ""
        made: Json = msgspec.json.decode(await self.client.create(resource, body, where))
        return made

    async def get(self, resource: Resource, name: str, namespace: str = "default") -> Json:
        where = namespace if resource.namespaced else ""
        found: Json = msgspec.json.decode(await self.client.get(resource, name, where))
        return found

    async def list(self, resource: Resource, selector: str = "") -> list[Json]:
        raw = await self.client.list(resource, label_selector=selector)
        items: list[Json] = msgspec.json.decode(raw)["items"]
        return items

    async def patch(self, resource: Resource, name: str, body: Json) -> None:
        where = "default" if resource.namespaced else ""
        await self.client.patch(resource, name, body, where)

    async def delete(self, resource: Resource, name: str, **options: Any) -> None:
        where = "default" if resource.namespaced else ""
        await self.client.delete(resource, name, where, **options)

    async def exists(self, resource: Resource, name: str, namespace: str = "default") -> bool:
        try:
            await self.get(resource, name, namespace)
        except NotFound:
            return False
        return True

    async def until(
        self, holds: Callable[[], Awaitable[object]], seconds: float = 120.0, what: str = ""
    ) -> None:
        """Wait in virtual time until something holds."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not await holds():
            assert loop.time() < end, f"not within {seconds} s: {what or holds}"
            await asyncio.sleep(0.25)

    async def settle(self, seconds: float = 10.0) -> None:
        """Let the cluster be for a while."""
        await asyncio.sleep(seconds)

    async def node(self, name: str, zone: str = "a", **more: Any) -> None:
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
        capacity = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        metadata = {
            "name": name,
            "labels": {**labels, **more.pop("labels", {})},
            "annotations": {"bayplan.dev/simulated": more.pop("simulated", "true")},
        }
        status = {"capacity": capacity, "allocatable": capacity}
        await self.create(NODES, {"metadata": metadata, "spec": more, "status": status})


class Binder:
    """Binds each pod to the first node whose name or taints do not forbid it, in turn."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._turn = itertools.count()
        self.pods = Informer(client, PODS, Object)
        self.nodes = Informer(client, NODES, Object)
        self.pods.add_handler(self._pods_changed)
        self.nodes.add_handler(self._nodes_changed)
        self._waiting: asyncio.Queue[str] = asyncio.Queue()

    def _pods_changed(self, changes: Any) -> None:
        for change in changes:
            self._offer(change)

    def _offer(self, change: Change[Object]) -> None:
        pod = change.new
        if change.type != "DELETED" and not pod.spec.get("nodeName") and not pod.deleted:
            self._waiting.put_nowait(pod.key)

    def _nodes_changed(self, changes: Any) -> None:
        for pod in self.pods.store.values():
            if not pod.spec.get("nodeName"):
                self._waiting.put_nowait(pod.key)

    async def run(self) -> None:
        await self.nodes.wait_synced()
        while True:
            pod = self.pods.store.get(await self._waiting.get())
            if pod is None or pod.spec.get("nodeName") or pod.deleted:
                continue
            if node := self._choose(pod):
                try:
                    await self._client.bind(
                        pod.metadata.namespace, pod.metadata.name, pod.metadata.uid, node
                    )
                except ClientError:
                    continue

    def _choose(self, pod: Object) -> str:
        wanted = _named_node(pod)
        free = [
            node.metadata.name
            for node in self.nodes.store.values()
            if wanted in ("", node.metadata.name)
            and (wanted or not any(t["effect"] != "x" for t in node.spec.get("taints") or []))
        ]
        return free[next(self._turn) % len(free)] if free else ""


def _named_node(pod: Object) -> str:
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or []:
        for field in term.get("matchFields") or []:
            return str(field["values"][0])
    return ""


@asynccontextmanager
async def cluster(
    controllers: str = "*",
    *,
    nodes: int = 2,
    options: Json | None = None,
    attached: bool = True,
    gates: FeatureGates = DEFAULT_GATES,
) -> AsyncIterator[Cluster]:
    """Run a cluster with simulated nodes node-0, node-1, …; must be on a virtual-time loop.

    `attached`: the kubelets know the server's process, as in `bayplan up`.
    """
    loop = asyncio.get_running_loop()
    uids, suffixes = itertools.count(1), itertools.count(1)

    def clock() -> float:
        return EPOCH + loop.time()

    server = ApiServer(
        MemoryStore(),
        clock=clock,
        uid=lambda: f"00000000-0000-0000-0000-{next(uids):012}",
        suffix=lambda: f"{next(suffixes):05}",
        gates=gates,
    )
    await server.start()
    client = Client(AsgiTransport(server, token=server.admin_token))
    manager = ControllerManager(client, select(controllers), clock=clock, options=options)
    if attached:
        manager.attach(server.backend)
    binder = Binder(client)
    tasks = [
        asyncio.create_task(work) for work in (binder.pods.run(), binder.nodes.run(), binder.run())
    ]
    try:
        async with manager.running():
            made = Cluster(client, server, manager)
            for number in range(nodes):
                await made.node(f"node-{number}", ZONES[number % len(ZONES)])
            yield made
            assert {} == manager.failures
            assert {} == manager.kit.errors
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.transport.close()
        await server.close()


def pod_spec(**more: Any) -> Json:
    return {"containers": [{"name": "c", "image": "i"}], **more}


def template(labels: Json, *, annotations: Json | None = None, **spec: Any) -> Json:
    metadata: Json = {"labels": labels}
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": pod_spec(**spec)}


def workload(name: str, replicas: int, image: str = "i", **spec: Any) -> Json:
    """Return a ReplicaSet, Deployment or StatefulSet."""
    labels = {"app": name}
    made = template(labels)
    made["spec"]["containers"][0]["image"] = image
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": made,
            **spec,
        },
    }

"""A storm for a live scheduler: an API server that fails in every way, on virtual time.

One seed decides everything: which requests fail and how (refused, answered with 409, 429, 500, lost
before or after they took effect, late), when watches break, expire, repeat or shuffle their events,
when clocks jump, when the scheduler restarts, and which nodes and pods come and go. The API
server underneath is the real embedded one, in memory.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from bayplan.apiserver.server import ApiServer
from bayplan.client import (
    AsgiTransport,
    Client,
    ClientError,
    Response,
    StreamResponse,
    TransportError,
)
from bayplan.client.errors import RequestTimeout
from bayplan.client.resources import NODES, PODS
from bayplan.config import DEFAULT_GATES, default_config
from bayplan.plugins import in_tree_registry
from bayplan.scheduler.events import EventRecorder
from bayplan.scheduler.live import LiveScheduler
from bayplan.store.memory import MemoryStore

EPOCH = 1_800_000_000.0
CPU = 4000


class FaultyTransport:
    """Passes requests on, except when it does not."""

    def __init__(self, inner: AsgiTransport, rng: random.Random) -> None:
        self._inner = inner
        self._rng = rng
        self.rate = 0.0

    async def request(self, method, target, headers, body, timeout) -> Response:
        rng = self._rng
        if rng.random() >= self.rate:
            return await self._inner.request(method, target, headers, body, timeout)
        await asyncio.sleep(rng.choice((0.0, 0.01, 0.5, 3.0)))
        fault = rng.randrange(7)
        if fault == 0:
            raise TransportError("connection refused")
        if fault == 1:
            raise RequestTimeout("no answer in time")
        if fault in (2, 3):
            await self._inner.request(method, target, headers, body, timeout)
            raise TransportError("connection lost after the request took effect")
        if fault == 4:
            return await self._inner.request(method, target, headers, body, timeout)
        code = rng.choice((409, 429, 500, 503))
        status = {"kind": "Status", "code": code, "message": "storm"}
        extra = {"retry-after": "1"} if code == 429 and rng.random() < 0.5 else {}
        return Response(code, extra, json.dumps(status).encode())

    @asynccontextmanager
    async def stream(self, method, target, headers) -> AsyncIterator[StreamResponse]:
        if self._rng.random() < self.rate:
            raise TransportError("watch refused")
        if self._rng.random() < self.rate / 2:
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "storm"}
            yield StreamResponse(410, {}, _once(json.dumps(gone).encode()))
            return
        async with self._inner.stream(method, target, headers) as answer:
            yield StreamResponse(answer.status, answer.headers, self._chunks(answer.chunks))

    async def _chunks(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        rng, held = self._rng, b""
        async for chunk in chunks:
            yield self._shuffled(held + chunk)
            held = chunk if rng.random() < self.rate else b""
            if rng.random() < self.rate / 4:
                raise TransportError("watch broke")
            if rng.random() < self.rate:
                await asyncio.sleep(rng.choice((0.01, 1.0)))

    def _shuffled(self, chunk: bytes) -> bytes:
        if self._rng.random() >= self.rate:
            return chunk
        lines = chunk.splitlines(keepends=True)
        if not all(line.endswith(b"\n") for line in lines):
            return chunk
        self._rng.shuffle(lines)
        return b"".join(lines)

    async def refresh_credentials(self) -> bool:
        return False

    async def close(self) -> None:
        await self._inner.close()


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


class CheckedScheduler(LiveScheduler):
    """Checks all invariants after each turn."""

    def _turn(self) -> None:
        super()._turn()
        self.core.validate()


class Storm:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.offset = 0.0
        ids = random.Random(seed + 1)
        self.server = ApiServer(
            MemoryStore(),
            clock=lambda: EPOCH + asyncio.get_running_loop().time(),
            uid=lambda: f"{ids.getrandbits(128):032x}",
            suffix=lambda: f"{ids.getrandbits(20):05x}",
            admin_token="t",
        )
        self.calm = Client(AsgiTransport(self.server, token="t"))
        self.faulty = FaultyTransport(AsgiTransport(self.server, token="t"), self.rng)
        self.bound: dict[str, str] = {}
        self.serial = 0
        self.tasks: list[asyncio.Task] = []
        self.live: CheckedScheduler | None = None

    def wall(self) -> float:
        return EPOCH + asyncio.get_running_loop().time() + self.offset

    # -- the scheduler

    def start(self) -> None:
        client = Client(self.faulty, timeout=10)
        recorder = EventRecorder(client, hostname="storm")
        self.live = CheckedScheduler(
            config=default_config(),
            gates=DEFAULT_GATES,
            registry=in_tree_registry(),
            client=client,
            recorder=recorder,
            wall=self.wall,
            jitter=self.rng.random,
        )
        self.tasks = [
            asyncio.create_task(work)
            for work in (recorder.run(), self.live.run_informers(), self._lead(self.live))
        ]

    async def _lead(self, live: CheckedScheduler) -> None:
        await live.wait_synced()
        await live.run()

    async def stop(self) -> None:
        for task in self.tasks:
            if task.done():
                task.result()
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    # -- the world

    async def run(self) -> None:
        await self.server.start()
        for _ in range(3):
            await self._add_node()
        self.start()
        watch = asyncio.create_task(self._watch())
        kubelet = asyncio.create_task(self._kubelet())
        self.faulty.rate = self.rng.choice((0.05, 0.15, 0.3))
        for _ in range(40):
            await self._disturb()
            await asyncio.sleep(self.rng.choice((0.0, 0.1, 1.0, 7.0)))
            self._check_tasks()
        self.faulty.rate = 0.0
        await self._add_node(cpu=40 * CPU)
        await asyncio.sleep(400)
        self._check_tasks()
        await self._check_end()
        await self.stop()
        for task in (watch, kubelet):
            task.cancel()
        await asyncio.gather(watch, kubelet, return_exceptions=True)
        await self.server.close()

    async def _disturb(self) -> None:
        what = self.rng.random()
        if what < 0.6:
            for _ in range(self.rng.randint(1, 4)):
                await self._add_pod()
        elif what < 0.75:
            await self._delete_pod()
        elif what < 0.85:
            await self._add_node()
        elif what < 0.92:
            self.offset += self.rng.choice((-30.0, -0.5, 3.0, 120.0))
        else:
            await self.stop()
            await asyncio.sleep(self.rng.choice((0.0, 5.0)))
            self.start()

    async def _add_node(self, cpu: int = CPU) -> None:
        self.serial += 1
        name = f"n{self.serial}"
        capacity = {"cpu": f"{cpu}m", "memory": "64Gi", "pods": "200"}
        labels = {"kubernetes.io/hostname": name}
        node = {"metadata": {"name": name, "labels": labels}, "status": {"capacity": capacity}}
        await self.calm.create(NODES, node)

    async def _add_pod(self) -> None:
        self.serial += 1
        cpu = self.rng.choice((500, 1000, 2000))
        resources = {"requests": {"cpu": f"{cpu}m"}}
        spec: dict[str, object] = {
            "priority": None,
            "containers": [{"name": "c", "image": "x", "resources": resources}],
        }
        if self.rng.random() < 0.2:
            spec["priorityClassName"] = "system-cluster-critical"
        meta = {"name": f"p{self.serial}", "labels": {"app": "storm"}}
        namespace = "kube-system" if "priorityClassName" in spec else "default"
        await self.calm.create(PODS, {"metadata": meta, "spec": spec}, namespace)

    async def _pods(self) -> list[dict]:
        items: list[dict] = msgspec.json.decode(await self.calm.list(PODS))["items"]
        return items

    async def _delete_pod(self) -> None:
        pods = await self._pods()
        if pods:
            meta = self.rng.choice(pods)["metadata"]
            await self.calm.delete(PODS, meta["name"], meta["namespace"])

    async def _kubelet(self) -> None:
        while True:
            await asyncio.sleep(2)
            for pod in await self._pods():
                meta = pod["metadata"]
                if meta.get("deletionTimestamp"):
                    try:
                        await self.calm.delete(
                            PODS, meta["name"], meta["namespace"], grace_period=0
                        )
                    except ClientError:
                        continue

    # -- what must hold

    async def _watch(self) -> None:
        """Follow every change as the server makes it: a pod's node never changes."""
        async for lines in self.calm.watch(PODS, resource_version="0"):
            for line in lines:
                event = json.loads(line)
                if event["type"] in ("BOOKMARK", "ERROR"):
                    continue
                pod = event["object"]
                uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
                assert self.bound.get(uid, node) == node, f"{uid} was bound twice"
                if node:
                    self.bound[uid] = node

    def _check_tasks(self) -> None:
        for task in self.tasks:
            if task.done():
                task.result()
                raise AssertionError("a part of the scheduler ended")

    async def _check_end(self) -> None:
        used: dict[str, int] = {}
        pods = await self._pods()
        for pod in pods:
            node = pod["spec"].get("nodeName", "")
            assert node, f"{pod['metadata']['name']} was forgotten: {self._tell(pod)}"
            cpu = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            used[node] = used.get(node, 0) + (int(cpu[:-1]) if cpu[-1] == "m" else 1000 * int(cpu))
        for node in msgspec.json.decode(await self.calm.list(NODES))["items"]:
            cpu = node["status"]["allocatable"]["cpu"]
            limit = int(cpu[:-1]) if cpu[-1] == "m" else 1000 * int(cpu)
            name = node["metadata"]["name"]
            assert used.get(name, 0) <= limit, f"{name} holds more than it has"

    def _tell(self, pod: dict) -> str:
        assert self.live is not None
        meta = pod["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        story = "; ".join(str(note) for note in self.live.core.story(key))
        return f"{self.live.core.place_of(key)}; {story}"

"""Beside one extender, Bayplan asking ahead decides as kube-scheduler, which asks in turn."""

import asyncio
from zlib import crc32

import msgspec
import pytest

from bayplan.client import connect, load_kubeconfig
from bayplan.client.resources import NODES, PODS, PRIORITY_CLASSES
from bayplan.extender import Extender
from bayplan.testing.servers import start_kube
from tests.extender.servers import serving
from tests.kube.test_extender import clean, pod, scheduler_config
from tests.waiting import until

pytestmark = [
    pytest.mark.kube,
    pytest.mark.xdist_group("kube"),
]
COUNT, NAMES = 16, "abcdefghij"


def liked(pod_name, names):
    """Nodes from the one that is liked best; no two are liked equally."""
    return sorted(names, key=lambda name: crc32(f"{pod_name}/{name}".encode()))


class Gate:
    """Lets nobody pass until two are there, once it is closed; the first few always pass."""

    def __init__(self):
        self.closed, self.seen, self.inside, self.together = False, 0, 0, asyncio.Event()

    async def __aenter__(self):
        self.seen += self.closed
        self.inside += 1
        if self.inside > 1:
            self.together.set()
        if self.seen > 3:
            async with asyncio.timeout(60):
                await self.together.wait()

    async def __aexit__(self, *_):
        self.inside -= 1


def choosy(gate):
    """Refuses one of five nodes, and has a favourite."""
    app = Extender(pairs=False, ahead=True)

    @app.filter
    async def some(pod, names):
        async with gate:
            pass
        return {n: "not here" for n in names if not crc32(f"{n}-{pod.metadata.name}".encode()) % 5}

    @app.prioritize
    def points(pod, names):
        order = liked(pod.metadata.name, names)
        return {name: max(10 - place, 0) for place, name in enumerate(order)}

    return app


async def placed(client):
    return {
        f"p{n}": (await until(client, PODS, f"p{n}", lambda pod: pod["spec"].get("nodeName")))[
            "spec"
        ]["nodeName"]
        for n in range(COUNT)
    }


async def fill(client):
    """Each node takes three of the pods, so where one goes matters to those behind it."""
    room = {"cpu": "3", "memory": "8Gi", "pods": "110"}
    for name in NAMES:
        ready = [{"type": "Ready", "status": "True"}]
        status = {"capacity": room, "allocatable": room, "conditions": ready}
        await client.create(NODES, {"metadata": {"name": name}, "status": status})
    for n in range(COUNT):
        body = pod(f"p{n}", "1", priorityClassName=f"rank-{n}", preemptionPolicy="Never")
        await client.create(PODS, body, "default")


@pytest.mark.parametrize("names", [True, False], ids=["names only", "whole objects"])
async def test_pods_go_where_kube_scheduler_puts_them(tmp_path, names):
    gate, found = Gate(), []
    with start_kube() as cluster, serving(choosy(gate)) as url:
        client = connect(load_kubeconfig(cluster.kubeconfig), qps=0)
        for n in range(COUNT):
            rank = {"metadata": {"name": f"rank-{n}"}, "value": 1000 - n}
            await client.create(PRIORITY_CLASSES, rank | {"preemptionPolicy": "Never"})
        config = scheduler_config(tmp_path, cluster, url, {}, weight=1000, nodeCacheCapable=names)
        for start in (cluster.kube_scheduler, cluster.bayplan_scheduler):
            await fill(client)
            gate.closed = start == cluster.bayplan_scheduler
            process = start(config)
            found.append(await placed(client))
            process.stop()
            await clean(client)
        await client.close()

    assert found[0] == found[1]
    assert gate.together.is_set()
    assert msgspec.json.encode(found[0]).count(b'"a"') <= 3

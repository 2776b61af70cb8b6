"""Simulated kubelets keep up with a thousand pods that start and stop every second."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bayplan.client import Change, Informer
from bayplan.client.resources import PODS
from bayplan.controllers.objects import Object
from tests.controllers.cluster import Cluster, cluster, pod_spec, virtual

PODS_A_SECOND = 1000
SECONDS = 2
LIFE = 1.0
LATENCY = 0.1  # what a simulated pod takes to start, and to stop, unless it is told


async def _live(made: Cluster, number: int, asked: dict[str, list[float]]) -> None:
    """Make a pod on its node and delete it a second later; note when."""
    loop = asyncio.get_running_loop()
    name = f"p-{number}"
    await asyncio.sleep(number / PODS_A_SECOND)
    asked[name] = [loop.time()]
    spec = pod_spec(nodeName=f"node-{number % 10}")
    await made.create(PODS, {"metadata": {"name": name}, "spec": spec})
    await asyncio.sleep(LIFE)
    asked[name].append(loop.time())
    await made.delete(PODS, name)


@pytest.mark.long
@virtual
async def test_a_thousand_pods_a_second_start_and_stop_in_time() -> None:
    async with cluster(nodes=10, options={"kubelet": {"lease-seconds": 0}}) as made:
        loop = asyncio.get_running_loop()
        asked: dict[str, list[float]] = {}
        running: dict[str, float] = {}
        gone: dict[str, float] = {}

        def note(changes: Sequence[Change[Object]]) -> None:
            for change in changes:
                name = change.new.metadata.name
                if change.type == "DELETED":
                    gone[name] = loop.time()
                elif change.new.status.get("phase") == "Running":
                    running.setdefault(name, loop.time())

        informer = Informer(made.client, PODS, Object)
        informer.add_handler(note)
        following = asyncio.create_task(informer.run())
        await made.settle(5)
        await asyncio.gather(*(_live(made, n, asked) for n in range(PODS_A_SECOND * SECONDS)))
        await made.settle(1)
        following.cancel()

        assert set(asked) == set(running) == set(gone)
        for seen, place in ((running, 0), (gone, 1)):
            late = max(seen[name] - asked[name][place] for name in asked)
            assert late < LATENCY + 0.05
        assert [] == await made.list(PODS)

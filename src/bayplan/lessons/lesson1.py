"""Lesson 1: a scheduler that tosses a coin.

A scheduler does one thing: for each pod without a node it chooses a node and writes the choice
down as a *binding*. Everything else is about choosing well. This one does not even try.
"""

import random

from bayplan.api import Pod
from bayplan.lessons.cluster import LessonCluster
from bayplan.lessons.stage import Stage


class Scheduler:
    """Takes pods one by one, first come first served, and binds each to a random node."""

    def __init__(self, cluster: LessonCluster, rng: random.Random) -> None:
        self.cluster = cluster
        self.rng = rng

    async def run(self) -> None:
        async for pod in self.cluster.unassigned_pods():
            await self.schedule_one(pod)

    async def schedule_one(self, pod: Pod) -> None:
        nodes = await self.cluster.nodes()
        if not nodes:
            self.cluster.say(f"pod {pod.metadata.name}: there are no nodes; it is dropped")
            return
        node = self.rng.choice(nodes)
        await self.cluster.bind(pod, node.name)


async def scenario(stage: Stage) -> None:
    """Ten nodes, one pod: it lands somewhere."""
    for number in range(10):
        await stage.create_node(f"node{number}")
    stage.say("scenario: all nodes created")
    await stage.create_pod("pod1")
    await stage.sleep(4)
    await stage.expect_bound("pod1")

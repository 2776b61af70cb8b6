"""Lesson 2: filter plugins say which nodes cannot run a pod.

Choosing begins with leaving out. A *filter plugin* looks at one pod and one node and returns None
(it fits) or a status with a reason. The plugin here is the real one of the full scheduler:
NodeUnschedulable rejects nodes that are cordoned. Reasons are counted and told to the user.
"""

import random
from collections import Counter

from bayplan.api import Pod
from bayplan.framework import CycleState, NodeFilterPlugin, NodeInfo
from bayplan.lessons.cluster import LessonCluster
from bayplan.lessons.stage import Stage
from bayplan.plugins.node_unschedulable import NodeUnschedulable


class Scheduler:
    """Filters, then chooses at random among the nodes that are left."""

    def __init__(self, cluster: LessonCluster, rng: random.Random) -> None:
        self.cluster = cluster
        self.rng = rng
        self.filters: list[NodeFilterPlugin[Pod, NodeInfo]] = [NodeUnschedulable()]

    async def run(self) -> None:
        async for pod in self.cluster.unassigned_pods():
            await self.schedule_one(pod)

    async def schedule_one(self, pod: Pod) -> None:
        nodes = await self.cluster.nodes()
        feasible, reasons = self.filter(pod, nodes)
        if not feasible:
            why = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
            self.cluster.say(
                f"pod {pod.metadata.name}: 0/{len(nodes)} nodes are available: {why or 'no nodes'}"
            )
            return
        await self.cluster.bind(pod, self.rng.choice(feasible).name)

    def filter(self, pod: Pod, nodes: list[NodeInfo]) -> tuple[list[NodeInfo], Counter[str]]:
        """Nodes outside, plugins inside; a node is out at the first plugin that rejects it."""
        feasible: list[NodeInfo] = []
        reasons: Counter[str] = Counter()
        for node in nodes:
            for plugin in self.filters:
                status = plugin.filter_node(CycleState(), pod, node)
                if status is not None:
                    reasons[status.message] += 1
                    break
            else:
                feasible.append(node)
        return feasible, reasons


async def scenario(stage: Stage) -> None:
    """Ten cordoned nodes and an open one: the pod always finds the open one."""
    for number in range(10):
        await stage.create_node(f"node{number}", unschedulable=True)
    await stage.create_node("node10")
    stage.say("scenario: all nodes created")
    await stage.create_pod("pod1")
    await stage.sleep(4)
    await stage.expect_bound("pod1", to="node10")

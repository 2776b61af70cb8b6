"""Lesson 4: pre-score plugins work once a pod, and the cycle state carries what they found.

Scoring runs for every node. What depends on the pod alone should be computed once: a *pre-score*
method does that and leaves the result in the *cycle state*, a small dictionary that lives as long
as this one attempt. NodeNumber now reads the pod's digit there.
"""

import random

from bayplan.api import Pod
from bayplan.framework import BoolArray, CycleState, NodeInfo, Nodes, Status
from bayplan.lessons.cluster import LessonCluster
from bayplan.lessons.stage import Stage
from bayplan.plugins.node_unschedulable import NodeUnschedulable


class NodeNumber:
    """Reads the pod's digit once, then scores 10 where the node ends in it."""

    name = "NodeNumber"
    KEY = "NodeNumber/digit"

    def pre_score(
        self, state: CycleState, pod: Pod, nodes: Nodes, feasible: BoolArray
    ) -> Status | None:
        self.remember(state, pod)
        return None

    def remember(self, state: CycleState, pod: Pod) -> None:
        last = pod.metadata.name[-1:]
        if last.isdigit():
            state.write(self.KEY, last)

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        wanted = state.get(self.KEY, str)  # None for a pod without a digit: no preference
        return 10 if wanted is not None and node.name.endswith(wanted) else 0


class Scheduler:
    """As in lesson 3, with one fresh state for every attempt."""

    def __init__(self, cluster: LessonCluster, rng: random.Random) -> None:
        self.cluster = cluster
        self.rng = rng
        self.filters = [NodeUnschedulable()]
        self.scores = [NodeNumber()]

    async def run(self) -> None:
        async for pod in self.cluster.unassigned_pods():
            await self.schedule_one(pod)

    async def schedule_one(self, pod: Pod) -> None:
        state = CycleState()
        nodes = [
            node
            for node in await self.cluster.nodes()
            if all(plugin.filter_node(state, pod, node) is None for plugin in self.filters)
        ]
        if not nodes:
            self.cluster.say(f"pod {pod.metadata.name}: no node fits")
            return
        for plugin in self.scores:
            plugin.remember(state, pod)
        await self.cluster.bind(pod, self.best(state, pod, nodes).name)

    def best(self, state: CycleState, pod: Pod, nodes: list[NodeInfo]) -> NodeInfo:
        totals = [sum(p.score_node(state, pod, node) for p in self.scores) for node in nodes]
        top = max(totals)
        return self.rng.choice([n for n, total in zip(nodes, totals, strict=True) if total == top])


async def scenario(stage: Stage) -> None:
    """The same as lesson 3, and a pod without a digit, which must not fail."""
    for number in range(10):
        await stage.create_node(f"node{number}")
    stage.say("scenario: all nodes created")
    for pod in ("pod1", "pod3", "pod-x"):
        await stage.create_pod(pod)
    await stage.sleep(4)
    await stage.expect_bound("pod1", to="node1")
    await stage.expect_bound("pod3", to="node3")
    await stage.expect_bound("pod-x")

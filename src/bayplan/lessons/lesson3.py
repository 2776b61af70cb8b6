"""Lesson 3: score plugins say which of the remaining nodes is best.

A *score plugin* gives a node a number. Numbers of all plugins are added up and the highest total
wins; equal totals are decided by chance. NodeNumber is a plugin of your own: it likes a node whose
name ends in the same digit as the pod's.
"""

import random

from bayplan.api import Pod
from bayplan.framework import (
    CycleState,
    NodeFilterPlugin,
    NodeInfo,
    NodeScorePlugin,
)
from bayplan.lessons.cluster import LessonCluster
from bayplan.lessons.stage import Stage
from bayplan.plugins.node_unschedulable import NodeUnschedulable


class NodeNumber:
    """Score 10 where pod and node end in the same digit, 0 elsewhere."""

    name = "NodeNumber"

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        wanted, digit = pod.metadata.name[-1:], node.name[-1:]
        return 10 if wanted.isdigit() and wanted == digit else 0


class Scheduler:
    """Filters, scores, takes the best."""

    def __init__(self, cluster: LessonCluster, rng: random.Random) -> None:
        self.cluster = cluster
        self.rng = rng
        self.filters: list[NodeFilterPlugin[Pod, NodeInfo]] = [NodeUnschedulable()]
        self.scores: list[NodeScorePlugin[Pod, NodeInfo]] = [NodeNumber()]

    async def run(self) -> None:
        async for pod in self.cluster.unassigned_pods():
            await self.schedule_one(pod)

    async def schedule_one(self, pod: Pod) -> None:
        nodes = self.filter(pod, await self.cluster.nodes())
        if not nodes:
            self.cluster.say(f"pod {pod.metadata.name}: no node fits")
            return
        node = self.select(self.score(pod, nodes))
        await self.cluster.bind(pod, node.name)

    def filter(self, pod: Pod, nodes: list[NodeInfo]) -> list[NodeInfo]:
        state = CycleState()
        return [
            node
            for node in nodes
            if all(plugin.filter_node(state, pod, node) is None for plugin in self.filters)
        ]

    def score(self, pod: Pod, nodes: list[NodeInfo]) -> list[tuple[int, NodeInfo]]:
        """The total of all plugins, by node."""
        state = CycleState()
        return [
            (sum(plugin.score_node(state, pod, node) for plugin in self.scores), node)
            for node in nodes
        ]

    def select(self, scored: list[tuple[int, NodeInfo]]) -> NodeInfo:
        """The best node; among equals each has the same chance."""
        best = max(score for score, _ in scored)
        return self.rng.choice([node for score, node in scored if score == best])


async def scenario(stage: Stage) -> None:
    """Ten nodes, pod1 and pod3: each goes to the node of its number."""
    for number in range(10):
        await stage.create_node(f"node{number}")
    stage.say("scenario: all nodes created")
    for pod in ("pod1", "pod3"):
        await stage.create_pod(pod)
    await stage.sleep(4)
    await stage.expect_bound("pod1", to="node1")
    await stage.expect_bound("pod3", to="node3")

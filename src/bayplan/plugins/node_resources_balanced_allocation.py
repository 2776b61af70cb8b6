"""Prefers nodes on which the pod makes the use of resources more even.

A node's balance is one minus the standard deviation of its utilisations; the score is how much the
pod improves it, around 75 for no change. Floats are combined in the order that kube-scheduler uses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bayplan.api import Pod
from bayplan.api.requests import is_scalar
from bayplan.config import NodeResourcesBalancedAllocationArgs
from bayplan.framework import (
    MAX_SCORE,
    SKIP,
    BoolArray,
    CycleState,
    Depends,
    Handle,
    IntArray,
    NodeInfo,
    Nodes,
    Status,
)
from bayplan.framework.resources import resource_id

NAME = "NodeResourcesBalancedAllocation"
_WANTED = f"{NAME}/wanted"

FloatArray = npt.NDArray[np.float64]
Wanted = tuple[tuple[int, int], ...]
"""(resource id, what the pod asks)."""


class NodeResourcesBalancedAllocation:
    """Score: change of balance that the pod brings."""

    name = NAME

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        self._handle = handle
        self._resources = tuple((item.name, resource_id(item.name)) for item in args.resources)

    def depends_on(self, pod: Pod) -> Depends:
        return Depends.USAGE

    def pre_score(
        self, state: CycleState, pod: Pod, nodes: Nodes, feasible: BoolArray
    ) -> Status | None:
        used = self._handle.info(pod, state).traits.resources.used
        asked = [(name, number, used.get(name, 0)) for name, number in self._resources]
        if not any(amount for _, _, amount in asked):
            return SKIP
        kept = tuple((n, amount) for name, n, amount in asked if amount or not is_scalar(name))
        state.write(_WANTED, kept)
        return None

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntArray:
        wanted: Wanted = state.read(_WANTED)
        before: list[FloatArray] = []
        after: list[FloatArray] = []
        for resource, amount in wanted:
            offered = nodes.allocatable(resource)
            used = nodes.requested(resource)
            if not offered.all():
                return self._by_row(state, pod, nodes)
            before.append(np.minimum(used / offered, 1.0))
            after.append(np.minimum((used + amount) / offered, 1.0))
        return 50 + (50 + _balance(after, nodes.count) - _balance(before, nodes.count)) // 2

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        wanted: Wanted = state.read(_WANTED)
        before: list[float] = []
        after: list[float] = []
        allocatable, requested = node.allocatable, node.requested
        for resource, amount in wanted:
            offered = allocatable[resource] if resource < len(allocatable) else 0
            if offered:
                used = requested[resource] if resource < len(requested) else 0
                before.append(min(used / offered, 1.0))
                after.append(min((used + amount) / offered, 1.0))
        return 50 + (50 + _balance_one(after) - _balance_one(before)) // 2

    def _by_row(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntArray:
        # Nodes that lack a resource have fewer fractions; such tables are rare and small.
        scores = (self.score_node(state, pod, nodes.info(i)) for i in range(nodes.count))
        return np.fromiter(scores, dtype=np.int64, count=nodes.count)


def _balance(fractions: Sequence[FloatArray], count: int) -> IntArray:
    if len(fractions) < 2:
        return np.full(count, MAX_SCORE, dtype=np.int64)
    if len(fractions) == 2:
        deviation: FloatArray = np.abs((fractions[0] - fractions[1]) / 2)
    else:
        total = np.zeros(count)
        for fraction in fractions:
            total = total + fraction
        mean = total / len(fractions)
        squares = np.zeros(count)
        for fraction in fractions:
            squares = squares + (fraction - mean) * (fraction - mean)
        deviation = np.sqrt(squares / len(fractions))
    return ((1 - deviation) * MAX_SCORE).astype(np.int64)


def _balance_one(fractions: Sequence[float]) -> int:
    if len(fractions) < 2:
        return MAX_SCORE
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    else:
        total = 0.0
        for fraction in fractions:
            total += fraction
        mean = total / len(fractions)
        squares = 0.0
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / len(fractions))
    return int((1 - deviation) * MAX_SCORE)


def new(
    args: NodeResourcesBalancedAllocationArgs | None, handle: Handle
) -> NodeResourcesBalancedAllocation:
    return NodeResourcesBalancedAllocation(args or NodeResourcesBalancedAllocationArgs(), handle)

"""Prefers nodes on which the pod makes the use of resources more even.

A node's balance is one minus the standard deviation of its utilisations; the score is how much the
pod improves it, around 75 for no change. Floats are combined in the order that kube-scheduler uses.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from bayplan.api import Pod
from bayplan.api.requests import is_scalar
from bayplan.cluster.resources import resource_id
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
from bayplan.plugins.dynamic_resources.scored import DeviceResources

NAME = "NodeResourcesBalancedAllocation"
_WANTED = f"{NAME}/wanted"

FloatArray = npt.NDArray[np.float64]
Wanted = tuple[tuple[int, int], ...]
"""(resource id, what the pod asks)."""
WantedServed = tuple[Wanted, tuple[int, ...]]
"""What is scored, and which of it devices may count for."""


class NodeResourcesBalancedAllocation:
    """Score: change of balance that the pod brings."""

    name = NAME

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        self._handle = handle
        self._resources = tuple((item.name, resource_id(item.name)) for item in args.resources)
        self._devices = DeviceResources(handle)

    def depends_on(self, pod: Pod) -> Depends:
        return Depends.CLUSTER if self._served(self._asked(None, pod)) else Depends.SUMS

    def facet(self, state: CycleState, pod: Pod) -> Hashable:
        asked = self._asked(state, pod)
        return asked, self._served(asked)

    def facet_revision(self) -> Hashable:
        return self._devices.revision

    def _asked(self, state: CycleState | None, pod: Pod) -> tuple[int, ...]:
        """What the pod asks of each resource."""
        used = self._handle.info(pod, state).traits.resources.used
        return tuple([used.get(name, 0) for name, _ in self._resources])

    def _served(self, asked: tuple[int, ...]) -> tuple[int, ...]:
        """The resources that devices count for."""
        pairs = zip(self._resources, asked, strict=True)
        return self._devices.served(number for (_, number), amount in pairs if amount)

    def pre_score(
        self, state: CycleState, pod: Pod, nodes: Nodes, feasible: BoolArray
    ) -> Status | None:
        found = self._wanted_served(state, pod)
        if found is None:
            return SKIP
        state.write(_WANTED, found)
        return None

    def _wanted_served(self, state: CycleState, pod: Pod) -> WantedServed | None:
        """What is scored; None for a pod that asks for nothing."""
        asked = self._asked(state, pod)
        if not any(asked):
            return None
        pairs = zip(self._resources, asked, strict=True)
        kept = tuple((n, amount) for (name, n), amount in pairs if amount or not is_scalar(name))
        return kept, self._served(asked)

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntArray:
        both: WantedServed | None = state.get(_WANTED) or self._wanted_served(state, pod)
        if both is None:  # PreScore, which would have skipped the pod, is off
            return np.zeros(nodes.count, dtype=np.int64)
        wanted, served = both
        if served:
            each = (self.score_node(state, pod, nodes.info(row)) for row in range(nodes.count))
            return np.fromiter(each, dtype=np.int64, count=nodes.count)
        offered = np.array([nodes.allocatable(resource) for resource, _ in wanted])  # (R, N)
        if np.count_nonzero(offered) < offered.size:
            return _with_gaps(wanted, nodes, offered)
        used = np.array([nodes.requested(resource) for resource, _ in wanted])  # (R, N)
        asked = np.array([[amount] for _, amount in wanted], dtype=np.int64)
        return _change(used, asked, offered)

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        both: WantedServed | None = state.get(_WANTED) or self._wanted_served(state, pod)
        if both is None:
            return 0
        wanted, served = both
        if served:
            node = self._devices.on(node, served)
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


def _with_gaps(wanted: Wanted, nodes: Nodes, offered: IntArray) -> IntArray:
    """Nodes that lack a resource have fewer fractions: rows are taken by which they have."""
    scores = np.empty(nodes.count, dtype=np.int64)
    kinds, which = np.unique(offered != 0, axis=1, return_inverse=True)  # (R, kinds), (N,)
    for kind in range(kinds.shape[1]):
        rows = np.flatnonzero(which == kind)
        some = [item for item, has in zip(wanted, kinds[:, kind].tolist(), strict=True) if has]
        used = np.array([nodes.requested(resource)[rows] for resource, _ in some], dtype=np.int64)
        asked = np.array([[amount] for _, amount in some], dtype=np.int64)
        there = offered[:, rows][kinds[:, kind]]  # (those it has, rows)
        scores[rows] = _change(used.reshape(there.shape), asked.reshape(-1, 1), there)
    return scores


def _change(used: IntArray, asked: IntArray, offered: IntArray) -> IntArray:
    """The score of each row (N,), from use and offer (R, N) and what the pod asks (R, 1)."""
    shares = np.empty((2, *used.shape))  # (before and after, R, N)
    np.divide(used, offered, out=shares[0])
    np.divide(used + asked, offered, out=shares[1])
    np.minimum(shares, 1.0, out=shares)
    balance = _balance(shares)  # (2, N)
    change: IntArray = balance[1] - balance[0]
    return 50 + (50 + change) // 2


def _balance(shares: FloatArray) -> IntArray:
    """One minus the standard deviation over resources, in percent; (variants, R, N) to (.., N)."""
    variants, resources, rows = shares.shape
    if resources < 2:
        return np.full((variants, rows), MAX_SCORE, dtype=np.int64)
    if resources == 2:
        deviation: FloatArray = np.abs((shares[:, 0] - shares[:, 1]) / 2)
    else:
        total = np.zeros((variants, rows))
        for place in range(resources):
            total = total + shares[:, place]
        mean = total / resources
        squares = np.zeros((variants, rows))
        for place in range(resources):
            squares = squares + (shares[:, place] - mean) * (shares[:, place] - mean)
        deviation = np.sqrt(squares / resources)
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

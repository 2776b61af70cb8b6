"""How full a node would be, as a score: least allocated, most allocated, or by a shape.

Each strategy scores resource by resource in whole numbers and then takes the weighted mean, so the
table form and the scalar form truncate at the same places. A resource that a node does not offer,
or an extended one that the pod does not ask for, is left out for that node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np

from bayplan.cluster.resources import CPU_ID, MEMORY_ID
from bayplan.config import NodeResourcesFitArgs
from bayplan.config.args import ScoringStrategyType, UtilizationShapePoint
from bayplan.errors import ConfigError
from bayplan.framework import MAX_SCORE, IntArray, NodeInfo, Nodes

MAX_CUSTOM_SCORE = 10


class Wanted(msgspec.Struct, frozen=True, gc=False):
    """A resource to score: its id, its weight, and what the pod asks of it."""

    resource: int
    weight: int
    request: int


class Strategy(Protocol):
    """Turns use and offer of one resource into 0..100, and these into a node's score."""

    skip_zero: bool
    """Whether resources that score 0 are left out of the mean."""

    def column(self, asked: IntArray, offered: IntArray) -> IntArray:
        """Table form; `offered` is nowhere 0."""

    def single(self, asked: int, offered: int) -> int:
        """Scalar form; `offered` is not 0."""


class LeastAllocated:
    """The emptier, the better."""

    skip_zero = False

    def column(self, asked: IntArray, offered: IntArray) -> IntArray:
        free: IntArray = np.maximum(offered - asked, 0)
        return free * MAX_SCORE // offered

    def single(self, asked: int, offered: int) -> int:
        return 0 if asked > offered else (offered - asked) * MAX_SCORE // offered


class MostAllocated:
    """The fuller, the better."""

    skip_zero = False

    def column(self, asked: IntArray, offered: IntArray) -> IntArray:
        return np.minimum(asked, offered) * MAX_SCORE // offered

    def single(self, asked: int, offered: int) -> int:
        return min(asked, offered) * MAX_SCORE // offered


class RequestedToCapacityRatio:
    """A score for each utilisation, by a shape of straight lines."""

    skip_zero = True

    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        if not shape:
            raise ConfigError("RequestedToCapacityRatio needs a shape with at least one point")
        scale = MAX_SCORE // MAX_CUSTOM_SCORE
        points = [(point.utilization, point.score * scale) for point in shape]
        self._scores = np.array([piecewise(points, u) for u in range(101)], dtype=np.int64)

    def column(self, asked: IntArray, offered: IntArray) -> IntArray:
        used = np.where(asked > offered, 100, asked * 100 // offered)
        return self._scores[used]

    def single(self, asked: int, offered: int) -> int:
        return int(self._scores[100 if asked > offered else asked * 100 // offered])


def piecewise(points: Sequence[tuple[int, int]], at: int) -> int:
    """The value of a function of straight lines, truncated towards the left point as in Go."""
    for place, (x, y) in enumerate(points):
        if at <= x:
            if place == 0:
                return y
            left_x, left_y = points[place - 1]
            rise, run = (y - left_y) * (at - left_x), x - left_x
            return left_y + (abs(rise) // run) * (1 if rise >= 0 else -1)
    return points[-1][1]


def make_strategy(args: NodeResourcesFitArgs) -> Strategy:
    """The strategy that the configuration names."""
    strategy = args.scoring_strategy
    kind = strategy.type or ScoringStrategyType.LEAST_ALLOCATED
    if kind == ScoringStrategyType.LEAST_ALLOCATED:
        return LeastAllocated()
    if kind == ScoringStrategyType.MOST_ALLOCATED:
        return MostAllocated()
    if kind == ScoringStrategyType.REQUESTED_TO_CAPACITY_RATIO:
        param = strategy.requested_to_capacity_ratio
        return RequestedToCapacityRatio(param.shape if param is not None else ())
    raise ConfigError(f'scoringStrategy.type: "{kind}" is not a strategy')


def score_table(strategy: Strategy, wanted: Sequence[Wanted], nodes: Nodes) -> IntArray:
    """The weighted mean over resources, for every row."""
    if wanted and not strategy.skip_zero:
        offers = np.array([nodes.allocatable(item.resource) for item in wanted])  # (R, N)
        if np.count_nonzero(offers) == offers.size:
            return _score_plain(strategy, wanted, nodes, offers)
    return _score_with_gaps(strategy, wanted, nodes)


def _score_plain(
    strategy: Strategy, wanted: Sequence[Wanted], nodes: Nodes, offers: IntArray
) -> IntArray:
    """All nodes offer all resources: one pass over a stack of columns."""
    asked = np.array([_used(nodes, item.resource) for item in wanted])  # (R, N)
    asked += np.array([[item.request] for item in wanted], dtype=np.int64)
    scores = strategy.column(asked, offers)  # (R, N)
    weights = [item.weight for item in wanted]
    if any(weight != 1 for weight in weights):
        scores = scores * np.array(weights, dtype=np.int64)[:, None]
    total: IntArray = np.add.reduce(scores)  # (N,)
    return total // sum(weights)


def _score_with_gaps(strategy: Strategy, wanted: Sequence[Wanted], nodes: Nodes) -> IntArray:
    """Some node lacks a resource, or zero scores are left out: weights differ by row."""
    total: IntArray | None = None
    weights: IntArray | int = 0
    for item in wanted:
        offered = nodes.allocatable(item.resource)
        asked = _used(nodes, item.resource) + item.request
        counted: IntArray | int = item.weight
        if offered.all():
            scores = strategy.column(asked, offered)
        else:
            lacking = offered == 0
            scores = strategy.column(asked, np.where(lacking, 1, offered))
            scores[lacking] = 0
            counted = np.where(lacking, 0, item.weight)
        if strategy.skip_zero:
            counted = np.where(scores > 0, counted, 0)
        if item.weight != 1:
            scores = scores * item.weight
        total = scores if total is None else total + scores
        weights = weights + counted
    if total is None:
        return np.zeros(nodes.count, dtype=np.int64)
    return _mean(strategy, total, weights)


def score_one(strategy: Strategy, wanted: Sequence[Wanted], node: NodeInfo) -> int:
    """The weighted mean over resources, for one node."""
    total = weights = 0
    allocatable, requested = node.allocatable, node.requested
    for item in wanted:
        number = item.resource
        offered = allocatable[number] if number < len(allocatable) else 0
        if offered == 0:
            continue
        if number == CPU_ID:
            used = node.nonzero_cpu
        elif number == MEMORY_ID:
            used = node.nonzero_memory
        else:
            used = requested[number]
        score = strategy.single(used + item.request, offered)
        if score > 0 or not strategy.skip_zero:
            total += score * item.weight
            weights += item.weight
    if weights == 0:
        return 0
    return _round_half_up(total, weights) if strategy.skip_zero else total // weights


def score_together(wanted: Sequence[Wanted], nodes: Nodes) -> int:
    """How full nodes are together, whatever the strategy for one node is."""
    strategy = MostAllocated()
    total = weights = 0
    for item in wanted:
        offered = nodes.allocatable(item.resource)  # (N,)
        used = _used(nodes, item.resource)[offered != 0]
        if len(used):
            asked = int(used.sum()) + item.request
            total += strategy.single(asked, int(offered.sum())) * item.weight
            weights += item.weight
    return total // weights if weights else 0


def _mean(strategy: Strategy, total: IntArray, weights: IntArray | int) -> IntArray:
    if isinstance(weights, int):
        return total // weights
    some: IntArray = np.maximum(weights, 1)
    if not strategy.skip_zero:
        return total // some
    exact = total.astype(np.float64) / some.astype(np.float64)
    whole = np.trunc(exact)
    whole += exact - whole >= 0.5
    return whole.astype(np.int64)


def _round_half_up(total: int, weights: int) -> int:
    exact = float(total) / float(weights)
    whole = int(exact)
    return whole + (exact - whole >= 0.5)


def _used(nodes: Nodes, resource: int) -> IntArray:
    if resource == CPU_ID:
        return nodes.nonzero_cpu
    if resource == MEMORY_ID:
        return nodes.nonzero_memory
    return nodes.requested(resource)

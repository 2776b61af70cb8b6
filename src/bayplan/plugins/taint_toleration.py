"""Keeps pods off tainted nodes, and prefers nodes with fewer taints of the soft kind.

Lists of taints are numbered by the table, so each distinct list is looked at once per class of
pods.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from bayplan.api import Node, Object, Pod, Taint, Toleration
from bayplan.api.taints import PREFER_NO_SCHEDULE, first_untolerated, tolerated
from bayplan.cluster.selection import taint_lookup
from bayplan.framework import (
    ActionType,
    BoolArray,
    ClusterEventWithHint,
    Code,
    CycleState,
    Depends,
    Handle,
    IntArray,
    NodeInfo,
    Nodes,
    QueueingHint,
    Resource,
    Status,
    Verdict,
    default_normalize,
    on,
    unresolvable,
)
from bayplan.plugins.hints import hint, is_this_pod

NAME = "TaintToleration"
REASON = "node(s) had untolerated taint(s)"
_REJECTED = unresolvable(REASON)


class TaintToleration:
    """Filter: NoSchedule and NoExecute taints. Score: fewer untolerated PreferNoSchedule taints."""

    name = NAME
    class_hint = True
    score_needs = ("preScore", f'failed to read "PreScore{NAME}" from cycleState: not found')

    def __init__(self, comparisons: bool = False) -> None:
        self._comparisons = comparisons

    def depends_on(self, pod: Pod) -> Depends:
        return Depends.NODE

    def facet(self, state: CycleState, pod: Pod) -> Hashable:
        return pod.spec.tolerations

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        repelled = taint_lookup(nodes, pod.spec.tolerations, self._comparisons)  # (taint sets,)
        if not repelled.any():
            return Verdict.all_pass(nodes)
        mask = ~repelled[nodes.taint_sets]  # (N,)
        return Verdict(mask, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return _REJECTED if self._repels(node.node, pod) else None

    def pre_score(
        self, state: CycleState, pod: Pod, nodes: Nodes, feasible: BoolArray
    ) -> Status | None:
        return None

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntArray:
        kept = _soft(pod)
        counts = [self._count(taints, kept) for taints in nodes.table.taints]
        return np.array(counts, dtype=np.int64)[nodes.taint_sets]  # (N,)

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return self._count(node.node.spec.taints, _soft(pod))

    def normalize(
        self, state: CycleState, pod: Pod, scores: IntArray, feasible: BoolArray
    ) -> IntArray:
        return default_normalize(scores, feasible, reverse=True)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        changed = ActionType.ADD | ActionType.UPDATE_NODE_TAINT
        return (
            on(Resource.NODE, changed, self._node_lets_in),
            on(Resource.POD, ActionType.UPDATE_POD_TOLERATION, is_this_pod),
        )

    def _count(self, taints: Sequence[Taint], kept: tuple[Toleration, ...]) -> int:
        return sum(
            taint.effect == PREFER_NO_SCHEDULE
            and not tolerated(kept, taint, comparisons=self._comparisons)
            for taint in taints
        )

    def _repels(self, node: Node, pod: Pod) -> bool:
        taints = node.spec.taints
        if not taints:
            return False
        found = first_untolerated(taints, pod.spec.tolerations, comparisons=self._comparisons)
        return found is not None

    def _node_lets_in(self, pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
        assert isinstance(new, Node)
        was_closed = not isinstance(old, Node) or self._repels(old, pod)
        opened = was_closed and not self._repels(new, pod)
        return hint(opened)


def _soft(pod: Pod) -> tuple[Toleration, ...]:
    return tuple(t for t in pod.spec.tolerations if t.effect in ("", PREFER_NO_SCHEDULE))


def new(args: None, handle: Handle) -> TaintToleration:
    return TaintToleration(handle.gates["TaintTolerationComparisonOperators"])

"""Rejects nodes that are cordoned, unless the pod tolerates the taint that says so.

Looks at `spec.unschedulable` alone; whether the taint is really there is TaintToleration's matter.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from bayplan.api import Node, Object, Pod
from bayplan.api.taints import UNSCHEDULABLE, tolerated
from bayplan.framework import (
    ActionType,
    ClusterEventWithHint,
    Code,
    CycleState,
    Depends,
    Handle,
    NodeInfo,
    Nodes,
    QueueingHint,
    Resource,
    Status,
    Verdict,
    on,
    unresolvable,
)
from bayplan.plugins.hints import hint

NAME = "NodeUnschedulable"
REASON = "node(s) were unschedulable"
_REJECTED = unresolvable(REASON)


class NodeUnschedulable:
    """Filter: `spec.unschedulable` of the node must be false or tolerated."""

    name = NAME
    class_hint = True

    def __init__(self, comparisons: bool = False) -> None:
        self._comparisons = comparisons

    def depends_on(self, pod: Pod) -> Depends:
        return Depends.NODE

    def facet(self, state: CycleState, pod: Pod) -> Hashable:
        return pod.spec.tolerations

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        cordoned = nodes.unschedulable
        if not cordoned.any() or self._tolerates(pod):
            return Verdict.all_pass(nodes)
        return Verdict(~cordoned, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if not node.node.spec.unschedulable or self._tolerates(pod):
            return None
        return _REJECTED

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        changed = ActionType.ADD | ActionType.UPDATE_NODE_TAINT
        return (
            on(Resource.NODE, changed, self._node_opened),
            on(Resource.POD, ActionType.UPDATE_POD_TOLERATION, self._pod_tolerates),
        )

    def _tolerates(self, pod: Pod) -> bool:
        return tolerated(pod.spec.tolerations, UNSCHEDULABLE, comparisons=self._comparisons)

    def _node_opened(self, pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
        assert isinstance(new, Node)
        was_closed = not isinstance(old, Node) or old.spec.unschedulable
        return hint(was_closed and not new.spec.unschedulable)

    def _pod_tolerates(self, pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
        return hint(isinstance(new, Pod) and new.uid == pod.uid and self._tolerates(new))


def new(args: None, handle: Handle) -> NodeUnschedulable:
    return NodeUnschedulable(handle.gates["TaintTolerationComparisonOperators"])

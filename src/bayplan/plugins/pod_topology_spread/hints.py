"""Which events may let a pod in that spread constraints kept out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bayplan.api import Node, Object, Pod
from bayplan.framework import ActionType, ClusterEventWithHint, QueueingHint, Resource, on
from bayplan.plugins.hints import hint
from bayplan.plugins.pod_topology_spread.constraints import Constraint, Constraints


class SpreadHints:
    """The events of PodTopologySpread; only hard constraints matter."""

    def __init__(self, constraints: Callable[[Pod], Constraints]) -> None:
        self._constraints = constraints

    def events(self) -> Sequence[ClusterEventWithHint]:
        pods = (
            ActionType.ADD
            | ActionType.UPDATE_POD_LABEL
            | ActionType.UPDATE_POD_TOLERATION
            | ActionType.DELETE
        )
        nodes = (
            ActionType.ADD
            | ActionType.DELETE
            | ActionType.UPDATE_NODE_LABEL
            | ActionType.UPDATE_NODE_TAINT
        )
        return (
            on(Resource.POD, pods, self._pod_changed),
            on(Resource.NODE, nodes, self._node_changed),
        )

    def _pod_changed(self, pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
        before = old if isinstance(old, Pod) else None
        after = new if isinstance(new, Pod) else None
        seen = [item for item in (after, before) if item is not None]
        if not any(self._concerns(pod, item) for item in seen):
            return QueueingHint.SKIP
        hard = self._constraints(pod).hard
        if before is not None and after is not None:
            return hint(_update_matters(pod, before, after, hard))
        labels = seen[0].metadata.labels
        return hint(any(item.selector.matches(labels) for item in hard))

    @staticmethod
    def _concerns(pod: Pod, other: Pod) -> bool:
        if other.uid == pod.uid:
            return True
        placed = bool(other.spec.node_name or other.status.nominated_node_name)
        return placed and other.metadata.namespace == pod.metadata.namespace

    def _node_changed(self, pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
        hard = self._constraints(pod).hard
        before = isinstance(old, Node) and _has_keys(old, hard)
        after = isinstance(new, Node) and _has_keys(new, hard)
        if not (isinstance(old, Node) and isinstance(new, Node)):
            return hint(before or after)
        if before != after:
            return QueueingHint.QUEUE
        moved = any(
            old.metadata.labels.get(item.key) != new.metadata.labels.get(item.key) for item in hard
        )
        return hint(after and (moved or old.spec.taints != new.spec.taints))


def _update_matters(pod: Pod, before: Pod, after: Pod, hard: Sequence[Constraint]) -> bool:
    tolerates = after.uid == pod.uid and before.spec.tolerations != after.spec.tolerations
    if tolerates and any(item.honor_taints for item in hard):
        return True
    old, new = before.metadata.labels, after.metadata.labels
    if old == new:
        return False
    return any(item.selector.matches(old) != item.selector.matches(new) for item in hard)


def _has_keys(node: Node, hard: Sequence[Constraint]) -> bool:
    return all(item.key in node.metadata.labels for item in hard)

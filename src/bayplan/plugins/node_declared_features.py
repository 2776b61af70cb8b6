"""Matches features that a pod needs of its kubelet with those that the node declares.

Which features a pod needs follows from its spec. Features that cannot follow from a new pod's spec
(in-place resizes, for one) are not looked for, and unknown names on nodes are ignored.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from bayplan.api import Node, Object, Pod
from bayplan.framework import (
    SKIP,
    ActionType,
    ClusterEventWithHint,
    CycleState,
    Depends,
    Handle,
    NodeInfo,
    Nodes,
    PreFilterResult,
    QueueingHint,
    Resource,
    Status,
    Verdict,
    on,
    unresolvable,
)
from bayplan.plugins.hints import hint

NAME = "NodeDeclaredFeatures"
REASON = "node(s) didn't match Pod's required features"
RESTART_ALL = "RestartAllContainersOnContainerExits"
USER_NAMESPACES = "UserNamespacesHostNetworkSupport"
_REJECTED = unresolvable(REASON)


def required_features(pod: Pod) -> frozenset[str]:
    """The features that a pod cannot run without."""
    spec = pod.spec
    found: set[str] = set()
    for container in spec.containers + spec.init_containers:
        if any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules):
            found.add(RESTART_ALL)
    if spec.host_network and spec.host_users is False:
        found.add(USER_NAMESPACES)
    return frozenset(found)


class NodeDeclaredFeatures:
    """Filter: the node declares every feature that the pod needs."""

    name = NAME
    class_hint = True

    def depends_on(self, pod: Pod) -> Depends:
        return Depends.NODE

    def facet(self, state: CycleState, pod: Pod) -> Hashable:
        return required_features(pod)

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Nodes
    ) -> tuple[PreFilterResult | None, Status | None]:
        required = required_features(pod)
        if not required:
            return None, SKIP
        state.write(NAME, required)
        return None, None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        required: frozenset[str] = state.read(NAME)
        all_nodes = nodes.table.nodes
        mask = np.fromiter(
            (
                required.issubset(all_nodes[row].status.declared_features)
                for row in nodes.rows.tolist()
            ),
            dtype=bool,
            count=nodes.count,
        )  # (N,)
        return Verdict(mask, _REJECTED.code, REASON)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        required: frozenset[str] = state.read(NAME)
        return None if required.issubset(node.node.status.declared_features) else _REJECTED

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        changed = ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
        return (
            on(Resource.NODE, changed, _node_changed),
            on(Resource.POD, ActionType.UPDATE, _pod_changed),
        )


def _node_changed(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    if isinstance(old, Node) and isinstance(new, Node):
        same = old.status.declared_features == new.status.declared_features
        return hint(not same)
    return QueueingHint.QUEUE


def _pod_changed(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    if not isinstance(old, Pod) or not isinstance(new, Pod) or new.uid != pod.uid:
        return QueueingHint.SKIP
    changed = required_features(old) != required_features(new)
    return hint(changed)


def new(args: None, handle: Handle) -> NodeDeclaredFeatures:
    return NodeDeclaredFeatures()

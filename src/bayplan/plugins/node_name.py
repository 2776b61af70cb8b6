"""Rejects nodes whose name differs from the one the pod asks for.

Works on the whole node table at once: a pod that names a node leaves at most one bit set.
It does not check that the node exists or is ready; other plugins do.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from bayplan.api import Pod
from bayplan.framework import (
    ActionType,
    ClusterEventWithHint,
    Code,
    CycleState,
    Depends,
    Handle,
    NodeInfo,
    Nodes,
    Resource,
    Status,
    Verdict,
    on,
    unresolvable,
)

NAME = "NodeName"
REASON = "node(s) didn't match the requested node name"


class NodeName:
    """Filter: `spec.nodeName`, when set, must equal the node's name."""

    name = NAME
    class_hint = True

    def depends_on(self, pod: Pod) -> Depends:
        return Depends.NODE

    def facet(self, state: CycleState, pod: Pod) -> Hashable:
        return pod.spec.node_name

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        wanted = pod.spec.node_name
        if not wanted:
            return Verdict.all_pass(nodes)
        row = nodes.table.row_of(wanted)
        mask = np.zeros(nodes.count, dtype=bool) if row is None else nodes.rows == row  # (N,)
        return Verdict(mask, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        wanted = pod.spec.node_name
        return unresolvable(REASON) if wanted and wanted != node.name else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (on(Resource.NODE, ActionType.ADD),)


def new(args: None, handle: Handle) -> NodeName:
    return NodeName()

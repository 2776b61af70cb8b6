"""Rejects nodes on which a host port that the pod wants is taken.

The table keeps, for each protocol and port in use, the rows and addresses that use it: a pod with
host ports looks only at those rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from bayplan.api import Object, Pod
from bayplan.cluster.info import ANY_IP, Port, host_ports, ports_conflict
from bayplan.framework import (
    SKIP,
    ActionType,
    ClusterEventWithHint,
    CycleState,
    Depends,
    Handle,
    NodeInfo,
    Nodes,
    NodeTable,
    PreFilterResult,
    QueueingHint,
    Resource,
    Status,
    Verdict,
    on,
    unschedulable,
)
from bayplan.plugins.hints import hint

NAME = "NodePorts"
REASON = "node(s) didn't have free ports for the requested pod ports"
_REJECTED = unschedulable(REASON)


class NodePorts:
    """Filter: host ports of the pod must be free on the node."""

    name = NAME
    class_hint = True

    def depends_on(self, pod: Pod) -> Depends:
        return Depends.USAGE

    def facet(self, state: CycleState, pod: Pod) -> Hashable:
        return host_ports(pod) if state.info is None else state.info.traits.ports

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Nodes
    ) -> tuple[PreFilterResult | None, Status | None]:
        wanted = host_ports(pod)
        if not wanted:
            return None, SKIP
        state.write(NAME, wanted)
        return None, None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        table = nodes.table
        taken = [row for port in _wanted(state, pod) for row in _rows_with(table, port)]
        if not taken:
            return Verdict.all_pass(nodes)
        mask = np.ones(table.count, dtype=bool)  # (full table,)
        mask[taken] = False
        picked = nodes.pick(mask).astype(bool, copy=False)
        return Verdict(picked, _REJECTED.code, REASON)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        used = node.used_ports
        for port in _wanted(state, pod):
            for other in used:
                if ports_conflict(port, other):
                    return _REJECTED
        return None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            on(Resource.POD, ActionType.DELETE, _frees_port),
            on(Resource.NODE, ActionType.ADD),
        )


def _wanted(state: CycleState, pod: Pod) -> tuple[Port, ...]:
    found: tuple[Port, ...] | None = state.get(NAME)
    return host_ports(pod) if found is None else found


def _rows_with(table: NodeTable, port: Port) -> list[int]:
    ip, protocol, number = port
    rows = table.ports_in_use.get((protocol, number), {})
    if ip == ANY_IP:
        return list(rows)
    return [row for row, used in rows.items() if ip in used or ANY_IP in used]


def _frees_port(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    if not isinstance(old, Pod) or not (old.spec.node_name or old.status.nominated_node_name):
        return QueueingHint.SKIP
    freed, wanted = host_ports(old), host_ports(pod)
    conflict = any(ports_conflict(mine, port) for mine in wanted for port in freed)
    return hint(conflict)


def new(args: None, handle: Handle) -> NodePorts:
    return NodePorts()

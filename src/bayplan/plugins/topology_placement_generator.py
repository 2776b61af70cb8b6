"""Keeps a pod group that asks for it within one domain of a topology.

Each value of the node label that `spec.schedulingConstraints.topology` names is a placement. A
group that has pods on nodes already stays in their domain. Behind the gate
TopologyAwareWorkloadScheduling, as upstream.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.framework import (
    ActionType,
    ClusterEventWithHint,
    CycleState,
    Handle,
    Placement,
    PodGroupInfo,
    Resource,
    Status,
    on,
)
from bayplan.framework.contract.status import failed

NAME = "TopologyPlacementGenerator"


class TopologyPlacementGenerator:
    """PlacementGenerate: one placement a domain."""

    name = NAME

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def generate_placements(
        self, state: CycleState, group: PodGroupInfo, parent: Placement
    ) -> tuple[Sequence[Placement], Status | None]:
        constraints = group.group.spec.scheduling_constraints
        if constraints is None or not constraints.topology:
            return (parent,), None
        key = constraints.topology[0].key
        wanted: str | None = None
        if group.scheduled:
            try:
                wanted = self._domain_of(group, key)
            except LookupError as problem:
                text = f"cannot determine domain for already scheduled pods: {problem}"
                return (), failed(text)
        domains: dict[str, list[str]] = {}
        table = self._handle.table
        for name in parent.node_names:
            row = table.row_of(name)
            domain = None if row is None else table.nodes[row].metadata.labels.get(key)
            if domain is not None and wanted in (None, domain):
                domains.setdefault(domain, []).append(name)
        return [Placement(domain, tuple(names)) for domain, names in domains.items()], None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (on(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),)

    def _domain_of(self, group: PodGroupInfo, key: str) -> str:
        """The domain of the group's pods that have a node."""
        found = ""
        table = self._handle.table
        for pod, node_name in group.scheduled:
            row = table.row_of(node_name)
            if row is None:
                missing = f'nodeinfo not found for node name "{node_name}"'
                raise LookupError(f"getting node for pod {pod.key}: {missing}")
            domain = table.nodes[row].metadata.labels.get(key)
            if domain is None:
                raise LookupError(f"no topology domain found for pod {pod.key}")
            if found not in ("", domain):
                raise LookupError(f"more than 1 domain found for pod group: {found}, {domain}")
            found = domain
        return found


def new(args: None, handle: Handle) -> TopologyPlacementGenerator:
    return TopologyPlacementGenerator(handle)

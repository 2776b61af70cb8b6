"""Keeps the number of attached volumes per CSI driver below what a node's CSINode allows.

Counts are columns, one a driver, kept per row and worked out again only for rows whose pods,
claims, volumes or attachments changed. A volume that is already attached to a node costs nothing
there. Volumes that are not bound yet count under the provisioner of their class.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from bayplan.api import CSINode, Object, Pod, VolumeAttachment
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
    failed,
    on,
    unresolvable,
    unschedulable,
)
from bayplan.plugins.attached_volumes import AttachedVolumes, VolumeNames, limits_of
from bayplan.plugins.csi_migration import DRIVERS, inline_plugin
from bayplan.plugins.hints import hint
from bayplan.plugins.volume_claims import has_claims, names_claim

NAME = "NodeVolumeLimits"
REASON = "node(s) exceed max volume count"
_REJECTED = unschedulable(REASON)


class _Wanted:
    """The volumes that a pod needs attached, or why they cannot be told."""

    __slots__ = ("problem", "volumes")

    def __init__(self, volumes: dict[str, str], problem: Status | None) -> None:
        self.volumes = volumes
        """Unique name to driver."""
        self.problem = problem


def _countable(pod: Pod) -> bool:
    return has_claims(pod) or any(inline_plugin(volume) for volume in pod.spec.volumes)


class NodeVolumeLimits:
    """Filter: no CSI driver gets more volumes on a node than it can attach."""

    name = NAME
    class_hint = True

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._objects = handle.objects
        self._names = VolumeNames(handle.objects)
        self._attached = AttachedVolumes(handle.objects, self._names)
        self._needs_drivers = handle.gates["VolumeLimitScaling"]

    def depends_on(self, pod: Pod) -> Depends:
        return Depends.CLUSTER if _countable(pod) else Depends.NODE

    def facet(self, state: CycleState, pod: Pod) -> Hashable:
        return self._handle.info(pod, state).signature if _countable(pod) else None

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Nodes
    ) -> tuple[PreFilterResult | None, Status | None]:
        if not _countable(pod):
            return None, SKIP
        state.write(NAME, self._wanted(pod))
        return None, None

    def _wanted(self, pod: Pod) -> _Wanted:
        try:
            return _Wanted(self._names.of_new_pod(pod), None)
        except LookupError as problem:
            return _Wanted({}, unresolvable(str(problem.args[0])))
        except ValueError as problem:
            return _Wanted({}, failed(str(problem)))

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        wanted = state.read(NAME, _Wanted)
        if wanted.problem is not None:
            return Verdict.none_pass(nodes, wanted.problem)
        if not wanted.volumes:
            return Verdict.all_pass(nodes)
        if self._required(wanted):
            return self._by_node(state, pod, nodes)
        attached, table = self._attached, nodes.table
        attached.refresh(table)
        mask = np.ones(table.count, dtype=bool)  # (full table,)
        for driver in sorted(set(wanted.volumes.values())):
            names = [name for name, its in wanted.volumes.items() if its == driver]
            new = np.full(table.count, len(names), dtype=np.int64)
            for name in names:
                new[list(attached.rows(name))] -= 1
            over = attached.count(driver) + new > attached.limit(driver)
            mask &= ~(over & (new > 0))
        return Verdict(nodes.pick(mask).astype(bool, copy=False), _REJECTED.code, REASON)

    def _required(self, wanted: _Wanted) -> list[str]:
        """The drivers without which no pod of theirs may be placed on a node."""
        if not self._needs_drivers:
            return []
        known = self._objects.csi_drivers
        return [
            name
            for name in sorted(set(wanted.volumes.values()))
            if (driver := known.get(name)) and driver.spec.prevent_pod_scheduling_if_missing
        ]

    def _by_node(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        which = np.zeros(nodes.count, dtype=np.uint16)  # (N,)
        outcomes: dict[Status, int] = {}
        for place in range(nodes.count):
            status = self.filter_node(state, pod, nodes.info(place))
            if status is not None:
                which[place] = outcomes.setdefault(status, len(outcomes) + 1)
        return Verdict.by_outcome(which, tuple(outcomes)) if outcomes else Verdict.all_pass(nodes)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        wanted = state.read(NAME, _Wanted)
        if wanted.problem is not None:
            return wanted.problem
        csi_node = self._objects.csi_nodes.get(node.name)
        installed = {item.name for item in csi_node.spec.drivers} if csi_node else set()
        for driver in self._required(wanted):
            if driver not in installed:
                return unschedulable(f"{driver} CSI driver is not installed on the node")
        limits = limits_of(csi_node)
        if not wanted.volumes or not limits:
            return None
        attached = self._names.of_placed(info.pod for info in node.pods)
        new = {name: its for name, its in wanted.volumes.items() if name not in attached}
        counted = attached | self._names.of_attachments(node.name)
        for driver, limit in limits.items():
            more = sum(its == driver for its in new.values())
            if more and more + sum(its == driver for its in counted.values()) > limit:
                return _REJECTED
        return None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            on(Resource.CSI_NODE, ActionType.ADD),
            on(Resource.CSI_NODE, ActionType.UPDATE, _limits_grew),
            on(Resource.POD, ActionType.DELETE, _frees_volumes),
            on(Resource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD, _claim_added),
            on(Resource.VOLUME_ATTACHMENT, ActionType.DELETE, _detached),
        )


def _limits_grew(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return QueueingHint.QUEUE
    before, after = limits_of(old), limits_of(new)
    return hint(any(count > before.get(driver, 0) for driver, count in after.items()))


def _frees_volumes(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    if not isinstance(old, Pod) or not (old.node_name or old.status.nominated_node_name):
        return QueueingHint.SKIP
    return hint(_countable(old))


def _claim_added(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    return hint(names_claim(pod, new))


def _detached(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    if not isinstance(old, VolumeAttachment):
        return QueueingHint.QUEUE
    if any(volume.persistent_volume_claim is not None for volume in pod.spec.volumes):
        return QueueingHint.QUEUE
    drivers = {DRIVERS[plugin] for v in pod.spec.volumes if (plugin := inline_plugin(v))}
    return hint(old.spec.attacher in drivers)


def new(args: None, handle: Handle) -> NodeVolumeLimits:
    return NodeVolumeLimits(handle)

"""Keeps pods from sharing disks and claims that only one of them may use.

In-line disks (GCE, AWS, iSCSI, RBD) conflict on a node; the rows that hold a disk are indexed. A
claim with ReadWriteOncePod that any placed pod uses blocks every node, in a way that preemption can
solve. Generic ephemeral volumes are not looked at: nobody else can name their claims.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from bayplan.api import Object, Pod, Volume
from bayplan.framework import (
    SKIP,
    ActionType,
    ClusterEventWithHint,
    CycleState,
    Depends,
    Handle,
    NodeInfo,
    Nodes,
    PodInfo,
    PreFilterResult,
    QueueingHint,
    Resource,
    Status,
    Verdict,
    on,
    unresolvable,
    unschedulable,
)
from bayplan.plugins.hints import hint
from bayplan.plugins.row_keys import RowKeys
from bayplan.plugins.volume_claims import READ_WRITE_ONCE_POD, names_claim, not_found

NAME = "VolumeRestrictions"
REASON_DISK = "node(s) had no available disk"
REASON_EXCLUSIVE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
_DISK = unschedulable(REASON_DISK)
_EXCLUSIVE = unschedulable(REASON_EXCLUSIVE)

Disk = tuple[str, str, bool]
"""Kind of disk, its identity, whether it is mounted read-only."""


def disks(volume: Volume) -> list[Disk]:
    """The disk of a volume; one entry a monitor for RBD, as sharing one monitor is enough."""
    if (gce := volume.gce_persistent_disk) is not None:
        return [("gce", gce.pd_name, gce.read_only)]
    if (aws := volume.aws_elastic_block_store) is not None:
        return [("aws", aws.volume_id, False)]
    if (iscsi := volume.iscsi) is not None:
        return [("iscsi", iscsi.iqn, iscsi.read_only)]
    if (rbd := volume.rbd) is not None:
        image = f"{rbd.pool}/{rbd.image}"
        return [("rbd", f"{monitor}/{image}", rbd.read_only) for monitor in rbd.monitors]
    return []


def pod_disks(pod: Pod) -> list[Disk]:
    return [disk for volume in pod.spec.volumes for disk in disks(volume)]


def conflicting(disk: Disk) -> list[Disk]:
    """The disks of other pods that this one cannot share a node with."""
    kind, identity, read_only = disk
    writable: Disk = (kind, identity, False)
    return [writable] if read_only else [writable, (kind, identity, True)]


def has_inline_disk(pod: Pod) -> bool:
    return any(
        v.gce_persistent_disk is not None
        or v.aws_elastic_block_store is not None
        or v.rbd is not None
        or v.iscsi is not None
        for v in pod.spec.volumes
    )


class _Wanted:
    """What a pod wants for itself alone, and how many of its exclusive claims are taken."""

    __slots__ = ("conflicts", "disks", "exclusive")

    def __init__(self, disks: frozenset[Disk], exclusive: frozenset[str], conflicts: int) -> None:
        self.disks = disks
        """Disks of other pods that would be in the way."""
        self.exclusive = exclusive
        self.conflicts = conflicts

    def clone(self) -> _Wanted:
        return _Wanted(self.disks, self.exclusive, self.conflicts)

    def count(self, info: PodInfo, sign: int) -> None:
        # As upstream, the namespace of the other pod is not compared here.
        for volume in info.pod.spec.volumes:
            claim = volume.persistent_volume_claim
            if claim is not None and claim.claim_name in self.exclusive:
                self.conflicts += sign


class VolumeRestrictions:
    """Filter: disks and ReadWriteOncePod claims are not used by others."""

    name = NAME
    class_hint = True

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._disks: RowKeys[Disk] = RowKeys(lambda info: pod_disks(info.pod))

    def depends_on(self, pod: Pod) -> Depends:
        claims = any(v.persistent_volume_claim is not None for v in pod.spec.volumes)
        return Depends.CLUSTER if claims or has_inline_disk(pod) else Depends.NODE

    def facet(self, state: CycleState, pod: Pod) -> Hashable:
        return self._handle.info(pod, state).signature if pod.spec.volumes else None

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Nodes
    ) -> tuple[PreFilterResult | None, Status | None]:
        claims = self._handle.objects.persistent_volume_claims
        exclusive: set[str] = set()
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            claim = claims.get(f"{pod.namespace}/{name}")
            if claim is None:
                return None, unresolvable(not_found("persistentvolumeclaim", name))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                exclusive.add(name)
        users = nodes.table.claim_users
        conflicts = sum(f"{pod.namespace}/{name}" in users for name in exclusive)
        if not conflicts and not has_inline_disk(pod):
            return None, SKIP
        bad = frozenset(other for disk in pod_disks(pod) for other in conflicting(disk))
        state.write(NAME, _Wanted(bad, frozenset(exclusive), conflicts))
        return None, None

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status | None:
        state.read(NAME, _Wanted).count(added, 1)
        return None

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo
    ) -> Status | None:
        state.read(NAME, _Wanted).count(removed, -1)
        return None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        wanted = state.read(NAME, _Wanted)
        table = nodes.table
        which = np.full(table.count, 2 if wanted.conflicts > 0 else 0, dtype=np.uint16)
        if wanted.disks:
            self._disks.refresh(table)
            rows = {row for disk in wanted.disks for row in self._disks.rows(disk)}
            which[list(rows)] = 1
        elif not wanted.conflicts:
            return Verdict.all_pass(nodes)
        return Verdict.by_outcome(nodes.pick(which).astype(np.uint16), (_DISK, _EXCLUSIVE))

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        wanted = state.read(NAME, _Wanted)
        if wanted.disks:
            for info in node.pods:
                if any(disk in wanted.disks for disk in pod_disks(info.pod)):
                    return _DISK
        return _EXCLUSIVE if wanted.conflicts > 0 else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            on(Resource.POD, ActionType.DELETE, _frees_volume),
            on(Resource.NODE, ActionType.ADD),
            on(Resource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD, _claim_added),
        )


def _frees_volume(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    if not isinstance(old, Pod) or old.namespace != pod.namespace:
        return QueueingHint.SKIP
    bad = {other for disk in pod_disks(pod) for other in conflicting(disk)}
    if any(disk in bad for disk in pod_disks(old)):
        return QueueingHint.QUEUE
    return hint(bool(_claim_names(pod) & _claim_names(old)))


def _claim_names(pod: Pod) -> set[str]:
    claims = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return {claim.claim_name for claim in claims if claim is not None}


def _claim_added(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    return hint(names_claim(pod, new, ephemeral=False))


def new(args: None, handle: Handle) -> VolumeRestrictions:
    return VolumeRestrictions(handle)

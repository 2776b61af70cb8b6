"""Keeps a pod in the zones and regions of the volumes that it already has.

Looks at the zone and region labels of bound volumes; a label may list several zones, joined by two
underscores. Nodes without any such label take every volume. Ephemeral volumes are not looked at.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from bayplan.api import Object, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from bayplan.framework import (
    SKIP,
    ActionType,
    BoolArray,
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
from bayplan.plugins.volume_claims import (
    WAIT_FOR_FIRST_CONSUMER,
    class_of_claim,
    names_claim,
    not_found,
)

NAME = "VolumeZone"
REASON = "node(s) had no available volume zone"
_REJECTED = unresolvable(REASON)

BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
KEYS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_SUCCESSOR = {BETA_ZONE: ZONE, BETA_REGION: REGION}

Topology = tuple[str, frozenset[str]]
"""A label key and the values that a volume can be used with."""


def topologies(volume: PersistentVolume) -> list[Topology]:
    """Where a volume is, by its labels; a label with a blank part says nothing."""
    found: list[Topology] = []
    for key in KEYS:
        text = volume.metadata.labels.get(key)
        if text is not None:
            parts = [part.strip() for part in text.split("__")]
            if all(parts):
                found.append((key, frozenset(parts)))
    return found


class VolumeZone:
    """Filter: the node is in the zone and region of each bound volume."""

    name = NAME
    class_hint = True

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._objects = handle.objects

    def depends_on(self, pod: Pod) -> Depends:
        claims = any(v.persistent_volume_claim is not None for v in pod.spec.volumes)
        return Depends.CLUSTER if claims else Depends.NODE

    def facet(self, state: CycleState, pod: Pod) -> Hashable:
        return self._handle.info(pod, state).signature if pod.spec.volumes else None

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Nodes
    ) -> tuple[PreFilterResult | None, Status | None]:
        wanted: list[Topology] = []
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            found = self._wanted(pod.namespace, volume.persistent_volume_claim.claim_name)
            if isinstance(found, str):
                return None, unresolvable(found)
            wanted.extend(found)
        if not wanted:
            return None, SKIP
        state.write(NAME, wanted)
        return None, None

    def _wanted(self, namespace: str, name: str) -> list[Topology] | str:
        """Where a claim's volume is, or why that cannot be told."""
        if not name:
            return "PersistentVolumeClaim had no name"
        claim = self._objects.persistent_volume_claims.get(f"{namespace}/{name}")
        if claim is None:
            return not_found("persistentvolumeclaim", name)
        volume_name = claim.spec.volume_name
        if not volume_name:
            return self._unbound(claim) or []
        volume = self._objects.persistent_volumes.get(volume_name)
        if volume is None:
            return not_found("persistentvolume", volume_name)
        return topologies(volume)

    def _unbound(self, claim: PersistentVolumeClaim) -> str:
        """Why an unbound claim is a problem; empty if it is bound where the pod goes."""
        name = class_of_claim(claim)
        if not name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        storage = self._objects.storage_classes.get(name)
        if storage is None:
            return not_found("storageclass.storage.k8s.io", name)
        if storage.volume_binding_mode is None:
            return f'VolumeBindingMode not set for StorageClass "{name}"'
        waits = storage.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        return "" if waits else "PersistentVolume had no name"

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        wanted: list[Topology] = state.read(NAME)
        labelled = np.zeros(nodes.count, dtype=bool)  # (N,)
        for key in KEYS:
            labelled |= nodes.label_codes(key) >= 0
        mask = np.ones(nodes.count, dtype=bool)  # (N,)
        for key, values in wanted:
            inside = _inside(nodes, key, values)
            if (successor := _SUCCESSOR.get(key)) is not None:
                absent = nodes.label_codes(key) < 0
                inside |= absent & _inside(nodes, successor, values)
            mask &= inside
        return Verdict(mask | ~labelled, _REJECTED.code, REASON)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        wanted: list[Topology] = state.read(NAME)
        labels = node.labels
        if not any(key in labels for key in KEYS):
            return None
        for key, values in wanted:
            value = labels.get(key)
            if value is None and key in _SUCCESSOR:
                value = labels.get(_SUCCESSOR[key])
            if value not in values:
                return _REJECTED
        return None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        changed = ActionType.ADD | ActionType.UPDATE
        return (
            on(Resource.STORAGE_CLASS, ActionType.ADD, _class_added),
            on(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            on(Resource.PERSISTENT_VOLUME_CLAIM, changed, _claim_changed),
            on(Resource.PERSISTENT_VOLUME, changed, _volume_changed),
        )


def _inside(nodes: Nodes, key: str, values: frozenset[str]) -> BoolArray:
    known = nodes.label_values(key)
    accepted = np.array([value in values for value in known] + [False])  # (values + 1,)
    inside: BoolArray = accepted[nodes.label_codes(key)]
    return inside


def _class_added(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    return hint(
        isinstance(new, StorageClass) and new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    )


def _claim_changed(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    return hint(names_claim(pod, new, ephemeral=False))


def _volume_changed(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    if not isinstance(old, PersistentVolume) or not isinstance(new, PersistentVolume):
        return QueueingHint.QUEUE
    return hint(topologies(old) != topologies(new))


def new(args: None, handle: Handle) -> VolumeZone:
    return VolumeZone(handle)

"""The other objects that plugins read: volumes, claims, services, budgets and so on, by kind.

A plain container with one lister a kind. Each lister counts its changes in `revision`, so that what
was worked out from it can be kept until it changes. It does not watch anything; whoever owns it
(the engine's cache) feeds it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from bayplan.api import (
    CompositePodGroup,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DeviceClass,
    DeviceTaintRule,
    Namespace,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    ResourceClaim,
    ResourceSlice,
    Service,
    StatefulSet,
    StorageClass,
    VolumeAttachment,
    Workload,
)

_REMEMBERED = 4096
"""How many changes a lister can tell about."""

S = TypeVar("S")
O = TypeVar("O", bound=Object)  # noqa: E741 - an object of one kind


class Lister(Generic[O]):
    """Objects of one kind by key (`namespace/name`, or the name for kinds without a namespace)."""

    __slots__ = ("_by_key", "_by_namespace", "_changed", "_reads", "kind", "revision")

    def __init__(self, kind: type[O], reads: Callable[[O], object] | None = None) -> None:
        self.kind = kind
        self._reads = reads
        """What scheduling reads of an object; without it, everything."""
        self.revision = 0
        """Grows with every change of what scheduling reads."""
        self._by_key: dict[str, O] = {}
        self._by_namespace: dict[str, dict[str, O]] = {}
        self._changed: deque[str] = deque(maxlen=_REMEMBERED)

    def changes_since(self, revision: int) -> list[str] | None:
        """Keys put or deleted since a revision, oldest first; None means too long ago to tell."""
        count = self.revision - revision
        if count > len(self._changed):
            return None
        return [self._changed[place] for place in range(-count, 0)]

    def get(self, key: str) -> O | None:
        return self._by_key.get(key)

    def in_namespace(self, namespace: str) -> Iterable[O]:
        return self._by_namespace.get(namespace, {}).values()

    def __iter__(self) -> Iterator[O]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    def put(self, item: O) -> None:
        """Add or replace an object."""
        key = item.key
        old = self._by_key.get(key)
        if old is None or self._reads is None or self._reads(old) != self._reads(item):
            self.revision += 1
            self._changed.append(key)
        self._by_key[key] = item
        self._by_namespace.setdefault(item.metadata.namespace, {})[key] = item

    def delete(self, key: str) -> O | None:
        """Remove an object and return it; unknown keys are no error."""
        item = self._by_key.pop(key, None)
        if item is not None:
            self.revision += 1
            self._changed.append(key)
            self._by_namespace[item.metadata.namespace].pop(key, None)
        return item


class ClusterObjects:
    """One lister a kind."""

    def __init__(self) -> None:
        self.namespaces = Lister(Namespace, lambda item: item.metadata.labels)
        self.services = Lister(Service, lambda item: item.spec.selector)
        self.replication_controllers = Lister(
            ReplicationController, lambda item: item.spec.selector
        )
        self.replica_sets = Lister(ReplicaSet, lambda item: item.spec.selector)
        self.stateful_sets = Lister(StatefulSet, lambda item: item.spec.selector)
        self.persistent_volumes = Lister(PersistentVolume)
        self.persistent_volume_claims = Lister(PersistentVolumeClaim)
        self.storage_classes = Lister(StorageClass)
        self.csi_nodes = Lister(CSINode)
        self.csi_drivers = Lister(CSIDriver)
        self.csi_storage_capacities = Lister(CSIStorageCapacity)
        self.volume_attachments = Lister(VolumeAttachment)
        self.pod_disruption_budgets = Lister(PodDisruptionBudget)
        self.priority_classes = Lister(PriorityClass)
        self.resource_claims = Lister(ResourceClaim)
        self.device_classes = Lister(DeviceClass)
        self.device_taint_rules = Lister(DeviceTaintRule)
        self.resource_slices = Lister(ResourceSlice)
        self.pod_groups = Lister(PodGroup)
        self.composite_pod_groups = Lister(CompositePodGroup)
        self.workloads = Lister(Workload)
        self._shared: dict[str, object] = {}
        listers = (item for item in vars(self).values() if isinstance(item, Lister))
        self._by_kind: dict[str, Lister[Object]] = {item.kind.KIND: item for item in listers}

    def shared(self, name: str, make: Callable[[], S]) -> S:
        """What plugins of all profiles keep about this cluster under a name, made on first use.

        Two profiles must not give one volume or device to two pods.
        """
        if name not in self._shared:
            self._shared[name] = make()
        return self._shared[name]  # type: ignore[return-value]

    @property
    def revision(self) -> int:
        """Grows with every change that a lister tells of."""
        return sum([lister.revision for lister in self._by_kind.values()])

    def of_kind(self, kind: str) -> Lister[Object] | None:
        """The lister of a kind by its name, or None for kinds that scheduling does not read."""
        return self._by_kind.get(kind)

    def put(self, item: Object) -> bool:
        """Add or replace an object of any kind; False if the kind is not kept here."""
        lister = self._by_kind.get(item.KIND)
        if lister is None:
            return False
        lister.put(item)
        return True

    def delete(self, item: Object) -> bool:
        lister = self._by_kind.get(item.KIND)
        return lister is not None and lister.delete(item.key) is not None

    def namespace_labels(self, name: str) -> dict[str, str]:
        """The labels of a namespace; none if it is unknown."""
        found = self.namespaces.get(name)
        return {} if found is None else found.metadata.labels

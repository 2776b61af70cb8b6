"""Cluster events: what happened, what a plugin waits for, and whether it is worth another try.

Numbers and matching are kube-scheduler's: an incoming event matches a registered one when the
resources agree, an action bit is shared, and the incoming action is numerically not larger. So a
generic update (all update bits) does not match a registration for one bit.
Telling which events an object's change amounts to is the queue's work, not done here.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, IntFlag

from bayplan.api import Object, Pod


class ActionType(IntFlag):
    """What happened to an object; the bits are kube-scheduler's."""

    NONE = 0
    ADD = 1 << 0
    DELETE = 1 << 1
    UPDATE_NODE_ALLOCATABLE = 1 << 2
    UPDATE_NODE_LABEL = 1 << 3
    UPDATE_NODE_TAINT = 1 << 4
    UPDATE_NODE_CONDITION = 1 << 5
    UPDATE_NODE_ANNOTATION = 1 << 6
    UPDATE_NODE_DECLARED_FEATURE = 1 << 7
    UPDATE_POD_LABEL = 1 << 8
    UPDATE_POD_SCALE_DOWN = 1 << 9
    UPDATE_POD_TOLERATION = 1 << 10
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1 << 11
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 1 << 12
    ALL = (1 << 13) - 1
    UPDATE = ALL & ~(ADD | DELETE)


ACTION_NAMES: dict[ActionType, str] = {
    ActionType.ADD: "Add",
    ActionType.DELETE: "Delete",
    ActionType.UPDATE_NODE_ALLOCATABLE: "UpdateNodeAllocatable",
    ActionType.UPDATE_NODE_LABEL: "UpdateNodeLabel",
    ActionType.UPDATE_NODE_TAINT: "UpdateNodeTaint",
    ActionType.UPDATE_NODE_CONDITION: "UpdateNodeCondition",
    ActionType.UPDATE_NODE_ANNOTATION: "UpdateNodeAnnotation",
    ActionType.UPDATE_NODE_DECLARED_FEATURE: "UpdateNodeDeclaredFeature",
    ActionType.UPDATE_POD_LABEL: "UpdatePodLabel",
    ActionType.UPDATE_POD_SCALE_DOWN: "UpdatePodScaleDown",
    ActionType.UPDATE_POD_TOLERATION: "UpdatePodToleration",
    ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "UpdatePodGeneratedResourceClaim",
    ActionType.ALL: "All",
    ActionType.UPDATE: "Update",
}


class Resource:
    """The names of what events are about; custom resources use `<plural>.<version>.<group>`."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULABLE_POD = "UnschedulablePod"
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    COMPOSITE_POD_GROUP = "scheduling.k8s.io/CompositePodGroup"
    WILDCARD = "*"


_POD_KINDS = frozenset({Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD})


class ClusterEvent:
    """A kind of change: a resource and what happened to it."""

    __slots__ = ("action", "custom_label", "resource")

    def __init__(self, resource: str, action: ActionType, custom_label: str = "") -> None:
        self.resource = resource
        self.action = action
        self.custom_label = custom_label

    @property
    def label(self) -> str:
        """The name in logs and metrics, such as `NodeUpdateNodeTaint`."""
        if self.custom_label:
            return self.custom_label
        return self.resource + ACTION_NAMES.get(self.action, "")

    @property
    def wildcard(self) -> bool:
        return self.resource == Resource.WILDCARD and self.action == ActionType.ALL

    def matches(self, incoming: ClusterEvent) -> bool:
        """Whether a plugin that registered this event waits for the incoming one."""
        if self.wildcard:
            return True
        resource = self.resource in (Resource.WILDCARD, incoming.resource) or (
            self.resource == Resource.POD and incoming.resource in _POD_KINDS
        )
        return resource and bool(self.action & incoming.action) and incoming.action <= self.action

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterEvent) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[str, int, str]:
        return self.resource, int(self.action), self.custom_label

    def __repr__(self) -> str:
        return f"ClusterEvent({self.label})"


UNSCHEDULABLE_TIMEOUT = ClusterEvent(Resource.WILDCARD, ActionType.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE = ClusterEvent(Resource.WILDCARD, ActionType.ALL, "ForceActivate")
RECONFIGURED = ClusterEvent(Resource.WILDCARD, ActionType.ALL, "ConfigurationChanged")


class QueueingHint(IntEnum):
    """A plugin's answer to: is this event worth another attempt of the pod it rejected?"""

    SKIP = 0
    QUEUE = 1


HintFn = Callable[[Pod, Object | None, Object | None], QueueingHint]
"""`hint(pod, old, new)`: old is None for an addition, new for a deletion. Raising means Queue."""


class ClusterEventWithHint:
    """An event that a plugin waits for; without a hint every such event is worth a try."""

    __slots__ = ("event", "hint")

    def __init__(self, event: ClusterEvent, hint: HintFn | None = None) -> None:
        self.event = event
        self.hint = hint


def on(resource: str, action: ActionType, hint: HintFn | None = None) -> ClusterEventWithHint:
    """Shorthand for plugins: `on(Resource.NODE, ActionType.ADD, self.is_schedulable)`."""
    return ClusterEventWithHint(ClusterEvent(resource, action), hint)

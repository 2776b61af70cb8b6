"""Says which cluster events a change of an object amounts to.

A pod's update becomes one event for each property that scheduling cares about, or a generic one; a
node's update none at all when nothing relevant changed, so that heartbeats wake nobody. The events
are shared constants. Objects are immutable, so parts that are the same object are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api import Node, Pod, Resources, quantity
from bayplan.api.requests import pod_resources
from bayplan.framework.contract.events import ActionType, ClusterEvent, Resource

_UNSCHEDULED = Resource.UNSCHEDULABLE_POD

ASSIGNED_POD_ADD = ClusterEvent(Resource.ASSIGNED_POD, ActionType.ADD)
ASSIGNED_POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, ActionType.DELETE)
UNSCHEDULED_POD_ADD = ClusterEvent(_UNSCHEDULED, ActionType.ADD)
UNSCHEDULED_POD_UPDATE = ClusterEvent(_UNSCHEDULED, ActionType.UPDATE)
UNSCHEDULED_POD_DELETE = ClusterEvent(_UNSCHEDULED, ActionType.DELETE)
NODE_ADD = ClusterEvent(Resource.NODE, ActionType.ADD)
NODE_DELETE = ClusterEvent(Resource.NODE, ActionType.DELETE)

_POD_ACTIONS = (
    ActionType.UPDATE_POD_LABEL,
    ActionType.UPDATE_POD_SCALE_DOWN,
    ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
    ActionType.UPDATE_POD_TOLERATION,
    ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
    ActionType.UPDATE,
)
_POD_EVENTS = {
    resource: {action: ClusterEvent(resource, action) for action in _POD_ACTIONS}
    for resource in (Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD)
}
_NODE_EVENTS = {
    action: ClusterEvent(Resource.NODE, action)
    for action in (
        ActionType.UPDATE_NODE_ALLOCATABLE,
        ActionType.UPDATE_NODE_LABEL,
        ActionType.UPDATE_NODE_TAINT,
        ActionType.UPDATE_NODE_CONDITION,
        ActionType.UPDATE_NODE_ANNOTATION,
        ActionType.UPDATE_NODE_DECLARED_FEATURE,
    )
}

KIND_RESOURCES = {
    "Pod": Resource.POD,
    "Node": Resource.NODE,
    "PersistentVolume": Resource.PERSISTENT_VOLUME,
    "PersistentVolumeClaim": Resource.PERSISTENT_VOLUME_CLAIM,
    "CSINode": Resource.CSI_NODE,
    "CSIDriver": Resource.CSI_DRIVER,
    "VolumeAttachment": Resource.VOLUME_ATTACHMENT,
    "CSIStorageCapacity": Resource.CSI_STORAGE_CAPACITY,
    "StorageClass": Resource.STORAGE_CLASS,
    "ResourceClaim": Resource.RESOURCE_CLAIM,
    "ResourceSlice": Resource.RESOURCE_SLICE,
    "DeviceTaintRule": Resource.RESOURCE_SLICE,  # changes what a slice offers
    "DeviceClass": Resource.DEVICE_CLASS,
    "PodGroup": Resource.POD_GROUP,
    "CompositePodGroup": Resource.COMPOSITE_POD_GROUP,
}
"""The event resource of each kind whose changes may wake pods; other kinds wake nobody."""

OBJECT_EVENTS = {
    kind: {
        action: ClusterEvent(resource, action)
        for action in (ActionType.ADD, ActionType.UPDATE, ActionType.DELETE)
    }
    for kind, resource in KIND_RESOURCES.items()
}
"""Kind and action to event, for kinds whose updates are not looked into."""


def pod_update_events(old: Pod, new: Pod, *, reported: bool = False) -> list[ClusterEvent]:
    """The events of a pod's update, in upstream's order; a generic one if nothing specific.

    `reported`: labels, spec and what the pod uses are known to be the same.
    """
    resource = Resource.ASSIGNED_POD if new.spec.node_name else Resource.UNSCHEDULABLE_POD
    known = _POD_EVENTS[resource]
    events = [] if reported else [known[action] for action in _changes_of(old, new)]
    was, now = old.status, new.status
    if (
        now.resource_claim_statuses != was.resource_claim_statuses
        or now.extended_resource_claim_status != was.extended_resource_claim_status
    ):
        events.append(known[ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM])
    return events or [known[ActionType.UPDATE]]


def _changes_of(old: Pod, new: Pod) -> Iterator[ActionType]:
    """What differs in labels, spec and what the pod uses."""
    if new.metadata.labels != old.metadata.labels:
        yield ActionType.UPDATE_POD_LABEL
    if _scaled_down(old, new):
        yield ActionType.UPDATE_POD_SCALE_DOWN
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        yield ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    # tolerations can only be added, so their number tells
    if len(new.spec.tolerations) != len(old.spec.tolerations):
        yield ActionType.UPDATE_POD_TOLERATION


def _scaled_down(old: Pod, new: Pod) -> bool:
    """Whether some request vanished or shrank, counting what the kubelet granted."""
    if old.spec is new.spec and old.status is new.status:
        return False
    before, after = pod_resources(old).used, pod_resources(new).used
    if before is after:
        return False
    return any(name not in after or amount > after[name] for name, amount in before.items())


def node_update_events(old: Node, new: Node) -> list[ClusterEvent]:
    """The events of a node's update, in upstream's order; none if nothing relevant changed."""
    actions = []
    was, now = old.status, new.status
    if old.spec.unschedulable and not new.spec.unschedulable:
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if now.allocatable != was.allocatable and not _same_amounts(was.allocatable, now.allocatable):
        actions.append(ActionType.UPDATE_NODE_ALLOCATABLE)
    if new.metadata.labels != old.metadata.labels:
        actions.append(ActionType.UPDATE_NODE_LABEL)
    if new.spec.taints != old.spec.taints:
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if now.conditions != was.conditions and _conditions(new) != _conditions(old):
        actions.append(ActionType.UPDATE_NODE_CONDITION)
    if new.metadata.annotations != old.metadata.annotations:
        actions.append(ActionType.UPDATE_NODE_ANNOTATION)
    if now.declared_features != was.declared_features:
        actions.append(ActionType.UPDATE_NODE_DECLARED_FEATURE)
    return [_NODE_EVENTS[action] for action in actions]


def _conditions(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def _same_amounts(old: Resources, new: Resources) -> bool:
    """Whether two lists say the same in different words, such as `1` and `1000m`."""
    if old.keys() != new.keys():
        return False
    try:
        return all(quantity.nanos(old[name]) == quantity.nanos(new[name]) for name in old)
    except quantity.QuantityError:
        return False

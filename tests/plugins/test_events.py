"""The events that each plugin waits for: those of kube-scheduler, no fewer and no more.

One too few leaves a pod waiting for the five-minute flush; one too many tries it in vain.
"""

import pytest

from bayplan.config import FeatureGates
from bayplan.framework import ActionType, Handle, Resource
from bayplan.plugins import in_tree_registry

ADD, DELETE, UPDATE = ActionType.ADD, ActionType.DELETE, ActionType.UPDATE
LABEL, TAINT = ActionType.UPDATE_NODE_LABEL, ActionType.UPDATE_NODE_TAINT
ALLOCATABLE = ActionType.UPDATE_NODE_ALLOCATABLE
TOLERATION = ActionType.UPDATE_POD_TOLERATION
POD, NODE = Resource.POD, Resource.NODE

EVENTS = {
    "SchedulingGates": [(POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)],
    "NodeUnschedulable": [(NODE, ADD | TAINT), (POD, TOLERATION)],
    "NodeName": [(NODE, ADD)],
    "TaintToleration": [(NODE, ADD | TAINT), (POD, TOLERATION)],
    "NodeAffinity": [(NODE, ADD | LABEL)],
    "NodePorts": [(POD, DELETE), (NODE, ADD)],
    "NodeResourcesFit": [
        (POD, DELETE | ActionType.UPDATE_POD_SCALE_DOWN),
        (NODE, ADD | ALLOCATABLE),
        (Resource.DEVICE_CLASS, ADD | UPDATE),
    ],
    "VolumeRestrictions": [
        (POD, DELETE),
        (NODE, ADD),
        (Resource.PERSISTENT_VOLUME_CLAIM, ADD),
    ],
    "NodeVolumeLimits": [
        (Resource.CSI_NODE, ADD),
        (Resource.CSI_NODE, UPDATE),
        (POD, DELETE),
        (Resource.PERSISTENT_VOLUME_CLAIM, ADD),
        (Resource.VOLUME_ATTACHMENT, DELETE),
    ],
    "VolumeBinding": [
        (Resource.STORAGE_CLASS, ADD | UPDATE),
        (Resource.PERSISTENT_VOLUME_CLAIM, ADD | UPDATE),
        (Resource.PERSISTENT_VOLUME, ADD | UPDATE),
        (NODE, ADD | LABEL),
        (Resource.CSI_NODE, ADD | UPDATE),
        (Resource.CSI_DRIVER, UPDATE),
        (Resource.CSI_STORAGE_CAPACITY, ADD | UPDATE),
    ],
    "VolumeZone": [
        (Resource.STORAGE_CLASS, ADD),
        (NODE, ADD | LABEL),
        (Resource.PERSISTENT_VOLUME_CLAIM, ADD | UPDATE),
        (Resource.PERSISTENT_VOLUME, ADD | UPDATE),
    ],
    "PodTopologySpread": [
        (POD, ADD | ActionType.UPDATE_POD_LABEL | TOLERATION | DELETE),
        (NODE, ADD | DELETE | LABEL | TAINT),
    ],
    "InterPodAffinity": [
        (POD, ADD | ActionType.UPDATE_POD_LABEL | DELETE),
        (NODE, ADD | LABEL),
    ],
    "DynamicResources": [
        (NODE, ADD | LABEL | ALLOCATABLE),
        (Resource.RESOURCE_CLAIM, ADD | UPDATE),
        (POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
        (Resource.DEVICE_CLASS, ADD | UPDATE),
        (Resource.RESOURCE_SLICE, ADD | UPDATE),
    ],
    "NodeDeclaredFeatures": [
        (NODE, ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE),
        (POD, UPDATE),
    ],
    "DefaultPreemption": [(POD, DELETE)],
    "GangScheduling": [
        (POD, ADD),
        (Resource.POD_GROUP, ADD),
        (Resource.POD_GROUP, UPDATE),
    ],
    "TopologyPlacementGenerator": [(NODE, ADD | LABEL)],
}


def events(plugin, version="1.37", **gates):
    made = in_tree_registry()[plugin](None, Handle(gates=FeatureGates(gates, version)))
    registered = made.events_to_register() if hasattr(made, "events_to_register") else ()
    return [(item.event.resource, item.event.action) for item in registered]


@pytest.mark.parametrize("plugin", sorted(in_tree_registry()))
def test_each_plugin_waits_for_the_events_of_kube_scheduler(plugin):
    assert EVENTS.get(plugin, []) == events(plugin)


def test_classes_of_devices_matter_to_resources_only_where_they_can_stand_in():
    told = events("NodeResourcesFit", version="1.36", DRAExtendedResource=False)

    assert EVENTS["NodeResourcesFit"][:2] == told


def test_trees_of_groups_are_waited_for_where_there_are_any():
    gates = ("CompositePodGroup", "TopologyAwareWorkloadScheduling", "GenericWorkload")
    told = events("GangScheduling", **dict.fromkeys(gates, True))

    assert [*EVENTS["GangScheduling"], (Resource.COMPOSITE_POD_GROUP, ADD)] == told

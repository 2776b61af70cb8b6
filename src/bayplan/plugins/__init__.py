"""In-tree plugins, one module each (a folder where it is large), named as upstream.

Registration is the dict literal below; nothing registers itself by being imported.
"""

from bayplan.framework.contract.registry import Registry
from bayplan.plugins import (
    default_binder,
    default_preemption,
    dynamic_resources,
    gang_scheduling,
    image_locality,
    inter_pod_affinity,
    node_affinity,
    node_declared_features,
    node_name,
    node_ports,
    node_resources_balanced_allocation,
    node_resources_fit,
    node_unschedulable,
    node_volume_limits,
    pod_group_pods_count,
    pod_topology_spread,
    priority_sort,
    scheduling_gates,
    taint_toleration,
    topology_placement_generator,
    volume_binding,
    volume_restrictions,
    volume_zone,
)


def in_tree_registry() -> Registry:
    """Every plugin that comes with Bayplan, by name."""
    return {
        default_binder.NAME: default_binder.new,
        default_preemption.NAME: default_preemption.new,
        dynamic_resources.NAME: dynamic_resources.new,
        gang_scheduling.NAME: gang_scheduling.new,
        image_locality.NAME: image_locality.new,
        inter_pod_affinity.NAME: inter_pod_affinity.new,
        node_affinity.NAME: node_affinity.new,
        node_declared_features.NAME: node_declared_features.new,
        node_name.NAME: node_name.new,
        node_ports.NAME: node_ports.new,
        node_resources_balanced_allocation.NAME: node_resources_balanced_allocation.new,
        node_resources_fit.NAME: node_resources_fit.new,
        node_unschedulable.NAME: node_unschedulable.new,
        node_volume_limits.NAME: node_volume_limits.new,
        pod_group_pods_count.NAME: pod_group_pods_count.new,
        pod_topology_spread.NAME: pod_topology_spread.new,
        priority_sort.NAME: priority_sort.new,
        scheduling_gates.NAME: scheduling_gates.new,
        taint_toleration.NAME: taint_toleration.new,
        topology_placement_generator.NAME: topology_placement_generator.new,
        volume_binding.NAME: volume_binding.new,
        volume_restrictions.NAME: volume_restrictions.new,
        volume_zone.NAME: volume_zone.new,
    }

"""Builders, fakes and strategies for tests of Bayplan and of plugins: part of the product.

The strategies are in `bayplan.testing.strategies` and need hypothesis.
"""

from bayplan.testing.builders import (
    HOSTNAME,
    REGION,
    ZONE,
    Builder,
    NodeBuilder,
    PodBuilder,
    label_selector,
    make_node,
    make_pod,
)
from bayplan.testing.devices import (
    make_device,
    make_device_class,
    make_resource_claim,
    make_slice,
    request,
)
from bayplan.testing.kinds import (
    make_budget,
    make_namespace,
    make_pod_group,
    make_priority_class,
    make_replica_set,
    make_replication_controller,
    make_service,
    make_stateful_set,
)
from bayplan.testing.storage import (
    make_attachment,
    make_capacity,
    make_claim,
    make_csi_driver,
    make_csi_node,
    make_storage_class,
    make_volume,
)

__all__ = [
    "HOSTNAME",
    "REGION",
    "ZONE",
    "Builder",
    "NodeBuilder",
    "PodBuilder",
    "label_selector",
    "make_attachment",
    "make_budget",
    "make_capacity",
    "make_claim",
    "make_csi_driver",
    "make_csi_node",
    "make_device",
    "make_device_class",
    "make_namespace",
    "make_node",
    "make_pod",
    "make_pod_group",
    "make_priority_class",
    "make_replica_set",
    "make_replication_controller",
    "make_resource_claim",
    "make_service",
    "make_slice",
    "make_stateful_set",
    "make_storage_class",
    "make_volume",
    "request",
]

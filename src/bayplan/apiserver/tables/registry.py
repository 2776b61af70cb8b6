"""Which columns each built-in kind has, and which function fills them.

A column is written `Title`, `Title:type`, with `+` in front if only `-o wide` shows it. Kinds
without a function begin with the name; a cell is the age, or the field at the path behind `=`.
Kinds that are not listed get the name and the creation time, as in the real API server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from bayplan.apiserver.tables import autoscaling, cluster, pods, workloads
from bayplan.apiserver.tables.text import age

Row = Callable[[Mapping[str, Any], datetime], list[Any]]
Column = dict[str, Any]


class Printer(NamedTuple):
    """The columns of a kind and the function that makes the cells of one object."""

    columns: list[Column]
    row: Row


def column(title: str, type_: str = "string", priority: int = 0, format_: str = "") -> Column:
    return {
        "name": title,
        "type": type_,
        "format": format_,
        "description": "",
        "priority": priority,
    }


def _columns(text: str) -> list[Column]:
    found = []
    for part in text.split(" | "):
        wide = part.startswith("+")
        title, _, type_ = part.removeprefix("+").partition("=")[0].partition(":")
        format_ = "name" if title in ("Name", "Attacher") else ""
        found.append(column(title, type_ or "string", int(wide), format_))
    return found


def _row(text: str) -> Row:
    """A row whose cells are what the fields hold that its columns name."""
    ways = [part.partition("=")[2].split(".") for part in text.split(" | ")]
    absent = [_ABSENT[each["type"]] for each in _columns(text)]

    def row(obj: Mapping[str, Any], now: datetime) -> list[Any]:
        cells: list[Any] = [obj["metadata"]["name"]]
        for way, instead in zip(ways[1:], absent[1:], strict=True):
            found: Any = obj
            for name in way:
                found = (found or {}).get(name)
            cells.append((instead if found is None else found) if any(way) else age(obj, now))
        return cells

    return row


_ABSENT: dict[str, Any] = {"string": "", "integer": 0, "boolean": False}
_REPLICAS = (
    "Name | Desired:integer | Current:integer | Ready:integer | Age"
    " | +Containers | +Images | +Selector"
)
_EVENT = (
    "Last Seen | Type | Reason | Object | +Subobject | +Source | Message"
    " | +First Seen | +Count | +Name"
)
_BINDING = "Name | Role | Age | +Users | +Groups | +ServiceAccounts"

PRINTERS: dict[tuple[str, str], str | tuple[str, Row]] = {
    ("", "Pod"): (
        "Name | Ready | Status | Restarts | Age | +IP | +Node | +Nominated Node | +Readiness Gates",
        pods.pod_row,
    ),
    ("", "Node"): (
        "Name | Status | Roles | Age | Version | +Internal-IP | +External-IP | +OS-Image"
        " | +Kernel-Version | +Container-Runtime",
        cluster.node,
    ),
    ("", "Namespace"): "Name | Status=status.phase | Age",
    ("", "Service"): (
        "Name | Type | Cluster-IP | External-IP | Port(s) | Age | +Selector",
        cluster.service,
    ),
    ("", "Endpoints"): ("Name | Endpoints | Age", cluster.endpoints),
    ("", "ConfigMap"): ("Name | Data | Age", cluster.config_map),
    ("", "Secret"): ("Name | Type | Data | Age", cluster.secret),
    ("", "ServiceAccount"): "Name | Age",
    ("", "Event"): (_EVENT, cluster.event),
    ("events.k8s.io", "Event"): (_EVENT, cluster.event),
    ("", "PersistentVolume"): (
        "Name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass"
        " | VolumeAttributesClass | Reason | Age | +VolumeMode",
        cluster.persistent_volume,
    ),
    ("", "PersistentVolumeClaim"): (
        "Name | Status | Volume | Capacity | Access Modes | StorageClass | VolumeAttributesClass"
        " | Age | +VolumeMode",
        cluster.persistent_volume_claim,
    ),
    ("", "ReplicationController"): (_REPLICAS, workloads.replication_controller),
    ("", "ResourceQuota"): ("Name | Request | Limit | Age", cluster.resource_quota),
    ("", "PodTemplate"): ("Name | Containers | Images | Pod Labels", workloads.pod_template),
    ("apps", "Deployment"): (
        "Name | Ready | Up-to-date | Available | Age | +Containers | +Images | +Selector",
        workloads.deployment,
    ),
    ("apps", "ReplicaSet"): (_REPLICAS, workloads.replica_set),
    ("apps", "StatefulSet"): ("Name | Ready | Age | +Containers | +Images", workloads.stateful_set),
    ("apps", "DaemonSet"): (
        "Name | Desired:integer | Current:integer | Ready:integer | Up-to-date:integer"
        " | Available:integer | Node Selector | Age | +Containers | +Images | +Selector",
        workloads.daemon_set,
    ),
    ("apps", "ControllerRevision"): (
        "Name | Controller | Revision | Age",
        workloads.controller_revision,
    ),
    ("batch", "Job"): (
        "Name | Status | Completions | Duration | Age | +Containers | +Images | +Selector",
        workloads.job,
    ),
    ("batch", "CronJob"): (
        "Name | Schedule | Timezone | Suspend:boolean | Active:integer | Last Schedule | Age"
        " | +Containers | +Images | +Selector",
        workloads.cron_job,
    ),
    ("policy", "PodDisruptionBudget"): (
        "Name | Min Available | Max Unavailable | Allowed Disruptions:integer | Age",
        workloads.pod_disruption_budget,
    ),
    ("autoscaling", "HorizontalPodAutoscaler"): (
        "Name | Reference | Targets | MinPods | MaxPods | Replicas | Age",
        autoscaling.horizontal_pod_autoscaler,
    ),
    ("autoscaling", "Scale"): (
        "Name | Desired:integer=spec.replicas | Available:integer=status.replicas | Age"
    ),
    ("scheduling.k8s.io", "CompositePodGroup"): (
        "Name | Policy | Workload | Age",
        cluster.composite_pod_group,
    ),
    ("scheduling.k8s.io", "PodGroup"): (
        "Name | Policy | Workload | Status | Age",
        cluster.pod_group,
    ),
    ("scheduling.k8s.io", "Workload"): "Name | Age",
    ("scheduling.k8s.io", "PriorityClass"): (
        "Name | Value:integer=value | Global-Default:boolean=globalDefault | Age"
        " | PreemptionPolicy=preemptionPolicy"
    ),
    ("storage.k8s.io", "StorageClass"): (
        "Name | Provisioner | ReclaimPolicy | VolumeBindingMode | AllowVolumeExpansion | Age",
        cluster.storage_class,
    ),
    ("storage.k8s.io", "CSINode"): ("Name | Drivers:integer | Age", cluster.csi_node),
    ("storage.k8s.io", "CSIDriver"): (
        "Name | AttachRequired:boolean | PodInfoOnMount:boolean | StorageCapacity:boolean"
        " | TokenRequests | RequiresRepublish:boolean | Modes | Age",
        cluster.csi_driver,
    ),
    ("storage.k8s.io", "VolumeAttachment"): (
        "Name | Attacher=spec.attacher | PV=spec.source.persistentVolumeName | Node=spec.nodeName"
        " | Attached:boolean=status.attached | Age"
    ),
    ("storage.k8s.io", "VolumeAttributesClass"): "Name | DriverName=driverName | Age",
    ("coordination.k8s.io", "Lease"): "Name | Holder=spec.holderIdentity | Age",
    ("discovery.k8s.io", "EndpointSlice"): (
        "Name | AddressType | Ports | Endpoints | Age",
        cluster.endpoint_slice,
    ),
    ("networking.k8s.io", "NetworkPolicy"): (
        "Name | Pod-Selector | Age",
        cluster.network_policy,
    ),
    ("apiregistration.k8s.io", "APIService"): (
        "Name | Service | Available | Age",
        cluster.api_service,
    ),
    ("node.k8s.io", "RuntimeClass"): "Name | Handler=handler | Age",
    ("rbac.authorization.k8s.io", "RoleBinding"): (_BINDING, cluster.role_binding),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): (_BINDING, cluster.role_binding),
    ("resource.k8s.io", "DeviceClass"): "Name | Age",
    ("resource.k8s.io", "DeviceTaintRule"): (
        "Name | Key | Value | Effect | TimeAdded | Age",
        cluster.device_taint_rule,
    ),
    ("resource.k8s.io", "ResourceClaim"): ("Name | State | Age", cluster.resource_claim),
    ("resource.k8s.io", "ResourceClaimTemplate"): "Name | Age",
    ("resource.k8s.io", "ResourceSlice"): (
        "Name | Node=spec.nodeName | Driver=spec.driver | Pool=spec.pool.name | Age"
    ),
}


def _plain_row(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")]


def printer_for(group: str, kind: str) -> Printer:
    """The printer of a built-in kind."""
    found = PRINTERS.get((group, kind))
    if found is None:
        return Printer(_columns("Name | Created At:date"), _plain_row)
    if isinstance(found, str):
        return Printer(_columns(found), _row(found))
    return Printer(_columns(found[0]), found[1])

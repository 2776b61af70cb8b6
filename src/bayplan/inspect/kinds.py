"""Which kinds a cluster's picture is made of, and what is missing without them.

One table serves every source: what a kubeconfig lists, what dumps and snapshots are searched for,
and what the ClusterRole in `deploy/` allows. A kind may be read as more than one struct: the engine
reads a replica set's selector, a question about it also its template.
"""

from __future__ import annotations

import msgspec

from bayplan import api
from bayplan.api import Object
from bayplan.client import Resource
from bayplan.client import resources as r
from bayplan.inspect import objects as o

LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")


class Kind(msgspec.Struct, frozen=True):
    """One kind: where it is listed, what it is decoded as, what its absence means."""

    resource: Resource
    structs: tuple[type[Object], ...]
    without: str
    """What answers lack when it cannot be read."""
    needed: bool = False
    """Without it there is no answer at all."""
    served_since: str = ""
    """Set for groups that older or smaller clusters do not serve; a 404 is then no news."""
    newer: Resource | None = None
    """Where newer clusters serve it, in the same shape; asked first."""

    @property
    def versions(self) -> tuple[str, ...]:
        """Versions of its group that are understood, the newest first."""
        return tuple(item.version for item in self.served)

    @property
    def served(self) -> tuple[Resource, ...]:
        """Where it may be listed, the newest first."""
        return (self.resource,) if self.newer is None else (self.newer, self.resource)


KINDS: tuple[Kind, ...] = (
    Kind(r.NODES, (api.Node,), "no answer is possible", needed=True),
    Kind(r.PODS, (api.Pod,), "no answer is possible", needed=True),
    Kind(r.NAMESPACES, (api.Namespace,), "namespace selectors of affinity match nothing"),
    Kind(r.SERVICES, (api.Service,), "default spreading may differ"),
    Kind(
        r.REPLICATION_CONTROLLERS,
        (api.ReplicationController, o.ReplicationControllerOwner),
        "default spreading may differ",
    ),
    Kind(
        r.REPLICA_SETS,
        (api.ReplicaSet, o.ReplicaSetOwner),
        "default spreading may differ, deployments cannot be followed to their pods",
    ),
    Kind(r.STATEFUL_SETS, (api.StatefulSet, o.StatefulSetOwner), "default spreading may differ"),
    Kind(r.DEPLOYMENTS, (o.Deployment,), "deployments cannot be asked about"),
    Kind(r.DAEMON_SETS, (o.DaemonSet,), "daemon sets cannot be asked about"),
    Kind(r.JOBS, (o.Job,), "jobs cannot be asked about"),
    Kind(
        r.POD_DISRUPTION_BUDGETS,
        (api.PodDisruptionBudget, o.Budget),
        "preemption and drains do not see budgets",
    ),
    Kind(r.PRIORITY_CLASSES, (api.PriorityClass,), "priority class names are not checked"),
    Kind(r.PERSISTENT_VOLUMES, (api.PersistentVolume,), "pods with claims are judged wrongly"),
    Kind(
        r.PERSISTENT_VOLUME_CLAIMS,
        (api.PersistentVolumeClaim,),
        "pods with claims are judged wrongly",
    ),
    Kind(r.STORAGE_CLASSES, (api.StorageClass,), "pods with claims are judged wrongly"),
    Kind(r.CSI_NODES, (api.CSINode,), "volume limits are not seen"),
    Kind(r.CSI_DRIVERS, (api.CSIDriver,), "storage capacity is not seen"),
    Kind(r.CSI_STORAGE_CAPACITIES, (api.CSIStorageCapacity,), "storage capacity is not seen"),
    Kind(r.VOLUME_ATTACHMENTS, (api.VolumeAttachment,), "volume limits may be off"),
    Kind(
        r.RESOURCE_CLAIMS,
        (api.ResourceClaim,),
        "pods with resource claims are judged wrongly",
        served_since="1.34",
    ),
    Kind(
        r.RESOURCE_SLICES,
        (api.ResourceSlice,),
        "devices are not seen",
        served_since="1.34",
    ),
    Kind(
        r.DEVICE_CLASSES,
        (api.DeviceClass,),
        "devices are not seen",
        served_since="1.34",
    ),
    Kind(
        r.DEVICE_TAINT_RULES,
        (api.DeviceTaintRule,),
        "tainted devices are not seen",
        served_since="1.37",
    ),
    Kind(
        r.WORKLOADS,
        (api.Workload,),
        "gangs are not seen",
        served_since="1.36",
        newer=r.WORKLOADS_V1BETA1,
    ),
    Kind(
        r.POD_GROUPS,
        (api.PodGroup,),
        "gangs are not seen",
        served_since="1.36",
        newer=r.POD_GROUPS_V1BETA1,
    ),
    Kind(r.RESOURCE_QUOTAS, (o.ResourceQuota,), "quotas are not checked"),
    Kind(LIMIT_RANGES, (o.LimitRange,), "default requests and bounds of new pods are not seen"),
    Kind(r.SERVICE_ACCOUNTS, (o.ServiceAccount,), "service accounts are not checked"),
    Kind(r.CORE_EVENTS, (o.Event,), "what your scheduler said in events is not compared"),
)

EVENT_REASONS = ("FailedScheduling", "FailedCreate")
"""Of all events only those that say why a pod is not placed or not made."""

BY_KIND: dict[str, Kind] = {kind.resource.kind: kind for kind in KINDS}
STRUCTS: dict[str, type[Object]] = {s.__name__: s for kind in KINDS for s in kind.structs}
"""Every struct by its class name; what a snapshot's lines are called."""
OWNERS: tuple[type[o.Owner], ...] = (
    o.Deployment,
    o.ReplicaSetOwner,
    o.StatefulSetOwner,
    o.DaemonSet,
    o.ReplicationControllerOwner,
    o.Job,
)
OWNER_KINDS = {kind.KIND: kind for kind in OWNERS}

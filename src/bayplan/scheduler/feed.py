"""The informers of a scheduler: what is watched.

All kinds that a plugin may read are watched. Kinds of API groups that a cluster may not serve are
optional: without them their plugins see no objects. Pods that have finished are left out by
the server (a field selector), so one that finishes looks deleted: its room is free.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from typing import cast

from bayplan import api
from bayplan.api import Object
from bayplan.api.sharing import PodSharing
from bayplan.client import Change, Client, Informer, Resource
from bayplan.client import resources as r
from bayplan.client.outage import Outage
from bayplan.config import FeatureGates

WATCH_PATIENCE = 5.0
RUNNING_PODS = "status.phase!=Succeeded,status.phase!=Failed"

ALWAYS: tuple[tuple[Resource, type[Object]], ...] = (
    (r.NODES, api.Node),
    (r.NAMESPACES, api.Namespace),
    (r.PODS, api.Pod),
    (r.SERVICES, api.Service),
    (r.REPLICATION_CONTROLLERS, api.ReplicationController),
    (r.REPLICA_SETS, api.ReplicaSet),
    (r.STATEFUL_SETS, api.StatefulSet),
    (r.POD_DISRUPTION_BUDGETS, api.PodDisruptionBudget),
    (r.PERSISTENT_VOLUMES, api.PersistentVolume),
    (r.PERSISTENT_VOLUME_CLAIMS, api.PersistentVolumeClaim),
    (r.STORAGE_CLASSES, api.StorageClass),
    (r.CSI_NODES, api.CSINode),
)
OPTIONAL: tuple[tuple[Resource, type[Object]], ...] = (
    (r.CSI_DRIVERS, api.CSIDriver),
    (r.CSI_STORAGE_CAPACITIES, api.CSIStorageCapacity),
    (r.VOLUME_ATTACHMENTS, api.VolumeAttachment),
    (r.RESOURCE_CLAIMS, api.ResourceClaim),
    (r.RESOURCE_SLICES, api.ResourceSlice),
    (r.DEVICE_CLASSES, api.DeviceClass),
)
RULES: tuple[tuple[Resource, type[Object]], ...] = ((r.DEVICE_TAINT_RULES, api.DeviceTaintRule),)
RULES_1_36: tuple[tuple[Resource, type[Object]], ...] = (
    (r.DEVICE_TAINT_RULES_V1BETA2, api.DeviceTaintRule),
)
GANG: tuple[tuple[Resource, type[Object]], ...] = (
    (r.WORKLOADS_V1BETA1, api.Workload),
    (r.POD_GROUPS_V1BETA1, api.PodGroup),
)
COMPOSITE: tuple[tuple[Resource, type[Object]], ...] = (
    (r.COMPOSITE_POD_GROUPS, api.CompositePodGroup),
)
GANG_1_36: tuple[tuple[Resource, type[Object]], ...] = (
    (r.WORKLOADS, api.Workload),
    (r.POD_GROUPS, api.PodGroup),
)


def kinds_of(gates: FeatureGates) -> tuple[tuple[Resource, type[Object]], ...]:
    """What a scheduler reads, in the order in which it is listed."""
    return (*ALWAYS, *_optional(gates))


def _optional(gates: FeatureGates) -> tuple[tuple[Resource, type[Object]], ...]:
    modern = gates.since("1.37")
    rules = (RULES if modern else RULES_1_36) if gates["DRADeviceTaintRules"] else ()
    gang = (GANG if modern else GANG_1_36) if gates["GenericWorkload"] else ()
    composite = COMPOSITE if modern and gates["CompositePodGroup"] else ()
    return (*OPTIONAL, *rules, *gang, *composite)


class Feed:
    """Runs the informers and passes what they tell to `deliver`, in batches."""

    def __init__(
        self,
        client: Client,
        deliver: Callable[[Sequence[Change[Object]]], None],
        *,
        gates: FeatureGates,
        jitter: Callable[[], float] = random.random,
        keep_texts: bool = False,
    ) -> None:
        """`keep_texts`: keep the JSON of pods and nodes, which extenders are sent."""
        optional = _optional(gates)
        self.informers: dict[str, Informer[Object]] = {}
        outage = Outage()
        for resource, kind in (*ALWAYS, *optional):
            transform: Callable[[Object], Object] | None = None
            if kind is api.Pod:
                transform = cast("Callable[[Object], Object]", PodSharing())
            informer = Informer(
                client,
                resource,
                kind,
                field_selector=RUNNING_PODS if kind is api.Pod else "",
                jitter=jitter,
                optional=(resource, kind) in optional,
                keep_texts=keep_texts and kind in (api.Node, api.Pod),
                transform=transform,
                outage=outage,
            )
            informer.add_handler(deliver)
            self.informers[kind.KIND] = informer

    @property
    def has_synced(self) -> bool:
        """Tell whether every first list has been delivered."""
        return all(informer.has_synced for informer in self.informers.values())

    def text_of(self, item: Object) -> bytes | None:
        """The JSON of an object as the API server sent it, if texts are kept."""
        informer = self.informers.get(type(item).KIND)
        return None if informer is None else informer.text_of(item)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self.informers.values():
                group.create_task(informer.run())

    async def wait_synced(self) -> None:
        """Return once every first list has been delivered and every watch has begun.

        Before that, a pod could arrive earlier than the node it was made for, because each kind
        has a connection of its own. A watch that cannot begin is not waited for without end.
        """
        for informer in self.informers.values():
            await informer.wait_synced()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WATCH_PATIENCE):
                for informer in self.informers.values():
                    await informer.wait_watching()

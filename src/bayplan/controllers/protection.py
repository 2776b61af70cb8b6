"""Lets claims, volumes, their attribute classes and pod groups go once nobody uses them.

The API server gives each a protection finalizer. A claim loses it when it is being deleted and no
pod that has not finished mentions it; a volume when it is being deleted and not bound; a class when
no claim and no volume names it; a pod group when all its pods are gone or have finished.
"""

from __future__ import annotations

import asyncio

from bayplan.client import Change, Resource
from bayplan.client.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from bayplan.controllers.objects import Bare, Object, is_finished
from bayplan.controllers.runtime import Kit, Worker

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"
CLASS_FINALIZER = "kubernetes.io/vac-protection"
GROUP_FINALIZER = "scheduling.k8s.io/podgroup-protection"
ATTRIBUTE_CLASSES = Resource(
    "storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass", namespaced=False
)


class ProtectionController:
    """Takes the finalizers off."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._pods = kit.cache(PODS)
        self._claims = kit.cache(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = kit.cache(PERSISTENT_VOLUMES)
        self._pods.add_index("claim", claim_index)
        caches = (self._claims, self._pods)
        self._claim_worker = Worker(kit, "volume-protection", self._sync_claim, caches)
        self._volume_worker = Worker(kit, "volume-protection", self._sync_volume, (self._volumes,))
        self._claims.listen(lambda change: self._claim_worker.queue.add(change.new.key))
        self._volumes.listen(lambda change: self._volume_worker.queue.add(change.new.key))
        self._pods.listen(self._pod_changed)
        self._attributes = kit.bare(ATTRIBUTE_CLASSES)
        self._class_worker = Worker(kit, "volume-protection", self._sync_class)
        self._attributes.listen(
            lambda change: self._class_worker.queue.add(change.new.metadata.key)
        )
        self._claims.listen(self._user_changed)
        self._volumes.listen(self._user_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claim_worker.run())
            group.create_task(self._volume_worker.run())
            group.create_task(self._class_worker.run())

    def _pod_changed(self, change: Change[Object]) -> None:
        if change.type == "DELETED" or is_finished(change.new):
            for key in claim_index(change.new):
                self._claim_worker.queue.add(key)

    async def _sync_claim(self, key: str) -> float | None:
        claim = self._claims.get(key)
        if claim is None or not claim.deleted:
            return None
        if not any(not is_finished(pod) for pod in self._pods.by("claim", key)):
            await self._lift(PERSISTENT_VOLUME_CLAIMS, claim, CLAIM_FINALIZER)
        return None

    async def _sync_volume(self, key: str) -> float | None:
        volume = self._volumes.get(key)
        if volume is not None and volume.deleted and volume.status.get("phase") != "Bound":
            await self._lift(PERSISTENT_VOLUMES, volume, VOLUME_FINALIZER)
        return None

    def _user_changed(self, change: Change[Object]) -> None:
        for obj in (change.old, change.new):
            if obj is not None and (name := obj.spec.get("volumeAttributesClassName")):
                self._class_worker.queue.add(name)

    async def _sync_class(self, name: str) -> float | None:
        found = self._attributes.get(name)
        if found is None or not found.metadata.deletion_timestamp:
            return None
        users = (*self._claims.all(), *self._volumes.all())
        if not any(obj.spec.get("volumeAttributesClassName") == name for obj in users):
            await self._lift(ATTRIBUTE_CLASSES, found, CLASS_FINALIZER)
        return None

    async def _lift(self, resource: Resource, obj: Object | Bare, finalizer: str) -> None:
        await lift(self._kit, resource, obj, finalizer)


class PodGroupProtection:
    """Takes the finalizer off pod groups; the option `pod-groups` is the version they have."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        version = kit.options.get("pod-groups", "")
        self._workers: list[Worker] = []
        if not version:  # the server has none
            return
        self._resource = Resource("scheduling.k8s.io", version, "podgroups", "PodGroup")
        self._groups, self._pods = kit.bare(self._resource), kit.cache(PODS)
        self._pods.add_index("group", group_index)
        worker = Worker(kit, "podgroup-protection", self._sync, (self._pods,))
        self._workers.append(worker)
        self._groups.listen(lambda change: worker.queue.add(change.new.metadata.key))
        self._pods.listen(self._pod_changed)

    async def run(self) -> None:
        for worker in self._workers:
            await worker.run()

    def _pod_changed(self, change: Change[Object]) -> None:
        if change.type == "DELETED" or is_finished(change.new):
            for key in group_index(change.new):
                self._workers[0].queue.add(key)

    async def _sync(self, key: str) -> float | None:
        group = self._groups.get(key)
        if group is None or not group.metadata.deletion_timestamp:
            return None
        if all(is_finished(pod) for pod in self._pods.by("group", key)):
            await lift(self._kit, self._resource, group, GROUP_FINALIZER)
        return None


async def lift(kit: Kit, resource: Resource, obj: Object | Bare, finalizer: str) -> None:
    """Take a finalizer off, if it is there and the object is as it was seen."""
    if finalizer in obj.metadata.finalizers:
        left = [item for item in obj.metadata.finalizers if item != finalizer]
        version = obj.metadata.resource_version
        body = {"metadata": {"resourceVersion": version, "finalizers": left or None}}
        await kit.patch(resource, obj.metadata.key, body)


def group_index(pod: Object) -> tuple[str, ...]:
    """Index a pod by the pod group that it belongs to."""
    name = (pod.spec.get("schedulingGroup") or {}).get("podGroupName")
    return (f"{pod.metadata.namespace}/{name}",) if name else ()


def claim_index(pod: Object) -> tuple[str, ...]:
    """Index a pod by the claims it mentions, also those of its ephemeral volumes."""
    found = []
    for volume in pod.spec.get("volumes") or []:
        if claim := volume.get("persistentVolumeClaim"):
            found.append(f"{pod.metadata.namespace}/{claim.get('claimName')}")
        elif "ephemeral" in volume:
            found.append(f"{pod.metadata.namespace}/{pod.metadata.name}-{volume['name']}")
    return tuple(found)

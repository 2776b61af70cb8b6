"""Binds claims to volumes, and plays every storage provisioner.

A claim of an Immediate class takes the smallest volume that fits, or gets one provisioned. A claim
of a WaitForFirstConsumer class waits for the scheduler: that either points a volume at the claim,
and the binding is completed here, or names a node in `volume.kubernetes.io/selected-node`, and a
volume is provisioned for that node's zone (its host name where it has no zone). When a claim is
gone its volume is deleted or kept as its reclaim policy says.

Provisioning is simulated: a PersistentVolume object and nothing behind it. Classes of
`kubernetes.io/no-provisioner` get none. Resizing, snapshots and attaching are not done.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from bayplan.api import quantity
from bayplan.apiserver.admission.storage import is_default_class
from bayplan.client import AlreadyExists, Change
from bayplan.client.resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from bayplan.controllers.objects import Json, Object, StorageClass, selector_of
from bayplan.controllers.runtime import Kit, Worker

SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_US = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


class VolumeBinder:
    """Two queues: claims that look for volumes, volumes whose phase may have changed."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._claims = kit.cache(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = kit.cache(PERSISTENT_VOLUMES)
        self._classes = kit.classes(STORAGE_CLASSES)
        self._nodes = kit.cache(NODES)
        self._volumes.add_index("claim", _claim_index)
        self._told: dict[str, str] = {}  # why a claim waits, by its uid
        caches = (self._claims, self._volumes, self._nodes)
        self._claim_worker = Worker(kit, "persistentvolume-binder", self._sync_claim, caches)
        self._volume_worker = Worker(kit, "persistentvolume-binder", self._sync_volume, caches)
        self._claims.listen(self._claim_changed)
        self._volumes.listen(self._volume_changed)
        self._classes.listen(self._class_changed)

    async def run(self) -> None:
        await self._classes.informer.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claim_worker.run())
            group.create_task(self._volume_worker.run())

    def _claim_changed(self, change: Change[Object]) -> None:
        self._claim_worker.queue.add(change.new.key)
        if change.type == "DELETED":
            self._told.pop(change.new.metadata.uid, None)
            for volume in self._volumes.by("claim", change.new.key):
                self._volume_worker.queue.add(volume.key)

    def _volume_changed(self, change: Change[Object]) -> None:
        self._volume_worker.queue.add(change.new.key)
        for key in _claim_index(change.new):
            self._claim_worker.queue.add(key)
        if change.type == "ADDED" and not change.new.spec.get("claimRef"):
            self._wake_pending()

    def _class_changed(self, change: Change[StorageClass]) -> None:
        if change.type != "DELETED":
            self._wake_pending()

    def _wake_pending(self) -> None:
        for claim in self._claims.all():
            if not claim.spec.get("volumeName"):
                self._claim_worker.queue.add(claim.key)

    # -- claims

    async def _sync_claim(self, key: str) -> float | None:
        claim = self._claims.get(key)
        if claim is None or claim.deleted:
            return None
        if name := claim.spec.get("volumeName"):
            await self._sync_named(claim, self._volumes.get(name))
            return None
        volume = next((v for v in self._volumes.by("claim", key) if _points_at(v, claim)), None)
        if volume is not None:
            await self._bind(claim, volume)
            return None
        await self._sync_unbound(claim)
        return None

    async def _sync_named(self, claim: Object, volume: Object | None) -> None:
        """A claim that names its volume: by a user's wish, or bound in the past."""
        bound = BIND_COMPLETED in claim.metadata.annotations
        if volume is None or (volume.deleted and not bound):
            if bound:
                await self._kit.set_status(PERSISTENT_VOLUME_CLAIMS, claim, {"phase": "Lost"})
            return
        if not volume.spec.get("claimRef") or _points_at(volume, claim):
            await self._bind(claim, volume)
        elif bound:
            await self._kit.set_status(PERSISTENT_VOLUME_CLAIMS, claim, {"phase": "Lost"})

    async def _sync_unbound(self, claim: Object) -> None:
        if claim.spec.get("storageClassName") is None and (name := self._default_class()):
            body = {"spec": {"storageClassName": name}}  # it was made before there was a default
            await self._kit.patch(PERSISTENT_VOLUME_CLAIMS, claim.key, body)
            return
        class_name = claim.spec.get("storageClassName") or ""
        storage_class = self._classes.get(class_name) if class_name else None
        node = claim.metadata.annotations.get(SELECTED_NODE)
        waits = storage_class is not None and (
            storage_class.volume_binding_mode == "WaitForFirstConsumer"
        )
        if waits and not node:
            text = "waiting for first consumer to be created before binding"
            self._tell(claim, "WaitForFirstConsumer", text)
            return
        volume = None if waits else self._match(claim, class_name)
        if volume is not None:
            await self._bind(claim, volume)
        elif storage_class is not None and storage_class.provisioner != NO_PROVISIONER:
            await self._provision(claim, storage_class, node or "")
        elif class_name and storage_class is None:
            text = f'storageclass.storage.k8s.io "{class_name}" not found'
            self._tell(claim, "ProvisioningFailed", text, warning=True)
        else:
            text = "no persistent volumes available for this claim and no storage class is set"
            self._tell(claim, "FailedBinding", text)

    def _tell(self, claim: Object, reason: str, text: str, *, warning: bool = False) -> None:
        """Tell why a claim waits, each reason once however often it is looked at."""
        if self._told.get(claim.metadata.uid) != reason:
            self._told[claim.metadata.uid] = reason
            about, component = claim.metadata, "persistentvolume-controller"
            self._kit.events.record(
                PERSISTENT_VOLUME_CLAIMS, about, reason, text, component, warning=warning
            )

    def _default_class(self) -> str:
        """Return the newest of the classes that claims get which name none."""
        found = [c for c in self._classes.all() if is_default_class(c.metadata.annotations)]
        newest = max(
            found,
            key=lambda c: (c.metadata.creation_timestamp, [-ord(x) for x in c.metadata.name]),
            default=None,
        )
        return newest.metadata.name if newest else ""

    def _match(self, claim: Object, class_name: str) -> Object | None:
        """Return the smallest free volume that satisfies a claim."""
        wanted = _request(claim)
        selector = claim.spec.get("selector")
        chosen = selector_of(selector) if selector else None
        fitting = [
            volume
            for volume in self._volumes.all()
            if not volume.spec.get("claimRef")
            and not volume.deleted
            and (volume.spec.get("storageClassName") or "") == class_name
            and _mode(volume) == _mode(claim)
            and set(claim.spec.get("accessModes") or ()) <= set(volume.spec["accessModes"])
            and _capacity(volume) >= wanted
            and (chosen is None or chosen.matches(volume.metadata.labels))
        ]
        return min(fitting, key=lambda v: (_capacity(v), v.metadata.name), default=None)

    async def _bind(self, claim: Object, volume: Object) -> None:
        """Point both at each other, the volume first, and say so; done parts are left out."""
        reference: Json = volume.spec.get("claimRef") or {}
        if reference.get("uid") != claim.metadata.uid:
            patch: Json = {"spec": {"claimRef": _reference(claim)}}
            patch["metadata"] = {"resourceVersion": volume.metadata.resource_version}
            if not reference:
                patch["metadata"]["annotations"] = {BOUND_BY_US: "yes"}
            await self._kit.patch(PERSISTENT_VOLUMES, volume.key, patch)
        await self._kit.set_status(PERSISTENT_VOLUMES, volume, {"phase": "Bound"})
        named = claim.spec.get("volumeName")
        if not named or BIND_COMPLETED not in claim.metadata.annotations:
            notes = {BIND_COMPLETED: "yes"} | ({} if named else {BOUND_BY_US: "yes"})
            body = {
                "metadata": {"annotations": notes},
                "spec": {"volumeName": volume.metadata.name},
            }
            await self._kit.patch(PERSISTENT_VOLUME_CLAIMS, claim.key, body)
        status = {
            "phase": "Bound",
            "accessModes": volume.spec.get("accessModes"),
            "capacity": volume.spec.get("capacity"),
        }
        await self._kit.set_status(PERSISTENT_VOLUME_CLAIMS, claim, status)

    async def _provision(self, claim: Object, storage_class: StorageClass, node: str) -> None:
        provisioner = storage_class.provisioner
        if claim.metadata.annotations.get(PROVISIONER) != provisioner:
            notes = {"metadata": {"annotations": {PROVISIONER: provisioner}}}
            await self._kit.patch(PERSISTENT_VOLUME_CLAIMS, claim.key, notes)
        name = f"pvc-{claim.metadata.uid}"
        spec: Json = {
            "accessModes": claim.spec.get("accessModes"),
            "capacity": {"storage": claim.spec["resources"]["requests"]["storage"]},
            "claimRef": _reference(claim),
            "csi": {"driver": provisioner.replace("/", "."), "volumeHandle": name},
            "persistentVolumeReclaimPolicy": storage_class.reclaim_policy,
            "storageClassName": storage_class.metadata.name,
            "volumeMode": _mode(claim),
        }
        if storage_class.mount_options:
            spec["mountOptions"] = storage_class.mount_options
        if terms := self._topology(storage_class, node):
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        body = {"metadata": {"name": name, "annotations": {PROVISIONED_BY: provisioner}}}
        # made before, and about to be seen
        with suppress(AlreadyExists):
            await self._kit.create(PERSISTENT_VOLUMES, {**body, "spec": spec})
            self._tell(claim, "ProvisioningSucceeded", f"Successfully provisioned volume {name}")

    def _topology(self, storage_class: StorageClass, node: str) -> list[Json]:
        """Return where a new volume can be reached: from the node's zone, or as the class says."""
        found = self._nodes.get(node) if node else None
        if found is not None:
            labels = found.metadata.labels
            key = ZONE if ZONE in labels else HOST
            values = [labels.get(key, node)]
            return [{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]
        return [
            {
                "matchExpressions": [
                    {"key": item["key"], "operator": "In", "values": item["values"]}
                    for item in term.get("matchLabelExpressions") or []
                ]
            }
            for term in storage_class.allowed_topologies
        ]

    # -- volumes

    async def _sync_volume(self, key: str) -> float | None:
        volume = self._volumes.get(key)
        if volume is None or volume.deleted:
            return None
        reference: Json = volume.spec.get("claimRef") or {}
        if not reference.get("uid"):
            await self._kit.set_status(PERSISTENT_VOLUMES, volume, {"phase": "Available"})
            return None
        claim = self._claims.get(f"{reference['namespace']}/{reference['name']}")
        if claim is not None and claim.metadata.uid == reference["uid"]:
            return None  # the claim's side does what is to be done
        await self._kit.set_status(PERSISTENT_VOLUMES, volume, {"phase": "Released"})
        if volume.spec.get("persistentVolumeReclaimPolicy") == "Delete":
            await self._kit.delete(PERSISTENT_VOLUMES, key, uid=volume.metadata.uid)
        return None


def _claim_index(volume: Object) -> tuple[str, ...]:
    reference: Json = volume.spec.get("claimRef") or {}
    return (f"{reference.get('namespace')}/{reference.get('name')}",) if reference else ()


def _points_at(volume: Object, claim: Object) -> bool:
    reference: Json = volume.spec.get("claimRef") or {}
    same = (reference.get("namespace"), reference.get("name")) == (
        claim.metadata.namespace,
        claim.metadata.name,
    )
    return same and reference.get("uid", "") in ("", claim.metadata.uid)


def _reference(claim: Object) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.metadata.namespace,
        "name": claim.metadata.name,
        "uid": claim.metadata.uid,
        "resourceVersion": claim.metadata.resource_version,
    }


def _mode(obj: Object) -> str:
    return str(obj.spec.get("volumeMode") or "Filesystem")


def _capacity(volume: Object) -> int:
    return quantity.value((volume.spec.get("capacity") or {}).get("storage", 0))


def _request(claim: Object) -> int:
    requests: Json = (claim.spec.get("resources") or {}).get("requests") or {}
    return quantity.value(requests.get("storage", 0))

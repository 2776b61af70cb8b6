"""Builders for volumes, claims, classes and what CSI drivers publish."""

from __future__ import annotations

from typing import Any

from bayplan.api import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from bayplan.testing.bodies import label_selector, node_term
from bayplan.testing.builders import Builder

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


class VolumeBuilder(Builder[PersistentVolume]):
    """Builds a persistent volume: 10Gi, ReadWriteOnce, available, without a class."""

    def __init__(self, name: str) -> None:
        super().__init__(PersistentVolume, name)
        self.spec["capacity"] = {"storage": "10Gi"}
        self.spec["accessModes"] = ["ReadWriteOnce"]
        self.status["phase"] = "Available"

    def size(self, storage: str) -> VolumeBuilder:
        self.spec["capacity"] = {"storage": storage}
        return self

    def storage_class(self, name: str) -> VolumeBuilder:
        self.spec["storageClassName"] = name
        return self

    def modes(self, *modes: str) -> VolumeBuilder:
        self.spec["accessModes"] = list(modes)
        return self

    def on_nodes(self, *requirements: str) -> VolumeBuilder:
        """Make the volume reachable only where the requirements hold."""
        terms = [node_term(requirements, ())]
        self.spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        return self

    def csi(self, driver: str, handle: str = "") -> VolumeBuilder:
        self.spec["csi"] = {"driver": driver, "volumeHandle": handle or self.meta["name"]}
        return self

    def bound_to(self, claim: str, namespace: str = "default", uid: str = "") -> VolumeBuilder:
        ref = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim}
        self.spec["claimRef"] = ref | ({"uid": uid} if uid else {})
        self.status["phase"] = "Bound"
        return self


class ClaimBuilder(Builder[PersistentVolumeClaim]):
    """Builds a claim for 1Gi, ReadWriteOnce, pending."""

    def __init__(self, name: str, namespace: str = "default") -> None:
        super().__init__(PersistentVolumeClaim, name, namespace)
        self.spec["accessModes"] = ["ReadWriteOnce"]
        self.spec["resources"] = {"requests": {"storage": "1Gi"}}
        self.status["phase"] = "Pending"

    def size(self, storage: str) -> ClaimBuilder:
        self.spec["resources"] = {"requests": {"storage": storage}}
        return self

    def storage_class(self, name: str) -> ClaimBuilder:
        self.spec["storageClassName"] = name
        return self

    def modes(self, *modes: str) -> ClaimBuilder:
        self.spec["accessModes"] = list(modes)
        return self

    def bound(self, volume: str) -> ClaimBuilder:
        """Bind the claim to a volume, completely."""
        self.spec["volumeName"] = volume
        self.status["phase"] = "Bound"
        return self.annotate({BIND_COMPLETED: "yes"})

    def selects(self, selector: str) -> ClaimBuilder:
        self.spec["selector"] = label_selector(selector)
        return self


def make_volume(name: str) -> VolumeBuilder:
    """Start a persistent volume."""
    return VolumeBuilder(name)


def make_claim(name: str, namespace: str = "default") -> ClaimBuilder:
    """Start a persistent volume claim."""
    return ClaimBuilder(name, namespace)


def make_storage_class(
    name: str, *, provisioner: str = "csi.example.com", wait: bool = True, **fields: Any
) -> Builder[StorageClass]:
    """Start a storage class that waits for the first consumer, or binds at once."""
    builder = Builder(StorageClass, name)
    builder.data["provisioner"] = provisioner
    builder.data["volumeBindingMode"] = "WaitForFirstConsumer" if wait else "Immediate"
    builder.data.update(fields)
    return builder


def make_csi_node(name: str, **limits: int | None) -> Builder[CSINode]:
    """Start a CSINode; `limits` are attach limits by driver, None for none."""
    builder = Builder(CSINode, name)
    builder.spec["drivers"] = [
        {"name": driver.replace("_", "."), "nodeID": name}
        | ({"allocatable": {"count": count}} if count is not None else {})
        for driver, count in limits.items()
    ]
    return builder


def make_csi_driver(name: str, *, capacity: bool = False) -> Builder[CSIDriver]:
    """Start a CSIDriver that publishes capacity, or does not."""
    builder = Builder(CSIDriver, name)
    builder.spec["storageCapacity"] = capacity
    return builder


def make_capacity(
    name: str, storage_class: str, capacity: str, topology: str = "", **fields: Any
) -> Builder[CSIStorageCapacity]:
    """Start a CSIStorageCapacity for the nodes that a selector in query form matches."""
    builder = Builder(CSIStorageCapacity, name, "default")
    builder.data["storageClassName"] = storage_class
    builder.data["capacity"] = capacity
    builder.data["nodeTopology"] = label_selector(topology)
    builder.data.update(fields)
    return builder


def make_attachment(
    name: str, *, attacher: str, node: str, volume: str
) -> Builder[VolumeAttachment]:
    """Start a VolumeAttachment."""
    builder = Builder(VolumeAttachment, name)
    source = {"persistentVolumeName": volume}
    builder.spec.update({"attacher": attacher, "nodeName": node, "source": source})
    return builder

# ruff: noqa: RUF012 - msgspec copies empty mutable defaults
"""Persistent volumes, claims, classes and what CSI drivers publish about nodes and capacity."""

from typing import ClassVar

from bayplan.api.meta import LabelSelector, Model, NodeSelector, Object, Quantity, Resources
from bayplan.api.volumes import ClaimSpec, VolumeSources


class ObjectReference(Model, frozen=True):
    """`spec.claimRef` of a volume."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(Model, frozen=True):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(VolumeSources, frozen=True):
    """`spec` of a persistent volume."""

    capacity: Resources = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str = ""
    volume_attributes_class_name: str = ""
    node_affinity: VolumeNodeAffinity | None = None


class Phase(Model, frozen=True):
    """A status of which only the phase matters."""

    phase: str = ""


class PersistentVolume(Object, kw_only=True, frozen=True):
    """A volume of the cluster."""

    KIND: ClassVar[str] = "PersistentVolume"
    RESOURCE: ClassVar[str] = "persistentvolumes"

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: Phase = Phase()


class PersistentVolumeClaim(Object, kw_only=True, frozen=True):
    """A pod's wish for a volume."""

    KIND: ClassVar[str] = "PersistentVolumeClaim"
    RESOURCE: ClassVar[str] = "persistentvolumeclaims"

    spec: ClaimSpec = ClaimSpec()
    status: Phase = Phase()


class TopologyRequirement(Model, frozen=True):
    """One of a topology term's `matchLabelExpressions`."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Model, frozen=True):
    """Label expressions that must all hold."""

    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(Object, kw_only=True, frozen=True):
    """How volumes of a class come to be."""

    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    KIND: ClassVar[str] = "StorageClass"
    RESOURCE: ClassVar[str] = "storageclasses"

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class DriverAllocatable(Model, frozen=True):
    """How many volumes a driver can attach to a node; no count means no limit."""

    count: int | None = None


class CSINodeDriver(Model, frozen=True):
    """A CSI driver on a node."""

    name: str = ""
    allocatable: DriverAllocatable | None = None
    topology_keys: tuple[str, ...] = ()


class CSINodeSpec(Model, frozen=True):
    """`spec` of a CSINode."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Object, kw_only=True, frozen=True):
    """The CSI drivers of the node with the same name."""

    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    KIND: ClassVar[str] = "CSINode"
    RESOURCE: ClassVar[str] = "csinodes"

    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Model, frozen=True):
    """`spec` of a CSIDriver."""

    storage_capacity: bool = False
    prevent_pod_scheduling_if_missing: bool = False


class CSIDriver(Object, kw_only=True, frozen=True):
    """What a CSI driver supports."""

    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    KIND: ClassVar[str] = "CSIDriver"
    RESOURCE: ClassVar[str] = "csidrivers"

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Object, kw_only=True, frozen=True):
    """How much a driver can still provision for a class in one part of the cluster."""

    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    KIND: ClassVar[str] = "CSIStorageCapacity"
    RESOURCE: ClassVar[str] = "csistoragecapacities"

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeAttachmentSource(Model, frozen=True):
    """The volume that is attached."""

    persistent_volume_name: str = ""


class VolumeAttachmentSpec(Model, frozen=True):
    """`spec` of a VolumeAttachment."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(Object, kw_only=True, frozen=True):
    """A volume attached, or being attached, to a node."""

    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    KIND: ClassVar[str] = "VolumeAttachment"
    RESOURCE: ClassVar[str] = "volumeattachments"

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()

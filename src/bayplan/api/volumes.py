# ruff: noqa: RUF012 - msgspec copies empty mutable defaults
"""Volumes of a pod and the volume sources that they share with persistent volumes.

Only the fields that decide whether two pods may share a disk, or that name a disk to count.
"""

import msgspec

from bayplan.api.meta import LabelSelector, Model, ObjectMeta, Resources


class AwsElasticBlockStore(Model, frozen=True):
    """An in-tree EBS disk."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class GcePersistentDisk(Model, frozen=True):
    """An in-tree GCE disk."""

    pd_name: str = ""
    read_only: bool = False


class Iscsi(Model, frozen=True):
    """An iSCSI disk; portal and LUN do not take part in conflicts."""

    iqn: str = ""
    read_only: bool = False


class Rbd(Model, frozen=True):
    """A Ceph block device."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class AzureDisk(Model, frozen=True):
    """An in-tree Azure disk."""

    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")


class AzureFile(Model, frozen=True):
    """An in-tree Azure file share."""

    share_name: str = ""
    secret_name: str = ""


class Cinder(Model, frozen=True):
    """An in-tree OpenStack disk."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class VsphereVolume(Model, frozen=True):
    """An in-tree vSphere disk."""

    volume_path: str = ""


class PortworxVolume(Model, frozen=True):
    """An in-tree Portworx volume."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class CsiVolume(Model, frozen=True):
    """A CSI source: inline in a pod (driver only) or of a persistent volume (with a handle)."""

    driver: str = ""
    volume_handle: str = ""


class ClaimVolume(Model, frozen=True):
    """`persistentVolumeClaim` of a volume."""

    claim_name: str = ""
    read_only: bool = False


class ClaimResources(Model, frozen=True):
    """What a claim asks of its volume."""

    requests: Resources = {}


class ClaimSpec(Model, frozen=True):
    """`spec` of a persistent volume claim, or of a claim template."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ClaimResources = ClaimResources()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str = ""
    volume_attributes_class_name: str = ""


class ClaimTemplate(Model, frozen=True):
    """The claim that is made for a generic ephemeral volume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimSpec = ClaimSpec()


class EphemeralVolume(Model, frozen=True):
    """`ephemeral` of a volume: a claim that lives as long as the pod."""

    volume_claim_template: ClaimTemplate | None = None


class ImageVolume(Model, frozen=True):
    """`image` of a volume."""

    reference: str = ""


class EmptyDirVolume(Model, frozen=True):
    """`emptyDir` of a volume: scheduling ignores it, a drain must be told to delete it."""

    medium: str = ""


class VolumeSources(Model, frozen=True, kw_only=True):
    """The disks that volumes of pods and persistent volumes have in common."""

    csi: CsiVolume | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    iscsi: Iscsi | None = None
    rbd: Rbd | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: Cinder | None = None
    vsphere_volume: VsphereVolume | None = None
    portworx_volume: PortworxVolume | None = None


class Volume(VolumeSources, frozen=True):
    """One of `spec.volumes`; kinds of volume that scheduling ignores leave all sources unset."""

    name: str = ""
    empty_dir: EmptyDirVolume | None = None
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    image: ImageVolume | None = None

"""In-tree volumes that are served by CSI drivers today, and the names they have there.

Kubernetes still accepts the old volume sources of the cloud providers and hands them to CSI
drivers. For attach limits they count under the driver's name; `handle` is the identity under which
two mentions of one disk are known as the same. Vsphere and Azure File are migratable, but their
volumes are not counted by kube-scheduler, and so not here.
"""

from __future__ import annotations

from bayplan.api import PersistentVolume, Volume
from bayplan.plugins.volume_zone import BETA_ZONE, ZONE

AWS_EBS = "kubernetes.io/aws-ebs"
GCE_PD = "kubernetes.io/gce-pd"
AZURE_DISK = "kubernetes.io/azure-disk"
AZURE_FILE = "kubernetes.io/azure-file"
CINDER = "kubernetes.io/cinder"
VSPHERE = "kubernetes.io/vsphere-volume"
PORTWORX = "kubernetes.io/portworx-volume"

DRIVERS = {
    AWS_EBS: "ebs.csi.aws.com",
    GCE_PD: "pd.csi.storage.gke.io",
    AZURE_DISK: "disk.csi.azure.com",
    AZURE_FILE: "file.csi.azure.com",
    CINDER: "cinder.csi.openstack.org",
    VSPHERE: "csi.vsphere.vmware.com",
    PORTWORX: "pxd.portworx.com",
}
"""In-tree plugin to CSI driver."""

COUNTED = frozenset((AWS_EBS, GCE_PD, AZURE_DISK, CINDER, PORTWORX))
"""Plugins whose volumes are counted as their driver's."""

MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"


def inline_plugin(volume: Volume) -> str:
    """The in-tree plugin of an in-line volume, or an empty text."""
    sources = (
        (volume.aws_elastic_block_store, AWS_EBS),
        (volume.gce_persistent_disk, GCE_PD),
        (volume.azure_disk, AZURE_DISK),
        (volume.azure_file, AZURE_FILE),
        (volume.cinder, CINDER),
        (volume.vsphere_volume, VSPHERE),
        (volume.portworx_volume, PORTWORX),
    )
    return next((plugin for source, plugin in sources if source is not None), "")


def inline_handle(volume: Volume) -> tuple[str, str] | None:
    """Driver and handle of an in-line volume that counts, else None."""
    if (aws := volume.aws_elastic_block_store) is not None:
        return DRIVERS[AWS_EBS], _ebs_handle(aws.volume_id)
    if (gce := volume.gce_persistent_disk) is not None:
        return DRIVERS[GCE_PD], f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{gce.pd_name}"
    if (azure := volume.azure_disk) is not None:
        return DRIVERS[AZURE_DISK], azure.disk_uri
    if (cinder := volume.cinder) is not None:
        return DRIVERS[CINDER], cinder.volume_id
    if (portworx := volume.portworx_volume) is not None:
        return DRIVERS[PORTWORX], portworx.volume_id
    return None


def volume_handle(volume: PersistentVolume) -> tuple[str, str] | None:
    """Driver and handle of a persistent volume, in-tree or CSI, if it counts."""
    spec = volume.spec
    if spec.csi is not None:
        return spec.csi.driver, spec.csi.volume_handle
    if spec.aws_elastic_block_store is not None:
        return DRIVERS[AWS_EBS], _ebs_handle(spec.aws_elastic_block_store.volume_id)
    if spec.gce_persistent_disk is not None:
        return _gce_handle(volume, spec.gce_persistent_disk.pd_name)
    if spec.azure_disk is not None:
        return DRIVERS[AZURE_DISK], spec.azure_disk.disk_uri
    if spec.cinder is not None:
        return DRIVERS[CINDER], spec.cinder.volume_id
    if spec.portworx_volume is not None:
        return DRIVERS[PORTWORX], spec.portworx_volume.volume_id
    return None


def provisioner_driver(provisioner: str) -> str:
    """The driver that provisions for a class; empty if its volumes do not count."""
    if provisioner in DRIVERS:
        return DRIVERS[provisioner] if provisioner in COUNTED else ""
    return provisioner


def _ebs_handle(volume_id: str) -> str:
    """`aws://zone/vol-1` and `vol-1` are the same disk."""
    return volume_id.rpartition("/")[2] if volume_id.startswith("aws://") else volume_id


def _gce_handle(volume: PersistentVolume, disk: str) -> tuple[str, str] | None:
    """A zonal or regional disk, by the volume's zone label; without one it cannot be named."""
    labels = volume.metadata.labels
    text = labels.get(ZONE, labels.get(BETA_ZONE, ""))
    zones = [zone for zone in text.split("__") if zone]
    if len(zones) > 1:
        region = zones[0].rpartition("-")[0]
        return DRIVERS[GCE_PD], f"projects/UNSPECIFIED/regions/{region}/disks/{disk}"
    zone = zones[0] if zones else "UNSPECIFIED"
    return DRIVERS[GCE_PD], f"projects/UNSPECIFIED/zones/{zone}/disks/{disk}"

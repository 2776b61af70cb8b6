"""In-tree volumes are counted under the CSI drivers that serve them, each under one name."""

import pytest

from bayplan.api import PersistentVolume, Pod, convert
from bayplan.plugins.csi_migration import (
    inline_handle,
    inline_plugin,
    provisioner_driver,
    volume_handle,
)
from bayplan.testing import ZONE

UNKNOWN = "projects/UNSPECIFIED"
SOURCES = {
    "aws": ("awsElasticBlockStore", {"volumeID": "vol-1"}, ("ebs.csi.aws.com", "vol-1")),
    "aws by zone": (
        "awsElasticBlockStore", {"volumeID": "aws://eu-1a/vol-1"}, ("ebs.csi.aws.com", "vol-1"),
    ),
    "gce": (
        "gcePersistentDisk", {"pdName": "d"},
        ("pd.csi.storage.gke.io", f"{UNKNOWN}/zones/UNSPECIFIED/disks/d"),
    ),
    "azure": (
        "azureDisk", {"diskName": "d", "diskURI": "/disks/d"}, ("disk.csi.azure.com", "/disks/d"),
    ),
    "cinder": ("cinder", {"volumeID": "c"}, ("cinder.csi.openstack.org", "c")),
    "portworx": ("portworxVolume", {"volumeID": "p"}, ("pxd.portworx.com", "p")),
}  # fmt: skip
NOT_COUNTED = {
    "azureFile": {"shareName": "s", "secretName": "k"},
    "vsphereVolume": {"volumePath": "/v"},
    "emptyDir": {},
    "hostPath": {"path": "/tmp"},
}


def inline(source):
    body = {"spec": {"volumes": [{"name": "v", **source}]}}
    return convert(Pod, body).spec.volumes[0]


def persistent(source, labels=None):
    meta = {"name": "v", "labels": labels or {}}
    return convert(PersistentVolume, {"metadata": meta, "spec": source})


@pytest.mark.parametrize(("kind", "fields", "named"), SOURCES.values(), ids=SOURCES)
def test_a_disk_has_one_name_in_line_and_as_a_persistent_volume(kind, fields, named):
    assert named == inline_handle(inline({kind: fields}))
    assert named == volume_handle(persistent({kind: fields}))


@pytest.mark.parametrize("kind", NOT_COUNTED)
def test_what_is_not_counted_has_no_name(kind):
    source = {kind: NOT_COUNTED[kind]}

    assert inline_handle(inline(source)) is None
    assert volume_handle(persistent(source)) is None


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        ({ZONE: "eu-1a"}, "zones/eu-1a"),
        ({"failure-domain.beta.kubernetes.io/zone": "eu-1b"}, "zones/eu-1b"),
        ({ZONE: "eu-1a__us-1b"}, "regions/eu"),
        ({ZONE: "europe-west1-b__europe-west1-c"}, "regions/europe-west1"),
        ({ZONE: "eu-1a", "failure-domain.beta.kubernetes.io/zone": "eu-1b"}, "zones/eu-1a"),
        ({ZONE: ""}, "zones/UNSPECIFIED"),
    ],
)
def test_a_disk_of_google_is_named_by_its_zone_or_region(labels, place):
    volume = persistent({"gcePersistentDisk": {"pdName": "d"}}, labels)

    assert ("pd.csi.storage.gke.io", f"{UNKNOWN}/{place}/disks/d") == volume_handle(volume)


def test_a_csi_volume_keeps_its_own_name():
    source = {"csi": {"driver": "csi.example.com", "volumeHandle": "h"}}

    assert ("csi.example.com", "h") == volume_handle(persistent(source))


@pytest.mark.parametrize(
    ("provisioner", "driver"),
    [
        ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
        ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
        ("kubernetes.io/azure-file", ""),
        ("kubernetes.io/vsphere-volume", ""),
        ("csi.example.com", "csi.example.com"),
    ],
)
def test_a_class_counts_for_the_driver_of_its_provisioner(provisioner, driver):
    assert driver == provisioner_driver(provisioner)


@pytest.mark.parametrize(
    ("kind", "plugin"),
    [
        ("awsElasticBlockStore", "kubernetes.io/aws-ebs"),
        ("azureFile", "kubernetes.io/azure-file"),
        ("vsphereVolume", "kubernetes.io/vsphere-volume"),
        ("emptyDir", ""),
    ],
)
def test_the_plugin_of_a_volume_in_line(kind, plugin):
    fields = {**NOT_COUNTED, "awsElasticBlockStore": {"volumeID": "v"}}[kind]

    assert plugin == inline_plugin(inline({kind: fields}))

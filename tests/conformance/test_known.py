"""Accepted differences are recognised by what upstream leaves open, and by nothing else."""

import pytest

from bayplan.config import DEFAULT_GATES
from bayplan.conformance.compare import differences
from bayplan.conformance.fuzz import ours
from bayplan.conformance.known import Sides, known
from bayplan.testing import make_node, make_pod


def volume(name, *modes, size="2Gi"):
    spec = {"capacity": {"storage": size}, "accessModes": list(modes), "storageClassName": "wait"}
    driver = {"driver": "csi.example.com", "volumeHandle": name}
    spec |= {"csi": driver, "volumeMode": "Filesystem"}
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}}


def claim(name, mode, size):
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": size}}}
    spec |= {"storageClassName": "wait", "volumeMode": "Filesystem"}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}


def two_claims(*volumes):
    """A small claim that may have any volume, a large one that needs ReadOnlyMany."""
    pod = make_pod("p").body()
    pod["spec"]["volumes"] = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("any", "many")
    ]
    storage = {
        "metadata": {"name": "wait"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    objects = {
        "nodes": [make_node("a").body()],
        "storageClasses": [storage],
        "persistentVolumes": list(volumes),
        "persistentVolumeClaims": [
            claim("any", "ReadWriteOnce", "1Gi"),
            claim("many", "ReadOnlyMany", "2Gi"),
        ],
    }
    return {"id": "two", "family": "volumes", "objects": objects, "pod": pod}


def decide(case):
    return ours(case, DEFAULT_GATES)


def reason(case, want, got=None):
    got = decide(case) if got is None else got
    return known(case, differences(want, got), Sides(want, got, decide))


BOTH, ONCE = ("ReadWriteOnce", "ReadOnlyMany"), ("ReadWriteOnce",)
FIRST = two_claims(volume("v0", *BOTH), volume("v1", *ONCE))
OTHER = two_claims(volume("v1", *BOTH), volume("v0", *ONCE))


def test_the_answer_for_another_order_of_volumes_alike_is_known():
    assert decide(FIRST)["nodes"] != decide(OTHER)["nodes"]

    assert "one of several volumes is drawn" == reason(FIRST, decide(OTHER))


def test_answers_of_no_order_are_not_known():
    made_up = {**decide(OTHER), "nodes": {"a": {"code": "Error", "reasons": ["broken"]}}}

    assert "" == reason(FIRST, made_up)
    assert "" == reason(FIRST, decide(OTHER), made_up)


@pytest.mark.parametrize("size", ["3Gi", "4Gi"])
def test_volumes_of_other_sizes_are_not_drawn(size):
    case = two_claims(volume("v0", *BOTH), volume("v1", *ONCE, size=size))

    assert "" == reason(case, decide(OTHER))


def provisioned(*sizes):
    """A claim that a driver provisions, and what capacity it says to have, in GiB."""
    case = two_claims()
    objects = case["objects"]
    objects["storageClasses"][0]["provisioner"] = "csi.example.com"
    objects["persistentVolumes"] = []
    case["pod"]["spec"]["volumes"] = case["pod"]["spec"]["volumes"][:1]
    objects["csiDrivers"] = [
        {"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}}
    ]
    objects["csiStorageCapacities"] = [
        {
            "metadata": {"name": f"c{size}", "namespace": "default"},
            "storageClassName": "wait",
            "nodeTopology": {},
            "capacity": f"{size}Gi",
        }
        for size in sizes
    ]
    return case


@pytest.mark.parametrize(("sizes", "explained"), [((2, 10), True), ((2, 3), False), ((2,), False)])
def test_only_a_score_that_some_capacity_gives_is_known(sizes, explained):
    case = provisioned(*sizes)
    want = decide(provisioned(10))

    assert want["raw"]["VolumeBinding"] != decide(case)["raw"]["VolumeBinding"]
    assert explained == bool(reason(case, want))

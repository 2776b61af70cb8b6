"""Gates that are on by default, switched off: what they stand for is not done, as upstream."""

import pytest

from bayplan.config import FeatureGates
from bayplan.engine.replay import decide
from bayplan.testing import make_node, make_pod

DRIVER = "gpu.example.com"


def answer(objects, pod, version="1.37", **gates):
    return decide(objects, pod, gates=FeatureGates(gates, version))


def fits(*asked, **gates):
    return bool(answer(*asked, **gates).get("best"))


def with_devices(*devices, request=(), counters=(), **request_spec):
    """A node with devices, and a pod with a claim for one of them."""
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 2 if counters else 1}
    spec = {"driver": DRIVER, "nodeName": "a", "pool": pool}
    named = [{"name": f"d{number}", **device} for number, device in enumerate(devices)]
    slices = [{"metadata": {"name": "s"}, "spec": {**spec, "devices": named}}]
    if counters:
        slices.append({"metadata": {"name": "c"}, "spec": {**spec, "sharedCounters": counters}})
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    asked = {"name": "r", **(request or {"exactly": {**exactly, **request_spec}})}
    meta = {"name": "claim", "namespace": "default", "uid": "uid-claim"}
    claim = {"metadata": meta, "spec": {"devices": {"requests": [asked]}}, "status": {}}
    objects = {
        "nodes": [make_node("a").body()],
        "resourceSlices": slices,
        "deviceClasses": [{"metadata": {"name": "gpu"}, "spec": {}}],
        "resourceClaims": [claim],
    }
    pod = make_pod("p").body()
    pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "claim"}]
    return objects, pod


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_requests_of_the_whole_pod(version):
    objects = {"nodes": [make_node("a").capacity(cpu=2, pods=10).body()]}
    pod = make_pod("p").req(cpu="1").body()
    pod["spec"]["resources"] = {"requests": {"cpu": "3"}}
    off = {
        name: False
        for name in FeatureGates({}, version).names()
        if name.startswith(("PodLevelResources", "InPlacePodLevelResources"))
    }

    assert not fits(objects, pod, version=version)
    assert fits(objects, pod, version=version, **off)


def test_a_resize_of_the_whole_pod():
    running = make_pod("big").node("a").req(cpu="1").body()
    running["spec"]["resources"] = {"requests": {"cpu": "1"}}
    held = {"cpu": "3"}
    running["status"] = {"resources": {"requests": held}, "allocatedResources": held}
    objects = {"nodes": [make_node("a").capacity(cpu=4, pods=10).body()], "pods": [running]}
    pod = make_pod("p").req(cpu="2").body()

    assert not fits(objects, pod)
    assert fits(objects, pod, InPlacePodLevelResourcesVerticalScaling=False)


def test_label_keys_of_spreading():
    placed = make_pod("old").node("a").label(app="web", ver="0").body()
    nodes = [make_node(name).label(zone=name).body() for name in ("a", "b")]
    nodes[1].setdefault("spec", {})["unschedulable"] = True
    pod = make_pod("p").label(app="web", ver="1").body()
    pod["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
            "matchLabelKeys": ["ver"],
        }
    ]
    off = dict.fromkeys(
        (
            "MatchLabelKeysInPodTopologySpread",
            "MatchLabelKeysInPodTopologySpreadSelectorMerge",
        ),
        False,
    )

    assert fits({"nodes": nodes, "pods": [placed]}, pod)
    assert not fits({"nodes": nodes, "pods": [placed]}, pod, **off)


def test_taints_of_devices():
    asked = with_devices({"taints": [{"key": "broken", "effect": "NoSchedule"}]})

    assert not fits(*asked)
    assert fits(*asked, DRADeviceTaints=False, DRADeviceTaintRules=False)


def test_devices_that_take_from_counters():
    card = {"name": "card", "counters": {"memory": {"value": "4Gi"}}}
    uses = {"counterSet": "card", "counters": {"memory": {"value": "1Gi"}}}
    asked = with_devices({"consumesCounters": [uses]}, counters=[card])

    assert fits(*asked)
    assert not fits(*asked, DRAPartitionableDevices=False)


def test_a_pool_whose_first_slice_has_counters_still_offers_its_plain_devices():
    card = {"name": "card", "counters": {"memory": {"value": "4Gi"}}}
    objects, pod = with_devices({}, counters=[card])
    for item in objects["resourceSlices"]:
        item["spec"]["pool"]["resourceSliceCount"] = 1  # so many count without the gate
    objects["resourceSlices"].reverse()

    assert fits(objects, pod, DRAPartitionableDevices=False)


def test_devices_that_say_where_they_are():
    objects, pod = with_devices({"nodeName": "a"})
    (item,) = objects["resourceSlices"]
    del item["spec"]["nodeName"]
    item["spec"]["perDeviceNodeSelection"] = True

    assert fits(objects, pod)
    assert not fits(objects, pod, DRAPartitionableDevices=False)


def test_parts_of_devices():
    shared = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "4Gi"}}}
    asked = with_devices(shared, capacity={"requests": {"memory": "1Gi"}})

    assert fits(*asked)
    assert answer(*asked, DRAConsumableCapacity=False)["error"].endswith(
        "claim default/claim, request r: has capacity requests, but the DRAConsumableCapacity "
        "feature is disabled"
    )


def test_a_device_that_was_shared_is_in_use_as_a_whole():
    objects, pod = with_devices({"allowMultipleAllocations": True})
    result = {"request": "r", "driver": DRIVER, "pool": "a", "device": "d0", "shareID": "1"}
    other = {**objects["resourceClaims"][0], "metadata": {"name": "other", "namespace": "default"}}
    other["status"] = {"allocation": {"devices": {"results": [result]}}}
    objects["resourceClaims"].append(other)

    assert fits(objects, pod)
    assert not fits(objects, pod, DRAConsumableCapacity=False)


def test_devices_with_binding_conditions():
    asked = with_devices({"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]})

    assert fits(*asked)
    assert not fits(*asked, DRADeviceBindingConditions=False)


def test_lists_of_choices_which_only_1_36_lets_anybody_switch_off():
    choice = {"name": "s", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    asked = with_devices({}, request={"firstAvailable": [choice]})
    told = answer(*asked, version="1.36", DRAPrioritizedList=False)

    assert fits(*asked, version="1.36")
    assert told["preFilter"]["reasons"] == [
        "resource claim default/claim, request r: has subrequests, but the DRAPrioritizedList "
        "feature is disabled"
    ]

"""Claims hold devices that have changed since: shared ones that are whole now, and others."""

import pytest

from bayplan.config import FeatureGates
from bayplan.engine.replay import decide
from bayplan.testing import (
    ZONE,
    make_device,
    make_device_class,
    make_node,
    make_pod,
    make_resource_claim,
    make_slice,
    request,
)

DRIVER = "gpu.example.com"
CANNOT = ["cannot allocate all claims"]
SHARE = "6b7b9d1e-0000-4000-8000-000000000001"


def answer(version, *others, nodes=("a",)):
    """What the pod with claim `c` hears; other objects are builders."""
    objects = {
        "nodes": [(make_node(n) if isinstance(n, str) else n).body() for n in nodes],
        "deviceClasses": [make_device_class("gpu", f'device.driver == "{DRIVER}"').body()],
    }
    for item in others:
        body = item.body()
        kind = "resourceSlices" if "driver" in body["spec"] else "resourceClaims"
        objects.setdefault(kind, []).append(body)
    pod = make_pod("pod").device_claim("c").body()
    return decide(objects, pod, gates=FeatureGates(version=version))


def holder(device, pool="a", **more):
    claim = make_resource_claim("held").exactly("r0", request("gpu"))
    claim.allocated((DRIVER, pool, device))
    claim.status["allocation"]["devices"]["results"][0].update(more)
    return claim


def reasons(told, node="a"):
    return told["nodes"][node].get("reasons")


@pytest.mark.parametrize(("consumed", "fits"), [({"memory": "1Gi"}, False), ({"other": 1}, True)])
@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_a_device_that_was_shared_is_not_whole(version, consumed, fits):
    told = answer(
        version,
        make_slice("s", make_device("d0", None, {"memory": "10Gi"}), node="a"),
        make_resource_claim("c").exactly("r", request("gpu")),
        holder("d0", shareID=SHARE, consumedCapacity=consumed),
    )

    assert reasons(told) == (None if fits else CANNOT)


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_what_is_left_of_it_can_be_had(version):
    part = request("gpu", capacity={"requests": {"memory": "4Gi"}})
    told = answer(
        version,
        make_slice("s", make_device("d0", None, {"memory": "10Gi"}), node="a"),
        make_resource_claim("c").exactly("r", part),
        holder("d0", shareID=SHARE, consumedCapacity={"memory": "6Gi"}),
    )

    assert reasons(told) is None


@pytest.mark.parametrize(("version", "told"), [("1.36", None), ("1.37", CANNOT)])
def test_all_devices_are_those_with_capacity_left_only_in_1_36(version, told):
    devices = [
        make_device(f"d{i}", {"model": model}, {"memory": "10Gi"})
        for i, model in enumerate(("x", "y"))
    ]
    claim = make_resource_claim("c").exactly("r", request("gpu", count=None))
    held = holder("d0", shareID=SHARE, consumedCapacity={"memory": "6Gi"})
    found = answer(
        version, make_slice("s", *devices, node="a"), claim.same(f"{DRIVER}/model"), held
    )

    assert reasons(found) == told


@pytest.mark.parametrize(("version", "told"), [("1.36", CANNOT), ("1.37", None)])
def test_a_share_without_a_capacity_has_paid_the_counters_since_1_37(version, told):
    counters = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]
    takes = [{"counterSet": "card", "counters": {"memory": {"value": "30Gi"}}}]
    device = make_device("d0", consumesCounters=takes, allowMultipleAllocations=True)
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 2}
    found = answer(
        version,
        make_slice("s", device, node="a", pool=pool),
        make_slice("t", node="a", pool=pool, sharedCounters=counters),
        make_resource_claim("c").exactly("r", request("gpu")),
        holder("d0", shareID=SHARE),
    )

    assert reasons(found) == told


@pytest.mark.parametrize(("version", "fits"), [("1.36", False), ("1.37", True)])
def test_counters_of_other_nodes_do_not_concern_a_node_since_1_37(version, fits):
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1"]}]}
    counters = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]
    told = answer(
        version,
        make_slice("own", "d0", node="b"),
        make_slice(
            "t",
            pool={"name": "far", "generation": 1, "resourceSliceCount": 2},  # one is missing
            sharedCounters=counters,
            nodeSelector={"nodeSelectorTerms": [term]},
        ),
        make_resource_claim("c").exactly("r", request("gpu", count=None)),
        nodes=(make_node("b").zone("z2"),),
    )

    assert fits == ("best" in told)
    assert fits or "far is currently being updated" in told["error"]


def test_counters_of_a_pool_count_wherever_their_slice_is():
    counters = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]
    takes = [{"counterSet": "card", "counters": {"memory": {"value": "30Gi"}}}]
    devices = [make_device(f"d{i}", consumesCounters=takes) for i in range(2)]
    pool = {"name": "far", "generation": 1, "resourceSliceCount": 2}
    claim = make_resource_claim("c").exactly("r", request("gpu"))
    told = answer(
        "1.37",
        make_slice("t", node="elsewhere", pool=pool, sharedCounters=counters),
        make_slice("s", *devices, node="a", pool=pool),
        claim,
        nodes=("a", "elsewhere"),
    )

    assert ["a"] == told["best"]


def test_a_smaller_choice_is_taken_at_once_where_a_larger_one_leaves_no_room_for_the_rest():
    claim = make_resource_claim("c")
    claim.first_of("r0", many=request("gpu", count=20), one=request("gpu"))
    claim.exactly("r1", request("gpu", count=20))
    told = answer("1.37", make_slice("s", *[f"d{i}" for i in range(40)], node="a"), claim)

    assert ["a"] == told["best"]
    assert 7 == told["raw"]["DynamicResources"]["a"]

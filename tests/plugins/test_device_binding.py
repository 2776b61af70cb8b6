"""Devices that take a while: what is awaited, what fails, and what an earlier attempt left."""

import pytest

from bayplan.api import parse_time
from bayplan.framework import Code, CycleState
from bayplan.plugins.dynamic_resources.extended import class_for, find_claim
from bayplan.plugins.dynamic_resources.work import binding_ready
from bayplan.testing import (
    make_device,
    make_device_class,
    make_node,
    make_pod,
    make_resource_claim,
    make_slice,
    request,
)
from tests.plugins.test_dynamic_resources import CANNOT, DRIVER, Cluster, pod_with, rejected

NOT_HERE = "resourceclaim not available on the node"
BEGAN = "2026-01-01T00:00:00Z"
CONDITIONS = {
    "bindingConditions": ["Attached", "Warm"],
    "bindingFailureConditions": ["Broken"],
}


def attaching(*names, **more):
    return [make_device(name, **CONDITIONS, **more) for name in names]


def allocated(*conditions, devices=("d0",), began=BEGAN, other=()):
    """A claim with devices that must be made ready, and how far they are."""
    claim = make_resource_claim("c").exactly("r0", request("gpu", count=len(devices)))
    claim.allocated(*[(DRIVER, "a", name) for name in devices], node="a")
    allocation = claim.status["allocation"]
    for result in allocation["devices"]["results"]:
        result.update(CONDITIONS)
    if began:
        allocation["allocationTimestamp"] = began
    claim.status["devices"] = [
        {"driver": DRIVER, "pool": "a", "device": name, "conditions": [told(c) for c in its]}
        for name, its in (("d0", conditions), ("d1", other))
    ]
    return claim


def told(text):
    """A condition, `-Name` being one that is not so."""
    return {"type": text.lstrip("-"), "status": "False" if text.startswith("-") else "True"}


READY = [
    ((), False),
    (("Attached",), False),
    (("Attached", "Warm"), True),
    (("Attached", "-Warm"), False),
    (("Attached", "Warm", "Broken"), None),
    (("Broken",), None),
    (("Attached", "Warm", "-Broken"), True),
    (("Attached", "Warm", "Else"), True),
]


@pytest.mark.parametrize(("conditions", "ready"), READY)
def test_a_device_is_ready_when_all_its_conditions_are_true_and_none_failed(conditions, ready):
    assert ready is binding_ready(allocated(*conditions).build())


@pytest.mark.parametrize(
    ("other", "ready"), [((), False), (("Broken",), None), (("Attached", "Warm"), True)]
)
def test_a_claim_is_ready_when_all_its_devices_are(other, ready):
    claim = allocated("Attached", "Warm", devices=("d0", "d1"), other=other)
    swapped = allocated(*other, devices=("d0", "d1"), other=("Attached", "Warm"))

    assert ready is binding_ready(claim.build())
    assert ready is binding_ready(swapped.build())


def test_devices_without_conditions_are_ready_and_so_is_a_claim_without_any():
    plain = make_resource_claim("c").allocated((DRIVER, "a", "d0"), node="a")

    assert binding_ready(plain.build()) is True
    assert binding_ready(make_resource_claim("c").build()) is True


@pytest.mark.parametrize(
    ("conditions", "began", "after", "text"),
    [
        ((), BEGAN, 600.0, ""),
        ((), BEGAN, 600.5, NOT_HERE),
        ((), None, 1e9, ""),
        (("Broken",), BEGAN, 0.0, NOT_HERE),
        (("Attached", "Warm"), BEGAN, 1e9, ""),
    ],
)
def test_a_claim_whose_devices_fail_or_take_too_long_is_given_up(conditions, began, after, text):
    cluster = Cluster(allocated(*conditions, began=began), nodes=("a",))
    cluster.handle.now = parse_time(BEGAN) + after
    state, _, nodes = cluster.filter(pod_with("c"))

    assert text == nodes["a"]
    given_back = cluster.plugin.post_filter(
        state, pod_with("c"), rejected(nodes, "DynamicResources")
    )
    assert bool(text) == (given_back[0] is not None)


def test_the_binding_waits_for_devices_that_were_chosen_now():
    slice_ = make_slice("s", *attaching("d0"), node="a")
    claim = make_resource_claim("c").exactly("r0", request("gpu"))
    cluster = Cluster(slice_, claim)
    pod = pod_with("c")
    effects = cluster.plugin.pre_bind(cluster.place(pod, "a"), pod, "a")

    assert 600.0 == effects.timeout_seconds
    assert effects.done() is None
    steps = [((), None), (("Attached",), None), (("Attached", "Warm"), Code.SUCCESS)]
    for conditions, code in steps:
        cluster.objects.put(allocated(*conditions).build())
        status = effects.done()
        assert code is (status.code if status else None)
    cluster.objects.put(allocated("Broken").build())
    assert 'claim "default/c": binding of a device failed' == effects.done().message
    cluster.objects.resource_claims.delete("default/c")
    assert effects.done() is None


@pytest.mark.parametrize(("conditions", "waits"), [((), True), (("Attached", "Warm"), False)])
def test_a_claim_that_was_allocated_before_is_awaited_until_it_is_ready(conditions, waits):
    cluster = Cluster(allocated(*conditions).reserved_for("pod"))
    cluster.handle.now = parse_time(BEGAN)
    pod = pod_with("c")
    effects = cluster.plugin.pre_bind(cluster.place(pod, "a"), pod, "a")

    assert () == effects.calls
    assert waits == (effects.done is not None)


def test_devices_that_need_no_waiting_come_first():
    """Also where their pool would be later by name."""
    cluster = Cluster(
        make_slice("s1", *attaching("slow"), node="a", pool=pool("a")),
        make_slice("s2", "quick", node="a", pool=pool("z")),
        make_resource_claim("c").exactly("r0", request("gpu")),
    )
    pod = pod_with("c")
    calls = cluster.plugin.pre_bind(cluster.place(pod, "a"), pod, "a").calls
    (result,) = calls[-1].body["status"]["allocation"]["devices"]["results"]

    assert "quick" == result["device"]


def pool(name):
    return {"name": name, "generation": 1, "resourceSliceCount": 1}


# -- booking ----------------------------------------------------------------------------------


def everywhere():
    claim = make_resource_claim("c").exactly("r", request("gpu"))
    return Cluster(make_slice("s", "d0"), claim, nodes=[f"n{i}" for i in range(4)])


def test_a_device_that_went_since_the_filter_fails_the_reservation():
    cluster = everywhere()
    state, _, nodes = filtered(cluster)
    assert {""} == set(nodes.values())
    cluster.objects.put(make_resource_claim("x").allocated((DRIVER, "s", "d0")).build())
    cluster.plugin._books.refresh()

    status = cluster.plugin.reserve(state, pod_with("c"), "n3")

    assert CANNOT == status.message


def filtered(cluster):
    """What the table form says; the other form would work out every node."""
    state, pod = CycleState(), pod_with("c")
    cluster.plugin.pre_filter(state, pod, cluster.handle.table)
    verdict = cluster.plugin.filter(state, pod, cluster.handle.table)
    names = cluster.handle.table.names()
    found = {name: verdict.status_of(row) for row, name in enumerate(names)}
    return state, verdict, {name: each.message if each else "" for name, each in found.items()}


def test_a_node_that_went_since_the_filter_fails_the_reservation():
    cluster = everywhere()
    state, _, _ = filtered(cluster)
    cluster.handle.table.remove_node("n3")

    status = cluster.plugin.reserve(state, pod_with("c"), "n3")

    assert (Code.ERROR, "claim allocation not found for node") == (status.code, status.message)


def test_a_pod_whose_claims_are_allocated_needs_nothing_booked():
    claim = make_resource_claim("c").exactly("r0", request("gpu"))
    cluster = Cluster(claim.allocated((DRIVER, "a", "d0"), node="a"))
    state, _, nodes = cluster.filter(pod_with("c"))
    cluster.handle.table.remove_node("b")

    assert {"a": "", "b": NOT_HERE} == nodes
    assert cluster.plugin.reserve(state, pod_with("c"), "a") is None
    cluster.handle.table.remove_node("a")
    assert cluster.plugin.reserve(state, pod_with("c"), "gone") is None


def test_pods_without_devices_score_nothing():
    cluster = Cluster()
    state, _, _ = cluster.filter(make_pod().build())

    assert [0, 0] == cluster.plugin.score(state, make_pod().build(), cluster.handle.table).tolist()
    assert cluster.plugin.reserve(state, make_pod().build(), "a") is None
    assert cluster.plugin.pre_bind(state, make_pod().build(), "a") is None


@pytest.mark.parametrize(
    ("chosen", "score"), [("r0/large", 8), ("r0/small", 7), ("r0/tiny", 6), ("r1", 0)]
)
def test_choices_that_were_made_before_count_beside_new_ones(chosen, score):
    before = make_resource_claim("b")
    before.first_of("r0", large=request("gpu"), small=request("gpu"), tiny=request("gpu"))
    before.allocated((DRIVER, "x", "d0"), node="a", request=chosen)
    now = make_resource_claim("c").first_of("f", no=request("gpu", "false"), any=request("gpu"))
    cluster = Cluster(before, now, make_slice("s", "d0", node="a"))
    pod = pod_with("b", "c")
    state, _, nodes = cluster.filter(pod)

    assert "" == nodes["a"]
    assert score + 7 == cluster.plugin.score(state, pod, cluster.handle.table)[0]


def test_choices_that_were_made_before_count_nothing_alone():
    before = make_resource_claim("b").first_of("r0", large=request("gpu"))
    before.allocated((DRIVER, "x", "d0"), node="a", request="r0/large")
    cluster = Cluster(before, nodes=("a",))
    state, _, nodes = cluster.filter(pod_with("b"))

    assert {"a": ""} == nodes
    assert [0] == cluster.plugin.score(state, pod_with("b"), cluster.handle.table).tolist()


# -- extended resources -----------------------------------------------------------------------

CARD = "example.com/card"


def serving(name, created=""):
    made = make_device_class(name, f'device.driver == "{DRIVER}"', resource=CARD)
    return made.created(created) if created else made


@pytest.mark.parametrize(
    ("classes", "chosen"),
    [
        ([serving("b"), serving("a")], "a"),
        ([serving("b", "2026-01-02T00:00:00Z"), serving("a", "2026-01-01T00:00:00Z")], "b"),
        ([serving("b", "2026-01-01T00:00:00Z"), serving("a")], "b"),
        ([make_device_class("a")], None),
    ],
)
def test_of_several_classes_the_newest_serves_then_the_first_by_name(classes, chosen):
    found = class_for(CARD, [item.build() for item in classes])

    assert chosen == (None if found is None else found.name)


def test_a_class_serves_the_resource_of_its_own_name():
    name = "deviceclass.resource.kubernetes.io/gpu"

    assert "gpu" == class_for(name, [make_device_class("gpu").build()]).name
    assert class_for(name, [make_device_class("other").build()]) is None


def left_behind(annotated="true", owner="pod", uid="uid-default-pod", namespace="default"):
    claim = make_resource_claim("left", namespace).exactly("r0", request("card"))
    claim.owner("Pod", owner, uid=uid)
    return claim.annotate({"resource.kubernetes.io/extended-resource-claim": annotated})


@pytest.mark.parametrize(
    ("claim", "found"),
    [
        (left_behind(), True),
        (left_behind(annotated="false"), False),
        (left_behind(owner="other"), False),
        (left_behind(uid="uid-of-another"), False),
        (left_behind(namespace="elsewhere"), False),
        (make_resource_claim("left").annotate({"a": "b"}), False),
    ],
)
def test_the_claim_of_an_earlier_attempt_is_known_by_its_owner(claim, found):
    cluster = Cluster(claim)

    assert found == (find_claim(make_pod().build(), cluster.objects.resource_claims) is not None)


def test_the_claim_of_an_earlier_attempt_is_in_the_way_until_it_is_deleted():
    cluster = Cluster(serving("card"), make_slice("s", "d0", node="a"), left_behind())
    pod = make_pod().req({CARD: 1}).build()
    state, _, nodes = cluster.filter(pod)

    assert {"cannot schedule extended resource claim"} == set(nodes.values())
    result, status = cluster.plugin.post_filter(state, pod, rejected(nodes, "DynamicResources"))
    assert "deletion of ResourceClaim completed" == status.message
    assert ["patch", "delete"] == [call.verb for call in result.effects.calls]


def test_a_resource_that_neither_a_node_nor_a_class_has_keeps_the_pod_off():
    nodes = (
        "a",
        make_node("b").capacity({"example.com/other": 1}),
        make_node("c").capacity({"example.com/other": 1, CARD: 1}),
    )
    cluster = Cluster(serving("card"), make_slice("s", "d0"), nodes=nodes)
    pod = make_pod().req({CARD: 1, "example.com/other": 1}).build()

    assert {"a": "cannot fit resource", "b": "", "c": ""} == cluster.filter(pod)[2]

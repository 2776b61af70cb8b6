"""Rules about devices one by one: tolerations, amounts, limits, constraints, and their words."""

from collections import Counter
from itertools import combinations, product

import pytest

from bayplan import api
from bayplan.api import Device, DeviceRequestDetail, convert, quantity
from bayplan.api.devices import DeviceConstraint, DeviceTaint, DeviceToleration
from bayplan.config import FeatureGates
from bayplan.engine.replay import decide
from bayplan.framework import CycleState, QueueingHint
from bayplan.plugins.dynamic_resources import allocator
from bayplan.plugins.dynamic_resources.constraints import Constraints, attribute
from bayplan.plugins.dynamic_resources.pools import Features, Offer
from bayplan.plugins.dynamic_resources.requests import _tolerates, class_problem, consumption
from bayplan.testing import (
    make_device,
    make_device_class,
    make_node,
    make_pod,
    make_resource_claim,
    make_slice,
    request,
)
from tests.plugins.test_dynamic_resources import CANNOT, DRIVER, Cluster, pod_with
from tests.plugins.test_gates_off import answer, with_devices

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


def toleration(operator="", key="sick", value="", effect=""):
    body = {"operator": operator, "key": key, "value": value, "effect": effect}
    return convert(DeviceToleration, {name: text for name, text in body.items() if text})


@pytest.mark.parametrize(
    ("mine", "tolerated"),
    [
        (toleration("Exists"), True),
        (toleration("Exists", key=""), True),
        (toleration("Exists", key="other"), False),
        (toleration("Exists", effect="NoSchedule"), True),
        (toleration("Exists", effect="NoExecute"), False),
        (toleration("Equal", value="very"), True),
        (toleration("", value="very"), True),
        (toleration("Equal", value="a bit"), False),
        (toleration("Equal"), False),
        (toleration("Sideways", value="very"), False),
    ],
)
def test_tolerations(mine, tolerated):
    taint = convert(DeviceTaint, {"key": "sick", "value": "very", "effect": "NoSchedule"})

    assert tolerated is _tolerates(mine, taint)


# -- how much of a device a request takes -------------------------------------------------------

RANGE = {"validRange": {"min": "2", "max": "8", "step": "3"}, "default": "2"}
OPEN = {"validRange": {"min": "2"}}
STEPS = {"validRange": {"step": "4"}}
VALUES = {"validValues": ["1", "4", "6"], "default": "1"}


@pytest.mark.parametrize(
    ("policy", "asked", "taken"),
    [
        (None, None, 10),
        (None, "4", 4),
        (None, "10", 10),
        (None, "11", None),
        (RANGE, None, 2),
        (RANGE, "1", 2),
        (RANGE, "2", 2),
        (RANGE, "3", 5),
        (RANGE, "5", 5),
        (RANGE, "6", 8),
        (RANGE, "8", 8),
        (RANGE, "9", None),
        (OPEN, "1", 2),
        (OPEN, "3", 3),
        (OPEN, "11", None),
        (STEPS, "1", 4),
        (STEPS, "4", 4),
        (STEPS, "5", 8),
        (STEPS, "9", None),
        (VALUES, None, 1),
        (VALUES, "1", 1),
        (VALUES, "2", 4),
        (VALUES, "6", 6),
        (VALUES, "7", None),
        ({"default": "3"}, "4", 4),
    ],
)
def test_amounts_are_rounded_as_the_policy_says(policy, asked, taken):
    capacity = {"value": "10"} | ({"requestPolicy": policy} if policy else {})
    device = convert(Device, {"name": "d", "capacity": {"memory": capacity}})
    wanted = {"capacity": {"requests": {"memory": asked}}} if asked else {}
    detail = convert(DeviceRequestDetail, {"deviceClassName": "gpu", **wanted})

    found = consumption(device, detail, modern=True)

    assert taken == (None if found is None else quantity.value(found["memory"]))


def test_a_capacity_that_a_device_lacks_cannot_be_had():
    device = convert(Device, make_device("d", None, {"memory": "10"}))
    capacity = {"requests": {"cores": "1"}}
    detail = convert(DeviceRequestDetail, {"deviceClassName": "gpu", "capacity": capacity})

    assert consumption(device, detail, modern=True) is None


@pytest.mark.parametrize(("modern", "text"), [(True, "2k"), (False, "2000")])
def test_a_rounded_amount_is_written_as_the_step_is(modern, text):
    policy = {"validRange": {"step": "1k"}}
    capacity = {"memory": {"value": "5k", "requestPolicy": policy}}
    device = convert(Device, {"name": "d", "capacity": capacity})
    asked = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": "1500"}}}

    found = consumption(device, convert(DeviceRequestDetail, asked), modern=modern)

    assert {"memory": text} == found


# -- how many -------------------------------------------------------------------------------


def node_of(count):
    return make_slice("s", *[f"d{number}" for number in range(count)], node="a")


def asking(*counts):
    claim = make_resource_claim("c")
    for number, count in enumerate(counts):
        claim.exactly(f"r{number}", request("gpu", count=count))
    return claim


EXCEEDS = (
    "claim default/c, request {}: adding {} devices exceeds the claim limit of 32, "
    "with {} already accounted for"
)


@pytest.mark.parametrize(
    ("counts", "devices", "text"),
    [
        ((32,), 40, ""),
        ((20, 12), 40, ""),
        ((20, 13), 40, EXCEEDS.format("r1", 13, 20)),
        ((10, 10, 13), 40, EXCEEDS.format("r2", 13, 20)),
        ((33,), 40, EXCEEDS.format("r0", 33, 0)),
        ((1, None), 31, CANNOT),
        ((None,), 32, ""),
        ((None,), 33, EXCEEDS.format("r0", 33, 0)),
        ((1, None), 32, EXCEEDS.format("r1", 32, 1)),
    ],
)
def test_a_claim_holds_32_devices_at_most(counts, devices, text):
    cluster = Cluster(node_of(devices), asking(*counts), nodes=("a",))

    assert {"a": text} == cluster.filter(pod_with("c"))[2]


def test_the_smallest_choice_decides_whether_a_claim_is_too_large():
    claim = asking(12).first_of("f", many=request("gpu", count=30), few=request("gpu", count=20))

    assert "" == Cluster(node_of(40), claim).filter(pod_with("c"))[2]["a"]


def test_in_1_36_a_claim_that_is_too_large_is_told_as_a_whole():
    objects = {
        "nodes": [make_node("a").body()],
        "resourceSlices": [node_of(40).body()],
        "deviceClasses": [make_device_class("gpu").body()],
        "resourceClaims": [asking(20, 13).body()],
    }
    found = decide(objects, api.to_builtins(pod_with("c")), gates=FeatureGates({}, "1.36"))

    assert "number of requested devices 33 exceeds the claim limit of 32" in found["error"]


def test_a_search_that_does_not_end_is_given_up(monkeypatch):
    monkeypatch.setattr(allocator, "NODE_STEPS", 0)
    monkeypatch.setattr(allocator, "STEP_LIMIT", 50)
    claim = asking(8).same(f"{DRIVER}/numa")
    devices = [make_device(f"d{number}", {"numa": number % 7}) for number in range(21)]
    cluster = Cluster(make_slice("s", *devices, node="a"), claim, nodes=("a",))

    assert {"a": "gave up after 50 steps to allocate devices"} == cluster.filter(pod_with("c"))[2]

    monkeypatch.setattr(allocator, "NODE_STEPS", 16)
    enough = Cluster(node_of(8), asking(8), nodes=("a",))
    assert {"a": ""} == enough.filter(pod_with("c"))[2]


def hard_on_each_node():
    """Three nodes whose devices are all tried in vain: no two are on the same numa node."""
    devices = [make_device(f"d{number}", {"numa": number}) for number in range(40)]
    slices = [make_slice(f"s-{node}", *devices, node=node) for node in "abc"]
    return Cluster(*slices, asking(2).same(f"{DRIVER}/numa"), nodes=tuple("abc"))


def test_nodes_share_what_a_hard_search_may_take(monkeypatch):
    """Or one claim would hold up all other pods as often as there are nodes."""
    asked = []
    step = allocator.Search._step
    monkeypatch.setattr(allocator.Search, "_step", lambda it: asked.append(it) or step(it))
    monkeypatch.setattr(allocator, "NODE_STEPS", 10)
    monkeypatch.setattr(allocator, "STEP_LIMIT", 100)
    cluster = hard_on_each_node()
    state = CycleState()
    assert cluster.plugin.pre_filter(state, pod_with("c"), cluster.handle.table)[1] is None

    verdict = cluster.plugin.filter(state, pod_with("c"), cluster.handle.table)

    assert {"gave up after 100 steps to allocate devices"} == {
        verdict.status_of(row).message for row in range(3)
    }
    assert [111, 11, 11] == sorted(Counter(asked).values(), reverse=True)

    again = CycleState()
    cluster.plugin.pre_filter(again, pod_with("c"), cluster.handle.table)
    cluster.plugin.filter(again, pod_with("c"), cluster.handle.table)
    assert 5 == len(set(asked)), "the node that took all of it is not searched again"


def test_devices_that_are_looked_at_in_vain_are_counted(monkeypatch):
    monkeypatch.setattr(allocator, "NODE_STEPS", 0)
    monkeypatch.setattr(allocator, "STEP_LIMIT", 1)
    wanted = request("gpu", f'device.attributes["{DRIVER}"].numa > 1000')
    none = make_resource_claim("c").exactly("r", wanted)
    devices = [make_device(f"d{number}", {"numa": number}) for number in range(40)]
    cluster = Cluster(make_slice("s", *devices, node="a"), none, nodes=("a",))

    assert {"a": "gave up after 1 steps to allocate devices"} == cluster.filter(pod_with("c"))[2]


def test_what_is_wrong_with_all_devices_is_an_error_that_names_one():
    devices = [make_device(f"d{number}", {"numa": number}) for number in range(2)]
    claim = asking(None).same(f"{DRIVER}/numa")
    cluster = Cluster(make_slice("s", *devices, node="a"), claim, nodes=("a",))

    text = (
        f"claim default/c, request r0: cannot add device {DRIVER}/a/d1 because a claim constraint "
        "would not be satisfied"
    )
    assert {"a": text} == cluster.filter(pod_with("c"))[2]


def test_pools_that_contradict_themselves_are_waited_for():
    twice = make_slice("s", "d0", "d0", node="a")
    cluster = Cluster(twice, asking(1), nodes=("a",))
    assert {"a": "invalid resource pools were encountered"} == cluster.filter(pod_with("c"))[2]

    whole = Cluster(twice, make_slice("net", "d0"), asking(1), nodes=("a",))
    assert {"a": ""} == whole.filter(pod_with("c"))[2]

    everything = Cluster(twice, asking(None), nodes=("a",)).filter(pod_with("c"))[2]["a"]
    assert everything == (
        "claim default/c, request r0: asks for all devices, but resource pool "
        f"{DRIVER}/a is currently invalid"
    )


# -- administrators -----------------------------------------------------------------------------


def test_an_administrator_does_not_look_at_one_device_twice_in_a_claim():
    looks = request("gpu", adminAccess=True)
    once = make_resource_claim("c").exactly("r0", looks)
    twice = make_resource_claim("c").exactly("r0", looks).exactly("r1", looks)

    assert "" == Cluster(node_of(1), once).filter(pod_with("c"))[2]["a"]
    assert CANNOT == Cluster(node_of(1), twice).filter(pod_with("c"))[2]["a"]
    assert "" == Cluster(node_of(2), twice).filter(pod_with("c"))[2]["a"]


def test_two_claims_of_one_pod_do_not_get_one_device_but_an_administrator_may_look():
    plain, looks = asking(1), make_resource_claim("l")
    looks.exactly("r0", request("gpu", adminAccess=True))
    other = make_resource_claim("o").exactly("r0", request("gpu"))
    cluster = Cluster(node_of(1), plain, looks, other)

    assert "" == cluster.filter(pod_with("c", "l"))[2]["a"]
    assert CANNOT == cluster.filter(pod_with("c", "o"))[2]["a"]


# -- constraints ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requests", "values", "fits"),
    [
        ((), "xy", False),
        (("r0", "r1"), "xy", False),
        (("r0",), "xy", True),
        (("r1",), "xy", True),
        (("r0", "r1"), "xx", True),
    ],
)
def test_a_constraint_is_about_the_requests_that_it_names(requests, values, fits):
    claim = make_resource_claim("c")
    for number in range(2):
        only = f'device.attributes["{DRIVER}"].number == {number}'
        claim.exactly(f"r{number}", request("gpu", only))
    claim.same(f"{DRIVER}/numa", *requests)
    devices = [
        make_device(f"d{number}", {"number": number, "numa": value})
        for number, value in enumerate(values)
    ]
    found = Cluster(make_slice("s", *devices, node="a"), claim).filter(pod_with("c"))[2]["a"]

    assert ("" if fits else CANNOT) == found


@pytest.mark.parametrize("named", ["r0", "r0/small"])
def test_a_constraint_may_name_a_request_or_one_choice_of_it(named):
    claim = make_resource_claim("c").first_of("r0", small=request("gpu", count=2))
    claim.same(f"{DRIVER}/numa", named)
    differ = [make_device(f"d{n}", {"numa": n}) for n in range(2)]
    alike = [make_device(f"d{n}", {"numa": 7}) for n in range(2)]

    for devices, text in ((differ, CANNOT), (alike, "")):
        found = Cluster(make_slice("s", *devices, node="a"), claim).filter(pod_with("c"))[2]
        assert text == found["a"]


def test_a_constraint_on_another_choice_is_none():
    claim = make_resource_claim("c").first_of("r0", small=request("gpu", count=2))
    claim.same(f"{DRIVER}/numa", "r0/large")
    differ = [make_device(f"d{n}", {"numa": n}) for n in range(2)]

    found = Cluster(make_slice("s", *differ, node="a"), claim).filter(pod_with("c"))[2]
    assert "" == found["a"]


@pytest.mark.parametrize(
    ("values", "fits"), [("xyz", True), ("xxy", False), ("xyx", False), ("xxx", False)]
)
def test_distinct_devices_differ_from_all_others(values, fits):
    claim = asking(3).distinct(f"{DRIVER}/numa")
    devices = [make_device(f"d{number}", {"numa": v}) for number, v in enumerate(values)]
    found = Cluster(make_slice("s", *devices, node="a"), claim).filter(pod_with("c"))[2]["a"]

    assert ("" if fits else CANNOT) == found


def told(version, objects):
    gates = FeatureGates({}, version)
    return decide(objects, api.to_builtins(pod_with("c")), gates=gates)["nodes"]["a"]["code"]


@pytest.mark.parametrize(
    ("values", "counts", "old", "new"),
    [
        ("xx", (1, 1), False, False),
        ("xx", (2,), False, False),
        # only the last device of a request is remembered by 1.36
        ("xyx", (3,), True, False),
        ("xyz", (3,), True, True),
    ],
)
def test_what_distinct_remembered_in_1_36(values, counts, old, new):
    claim = asking(*counts).distinct(f"{DRIVER}/numa")
    devices = [make_device(f"d{number}", {"numa": v}) for number, v in enumerate(values)]
    objects = {
        "nodes": [make_node("a").body()],
        "resourceSlices": [make_slice("s", *devices, node="a").body()],
        "deviceClasses": [make_device_class("gpu").body()],
        "resourceClaims": [claim.body()],
    }

    assert [old, new] == [told(v, objects) == "Success" for v in ("1.36", "1.37")]


@pytest.mark.parametrize(("first", "second", "same"), [(1, 1, True), (1, "1", False)])
def test_values_of_different_types_are_different(first, second, same):
    claim = asking(2).same(f"{DRIVER}/numa")
    devices = [make_device(f"d{n}", {"numa": v}) for n, v in enumerate((first, second))]
    found = Cluster(make_slice("s", *devices, node="a"), claim).filter(pod_with("c"))[2]["a"]

    assert ("" if same else CANNOT) == found


# -- words --------------------------------------------------------------------------------------


def test_an_expression_that_is_none_is_told():
    cluster = Cluster(
        node_of(1), make_resource_claim("c").exactly("r", request("gpu", "device.")), nodes=("a",)
    )
    text = cluster.filter(pod_with("c"))[2]["a"]

    assert text.startswith("claim default/c: selector #0: CEL compile error: ")


def test_a_request_for_nothing_known_is_told():
    claim = make_resource_claim("c")
    claim.spec["devices"] = {"requests": [{"name": "r"}]}
    cluster = Cluster(claim)

    assert (
        "resource claim default/c, request r: unknown request type"
        == (cluster.filter(pod_with("c"))[1])
    )


@pytest.mark.parametrize(
    ("choices", "text"),
    [
        (True, "request f/b: device class gone does not exist"),
        (
            False,
            "resource claim default/c, request f: has subrequests, but the DRAPrioritizedList "
            "feature is disabled",
        ),
    ],
)
def test_problems_of_a_list_of_choices(choices, text):
    claim = make_resource_claim("c").first_of("f", a=request("gpu"), b=request("gone"))
    classes = Cluster().objects.device_classes

    assert text == class_problem(claim.build(), classes, choices=choices)


def test_a_request_for_parts_is_told_where_parts_are_not_given():
    parts = {"requests": {"memory": "1Gi"}}
    for asked, named in (
        ({}, "request r: has capacity"),
        ({"firstAvailable": True}, "subrequest a: has capacity"),
    ):
        detail = request("gpu", capacity=parts)
        body = {"firstAvailable": [{"name": "a", **detail}]} if asked else {"exactly": detail}
        objects, pod = with_devices({}, request=body)
        found = answer(objects, pod, "1.37", DRAConsumableCapacity=False)

        assert f"claim default/claim, {named}" in found["error"]


# -- events --------------------------------------------------------------------------------------


def hint(cluster, resource, pod, old, new):
    for item in cluster.plugin.events_to_register():
        if item.event.resource.endswith(resource) and item.hint:
            return item.hint(pod, old, new)
    raise AssertionError(resource)


MINE = make_resource_claim("c").exactly("r", request("gpu"))
THEIRS = make_resource_claim("o").exactly("r", request("gpu"))


def held(claim):
    made = make_resource_claim(claim.meta["name"]).exactly("r", request("gpu"))
    return made.allocated((DRIVER, "a", "d0"), node="a")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (None, MINE, QUEUE),
        (None, THEIRS, SKIP),
        (MINE, MINE, SKIP),
        (MINE, held(MINE), QUEUE),
        (held(MINE), MINE, QUEUE),
        (THEIRS, held(THEIRS), SKIP),
        (held(THEIRS), THEIRS, QUEUE),
        (held(THEIRS), held(THEIRS), SKIP),
    ],
)
def test_a_claim_that_changes_is_worth_a_try(old, new, told):
    cluster = Cluster(MINE, THEIRS)
    before = None if old is None else old.build()

    assert told is hint(cluster, "ResourceClaim", pod_with("c"), before, new.build())


def test_a_pod_without_its_claim_is_not_tried_for_others():
    cluster = Cluster(THEIRS)

    assert SKIP is hint(
        cluster, "ResourceClaim", pod_with("c"), held(THEIRS).build(), THEIRS.build()
    )


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (make_pod().device_template("t", "c"), QUEUE),
        (make_pod().device_template("t"), SKIP),
        (make_pod("other").device_template("t", "c"), SKIP),
    ],
)
def test_a_claim_that_was_made_for_the_pod_is_worth_a_try(changed, told):
    made = make_resource_claim("c").owner("Pod", "pod", uid="uid-default-pod")
    waiting = make_pod().device_template("t").build()

    assert told is hint(Cluster(made), "Pod", waiting, waiting, changed.build())


def test_a_choice_that_leaves_later_requests_too_few_is_left_at_once(monkeypatch):
    monkeypatch.setattr(allocator, "STEP_LIMIT", 100)
    claim = make_resource_claim("c").first_of(
        "r0", big=request("gpu", count=20), few=request("gpu")
    )
    claim.exactly("r1", request("gpu", count=5)).exactly("r2", request("gpu", count=10))
    cluster = Cluster(node_of(40), claim, nodes=("a",))

    assert {"a": ""} == cluster.filter(pod_with("c"))[2]


@pytest.mark.parametrize("modern", [True, False], ids=["1.37", "1.36"])
def test_what_is_known_of_distinct_devices(modern):
    """Every order in which devices of two requests come, and the last one goes again."""
    rule = DeviceConstraint(distinct_attribute=f"{DRIVER}/model")
    item = make_slice("s", *(make_device(v, {"model": v}) for v in "xy")).build()
    offers = {device.name: Offer(item, device, (), Features()) for device in item.spec.devices}
    steps = [*product(("r0/a", "r1"), "xy"), None]
    for length in range(1, 6):
        for chosen in product(steps, repeat=length):
            constraints, held, last = Constraints([rule], modern=modern), [], {}
            for step in chosen:
                if step is None:
                    if held:
                        label, _ = held.pop()
                        constraints.remove(label)
                        last.pop(label, None)
                    continue
                known = [value for _, value in held] if modern else last.values()
                fits = step[1] not in known
                assert fits == constraints.add(step[0], offers[step[1]]), (chosen, step)
                if fits:
                    held.append(step)
                    last[step[0]] = step[1]


def test_values_of_different_types_are_not_the_same():
    values = [{"version": "1"}, {"string": "1"}, {"int": 1}, {"bool": True}]
    devices = [{"name": f"d{n}", "attributes": {"x": v}} for n, v in enumerate(values * 2)]
    item = make_slice("s", *devices).build()
    offers = [Offer(item, device, (), Features()) for device in item.spec.devices]
    found = [attribute(offer, f"{DRIVER}/x") for offer in offers]

    assert found[:4] == found[4:]
    assert all(a != b for a, b in combinations(found[:4], 2))

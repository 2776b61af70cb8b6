"""What containers get for resources that devices serve, and how devices count as resources."""

from itertools import permutations, product

import pytest
from msgspec.structs import replace

from bayplan.api import DeviceClass, Pod, convert
from bayplan.cluster.resources import resource_id
from bayplan.config import FeatureGates
from bayplan.framework import Handle
from bayplan.plugins.dynamic_resources import extended
from bayplan.plugins.dynamic_resources.scored import DeviceResources
from bayplan.testing import (
    make_device,
    make_device_class,
    make_node,
    make_pod,
    make_resource_claim,
    make_slice,
)

CARD, DRIVER = "example.com/card", "gpu.example.com"


def pod_of(inits, mains):
    pod = make_pod("p")
    containers = [
        {"name": f"c{number}", "resources": {"requests": {"cpu": 1, CARD: amount, "x/z": 1}}}
        | ({"restartPolicy": "Always"} if lasting else {})
        for number, (lasting, amount) in enumerate([*inits, *((False, each) for each in mains)])
    ]
    pod.spec["initContainers"] = containers[: len(inits)]
    pod.spec["containers"] = containers[len(inits) :]
    return convert(Pod, pod.body())


def expected(inits, mains):
    """Amounts by container that has a request, and which container uses whose."""
    every = [*inits, *((True, amount) for amount in mains)]
    lasting = {place: amount for place, (lasts, amount) in enumerate(every) if lasts and amount}
    uses = {(place, place) for place in lasting}
    missing = {}
    for place, (lasts, amount) in enumerate(every):
        if not lasts:
            for later in [other for other in lasting if other > place]:
                if amount > 0:
                    uses.add((place, later))
                    amount -= lasting[later]
            if amount > 0:
                missing[place] = amount
    most = max(missing.values(), default=0)
    shared = min((place for place in missing if missing[place] == most), default=None)
    uses |= {(place, shared) for place in missing}
    return lasting | ({} if shared is None else {shared: most}), uses


def test_init_containers_use_what_later_ones_have():
    """Up to two init containers, which may run on, and up to two others, of up to three devices."""
    handle = Handle()
    handle.objects.put(make_device_class("card", resource=CARD).build())
    kinds = list(product((False, True), range(4)))
    for inits in [(), *((kind,) for kind in kinds), *product(kinds, kinds)]:
        for mains in [*product(range(4)), *product(range(3), range(3))]:
            pod = pod_of(inits, mains)
            claim, mappings = extended.claim_for_node(
                extended.in_memory_claim(pod), pod, [CARD], handle.objects.device_classes
            )
            requests, uses = expected(inits, mains)

            name = "container-{}-request-1".format  # after cpu, by name
            asked = [(each.name, each.exactly.count) for each in claim.spec.devices.requests]
            assert sorted((name(place), amount) for place, amount in requests.items()) == asked
            told = [(item.container_name, item.request_name) for item in mappings]
            assert sorted((f"c{user}", name(place)) for user, place in uses) == sorted(told)


@pytest.mark.parametrize(("length", "kept"), [(1, 1), (223, 223), (224, 223), (253, 223)])
def test_the_name_of_a_claim_is_cut_to_what_a_name_may_be(length, kept):
    pod = make_pod("p" * length).build()

    name = extended.written_claim(extended.in_memory_claim(pod), pod).name

    assert name.startswith("p" * kept + "-extended-resources-")
    assert kept + len("-extended-resources-") + 5 == len(name) <= 253


def test_of_several_classes_the_newest_serves_a_resource_and_then_the_first():
    times = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", None)
    implicit = f"{extended.IMPLICIT_PREFIX}b"
    for created in product(times, repeat=3):
        classes = []
        for name, time in zip("abc", created, strict=True):
            body = make_device_class(name, resource=CARD if name != "c" else "x/y").body()
            body["metadata"].pop("creationTimestamp", None)
            if time:
                body["metadata"]["creationTimestamp"] = time
            classes.append(convert(DeviceClass, body))
        a, b, _ = created
        wanted = "b" if (b or "") > (a or "") else "a"
        for order in permutations(classes):
            assert wanted == extended.class_for(CARD, order).name
            assert "b" == extended.class_for(implicit, order).name
            assert extended.class_for("x/z", order) is None


@pytest.mark.parametrize("place", [CARD, f"{extended.IMPLICIT_PREFIX}card"])
def test_devices_that_are_given_away_count_once_each(place):
    """As a whole, in parts, or both."""
    handle = Handle()
    handle.table.add_node(make_node("a").build())
    fine = f'device.attributes["{DRIVER}"].fine'
    handle.objects.put(make_device_class("card", fine, resource=CARD).build())
    kinds = list(product((0, 1), (0, 1, 2), (True, False)))
    devices = [make_device(f"d{n}", {"fine": kind[2]}) for n, kind in enumerate(kinds)]
    handle.objects.put(make_slice("s", *devices, node="a").build())
    for number, (whole, parts, _) in enumerate(kinds):
        for share in range(whole + parts):
            result = {"request": "r", "driver": DRIVER, "pool": "a", "device": f"d{number}"}
            if share >= whole:
                result["shareID"] = f"share-{share}"
            claim = make_resource_claim(f"c{number}-{share}")
            claim.status["allocation"] = {"devices": {"results": [result]}}
            handle.objects.put(claim.build())
    wanted, other = resource_id(place), resource_id("example.com/nobody")
    resources = DeviceResources(handle)

    assert (wanted,) == resources.served([other, wanted, resource_id("cpu")])
    node = resources.on(handle.table.info(0), [wanted, other])
    fine = [kind for kind in kinds if kind[2]]
    used = [kind for kind in fine if kind[0] or kind[1]]
    assert (len(fine), len(used)) == (node.allocatable[wanted], node.requested[wanted])
    assert (0, 0) == (node.allocatable[other], node.requested[other])
    assert not handle.table.info(0).allocatable_of(place)


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("device.allowMultipleAllocations", 0),
        ("!device.allowMultipleAllocations", 2),
        (f'device.attributes["{DRIVER}"].only == 1', 0),
    ],
    ids=["upstream does not tell that it can be shared", "nor that it can", "fails on the second"],
)
def test_what_expressions_are_told_of_devices_that_count(expression, count):
    handle = Handle()
    handle.table.add_node(make_node("a").build())
    handle.objects.put(make_device_class("card", expression, resource=CARD).build())
    shared = make_device("d0", {"only": 1}, allowMultipleAllocations=True)
    handle.objects.put(make_slice("s", shared, "d1", node="a").build())

    node = DeviceResources(handle).on(handle.table.info(0), [resource_id(CARD)])

    assert (count, 0) == (node.allocatable[resource_id(CARD)], node.requested[resource_id(CARD)])


@pytest.mark.parametrize("on", [True, False])
def test_without_the_gate_or_a_class_nothing_is_served(on):
    handle = Handle(gates=FeatureGates({"DRAExtendedResource": on}, "1.36"))
    resources, asked = DeviceResources(handle), [resource_id(CARD)]

    assert () == resources.served(asked)
    handle.objects.put(make_device_class("card", resource=CARD).build())
    assert (tuple(asked) if on else ()) == resources.served(asked)


def test_the_claim_of_an_earlier_attempt_is_known_by_its_mark_and_its_owner():
    handle, pod = Handle(), make_pod("p").build()
    right = extended.written_claim(extended.in_memory_claim(pod), pod)
    owner = right.metadata.owner_references[0]
    wrong = {
        "unmarked": {"annotations": {}},
        "marked otherwise": {"annotations": {extended.ANNOTATION: "false"}},
        "no owner": {"owner_references": ()},
        "not the controller": {"owner_references": (replace(owner, controller=False),)},
        "another pod of that name": {"owner_references": (replace(owner, uid="old"),)},
        "another name": {"owner_references": (replace(owner, name="q"),)},
        "elsewhere": {"namespace": "other"},
    }
    for name, fields in wrong.items():
        meta = replace(right.metadata, name=f"a-{name}", **fields)
        handle.objects.put(replace(right, metadata=meta))

    assert extended.find_claim(pod, handle.objects.resource_claims) is None
    handle.objects.put(right)
    assert right.key == extended.find_claim(pod, handle.objects.resource_claims).key
    (written,) = extended.create_call(right).body["metadata"]["ownerReferences"]
    assert written == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "uid": pod.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }

"""Pods with volume and device claims go through the whole scheduler."""

import msgspec

from bayplan.api import plain
from bayplan.engine.loop import CallApi
from bayplan.testing import (
    HOSTNAME,
    make_claim,
    make_device_class,
    make_node,
    make_pod,
    make_resource_claim,
    make_slice,
    make_storage_class,
    make_volume,
    request,
)
from tests.engine.loop.helper import World


def calls(world):
    return [call for a in world.actions if isinstance(a, CallApi) for call in a.calls]


def merge(target, patch):
    """RFC 7386."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


def carry_out(world, seen):
    """Apply the merge patches that were asked for, as an API server would."""
    for call in calls(world)[seen:]:
        key = f"{call.namespace}/{call.name}" if call.namespace else call.name
        kind = {
            "persistentvolumes": "PersistentVolume",
            "persistentvolumeclaims": "PersistentVolumeClaim",
            "resourceclaims.resource.k8s.io": "ResourceClaim",
        }[call.resource]
        item = world.objects[kind, key]
        body = plain(item)
        merge(body, msgspec.to_builtins(call.body))
        body["metadata"].pop("resourceVersion", None)
        world.show(msgspec.convert(body, type(item)))
    return len(calls(world))


def test_a_pod_is_bound_once_its_volume_is():
    claim = make_claim("data").storage_class("local").uid("claim-uid")
    world = World(
        make_storage_class("local", provisioner="kubernetes.io/no-provisioner"),
        make_node("a"),
        make_node("b"),
        make_volume("v").storage_class("local").on_nodes(f"{HOSTNAME}=b"),
        claim,
    )
    world.show(make_pod("p").claim("data"))
    world.run()
    carry_out(world, 0)
    world.wait(2)

    assert "" == world.node_of("p")
    assert "claim-uid" == world.objects["PersistentVolume", "v"].spec.claim_ref.uid

    world.show(claim.bound("v"))
    world.wait(2)
    assert "b" == world.node_of("p")


def test_a_claim_that_is_never_provisioned_frees_the_node_again():
    world = World(make_storage_class("later"), make_node("a"))
    world.show(make_claim("data").storage_class("later"))
    world.show(make_pod("p").claim("data"))
    world.run()
    assert 1 == world.scheduler.cache.assumed_count
    world.gone("Pod", "default/p")
    world.wait(700)

    assert 0 == world.scheduler.cache.assumed_count


def test_the_next_pod_gets_the_device_when_it_is_given_back():
    first = make_resource_claim("c1").exactly("r", request("gpu"))
    second = make_resource_claim("c2").exactly("r", request("gpu"))
    world = World(
        make_device_class("gpu", 'device.driver == "gpu.example.com"'),
        make_slice("s", "d0", node="a"),
        make_node("a"),
        make_node("b"),
        first,
        second,
    )
    world.show(make_pod("p1").device_claim("c1"))
    world.run()
    seen = carry_out(world, 0)
    world.show(make_pod("p2").device_claim("c2"))
    world.run()

    assert ["a", ""] == [world.node_of("p1"), world.node_of("p2")]
    assert "d0" == (
        world.objects["ResourceClaim", "default/c1"].status.allocation.devices.results[0].device
    )
    assert "2 cannot allocate all claims" in world.condition("p2").message

    world.gone("Pod", "default/p1")
    world.show(make_resource_claim("c1").exactly("r", request("gpu")))
    world.wait(20)
    carry_out(world, seen)
    assert "a" == world.node_of("p2")


def test_a_pod_waits_for_the_claim_that_its_template_makes():
    world = World(make_device_class("gpu", "true"), make_slice("s", "d0", node="a"), make_node("a"))
    world.show(make_pod("p").device_template("t"))
    world.run()
    assert "" == world.node_of("p")
    claim = make_resource_claim("made").exactly("r", request("gpu"))
    world.show(claim.owner("Pod", "p", uid="uid-default-p"))
    world.show(make_pod("p").device_template("t", "made"))
    world.wait(20)

    assert "a" == world.node_of("p")

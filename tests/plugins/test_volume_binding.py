"""Claims get their volumes where the pod goes, and no volume goes to two pods."""

import pytest
from msgspec.structs import replace

from bayplan.config import FeatureGates, VolumeBindingArgs
from bayplan.framework import ClusterObjects, Code, CycleState, Handle, NodeTable, QueueingHint
from bayplan.plugins import volume_binding
from bayplan.plugins.volume_binding.hints import EVENTS
from bayplan.testing import (
    HOSTNAME,
    ZONE,
    make_capacity,
    make_claim,
    make_csi_driver,
    make_csi_node,
    make_node,
    make_pod,
    make_storage_class,
    make_volume,
)

SELECTED = "volume.kubernetes.io/selected-node"


class Cluster:
    """Nodes a (zone z1) and b (zone z2) with the objects of a test."""

    def __init__(self, *objects, gates=None, shape=None):
        table, self.objects = NodeTable(), ClusterObjects()
        table.add_node(make_node("a").zone("z1").build())
        table.add_node(make_node("b").zone("z2").build())
        for item in (make_storage_class("later"), *objects):
            self.objects.put(item.build())
        gates = FeatureGates(gates) if gates else None
        self.handle = Handle(table=table, objects=self.objects, gates=gates)
        args = VolumeBindingArgs(bind_timeout_seconds=5, shape=shape)
        self.plugin = volume_binding.new(args, self.handle)

    def filter(self, pod):
        state = CycleState()
        _, status = self.plugin.pre_filter(state, pod, self.handle.table)
        if status is not None:
            return state, status.message or status.code.text
        verdict = self.plugin.filter(state, pod, self.handle.table)
        found = [verdict.status_of(row) for row in range(2)]
        for row, status in enumerate(found):
            alone = self.plugin.filter_node(state, pod, self.handle.table.info(row))
            assert (alone and alone.all_reasons) == (status and status.all_reasons)
        return state, [item.message if item else "" for item in found]

    def reserve(self, pod, node):
        state, _ = self.filter(pod)
        assert self.plugin.reserve(state, pod, node) is None
        return state


def local_volume(name, node, size="10Gi"):
    return make_volume(name).storage_class("later").size(size).on_nodes(f"{HOSTNAME}={node}")


def waiting_claim(name="c", size="1Gi"):
    return make_claim(name).storage_class("later").size(size)


NONE_LEFT = "node(s) didn't find available persistent volumes to bind"
LOCAL = make_storage_class("later", provisioner="kubernetes.io/no-provisioner")


@pytest.mark.parametrize(
    ("objects", "answer"),
    [
        pytest.param([], 'persistentvolumeclaim "c" not found', id="missing claim"),
        pytest.param(
            [make_claim("c").terminating()],
            'persistentvolumeclaim "c" is being deleted',
            id="claim being deleted",
        ),
        pytest.param(
            [make_claim("c").bound("v").with_status(phase="Lost")],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
            id="lost claim",
        ),
        pytest.param(
            [make_claim("c")], "pod has unbound immediate PersistentVolumeClaims", id="immediate"
        ),
        pytest.param(
            [make_claim("c").bound("v"), make_volume("v").on_nodes(f"{ZONE}=z1")],
            ["", "node(s) didn't match PersistentVolume's node affinity"],
            id="bound volume in one zone",
        ),
        pytest.param(
            [make_claim("c").bound("v")],
            ["node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"] * 2,
            id="volume is gone",
        ),
        pytest.param([waiting_claim()], ["", ""], id="can be provisioned"),
        pytest.param([waiting_claim(), LOCAL], [NONE_LEFT] * 2, id="no provisioner"),
        pytest.param(
            [waiting_claim(), LOCAL, local_volume("v", "b")], [NONE_LEFT, ""], id="local volume"
        ),
        pytest.param(
            [waiting_claim(), LOCAL, local_volume("v", "b").bound_to("c")],
            [NONE_LEFT, ""],
            id="volume that was kept for it",
        ),
        pytest.param(
            [waiting_claim(), LOCAL, make_volume("v").storage_class("other").bound_to("c")],
            [NONE_LEFT] * 2,
            id="volume that was kept for it has another class",
        ),
        pytest.param(
            [waiting_claim().annotate({SELECTED: "b"})], [NONE_LEFT, ""], id="node was selected"
        ),
        pytest.param(
            [
                waiting_claim(size="5Gi"),
                make_csi_driver("csi.example.com", capacity=True),
                make_capacity("k", "later", "10Gi", f"{ZONE}=z1"),
                make_capacity("l", "later", "10Gi", f"{ZONE}=z2", maximumVolumeSize="1Gi"),
            ],
            ["", "node(s) did not have enough free storage"],
            id="capacity",
        ),
    ],
)
def test_filter(objects, answer):
    assert answer == Cluster(*objects).filter(make_pod().claim("c").build())[1]


def test_a_pod_without_claims_is_skipped():
    cluster = Cluster()
    state, answer = cluster.filter(make_pod().build())
    pod = make_pod().build()

    assert "Skip" == answer
    assert cluster.plugin.reserve(state, pod, "a") is None
    assert cluster.plugin.pre_bind_pre_flight(state, pod, "a")[1].code is Code.SKIP


def test_the_smallest_volume_is_bound_by_a_patch_and_awaited():
    volumes = [local_volume("big", "a"), local_volume("small", "a", "5Gi")]
    claim = waiting_claim(size="3Gi").uid("claim-uid")
    cluster = Cluster(LOCAL, claim, *volumes)
    pod = make_pod().claim("c").build()
    state = cluster.reserve(pod, "a")

    assert cluster.plugin.pre_bind_pre_flight(state, pod, "a")[1] is None
    effects = cluster.plugin.pre_bind(state, pod, "a")
    (call,) = effects.calls
    assert ("patch", "persistentvolumes", "small") == (call.verb, call.resource, call.name)
    assert "yes" == call.body["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"]
    assert ("c", "claim-uid") == tuple(call.body["spec"]["claimRef"][k] for k in ("name", "uid"))
    assert 5.0 == effects.timeout_seconds
    assert effects.done() is None

    cluster.objects.put(volumes[1].bound_to("c", uid="claim-uid").build())
    assert effects.done() is None
    cluster.objects.put(claim.bound("small").build())
    assert effects.done().success


def test_a_claim_is_provisioned_on_the_chosen_node():
    claim = waiting_claim()
    cluster = Cluster(claim)
    pod = make_pod().claim("c").build()
    effects = cluster.plugin.pre_bind(cluster.reserve(pod, "b"), pod, "b")
    (call,) = effects.calls

    assert ("patch", "persistentvolumeclaims", "default", "c") == (
        call.verb, call.resource, call.namespace, call.name,
    )  # fmt: skip
    assert {SELECTED: "b"} == call.body["metadata"]["annotations"]
    assert effects.done() is None
    cluster.objects.put(claim.annotate({SELECTED: "b"}).build())
    assert effects.done() is None
    cluster.objects.put(claim.bound("new").build())
    assert effects.done().success


def test_a_provisioner_that_gives_up_fails_the_binding():
    claim = waiting_claim()
    cluster = Cluster(claim)
    pod = make_pod().claim("c").build()
    effects = cluster.plugin.pre_bind(cluster.reserve(pod, "b"), pod, "b")
    cluster.objects.put(claim.annotate({"tried": "yes"}).build())

    assert 'provisioning failed for PVC "c"' == effects.done().message


def test_a_volume_that_loses_its_claim_fails_the_binding():
    volume = local_volume("v", "a")
    cluster = Cluster(LOCAL, waiting_claim(), volume)
    pod = make_pod().claim("c").build()
    effects = cluster.plugin.pre_bind(cluster.reserve(pod, "a"), pod, "a")
    cluster.objects.put(volume.annotate({"x": "y"}).build())

    assert 'ClaimRef got reset for pv "v"' == effects.done().message


def test_two_pods_do_not_get_one_volume():
    cluster = Cluster(LOCAL, waiting_claim("c1"), waiting_claim("c2"), local_volume("v", "a"))
    first, second = make_pod("p1").claim("c1").build(), make_pod("p2").claim("c2").build()
    state = cluster.reserve(first, "a")

    assert [NONE_LEFT] * 2 == cluster.filter(second)[1]
    cluster.plugin.unreserve(state, first, "a")
    cluster.plugin.unreserve(state, first, "a")
    assert ["", NONE_LEFT] == cluster.filter(second)[1]


def test_a_volume_that_went_since_the_filter_fails_the_reservation():
    pod = make_pod("p").claim("c").build()
    cluster = Cluster(LOCAL, waiting_claim("c"), local_volume("v", "a"))
    state, told = cluster.filter(pod)
    cluster.objects.persistent_volumes.delete("v")

    status = cluster.plugin.reserve(state, pod, "a")

    assert ["", NONE_LEFT] == told
    assert (Code.ERROR, 'node "a" no longer has volumes for pod "default/p"') == (
        status.code,
        status.message,
    )


def test_profiles_share_what_is_booked():
    cluster = Cluster(LOCAL, waiting_claim("c1"), waiting_claim("c2"), local_volume("v", "a"))
    cluster.reserve(make_pod("p1").claim("c1").build(), "a")
    cluster.plugin = volume_binding.new(None, cluster.handle.for_profile())

    assert [NONE_LEFT] * 2 == cluster.filter(make_pod("p2").claim("c2").build())[1]


def test_an_assumption_ends_when_the_object_changes():
    volume = local_volume("v", "a")
    cluster = Cluster(LOCAL, waiting_claim("c1"), waiting_claim("c2"), volume)
    cluster.reserve(make_pod("p1").claim("c1").build(), "a")
    meta = replace(volume.build().metadata, resource_version="9")
    cluster.objects.put(replace(volume.build(), metadata=meta))

    assert ["", NONE_LEFT] == cluster.filter(make_pod("p2").claim("c2").build())[1]


def test_claims_of_one_pod_do_not_share_a_volume():
    claims = (waiting_claim("c1"), waiting_claim("c2"))
    pod = make_pod().claim("c1").claim("c2").build()

    one = Cluster(LOCAL, *claims, local_volume("v", "a"))
    two = Cluster(LOCAL, *claims, local_volume("v", "a"), local_volume("w", "a"))

    assert [NONE_LEFT] * 2 == one.filter(pod)[1]
    assert ["", NONE_LEFT] == two.filter(pod)[1]


def test_scoring_prefers_room_when_on():
    objects = (
        waiting_claim(size="3Gi"),
        make_csi_driver("csi.example.com", capacity=True),
        make_capacity("k", "later", "10Gi", f"{ZONE}=z1"),
        make_capacity("l", "later", "30Gi", f"{ZONE}=z2"),
    )
    pod = make_pod().claim("c").build()
    off, on = Cluster(*objects, gates={"StorageCapacityScoring": False}), Cluster(*objects)
    state, _ = on.filter(pod)
    infos = [on.handle.table.info_of(name) for name in ("a", "b")]

    assert off.plugin.pre_score(CycleState(), pod, None, None).code is Code.SKIP
    assert on.plugin.pre_score(state, pod, None, None) is None
    assert [70, 90] == [on.plugin.score_node(state, pod, info) for info in infos]


def test_a_volume_or_capacity_with_an_impossible_size_is_left_out():
    cluster = Cluster(
        waiting_claim(),
        make_volume("v").storage_class("later").size("lots"),
        make_csi_driver("csi.example.com", capacity=True),
        make_capacity("k", "later", "plenty", f"{ZONE}=z1"),
        make_capacity("l", "later", "1Gi", f"{ZONE}=z2"),
    )

    answers = cluster.filter(make_pod().claim("c").build())[1]
    assert ["node(s) did not have enough free storage", ""] == answers


def hint_for(resource):
    return next(item.hint for item in EVENTS if item.event.resource.endswith(resource))


CLASS = make_storage_class("x").build()
TOPOLOGY = make_storage_class("x", allowedTopologies=[{"matchLabelExpressions": []}]).build()
POD = make_pod().claim("c").volume({"csi": {"driver": "d"}}).build()
QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


@pytest.mark.parametrize(
    ("resource", "old", "new", "answer"),
    [
        ("StorageClass", None, CLASS, QUEUE),
        ("StorageClass", CLASS, CLASS, SKIP),
        ("StorageClass", CLASS, TOPOLOGY, QUEUE),
        ("PersistentVolumeClaim", None, make_claim("c").build(), QUEUE),
        ("PersistentVolumeClaim", None, make_claim("other").build(), SKIP),
        ("PersistentVolumeClaim", None, make_claim("c", "elsewhere").build(), SKIP),
        ("CSINode", None, make_csi_node("n").build(), QUEUE),
        ("CSINode", make_csi_node("n").build(), make_csi_node("n").build(), SKIP),
        ("CSIDriver", make_csi_driver("d", capacity=True).build(),
         make_csi_driver("d").build(), QUEUE),
        ("CSIDriver", make_csi_driver("d").build(),
         make_csi_driver("d", capacity=True).build(), SKIP),
        ("CSIStorageCapacity", None, make_capacity("k", "later", "1Gi").build(), QUEUE),
        ("CSIStorageCapacity", make_capacity("k", "later", "1Gi").build(),
         make_capacity("k", "later", "2Gi").build(), QUEUE),
        ("CSIStorageCapacity", make_capacity("k", "later", "2Gi").build(),
         make_capacity("k", "later", "1Gi").build(), SKIP),
    ],
)  # fmt: skip
def test_hints(resource, old, new, answer):
    assert answer is hint_for(resource)(POD, old, new)

"""Volumes at the edges: missing things, full things, changes in between, and scores by room."""

import pytest

from bayplan.api import Pod, convert
from bayplan.config import FeatureGates
from bayplan.config.args import UtilizationShapePoint
from bayplan.framework import ActionType, Code, CycleState, QueueingHint
from bayplan.plugins import node_volume_limits, volume_binding, volume_zone
from bayplan.plugins.volume_binding.hints import EVENTS
from bayplan.testing import (
    HOSTNAME,
    ZONE,
    make_attachment,
    make_capacity,
    make_claim,
    make_csi_driver,
    make_csi_node,
    make_node,
    make_pod,
    make_storage_class,
    make_volume,
)
from tests.plugins.test_volume_binding import (
    LOCAL,
    NONE_LEFT,
    SELECTED,
    Cluster,
    local_volume,
    waiting_claim,
)
from tests.plugins.test_volume_plugins import DRIVER, EXCEEDED, answer, claimed, make_handle
from tests.plugins.volumes import ask

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_ROOM = "node(s) did not have enough free storage"


def pod_of(*claims, name="pod"):
    builder = make_pod(name)
    for claim in claims:
        builder.claim(claim)
    return builder.build()


# -- attach limits --------------------------------------------------------------------------


def unnamed(kind="persistentVolumeClaim"):
    """A pod whose first volume names no claim, and whose second is another one's."""
    return convert(
        Pod,
        {
            "metadata": {"name": "pod", "namespace": "default", "uid": "uid-default-pod"},
            "spec": {"volumes": [{"name": "v", kind: {"claimName": ""}}]},
        },
    )


class Given:
    def __init__(self, pod):
        self.build = lambda: pod


@pytest.mark.parametrize(
    ("pod", "objects", "reason"),
    [
        (Given(unnamed()), [], "PersistentVolumeClaim had no name"),
        (
            make_pod().claim("c"),
            [],
            'looking up PVC default/c: persistentvolumeclaim "c" not found',
        ),
        (
            make_pod().ephemeral("e"),
            [make_claim("pod-e")],
            "PVC default/pod-e was not created for pod default/pod (pod is not owner)",
        ),
        (
            make_pod().volume({"emptyDir": {}}).volume({"gcePersistentDisk": {"pdName": "d"}}, "w"),
            [],
            EXCEEDED,
        ),
    ],
    ids=["no name", "missing", "of another pod", "after one that does not count"],
)
def test_volumes_that_cannot_be_attached(pod, objects, reason):
    full = make_csi_node("n", pd_csi_storage_gke_io=0)
    handle = make_handle(make_node("n"), [], [*objects, full])

    assert reason == answer(node_volume_limits, pod, handle)


def test_what_does_not_count_on_a_placed_pod_hides_nothing_behind_it():
    other = make_pod("other").volume({"emptyDir": {}}).claim("c0")
    objects = [*claimed(0), *claimed(1), make_csi_node("n", csi_example_com=1)]
    handle = make_handle(make_node("n"), [other], objects)

    assert EXCEEDED == answer(node_volume_limits, make_pod().claim("c1"), handle)


@pytest.mark.parametrize(
    ("attacher", "volume"),
    [("", make_volume("v0").csi(DRIVER)), (DRIVER, make_volume("v0")), (DRIVER, None)],
    ids=["nobody attaches", "not a CSI volume", "volume is gone"],
)
def test_attachments_that_do_not_count(attacher, volume):
    attachment = make_attachment("a", attacher=attacher, node="n", volume="v0")
    objects = [*claimed(1), make_csi_node("n", csi_example_com=1), attachment]
    objects += [volume] if volume else []

    handle = make_handle(make_node("n"), [], objects)
    assert "" == answer(node_volume_limits, make_pod().claim("c1"), handle)


@pytest.mark.parametrize(
    ("scales", "prevents", "installed", "reason"),
    [
        (True, True, False, f"{DRIVER} CSI driver is not installed on the node"),
        (True, True, True, ""),
        (True, False, False, ""),
        (False, True, False, ""),
    ],
)
def test_a_driver_may_be_needed_on_the_node(scales, prevents, installed, reason):
    driver = make_csi_driver(DRIVER)
    driver.spec["preventPodSchedulingIfMissing"] = prevents
    csi_node = make_csi_node("n", **({"csi_example_com": None} if installed else {}))
    handle = make_handle(make_node("n"), [], [*claimed(0), driver, csi_node])
    handle.gates = FeatureGates({"VolumeLimitScaling": scales}, "1.37")

    assert reason == answer(node_volume_limits, make_pod().claim("c0"), handle)


def test_where_a_driver_is_needed_each_node_is_told_its_own_reason():
    driver = make_csi_driver(DRIVER)
    driver.spec["preventPodSchedulingIfMissing"] = True
    nodes = [make_csi_node("full", csi_example_com=0), make_csi_node("free", csi_example_com=1)]
    handle = make_handle(make_node("bare"), [], [*claimed(0), driver, *nodes])
    handle.gates = FeatureGates({"VolumeLimitScaling": True}, "1.37")
    for name in ("full", "free"):
        handle.table.add_node(make_node(name).build())
    status, found = ask(node_volume_limits.new(None, handle), pod_of("c0"), handle)

    assert status is None
    missing = f"{DRIVER} CSI driver is not installed on the node"
    told = {name: forms[0] and forms[0][1] for name, forms in found.items()}
    assert {"bare": (missing,), "full": (EXCEEDED,), "free": None} == told
    assert all(table == scalar for table, scalar in found.values())


def hint(plugin, resource, action):
    handle = make_handle(make_node("n"))
    for item in plugin.new(None, handle).events_to_register():
        if item.event.resource.endswith(resource) and item.event.action & action:
            return item.hint
    raise AssertionError(resource)


CLAIMED = pod_of("c")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"csi_example_com": 2}, {"csi_example_com": 2}, SKIP),
        ({"csi_example_com": 2}, {"csi_example_com": 3}, QUEUE),
        ({}, {"csi_example_com": 0}, SKIP),
        ({}, {"csi_example_com": 1}, QUEUE),
        ({"csi_example_com": 2}, {"csi_example_com": 1, "ebs_csi_aws_com": 1}, QUEUE),
        ({"csi_example_com": 2}, {}, SKIP),
    ],
)
def test_a_node_that_can_attach_more_is_worth_a_try(before, after, told):
    old, new = (make_csi_node("n", **limits).build() for limits in (before, after))

    assert told is hint(node_volume_limits, "CSINode", ActionType.UPDATE)(CLAIMED, old, new)


@pytest.mark.parametrize(
    ("plugin", "ephemeral"), [(node_volume_limits, QUEUE), (volume_zone, SKIP)]
)
def test_a_claim_that_comes_is_worth_a_try_for_the_pod_that_names_it(plugin, ephemeral):
    told = hint(plugin, "PersistentVolumeClaim", ActionType.ADD)
    of_template = make_pod().ephemeral("e").build()

    assert QUEUE is told(CLAIMED, None, make_claim("c").build())
    assert SKIP is told(CLAIMED, None, make_claim("d").build())
    assert SKIP is told(CLAIMED, None, make_claim("c", "elsewhere").build())
    assert ephemeral is told(of_template, None, make_claim("pod-e").build())


def test_a_zone_without_a_claim_name():
    handle = make_handle(make_node("n"))

    assert "PersistentVolumeClaim had no name" == answer(volume_zone, Given(unnamed()), handle)


def test_a_volume_that_comes_is_worth_a_try():
    told = hint(volume_zone, "PersistentVolume", ActionType.ADD)

    assert QUEUE is told(CLAIMED, None, make_volume("v").build())


# -- binding -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "told"),
    [
        pytest.param(
            [waiting_claim().annotate({SELECTED: "b"}), LOCAL],
            [NONE_LEFT] * 2,
            id="selected, but nobody provisions",
        ),
        pytest.param(
            [waiting_claim().annotate({SELECTED: "gone"})],
            [NONE_LEFT] * 2,
            id="selected, but the node is gone",
        ),
        pytest.param(
            [
                waiting_claim(size="5Gi"),
                make_csi_driver("csi.example.com", capacity=True),
                make_capacity("k", "other", "10Gi", f"{ZONE}=z1"),
                make_capacity("l", "later", "5Gi", f"{ZONE}=z2"),
            ],
            [NO_ROOM, ""],
            id="room of another class is none, just enough is enough",
        ),
        pytest.param(
            [waiting_claim("c", "5Gi"), LOCAL, local_volume("v", "b", "5Gi")],
            [NONE_LEFT, ""],
            id="a volume of just the size",
        ),
        pytest.param(
            [waiting_claim("c", "5Gi"), LOCAL, local_volume("v", "b", "4Gi").bound_to("c")],
            [NONE_LEFT] * 2,
            id="kept for it, but too small",
        ),
        pytest.param(
            [
                waiting_claim("c").with_spec(selector={"matchLabels": {"fast": "yes"}}),
                LOCAL,
                local_volume("v", "a").label({"fast": "no"}),
                local_volume("w", "b").label({"fast": "yes"}),
            ],
            [NONE_LEFT, ""],
            id="a selector",
        ),
        pytest.param(
            [waiting_claim("c"), LOCAL, local_volume("v", "a").with_spec(volumeMode="Block")],
            [NONE_LEFT] * 2,
            id="a block device is no file system",
        ),
    ],
)
def test_where_a_claim_gets_its_volume(objects, told):
    assert told == Cluster(*objects).filter(pod_of("c"))[1]


def test_the_allowed_topologies_of_a_class():
    """Terms are alternatives; all labels of a term must be there; a term of none allows nothing."""

    def term(*labels):
        return {"matchLabelExpressions": [{"key": key, "values": [v]} for key, v in labels]}

    cases = [
        ([term((ZONE, "z1"))], ["", NONE_LEFT]),
        ([term((ZONE, "z1")), term((ZONE, "z2"))], ["", ""]),
        ([term((ZONE, "z1"), (HOSTNAME, "b"))], [NONE_LEFT, NONE_LEFT]),
        ([term((ZONE, "z2"), (HOSTNAME, "b"))], [NONE_LEFT, ""]),
        ([term()], [NONE_LEFT, NONE_LEFT]),
    ]
    for topologies, told in cases:
        storage = make_storage_class("later", allowedTopologies=topologies)
        assert told == Cluster(waiting_claim(), storage).filter(pod_of("c"))[1]


def test_a_node_that_moves_reaches_other_volumes():
    cluster = Cluster(make_claim("c").bound("v"), make_volume("v").on_nodes(f"{ZONE}=z1"))
    pod = pod_of("c")
    assert ["", CONFLICT] == cluster.filter(pod)[1]

    cluster.handle.table.update_node(make_node("b").zone("z1").build())

    assert ["", ""] == cluster.filter(pod)[1]


def test_a_volume_that_came_since_the_filter_is_seen_when_it_is_booked():
    cluster = Cluster(waiting_claim(size="3Gi"), LOCAL, local_volume("big", "a"))
    pod = pod_of("c")
    state, _ = cluster.filter(pod)
    cluster.objects.put(local_volume("small", "a", "5Gi").build())

    assert cluster.plugin.reserve(state, pod, "a") is None
    assert ["small"] == [call.name for call in cluster.plugin.pre_bind(state, pod, "a").calls]


def test_what_was_given_back_is_not_written():
    cluster = Cluster(LOCAL, waiting_claim(), local_volume("v", "a"))
    pod = pod_of("c")
    state = cluster.reserve(pod, "a")
    cluster.plugin.unreserve(state, pod, "a")

    assert cluster.plugin.pre_bind_pre_flight(state, pod, "a")[1].code is Code.SKIP
    assert cluster.plugin.pre_bind(state, pod, "a") is None


def test_if_one_of_two_cannot_be_booked_neither_is():
    claims = (waiting_claim("c1"), waiting_claim("c2"))
    cluster = Cluster(LOCAL, *claims, local_volume("v", "a"), local_volume("w", "a"))
    state, _ = cluster.filter(pod_of("c1", "c2"))
    binder, table = cluster.plugin._binder, cluster.handle.table
    claims = state.read("VolumeBinding", volume_binding.binder.Claims)
    found = binder.find(claims, "a", table.info_of("a").labels)
    cluster.objects.persistent_volumes.delete("w")

    with pytest.raises(LookupError, match='could not find PersistentVolume "w"'):
        binder.assume(found, "a")
    assert binder.volumes.get("v").spec.claim_ref is None


@pytest.mark.parametrize(
    ("gone", "text"),
    [
        (("persistent_volumes", "v"), 'persistentvolume "v" not found'),
        (("persistent_volume_claims", "default/c"), 'persistentvolumeclaim "c" not found'),
    ],
)
def test_what_goes_while_it_is_bound_fails_the_binding(gone, text):
    volume = local_volume("v", "a")
    cluster = Cluster(LOCAL, waiting_claim().uid("u"), volume)
    pod = pod_of("c")
    effects = cluster.plugin.pre_bind(cluster.reserve(pod, "a"), pod, "a")
    cluster.objects.put(volume.bound_to("c", uid="u").build())
    getattr(cluster.objects, gone[0]).delete(gone[1])

    assert f"failed to check binding: {text}" == effects.done().message


# -- scores ------------------------------------------------------------------------------------

CAPACITY = make_csi_driver("csi.example.com", capacity=True)


def points(*pairs):
    return tuple(UtilizationShapePoint(at, score) for at, score in pairs)


@pytest.mark.parametrize(
    ("shape", "scores"),
    [
        (None, [0, 75]),
        (points((0, 0), (100, 10)), [100, 25]),
        (points((0, 10), (100, 0)), [0, 75]),
        (points((0, 2), (50, 4), (100, 10)), [100, 30]),
        (points((30, 7), (60, 1)), [10, 70]),
        (points((10, 10), (20, 1)), [10, 10]),
        (points((20, 10), (30, 9), (100, 0)), [0, 95]),
    ],
)
def test_a_shape_says_how_good_it_is_to_have_so_much_left(shape, scores):
    """The claim takes all of what node a has, and a quarter of what b has."""
    objects = (
        waiting_claim(size="5Gi"),
        CAPACITY,
        make_capacity("k", "later", "5Gi", f"{ZONE}=z1"),
        make_capacity("l", "later", "20Gi", f"{ZONE}=z2"),
    )
    cluster = Cluster(*objects, shape=shape)

    assert scores == scored(cluster, pod_of("c"))


def scored(cluster, pod, feasible=None):
    """The scores in table form; those of one node each agree where it is asked."""
    state, _ = cluster.filter(pod)
    table = cluster.handle.table
    if feasible is not None:
        cluster.plugin.pre_score(state, pod, table, feasible)
    found = cluster.plugin.score(state, pod, table).tolist()
    if feasible is None:
        alone = [cluster.plugin.score_node(state, pod, table.info(row)) for row in range(2)]
        assert found == alone
    return found


def test_the_room_of_volumes_that_are_bound_counts_by_class():
    other = make_storage_class("other", provisioner="kubernetes.io/no-provisioner")
    cluster = Cluster(
        LOCAL,
        other,
        waiting_claim("c1", "2Gi"),
        waiting_claim("c2", "4Gi"),
        make_claim("c3").storage_class("other").size("1Gi"),
        *(local_volume(name, "a", size) for name, size in (("v", "4Gi"), ("w", "8Gi"))),
        make_volume("x").storage_class("other").size("8Gi").on_nodes(f"{HOSTNAME}=a"),
    )
    # 6 of 12 in one class, 1 of 8 in the other: 50 and 88, half a point more
    state, told = cluster.filter(pod_of("c1", "c2", "c3"))
    info = cluster.handle.table.info_of("a")

    assert ["", NONE_LEFT] == told
    assert 69 == cluster.plugin.score_node(state, pod_of("c1", "c2", "c3"), info)


def test_only_nodes_that_fit_are_scored():
    import numpy as np

    objects = (waiting_claim(size="5Gi"), CAPACITY, make_capacity("k", "later", "20Gi", f"{ZONE}"))
    cluster = Cluster(*objects)

    assert [75, 0] == scored(cluster, pod_of("c"), np.array([True, False]))
    assert [0, 75] == scored(cluster, pod_of("c"), np.array([False, True]))


def test_a_pod_without_claims_scores_nothing():
    cluster = Cluster()
    state, pod = CycleState(), make_pod().build()

    assert [0, 0] == cluster.plugin.score(state, pod, cluster.handle.table).tolist()
    assert 0 == cluster.plugin.score_node(state, pod, cluster.handle.table.info(0))


# -- events ------------------------------------------------------------------------------------


def limited(capacity=None, largest=None):
    made = make_capacity("k", "later", capacity or "1Gi")
    if capacity is None:
        del made.data["capacity"]
    if largest:
        made.data["maximumVolumeSize"] = largest
    return made.build()


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (limited("1Gi"), limited("1Gi"), SKIP),
        (limited("1Gi"), limited("2Gi"), QUEUE),
        (limited(), limited("1Gi"), QUEUE),
        (limited("1Gi"), limited(), SKIP),
        (limited(), limited(), SKIP),
        (limited("9Gi", "1Gi"), limited("9Gi", "2Gi"), QUEUE),
        (limited("1Gi", "2Gi"), limited("9Gi", "2Gi"), SKIP),
    ],
)
def test_more_room_is_worth_a_try(before, after, told):
    (asked,) = [e.hint for e in EVENTS if e.event.resource.endswith("CSIStorageCapacity")]

    assert told is asked(CLAIMED, before, after)


@pytest.mark.parametrize(
    ("pod", "before", "after", "told"),
    [
        ("d", True, False, QUEUE),
        ("d", True, True, SKIP),
        ("d", False, False, SKIP),
        ("e", True, False, SKIP),
    ],
)
def test_a_driver_that_no_longer_counts_its_room_is_worth_a_try(pod, before, after, told):
    (asked,) = [e.hint for e in EVENTS if e.event.resource.endswith("CSIDriver")]
    waiting = make_pod().volume({"csi": {"driver": pod}}).build()
    old, new = (make_csi_driver("d", capacity=on).build() for on in (before, after))

    assert told is asked(waiting, old, new)
    assert QUEUE is asked(waiting, None, new)

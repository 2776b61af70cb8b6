"""Shared disks, attach limits, zones and declared features: the reference's examples, and hints."""

import pytest

from bayplan.framework import (
    ActionType,
    ClusterObjects,
    Code,
    CycleState,
    Depends,
    Handle,
    NodeTable,
    QueueingHint,
)
from bayplan.plugins import (
    node_declared_features,
    node_volume_limits,
    volume_restrictions,
    volume_zone,
)
from bayplan.testing import (
    ZONE,
    make_attachment,
    make_claim,
    make_csi_node,
    make_node,
    make_pod,
    make_storage_class,
    make_volume,
)
from tests.plugins.volumes import ask

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
DRIVER = "csi.example.com"


def make_handle(node, placed=(), objects=()):
    table, cluster = NodeTable(), ClusterObjects()
    table.add_node(node.build())
    handle = Handle(table=table, objects=cluster)
    for pod in placed:
        table.add_pod(handle.info(pod.node("n").build()))
    for item in objects:
        cluster.put(item.build())
    return handle


def answer(module, pod, handle):
    """The reason on node n; empty if it fits, "Skip" if the plugin has nothing to say."""
    status, nodes = ask(module.new(None, handle), pod.build(), handle)
    if status is not None:
        return status if isinstance(status, str) else status[1][0]
    table_form, scalar_form = nodes["n"]
    assert table_form == scalar_form
    return table_form[1][0] if table_form else ""


def disk(kind, **fields):
    return {kind: fields}


@pytest.mark.parametrize(
    ("mine", "other", "free"),
    [
        (disk("gcePersistentDisk", pdName="f"), disk("gcePersistentDisk", pdName="f"), False),
        (disk("gcePersistentDisk", pdName="f", readOnly=True),
         disk("gcePersistentDisk", pdName="f", readOnly=True), True),
        (disk("awsElasticBlockStore", volumeID="f", readOnly=True),
         disk("awsElasticBlockStore", volumeID="f", readOnly=True), False),
        (disk("rbd", monitors=["a", "b"], image="i"), disk("rbd", monitors=["c"], image="i"), True),
        (disk("rbd", monitors=["a", "b"], image="i"),
         disk("rbd", monitors=["b"], image="i"), False),
        (disk("iscsi", iqn="q"), disk("iscsi", iqn="q", readOnly=True), False),
        (disk("iscsi", iqn="q"), disk("iscsi", iqn="r"), True),
    ],
)  # fmt: skip
def test_disks(mine, other, free):
    handle = make_handle(make_node("n"), [make_pod("other").volume(other)])
    reason = answer(volume_restrictions, make_pod().volume(mine), handle)

    assert ("" if free else "node(s) had no available disk") == reason


def test_a_claim_for_one_pod_blocks_all_nodes_until_its_user_is_taken_away():
    claim = make_claim("c").modes("ReadWriteOncePod")
    handle = make_handle(make_node("n"), [make_pod("user").claim("c")], [claim])
    pod = make_pod().claim("c").build()
    plugin = volume_restrictions.new(None, handle)
    state = CycleState()
    plugin.pre_filter(state, pod, handle.table)
    info = handle.table.info_of("n")

    assert Code.UNSCHEDULABLE is plugin.filter_node(state, pod, info).code
    dry_run = state.clone()
    plugin.remove_pod(dry_run, pod, info.pods[0], info)
    assert plugin.filter_node(dry_run, pod, info) is None
    plugin.add_pod(dry_run, pod, info.pods[0], info)
    assert plugin.filter_node(dry_run, pod, info) is not None
    assert plugin.filter_node(state, pod, info) is not None


def claimed(number, driver=DRIVER):
    """A claim and its volume."""
    volume = make_volume(f"v{number}").csi(driver).bound_to(f"c{number}")
    return [make_claim(f"c{number}").bound(f"v{number}"), volume]


EXCEEDED = "node(s) exceed max volume count"


@pytest.mark.parametrize(
    ("limit", "placed", "wanted", "extra", "reason"),
    [
        pytest.param(4, [0, 1], 2, [], "", id="room is left"),
        pytest.param(2, [0, 1], 2, [], EXCEEDED, id="full"),
        pytest.param(2, [0, 1], 1, [], "", id="the volume is attached already"),
        pytest.param(None, [0, 1], 2, [], "", id="no limit"),
        pytest.param(
            2, [], 2,
            [make_attachment(f"a{i}", attacher=DRIVER, node="n", volume=f"v{i}") for i in (0, 1)],
            EXCEEDED, id="attachments count",
        ),
        pytest.param(
            2, [0, 1], 2,
            [make_attachment("a", attacher=DRIVER, node="n", volume="v0")],
            EXCEEDED, id="attachments of used volumes count once",
        ),
        pytest.param(
            2, [], 2,
            [make_attachment(f"a{i}", attacher=DRIVER, node="m", volume=f"v{i}") for i in (0, 1)],
            "", id="attachments elsewhere do not count",
        ),
    ],
)  # fmt: skip
def test_volume_limits(limit, placed, wanted, extra, reason):
    objects = [item for i in range(3) for item in claimed(i)]
    objects += [make_csi_node("n", csi_example_com=limit), *extra]
    pods = [make_pod(f"p{i}").claim(f"c{i}") for i in placed]
    handle = make_handle(make_node("n"), pods, objects)

    assert reason == answer(node_volume_limits, make_pod().claim(f"c{wanted}"), handle)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["it is gone", "it is to another node"])
def test_an_attachment_that_ends_makes_room(elsewhere):
    attachment = make_attachment("a", attacher=DRIVER, node="n", volume="v0")
    objects = [*claimed(0), *claimed(1), make_csi_node("n", csi_example_com=1), attachment]
    handle = make_handle(make_node("n"), [], objects)
    plugin = node_volume_limits.new(None, handle)
    pod = make_pod().claim("c1").build()
    assert EXCEEDED in ask(plugin, pod, handle)[1]["n"][0][1]

    if elsewhere:
        moved = make_attachment("a", attacher=DRIVER, node="m", volume="v0")
        handle.objects.put(moved.build())
    else:
        handle.objects.volume_attachments.delete("a")

    assert (None, {"n": (None, None)}) == ask(plugin, pod, handle)


def test_unbound_claims_count_under_their_provisioner():
    objects = [
        make_claim("c0").storage_class("s"),
        make_claim("c1").storage_class("s"),
        make_storage_class("s"),
        make_csi_node("n", csi_example_com=1),
    ]
    handle = make_handle(make_node("n"), [make_pod("p").claim("c0")], objects)

    assert EXCEEDED == answer(node_volume_limits, make_pod().claim("c1"), handle)
    assert "" == answer(node_volume_limits, make_pod().claim("c0"), handle)


def test_migrated_in_tree_volumes_count_for_their_driver():
    node = make_csi_node("n", ebs_csi_aws_com=1)
    disks = [disk("awsElasticBlockStore", volumeID=name) for name in ("aws://z/vol-1", "vol-2")]
    handle = make_handle(make_node("n"), [make_pod("p").volume(disks[0])], [node])

    assert EXCEEDED == answer(node_volume_limits, make_pod().volume(disks[1]), handle)
    same = disk("awsElasticBlockStore", volumeID="vol-1")
    assert "" == answer(node_volume_limits, make_pod().volume(same), handle)


NO_ZONE = "node(s) had no available volume zone"
BETA = "failure-domain.beta.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("volume", "node", "reason"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, ""),
        ({ZONE: "a__b"}, {ZONE: "b"}, ""),
        ({ZONE: "a__b"}, {ZONE: "c"}, NO_ZONE),
        ({BETA: "a"}, {ZONE: "a"}, ""),
        ({ZONE: "a"}, {BETA: "a"}, NO_ZONE),
        ({BETA: "a"}, {BETA: "b", ZONE: "a"}, NO_ZONE),
        ({ZONE: "a"}, {}, ""),
        ({"topology.kubernetes.io/region": "r"}, {ZONE: "a"}, NO_ZONE),
        ({ZONE: "a__"}, {ZONE: "c"}, "Skip"),
        ({}, {ZONE: "c"}, "Skip"),
    ],
)
def test_zones(volume, node, reason):
    objects = [make_claim("c").bound("v"), make_volume("v").label(volume)]
    handle = make_handle(make_node("n").label(node), [], objects)

    assert reason == answer(volume_zone, make_pod().claim("c"), handle)


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([], 'persistentvolumeclaim "c" not found'),
        ([make_claim("c").bound("gone")], 'persistentvolume "gone" not found'),
        ([make_claim("c")], "PersistentVolumeClaim had no pv name and storageClass name"),
        ([make_claim("c").storage_class("s")], 'storageclass.storage.k8s.io "s" not found'),
        ([make_claim("c").storage_class("s"), make_storage_class("s", volumeBindingMode=None)],
         'VolumeBindingMode not set for StorageClass "s"'),
        ([make_claim("c").storage_class("s"), make_storage_class("s", wait=False)],
         "PersistentVolume had no name"),
        ([make_claim("c").storage_class("s"), make_storage_class("s")], "Skip"),
    ],
)  # fmt: skip
def test_zones_of_claims_that_cannot_be_told(objects, reason):
    handle = make_handle(make_node("n"), [], objects)

    assert reason == answer(volume_zone, make_pod().claim("c"), handle)


FEATURE = node_declared_features.USER_NAMESPACES
FEATURED = make_pod().with_spec(hostNetwork=True, hostUsers=False)


@pytest.mark.parametrize(
    ("pod", "features", "reason"),
    [
        (make_pod(), [], "Skip"),
        (make_pod().with_spec(hostNetwork=True), [], "Skip"),
        (
            make_pod().with_spec(hostNetwork=True, hostUsers=False),
            [],
            node_declared_features.REASON,
        ),
        (make_pod().with_spec(hostNetwork=True, hostUsers=False), [FEATURE, "Other"], ""),
    ],
)
def test_declared_features(pod, features, reason):
    handle = make_handle(make_node("n").features(*features))

    assert reason == answer(node_declared_features, pod, handle)


def hint(module, resource, action=None):
    handle = make_handle(make_node("n"))
    for item in module.new(None, handle).events_to_register():
        if item.event.resource.endswith(resource) and action in (None, item.event.action):
            return item.hint
    raise AssertionError(resource)


GCE = disk("gcePersistentDisk", pdName="f")
EXCLUSIVE = make_pod().claim("c").volume(GCE).build()
NEEDS = FEATURED.build()
CLAIM = "PersistentVolumeClaim"


@pytest.mark.parametrize(
    ("module", "resource", "pod", "old", "new", "result"),
    [
        (volume_restrictions, "Pod", EXCLUSIVE, make_pod("o").claim("c").build(), None, QUEUE),
        (volume_restrictions, "Pod", EXCLUSIVE, make_pod("o").volume(GCE).build(), None, QUEUE),
        (volume_restrictions, "Pod", EXCLUSIVE, make_pod("o").build(), None, SKIP),
        (volume_restrictions, "Pod", EXCLUSIVE, make_pod("o", "x").claim("c").build(), None, SKIP),
        (volume_restrictions, CLAIM, EXCLUSIVE, None, make_claim("c").build(), QUEUE),
        (volume_restrictions, CLAIM, EXCLUSIVE, None, make_claim("d").build(), SKIP),
        (node_volume_limits, "Pod", EXCLUSIVE, make_pod("o").claim("c").node("n").build(),
         None, QUEUE),
        (node_volume_limits, "Pod", EXCLUSIVE, make_pod("o").claim("c").build(), None, SKIP),
        (node_volume_limits, "Pod", EXCLUSIVE, make_pod("o").node("n").build(), None, SKIP),
        (node_volume_limits, "VolumeAttachment", EXCLUSIVE,
         make_attachment("a", attacher="d", node="n", volume="v").build(), None, QUEUE),
        (node_volume_limits, "VolumeAttachment", make_pod().volume(GCE).build(),
         make_attachment("a", attacher="d", node="n", volume="v").build(), None, SKIP),
        (node_volume_limits, "VolumeAttachment", make_pod().volume(GCE).build(),
         make_attachment("a", attacher="pd.csi.storage.gke.io", node="n", volume="v").build(),
         None, QUEUE),
        (volume_zone, "StorageClass", EXCLUSIVE, None, make_storage_class("s").build(), QUEUE),
        (volume_zone, "StorageClass", EXCLUSIVE, None,
         make_storage_class("s", wait=False).build(), SKIP),
        (volume_zone, "PersistentVolume", EXCLUSIVE, make_volume("v").build(),
         make_volume("v").label({ZONE: "a"}).build(), QUEUE),
        (volume_zone, "PersistentVolume", EXCLUSIVE, make_volume("v").build(),
         make_volume("v").label({"x": "a"}).build(), SKIP),
        (node_declared_features, "Node", NEEDS, None, make_node("m").build(), QUEUE),
        (node_declared_features, "Node", NEEDS, make_node("m").build(),
         make_node("m").features(FEATURE).build(), QUEUE),
        (node_declared_features, "Node", NEEDS, make_node("m").build(),
         make_node("m").build(), SKIP),
        (node_declared_features, "Pod", NEEDS, NEEDS, make_pod().build(), QUEUE),
        (node_declared_features, "Pod", NEEDS, NEEDS, NEEDS, SKIP),
    ],
)  # fmt: skip
def test_hints(module, resource, pod, old, new, result):
    assert result is hint(module, resource)(pod, old, new)


@pytest.mark.parametrize(
    ("before", "after", "result"), [(1, 2, QUEUE), (2, 1, SKIP), (None, 1, QUEUE)]
)
def test_a_higher_limit_is_worth_a_try(before, after, result):
    old, new = (make_csi_node("n", csi_example_com=limit).build() for limit in (before, after))

    assert result is hint(node_volume_limits, "CSINode", ActionType.UPDATE)(EXCLUSIVE, old, new)


@pytest.mark.parametrize(
    ("volumes", "depends"),
    [
        ([], Depends.NODE),
        ([{"emptyDir": {}}], Depends.NODE),
        ([{"persistentVolumeClaim": {"claimName": "c"}}], Depends.CLUSTER),
        ([{"gcePersistentDisk": {"pdName": "d"}}], Depends.CLUSTER),
        ([{"awsElasticBlockStore": {"volumeID": "d"}}], Depends.CLUSTER),
        ([{"rbd": {"image": "i", "monitors": ["m"]}}], Depends.CLUSTER),
        ([{"iscsi": {"iqn": "i", "targetPortal": "p", "lun": 0}}], Depends.CLUSTER),
    ],
    ids=["none", "empty", "claim", "gce", "aws", "rbd", "iscsi"],
)
def test_only_volumes_that_others_may_use_make_answers_depend_on_them(volumes, depends):
    plugin = volume_restrictions.new(None, make_handle(make_node("n")))
    pod = make_pod("p")
    pod.spec["volumes"] = [{"name": f"v{n}", **body} for n, body in enumerate(volumes)]

    assert depends is plugin.depends_on(pod.build())

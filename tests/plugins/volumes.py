"""Random clusters with volumes, and a harness that asks a plugin in all its forms."""

from hypothesis import strategies as st

from bayplan.framework import ClusterObjects, Code, CycleState, Handle, NodeTable, PodInfos
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
from tests.reference.world import SKIP, Status, World

DRIVER = "csi.example.com"
CLASSES = ("now", "later", "local", "zoned", "")
SIZES = ("1Gi", "2Gi", "5Gi", "10Gi")
MODES = ("ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany")


def storage_classes():
    topology = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z1"]}]}]
    return [
        make_storage_class("now", wait=False).build(),
        make_storage_class("later").build(),
        make_storage_class("local", provisioner="kubernetes.io/no-provisioner").build(),
        make_storage_class("zoned", allowedTopologies=topology).build(),
    ]


@st.composite
def volumes(draw, name, node_names):
    builder = make_volume(name).size(draw(st.sampled_from(SIZES)))
    builder.storage_class(draw(st.sampled_from(CLASSES)))
    builder.modes(*draw(st.lists(st.sampled_from(MODES), min_size=1, max_size=2, unique=True)))
    where = draw(st.sampled_from(("", "zone", "host")))
    if where == "zone":
        builder.on_nodes(f"{ZONE} in (z1,z2)")
    elif where == "host":
        builder.on_nodes(f"{HOSTNAME}={draw(st.sampled_from(node_names))}")
    if draw(st.booleans()):
        builder.csi(DRIVER, draw(st.sampled_from(("h1", "h2", name))))
    if draw(st.integers(0, 3)) == 0:
        builder.label(
            {draw(st.sampled_from(ZONE_KEYS)): draw(st.sampled_from(("z1", "z1__z2", "")))}
        )
    if draw(st.integers(0, 3)) == 0:
        builder.bound_to(draw(st.sampled_from(CLAIMS)), uid=draw(st.sampled_from(("", "other"))))
    if draw(st.integers(0, 5)) == 0:
        builder.status["phase"] = "Released"
    if draw(st.integers(0, 7)) == 0:
        builder.terminating()
    return builder.build()


ZONE_KEYS = (ZONE, "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/region")
CLAIMS = ("c0", "c1", "c2", "pod-eph")


@st.composite
def claims(draw, name, volume_names, node_names):
    builder = make_claim(name).size(draw(st.sampled_from(SIZES)))
    if chosen := draw(st.sampled_from(CLASSES)):
        builder.storage_class(chosen)
    builder.modes(draw(st.sampled_from(MODES)))
    state = draw(st.sampled_from(("bound", "open", "open", "half", "selected")))
    if state == "bound":
        builder.bound(draw(st.sampled_from((*volume_names, "gone"))))
    elif state == "half":
        builder.with_spec(volumeName=draw(st.sampled_from((*volume_names, "gone"))))
    elif state == "selected":
        node = draw(st.sampled_from((*node_names, "gone")))
        builder.annotate({"volume.kubernetes.io/selected-node": node})
    if draw(st.integers(0, 9)) == 0:
        builder.terminating()
    if draw(st.integers(0, 9)) == 0:
        builder.with_status(phase="Lost")
    if name == "pod-eph" and draw(st.booleans()):
        builder.owner("Pod", "pod", uid="uid-default-pod")
    return builder.build()


INLINE = (
    {"gcePersistentDisk": {"pdName": "d1"}},
    {"gcePersistentDisk": {"pdName": "d1", "readOnly": True}},
    {"awsElasticBlockStore": {"volumeID": "v1", "readOnly": True}},
    {"iscsi": {"iqn": "i1", "readOnly": True}},
    {"iscsi": {"iqn": "i1"}},
    {"rbd": {"monitors": ["a", "b"], "image": "x"}},
    {"rbd": {"monitors": ["b", "c"], "image": "x", "readOnly": True}},
    {"rbd": {"monitors": ["d"], "image": "x"}},
    {"emptyDir": {}},
)


@st.composite
def pods(draw, name="pod", node="", ephemeral=True):
    builder = make_pod(name, "default")
    for claim in draw(st.lists(st.sampled_from(CLAIMS[:3]), max_size=2, unique=True)):
        builder.claim(claim)
    for source in draw(st.lists(st.sampled_from(INLINE), max_size=1)):
        builder.volume(source)
    if ephemeral and draw(st.integers(0, 3)) == 0:
        builder.ephemeral("eph")
    return (builder.node(node) if node else builder).build()


@st.composite
def storage_clusters(draw):
    """A World with volumes of all kinds."""
    names = [f"n{i}" for i in range(draw(st.integers(1, 5)))]
    nodes = [
        make_node(name).label({ZONE: zone} if (zone := draw(ZONES)) else {}).build()
        for name in names
    ]
    volume_names = [f"v{i}" for i in range(draw(st.integers(0, 6)))]
    others = [draw(volumes(name, names)) for name in volume_names]
    present = [name for name in CLAIMS if draw(st.integers(0, 5))]
    others += [draw(claims(name, volume_names or ["gone"], names)) for name in present]
    others += storage_classes()
    others += [make_csi_node(n, csi_example_com=draw(LIMITS)).build() for n in names if draw(MOST)]
    others.append(make_csi_driver(DRIVER, capacity=draw(st.booleans())).build())
    others += [
        make_capacity(f"k{i}", draw(st.sampled_from(("later", "zoned"))),
                      draw(st.sampled_from(SIZES)), draw(TOPOLOGIES)).build()
        for i in range(draw(st.integers(0, 3)))
    ]  # fmt: skip
    for i in range(draw(st.integers(0, 2))):
        volume = draw(st.sampled_from((*volume_names, "gone")))
        node = draw(st.sampled_from(names))
        others.append(make_attachment(f"a{i}", attacher=DRIVER, node=node, volume=volume).build())
    placed = [
        draw(pods(f"p{i}", draw(st.sampled_from(names)), ephemeral=False))
        for i in range(draw(st.integers(0, 5)))
    ]
    return World(nodes, placed, others)


ZONES = st.sampled_from(("z1", "z2", "z3", ""))
LIMITS = st.sampled_from((1, 2, 3, None))
MOST = st.sampled_from((True, True, True, False))
TOPOLOGIES = st.sampled_from(("", f"{ZONE}=z1", f"{ZONE} in (z1,z2)"))


def make_handle(world: World) -> Handle:
    """Load a World into a table and objects."""
    table, infos, objects = NodeTable(), PodInfos(), ClusterObjects()
    for state in world.nodes:
        table.add_node(state.node)
    for state in world.nodes:
        for pod in state.pods:
            table.add_pod(infos.make(pod))
    for kind in world.others.values():
        for item in kind.values():
            objects.put(item)
    return Handle(table=table, objects=objects, infos=infos)


def flat(status):
    """A status of either side as (code, reasons)."""
    if status is None:
        return None
    if isinstance(status, Status):
        return status.code, tuple(sorted(status.reasons))
    return status.code.text, tuple(sorted(status.all_reasons))


def ask(plugin, pod, handle):
    """PreFilter, then the filter of every node in both forms: (status, {node: (table, scalar)})."""
    state = CycleState()
    _, status = plugin.pre_filter(state, pod, handle.table)
    if status is not None and status.code is Code.SKIP:
        return SKIP, {}
    if status is not None:
        return flat(status), {}
    verdict = plugin.filter(state, pod, handle.table)
    return None, {
        name: (
            flat(verdict.status_of(row)),
            flat(plugin.filter_node(state, pod, handle.table.info(row))),
        )
        for row, name in enumerate(handle.table.names())
    }


def assert_agrees(plugin, reference, pod, handle, world):
    """The plugin's two forms and the reference give one answer."""
    wanted = reference.prefilter()
    status, nodes = ask(plugin, pod, handle)

    assert (wanted if wanted is None or wanted == SKIP else flat(wanted)) == status
    if wanted is None:
        for node in world.nodes:
            expected = flat(reference.filter(node))

            assert (expected, expected) == nodes[node.name], node.name

"""Queueing hints say what upstream's rules say, for every small change of a node or a pod.

`tests/reference/hints.py` has the rules. An event that is wrongly skipped leaves a pod waiting.
"""

from functools import partial
from itertools import product

import pytest

from bayplan.api import convert
from bayplan.config import FeatureGates
from bayplan.config.args import NodeAffinityArgs
from bayplan.framework import ActionType, ClusterEvent, Handle, QueueingHint, Resource
from bayplan.plugins import in_tree_registry
from bayplan.testing import ZONE, make_namespace, make_node, make_pod
from tests.reference.hints import HINTS, inter_pod_affinity

RACK = "rack"
LABEL = ActionType.UPDATE_POD_LABEL


def plugin(name, args=None, version="1.37"):
    handle = Handle(gates=FeatureGates(version=version))
    handle.objects.put(make_namespace("default").build())
    handle.objects.put(make_namespace("other").build())
    return in_tree_registry()[name](args, handle)


def answer(made, pod, old, new, update=None):
    """Whether the plugin wants another try; `update` is what an update of a pod changed."""
    about = new if new is not None else old
    resource = Resource.POD if about.KIND == "Pod" else Resource.NODE
    if old is None or new is None:
        actions = [ActionType.ADD if old is None else ActionType.DELETE]
    elif resource == Resource.POD:
        actions = [update]
    else:
        actions = [ActionType.UPDATE_NODE_LABEL, ActionType.UPDATE_NODE_TAINT]
    for item in made.events_to_register():
        if any(item.event.matches(ClusterEvent(resource, action)) for action in actions):
            told = QueueingHint.QUEUE if item.hint is None else item.hint(pod, old, new)
            assert isinstance(told, QueueingHint)
            return told is QueueingHint.QUEUE
    return False


def check(made, rule, pods, events, update=None):
    """Ask about all events; both answers must occur, or nothing was shown."""
    told = set()
    for pod, (old, new) in product(pods, events):
        wanted = bool(rule(pod, old, new))
        told.add(wanted)

        assert wanted == answer(made, pod, old, new, update), (pod, old, new)
    assert told == {True, False}


def updates(items):
    return [(old, new) for old, new in product(items, items) if old != new]


def comings(items):
    return [(None, item) for item in items]


def goings(items):
    return [(item, None) for item in items]


def node(*changes):
    builder = make_node("n")
    for method, *words in changes:
        getattr(builder, method)(*words)
    return builder.build()


def test_a_node_that_is_opened():
    nodes = [node(), node(("cordon",)), node(("label", {"a": "b"}))]
    made, rule = plugin("NodeUnschedulable"), HINTS["NodeUnschedulable"]

    check(made, rule, [make_pod().build()], [*comings(nodes), *updates(nodes)])


UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


@pytest.mark.parametrize("name", ["NodeUnschedulable", "TaintToleration"])
def test_a_pod_that_tolerates_more(name):
    pods = [
        make_pod(who).tolerate(key, effect).build()
        for who, key, effect in product(
            ("pod", "other"), (UNSCHEDULABLE, "gpu"), ("", "NoSchedule", "NoExecute")
        )
    ]
    tolerates = ActionType.UPDATE_POD_TOLERATION

    check(plugin(name), HINTS[name], [make_pod("pod").build()], updates(pods), tolerates)


def test_taints_that_go():
    taints = [
        ("taint", key, effect)
        for key, effect in product("ab", ("NoSchedule", "NoExecute", "PreferNoSchedule"))
    ]
    nodes = [node(), *(node(taint) for taint in taints), node(taints[0], taints[4])]
    pods = [make_pod().build(), make_pod().tolerate("a").build()]

    check(
        plugin("TaintToleration"),
        HINTS["TaintToleration"],
        pods,
        [*comings(nodes), *updates(nodes)],
    )


PLACES = [
    node(*(("label", {key: value}) for key, value in ((ZONE, zone), (RACK, rack)) if value))
    for zone, rack in product(("z1", "z2", ""), ("r1", ""))
]


@pytest.mark.parametrize("added", [None, ZONE, RACK])
def test_nodes_that_come_to_match(added):
    """`added`: the profile asks all nodes to have this label."""
    term = {"matchExpressions": [{"key": added, "operator": "Exists"}]}
    body = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    args = convert(NodeAffinityArgs, {"addedAffinity": body}) if added else NodeAffinityArgs()
    required = args.added_affinity.required if added else None
    pods = [
        make_pod().node_selector({ZONE: "z1"}).build(),
        make_pod().require_node(f"{ZONE} in (z2)").build(),
        make_pod().node_selector({ZONE: "z1"}).require_node(RACK).build(),
        make_pod().require_node("rack=r1").require_node(f"!{ZONE}").build(),
    ]

    check(
        plugin("NodeAffinity", args),
        partial(HINTS["NodeAffinity"], added=required),
        pods,
        [*comings(PLACES), *updates(PLACES)],
    )


def others(**more):
    """Pods of several kinds: waiting ones, placed and nominated ones, some elsewhere."""
    found = []
    for place, labels, namespace in product(
        ("", "node", "nominated"), ({}, {"app": "web"}, {"app": "web", "tier": "x"}),
        ("default", "other"),
    ):  # fmt: skip
        builder = make_pod("placed", namespace).label(labels)
        if place:
            getattr(builder, place)("n")
        for method, words in more.items():
            getattr(builder, method)(*words)
        found.append(builder.build())
    return found


def itself():
    """The waiting pod, with other labels, and what it tolerates."""
    return [
        make_pod("pod").label({"app": app}).tolerate(key).build()
        for app, key in product(("web", "db"), ("a", "b"))
    ]


def test_a_host_port_that_is_free_again():
    pods = [make_pod().host_port(80).host_port(81, "UDP", "10.0.0.1").build()]
    gone = [
        pod
        for port, protocol, ip in product((80, 81), ("TCP", "UDP"), ("", "10.0.0.1", "10.0.0.2"))
        for pod in others(host_port=(port, protocol, ip))
    ]

    check(plugin("NodePorts"), HINTS["NodePorts"], pods, [*goings(gone), *comings(PLACES)])


SPREADING = [
    [(ZONE, "app=web", "")],
    [(ZONE, "app=web", ""), (RACK, "tier=x", "Honor")],
    [(RACK, "app=web", "Honor")],
]


@pytest.mark.parametrize("wishes", SPREADING, ids=str)
def test_spread_pods_wait_for_pods_that_count_and_nodes_that_move(wishes):
    made, rule = plugin("PodTopologySpread"), HINTS["PodTopologySpread"]
    builder = make_pod("pod").label(app="web").spread(1, "soft", "!app", hard=False)
    for key, selector, policy in wishes:
        more = {"nodeTaintsPolicy": policy} if policy else {}
        builder.spread(1, key, selector, hard=True, **more)
    pod = builder.build()
    pods, nodes = others(), [*PLACES, node(("label", {ZONE: "z1", RACK: "r1"}), ("taint", "a"))]

    check(made, rule, [pod], [*comings(pods), *goings(pods)])
    changed = [*others(), *others(tolerate=("k",))]
    check(made, rule, [pod], [*updates(changed), *updates(itself())], LABEL)
    check(made, rule, [pod], [*comings(nodes), *goings(nodes), *updates(nodes)])


NEAR_AND_APART = [
    [("near", "app=web", ZONE)],
    [("near", "app=web", ZONE), ("near", "tier=x", RACK)],
    [("apart", "app=web", ZONE)],
    [("apart", "app=web", ZONE), ("apart", "tier=x", RACK)],
    [("near", "app", ZONE), ("apart", "tier", RACK)],
]


@pytest.mark.parametrize("version", ["1.36", "1.37"])
@pytest.mark.parametrize("wishes", NEAR_AND_APART, ids=str)
def test_affinity_waits_for_pods_that_are_meant_and_nodes_that_move(wishes, version):
    made = plugin("InterPodAffinity", version=version)
    rule = partial(inter_pod_affinity, modern=version == "1.37")
    builder = make_pod("pod").label(app="web")
    for method, *words in wishes:
        getattr(builder, method)(*words)
    pod = builder.build()
    pods, near = others(), any(wish[0] == "near" for wish in wishes)

    events = [*updates(pods), *updates(itself())]
    check(made, rule, [pod], events, LABEL)
    if near:
        check(made, rule, [pod], comings(pods))
    if any(wish[0] == "apart" for wish in wishes):
        check(made, rule, [pod], goings(pods))
    check(made, rule, [pod], [*comings(PLACES), *updates(PLACES)])


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_a_pod_that_kept_others_away_is_gone(version):
    made = plugin("InterPodAffinity", version=version)
    rule = partial(inter_pod_affinity, modern=version == "1.37")
    pods = [make_pod("pod").label(app=app).build() for app in ("web", "db")]
    gone = [*others(apart=("app=web", ZONE)), *others(apart=("app=none", ZONE)), *others()]

    check(made, rule, pods, goings(gone))

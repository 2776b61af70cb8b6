"""What random clusters hardly meet: names that are not there, selectors that cannot be read, …"""

import numpy as np
import pytest

from bayplan.api import Node, NodeAffinity, Pod, convert
from bayplan.config.args import (
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesFitArgs,
    ScoringStrategy,
)
from bayplan.errors import BayplanError, ConfigError
from bayplan.framework import Code, CycleState, Handle, QueueingHint
from bayplan.plugins import in_tree_registry
from bayplan.plugins.inter_pod_affinity.terms import resolve
from bayplan.plugins.node_resources_fit.strategies import RequestedToCapacityRatio, make_strategy
from bayplan.testing import ZONE, make_device_class, make_namespace, make_node, make_pod
from bayplan.testing.strategies import DrawnCluster
from tests.plugins.test_forms_agree import assert_filters_agree, assert_scores_agree, handle_for
from tests.plugins.test_small_worlds import PLACES, filters

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
NAME_FIELD = "metadata.name"


@pytest.mark.parametrize("name", ["nz1r1", "n", "gone"])
def test_a_pod_with_a_node_of_its_own_fits_there_alone(name):
    filters("NodeName", [], make_pod("p").node(name).build())


# -- node affinity ----------------------------------------------------------------------------


def fields(*values, operator="In", key=NAME_FIELD):
    return {"key": key, "operator": operator, "values": list(values)}


def by_name(*terms):
    """A pod with required terms, each a list of requirements on fields."""
    required = {"nodeSelectorTerms": [{"matchFields": term} for term in terms]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return convert(Pod, make_pod("p").with_spec(affinity=affinity).body())


def narrowed(pod):
    """The nodes that PreFilter leaves, or what it says."""
    handle = Handle()
    for node in PLACES:
        handle.table.add_node(node)
    plugin = in_tree_registry()["NodeAffinity"](None, handle)
    result, status = plugin.pre_filter(CycleState(), pod, handle.table)
    if status is not None:
        return status.message
    return None if result is None else sorted(result.node_names)


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        ([[fields("a")]], ["a"]),
        ([[fields("a", "b"), fields("b", "c")]], ["b"]),
        ([[fields("a")], [fields("b")]], ["a", "b"]),
        ([[fields("a"), fields("b")], [fields("c")]], ["c"]),
        ([[fields("a"), fields("b")]], "pod affinity terms conflict"),
        ([[fields("a", operator="NotIn")]], None),
        ([[fields("a")], [fields("b", operator="NotIn")]], None),
        ([[fields("a"), fields("b", operator="NotIn")]], ["a"]),
    ],
)
def test_only_nodes_that_are_named_are_looked_at(terms, names):
    assert names == narrowed(by_name(*terms))


def test_terms_that_name_no_node_narrow_nothing():
    pod = make_pod("p").require_node(f"{ZONE}=z1").build()

    assert narrowed(pod) is None
    assert narrowed(make_pod("p").build()) == ""  # the filter is skipped


@pytest.mark.parametrize(
    "requirement",
    [
        {"key": "a", "operator": "Sideways"},
        {"key": "a", "operator": "Gt", "values": ["x"]},
    ],
)
def test_an_added_affinity_that_cannot_be_read_is_an_error_of_the_configuration(requirement):
    term = {"matchExpressions": [requirement]}
    body = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    args = NodeAffinityArgs(convert(NodeAffinity, body))

    with pytest.raises(ConfigError, match="parsing addedAffinity: "):
        in_tree_registry()["NodeAffinity"](args, Handle())


# -- terms that cannot be read -----------------------------------------------------------------


def unreadable(kind, preferred=False):
    bad = {"matchExpressions": [{"key": "a", "operator": "Sideways"}]}
    term = {"topologyKey": ZONE, "labelSelector": bad}
    mode = "preferred" if preferred else "required"
    item = {"weight": 1, "podAffinityTerm": term} if preferred else term
    affinity = {kind: {f"{mode}DuringSchedulingIgnoredDuringExecution": [item]}}
    return convert(Pod, make_pod("p").with_spec(affinity=affinity).body())


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_affinity_that_cannot_be_read_keeps_the_pod_waiting(kind):
    handle = Handle()
    plugin = in_tree_registry()["InterPodAffinity"](None, handle)
    pod, state = unreadable(kind), CycleState()
    _, status = plugin.pre_filter(state, pod, handle.table)

    assert Code.UNSCHEDULABLE_AND_UNRESOLVABLE is status.code
    assert status.message.startswith("parsing pod: ")
    assert '"Sideways"' in status.message
    told = plugin.pre_score(state, pod, handle.table, np.ones(0, dtype=bool))
    assert (Code.ERROR, True) == (told.code, told.message.startswith("failed to parse pod: "))


@pytest.mark.parametrize(
    ("selector", "twice", "names"),
    [
        (None, False, {"own"}),
        ("", False, None),
        ("team=a", False, {"own", "team-a"}),
        ("team", True, {"own", "team-a", "team-b"}),
        ("!team", False, {"own", "plain"}),
        ("!team", True, None),
        ("team notin (a)", True, None),
        ("team notin (a)", False, {"own", "plain", "team-b"}),
    ],
)
def test_the_namespaces_of_a_term(selector, twice, names):
    """`twice`: 1.36 also asks whether the selector matches no labels at all."""
    handle = Handle()
    for name, labels in (("plain", {}), ("team-a", {"team": "a"}), ("team-b", {"team": "b"})):
        handle.objects.put(make_namespace(name, labels).build())
    more = {} if selector is None else {"namespaceSelector": selector}
    pod = make_pod("p", "own").near("app=x", ZONE, namespaces=["own"], **more).build()
    (term,) = handle.info(pod).traits.required_affinity

    part = resolve(term, handle.objects, twice=twice)

    assert names == (None if part.namespaces is None else set(part.namespaces))


@pytest.mark.parametrize(("weight", "skips"), [(0, True), (1, False)])
def test_hard_terms_of_placed_pods_of_no_weight_leave_nothing_to_score(weight, skips):
    handle = Handle()
    handle.table.add_node(make_node("n").zone("z").build())
    placed = make_pod("placed").near("app=web", ZONE).node("n").build()
    handle.table.add_pod(handle.info(placed))
    args = InterPodAffinityArgs(hard_pod_affinity_weight=weight)
    plugin = in_tree_registry()["InterPodAffinity"](args, handle)
    pod = make_pod("p").label(app="web").build()

    status = plugin.pre_score(CycleState(), pod, handle.table, np.ones(1, dtype=bool))

    assert skips == (status is not None and status.code is Code.SKIP)


# -- several rules about one label ---------------------------------------------------------------


def test_rules_of_several_pods_about_one_label_all_count():
    """Also where one of them was counted before there were as many values of the label."""
    for first, second in (("nz1r1", "nz2"), ("nz2", "nz1r1"), ("nz1r1", "nr2")):
        pods = [
            make_pod("a").label(app="x").apart("app=web", ZONE).node(first).build(),
            make_pod("b").label(app="y").apart("app in (web,db)", ZONE).node(second).build(),
            make_pod("c").label(app="web").node("nz2r1").build(),
        ]
        for builder in (
            make_pod("p").label(app="web"),
            make_pod("p").label(app="web").apart("app=x", ZONE),
            make_pod("p").label(app="db").apart("app=web", ZONE).near("app=y", ZONE),
        ):
            filters("InterPodAffinity", pods, builder.build())


def test_more_than_255_pods_on_a_node_are_all_counted():
    pods = [make_pod(f"p{n}").label(app="web").node("nz1r1").build() for n in range(260)]
    pods += [make_pod(f"q{n}").label(app="web").node("nz2r1").build() for n in range(4)]
    pod = make_pod("p").label(app="web").spread(1, "kubernetes.io/hostname", "app=web", hard=False)
    pod.spread(2, ZONE, "app=web", hard=False)

    ones = np.ones(len(PLACES), dtype=bool)
    assert_scores_agree("PodTopologySpread", DrawnCluster(PLACES, pods), pod.build(), ones)


# -- resources -----------------------------------------------------------------------------------

CARD = "example.com/card"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"


@pytest.mark.parametrize(
    ("classes", "resource", "offered", "fits"),
    [
        ([], CARD, None, False),
        ([make_device_class("c", resource=CARD)], CARD, None, True),
        ([make_device_class("c", resource=CARD)], CARD, 1, False),
        ([make_device_class("c", resource=CARD)], CARD, 2, True),
        ([make_device_class("c", resource="example.com/x")], CARD, None, False),
        ([make_device_class("gpu")], IMPLICIT, None, True),
        ([make_device_class("other")], IMPLICIT, None, False),
        ([make_device_class("gpu")], IMPLICIT, 1, False),
    ],
)
def test_devices_stand_in_for_a_resource_that_the_node_does_not_offer(
    classes, resource, offered, fits
):
    node = make_node("n").capacity(cpu=4, pods=9)
    if offered:
        node.capacity({resource: offered})
    handle = handle_for(DrawnCluster([node.build()]))
    for item in classes:
        handle.objects.put(item.build())
    plugin = in_tree_registry()["NodeResourcesFit"](None, handle)
    pod, state = make_pod("p").req({resource: 2}).build(), CycleState()
    plugin.pre_filter(state, pod, handle.table)

    told = plugin.filter_node(state, pod, handle.table.info(0))
    table = plugin.filter(state, pod, handle.table).status_of(0)
    spare = plugin.spare(state, pod, handle.table)[:, 0]

    assert fits == (told is None)
    assert fits == (table is None)
    assert fits == bool((spare >= 0).all())
    assert fits or told.reasons == table.reasons == (f"Insufficient {resource}",)


@pytest.mark.parametrize(
    ("old", "new", "asked", "told"),
    [
        (None, ("a", CARD), CARD, QUEUE),
        (("a", ""), ("a", CARD), CARD, QUEUE),
        (("a", CARD), ("a", CARD), CARD, SKIP),
        (("a", CARD), ("a", ""), CARD, SKIP),
        (None, ("a", "example.com/x"), CARD, SKIP),
        (None, ("gpu", ""), IMPLICIT, QUEUE),
        (None, ("other", ""), IMPLICIT, SKIP),
        (("gpu", ""), ("gpu", CARD), IMPLICIT, SKIP),
    ],
)
def test_a_class_that_comes_to_serve_what_is_asked_is_worth_a_try(old, new, asked, told):
    plugin = in_tree_registry()["NodeResourcesFit"](None, Handle())
    (hint,) = [e.hint for e in plugin.events_to_register() if "DeviceClass" in e.event.resource]
    before, after = (
        None if it is None else make_device_class(it[0], resource=it[1]).build()
        for it in (old, new)
    )

    assert told is hint(make_pod("p").req({asked: 1}).build(), before, after)


def node_hint(pod, old, new):
    plugin = in_tree_registry()["NodeResourcesFit"](None, Handle())
    (hint,) = [e.hint for e in plugin.events_to_register() if e.event.resource == "Node"]
    return hint(pod, old, new)


def sized(cpu, pods=5, **more):
    return convert(Node, make_node("n").capacity(cpu=cpu, memory="4Gi", pods=pods, **more).body())


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (None, sized(2), QUEUE),
        (None, sized(1), SKIP),
        (None, sized(2, pods=0), SKIP),
        (None, sized(2, pods=1), QUEUE),
        (sized(2), sized(3), QUEUE),
        (sized(3), sized(2), SKIP),
        (sized(2), sized(2), SKIP),
        (sized(2, pods=5), sized(2, pods=6), QUEUE),
        (sized(2, pods=6), sized(2, pods=5), SKIP),
        (sized(1, pods=5), sized(1, pods=6), SKIP),
        (sized(2, storage=1), sized(2, storage=2), SKIP),
    ],
)
def test_a_node_that_grows_where_it_is_needed_is_worth_a_try(old, new, told):
    assert told is node_hint(make_pod("p").req(cpu=2).build(), old, new)


def test_the_pod_itself_and_pods_that_are_nowhere_when_requests_shrink():
    plugin = in_tree_registry()["NodeResourcesFit"](None, Handle())
    (hint,) = [e.hint for e in plugin.events_to_register() if e.event.resource == "Pod"]
    waiting = make_pod("p").req(cpu=2).build()
    less, more = (make_pod("o").req(cpu=n) for n in (1, 3))

    assert QUEUE is hint(waiting, waiting, make_pod("p").req(cpu=1).build())
    assert SKIP is hint(waiting, more.build(), less.build())
    assert QUEUE is hint(waiting, more.node("n").build(), less.node("n").build())
    assert SKIP is hint(waiting, less.build(), more.build())


@pytest.mark.parametrize("kind", ["Sideways", "RequestedToCapacityRatio"])
def test_a_strategy_that_is_none(kind):
    args = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type=kind))

    with pytest.raises(ConfigError, match=r"strategy|shape"):
        make_strategy(args)
    with pytest.raises(ConfigError, match="at least one point"):
        RequestedToCapacityRatio([])


def test_without_resources_to_score_the_attempt_fails():
    args = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(resources=()))
    handle = handle_for(DrawnCluster([make_node("n").build()]))
    plugin = in_tree_registry()["NodeResourcesFit"](args, handle)
    pod = make_pod("p").build()
    status = plugin.pre_score(CycleState(), pod, handle.table, np.ones(1, dtype=bool))

    assert (Code.ERROR, "resources not found") == (status.code, status.message)
    assert [0] == plugin.score(CycleState(), pod, handle.table).tolist()


# -- features, groups, images --------------------------------------------------------------------


@pytest.mark.parametrize("place", ["containers", "initContainers"])
@pytest.mark.parametrize(
    ("action", "declared", "fits"),
    [
        ("RestartAllContainers", [], False),
        ("RestartAllContainers", ["RestartAllContainersOnContainerExits"], True),
        ("RestartAllContainers", ["UserNamespacesHostNetworkSupport"], False),
        ("Restart", [], True),
    ],
)
def test_a_rule_that_restarts_all_containers_needs_a_kubelet_that_can(
    place, action, declared, fits
):
    rule = {"action": action, "exitCodes": {"operator": "In", "values": [1]}}
    body = make_pod("p").body()
    body["spec"].setdefault(place, []).append({"name": "r", "restartPolicyRules": [rule]})
    pod, state = convert(Pod, body), CycleState()
    handle = handle_for(DrawnCluster([make_node("n").features(*declared).build()]))
    plugin = in_tree_registry()["NodeDeclaredFeatures"](None, handle)
    _, status = plugin.pre_filter(state, pod, handle.table)

    if action == "Restart":
        assert status.code is Code.SKIP
    else:
        assert fits == (plugin.filter_node(state, pod, handle.table.info(0)) is None)
        assert fits == (plugin.filter(state, pod, handle.table).status_of(0) is None)


def test_placements_are_scored_by_how_many_pods_have_a_node():
    plugin = in_tree_registry()["PodGroupPodsCount"](None, Handle())

    assert [0, 50, 100] == plugin.normalize_placements(None, None, [0, 2, 4])
    with pytest.raises(BayplanError, match="no pods from pod group are assigned to any"):
        plugin.normalize_placements(None, None, [0, 0])


@pytest.mark.parametrize("sizes", [(10, 20), (24, 500), (999, 1000), (1001, 3000)])
@pytest.mark.parametrize("containers", [1, 2, 3])
def test_images_up_to_the_least_count_nothing_and_the_most_count_all(sizes, containers):
    nodes = [make_node("none").build()]
    for number, size in enumerate(sizes):
        node = make_node(f"n{number}").image("a:v1", size * 1024 * 1024)
        nodes.append(node.image("b:latest", 40 * 1024 * 1024).build())
    builder = make_pod("p").image("a:v1")
    for name in ("b", "c:v1")[: containers - 1]:
        builder.container(name)
    ones = np.ones(3, dtype=bool)

    assert_scores_agree("ImageLocality", DrawnCluster(nodes), builder.build(), ones)


def test_ports_of_init_containers_that_stay_are_taken_and_those_that_end_are_not():
    for stays in (True, False):
        placed = make_pod("placed").init(sidecar=stays).node("nz1r1")
        placed.spec["initContainers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
        pod = make_pod("p").host_port(80).build()
        cluster = DrawnCluster(PLACES[:2], [placed.build()])
        assert_filters_agree("NodePorts", cluster, pod, [1, 0])

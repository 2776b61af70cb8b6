"""A pod group with a topology constraint goes to one domain, the best of those where it fits."""

import pytest

from bayplan.api import PodGroup, convert
from bayplan.config import FeatureGates, from_data
from bayplan.conformance.run import Run
from bayplan.errors import PluginError
from bayplan.framework import Placement, Verdict
from bayplan.testing import make_node, make_pod
from tests.engine.loop.helper import HEAD, World
from tests.plugins.test_preempted_groups import group, node, pod

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
ON = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
ON_1_36 = {**ON, "GangScheduling": True}
BOTH = [FeatureGates(ON, "1.37"), FeatureGates(ON_1_36, "1.36")]
UNSCHEDULABLE = "pod group is unschedulable"
TOPOLOGY = {"topology": [{"key": ZONE}]}


def zoned(name, zone, cpu="4"):
    body = node(name, cpu)
    body["metadata"]["labels"] = {ZONE: zone, HOST: name} if zone else {HOST: name}
    return body


def gang(count, key=ZONE, **spec):
    """The group `g` that wants to stay together."""
    policy = {"gang": {"minCount": count}}
    return group(
        "g", schedulingPolicy=policy, schedulingConstraints={"topology": [{"key": key}]}, **spec
    )


def members(count, cpu="1", **more):
    return [pod(f"g{number}", cpu=cpu, group="g", **more) for number in range(count)]


def run(objects, gates):
    return Run({"objects": objects}, gates).run()


def bound(step):
    return {key.partition("/")[2]: about["node"] for key, about in step.get("bound", {}).items()}


def condition(step):
    (status,) = step["podgroups"].values()
    (found,) = status["conditions"]
    return found["status"], found["reason"], found["message"]


@pytest.mark.parametrize("gates", BOTH, ids=["1.37", "1.36"])
def test_all_pods_go_to_the_domain_that_has_room(gates):
    nodes = [zoned("a", "x", "2"), zoned("b", "y", "2"), zoned("c", "y", "1"), zoned("d", "")]
    (step,) = run({"nodes": nodes, "podGroups": [gang(3)], "pods": members(3)}, gates)

    assert {"b", "c"} == set(bound(step).values())
    assert ("True", "Scheduled", "") == condition(step)


@pytest.mark.parametrize("gates", BOTH, ids=["1.37", "1.36"])
def test_the_domain_for_most_pods_wins(gates):
    nodes = [zoned("a", "x", "2"), zoned("b", "y", "4")]
    step, *_ = run({"nodes": nodes, "podGroups": [gang(2)], "pods": members(3)}, gates)

    assert {"g0": "b", "g1": "b", "g2": "b"} == bound(step)


@pytest.mark.parametrize("gates", BOTH, ids=["1.37", "1.36"])
def test_among_equal_counts_the_fuller_domain_wins(gates):
    nodes = [zoned("a", "x", "8"), zoned("b", "y", "4"), zoned("c", "z", "8")]
    (step,) = run({"nodes": nodes, "podGroups": [gang(2)], "pods": members(2)}, gates)

    assert {"g0": "b", "g1": "b"} == bound(step)


@pytest.mark.parametrize("gates", BOTH, ids=["1.37", "1.36"])
def test_pods_that_run_already_bind_the_others_to_their_domain(gates):
    nodes = [zoned("a", "x"), zoned("b", "y", "3")]
    pods = [pod("old", "b", group="g"), *members(2)]
    (step,) = run({"nodes": nodes, "podGroups": [gang(2)], "pods": pods}, gates)

    assert {"g0": "b", "g1": "b"} == bound(step)


@pytest.mark.parametrize("gates", BOTH, ids=["1.37", "1.36"])
def test_pods_that_run_in_two_domains_are_an_error(gates):
    nodes = [zoned("a", "x"), zoned("b", "y"), zoned("c", "")]
    pods = [pod("o1", "a", group="g"), pod("o2", "b", group="g"), *members(1)]
    (step,) = run({"nodes": nodes, "podGroups": [gang(1)], "pods": pods}, gates)
    text = (
        "cannot determine domain for already scheduled pods: "
        "more than 1 domain found for pod group: x, y"
    )

    assert ("False", "SchedulerError", text) == condition(step)
    assert text == step["events"]["default/g0"]["FailedScheduling"]

    pods = [pod("o1", "c", group="g"), *members(1)]
    (step,) = run({"nodes": nodes, "podGroups": [gang(1)], "pods": pods}, gates)

    assert condition(step)[2].endswith(": no topology domain found for pod default/o1")


@pytest.mark.parametrize("gates", BOTH, ids=["1.37", "1.36"])
def test_nodes_without_the_label_are_no_placement(gates):
    objects = {"nodes": [zoned("a", "")], "podGroups": [gang(1)], "pods": members(1)}
    (step,) = run(objects, gates)
    status, reason, message = condition(step)

    assert ("False", "Unschedulable") == (status, reason)
    assert message.startswith("no feasible placements found")
    assert "no feasible placements found" == step["events"]["default/g0"]["FailedScheduling"]


def test_no_domain_has_room_in_1_37():
    nodes = [zoned("a", "x", "1"), zoned("b", "y", "1"), zoned("c", "y", "0")]
    (step,) = run({"nodes": nodes, "podGroups": [gang(2)], "pods": members(2)}, BOTH[0])
    text = (
        f"{UNSCHEDULABLE}, 0/2 placements are available, first placement status: "
        "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    )
    remedy = "pod group preemption: No preemption victims found for incoming preemptor"
    told = {key: event["FailedScheduling"] for key, event in step["events"].items()}

    assert ("False", "Unschedulable", f"{text}, {remedy}") == condition(step)
    assert f"{UNSCHEDULABLE}, {text}, {remedy}" == told["default/g0"]
    assert told["default/g1"] == "0/1 nodes are available: 1 Insufficient cpu."


def test_no_domain_has_room_in_1_36():
    nodes = [zoned("a", "x", "1"), zoned("b", "y", "1")]
    (step,) = run({"nodes": nodes, "podGroups": [gang(2)], "pods": members(2)}, BOTH[1])
    text = f"0/2 placements are available, first placement status: {UNSCHEDULABLE}"

    assert ("False", "Unschedulable", text) == condition(step)


def test_room_is_made_in_one_domain():
    nodes = [zoned("a", "x", "1"), zoned("b", "y", "1"), zoned("c", "y", "1")]
    placed = [pod(f"p{name}", name) for name in "abc"]
    pods = [*placed, *members(2, priority=10)]
    (step,) = run({"nodes": nodes, "podGroups": [gang(2, priority=10)], "pods": pods}, BOTH[0])

    assert ["default/pb", "default/pc"] == sorted(step["deleted"])


def test_1_36_does_not_preempt_for_a_group_that_must_stay_together():
    objects = {"nodes": [zoned("a", "x", "1")], "podGroups": [gang(1)]}
    objects["pods"] = [pod("p", "a"), *members(1, priority=10)]
    (step,) = run(objects, BOTH[1])

    text = "preemption: not eligible due to placement-based pod group scheduling limitation"
    assert "deleted" not in step
    assert step["events"]["default/g0"]["FailedScheduling"].endswith(text)


def test_without_a_constraint_there_is_one_placement():
    objects = {"nodes": [zoned("a", "x", "1")], "podGroups": [group("g")], "pods": members(1, "2")}
    (step,) = run(objects, BOTH[0])

    assert "0/1 placements are available" in condition(step)[2]


def test_without_the_gate_constraints_are_not_read():
    nodes = [zoned("a", "x", "1"), zoned("b", "y", "1")]
    gates = FeatureGates({"GenericWorkload": True}, "1.37")
    (step,) = run({"nodes": nodes, "podGroups": [gang(2)], "pods": members(2)}, gates)

    assert {"a", "b"} == set(bound(step).values())


# -- plugins of others -------------------------------------------------------------------------


class Halves:
    """Proposes the first and the second half of the nodes, and likes the second more."""

    name = "Halves"

    def __init__(self, likes=100, missing=()):
        self.likes, self.missing = likes, missing

    def generate_placements(self, state, group, parent):
        names = parent.node_names
        half = len(names) // 2
        state.write("Halves/seen", [pod.metadata.name for pod in group.unscheduled])
        second = Placement("second", (*names[half:], *self.missing))
        return [Placement("first", names[:half]), second], None

    def score_placement(self, state, group, proposed):
        assert all(node in proposed.placement.node_names for _, node in proposed.assignments)
        if self.likes is None:
            raise PluginError("no opinion")
        return self.likes if proposed.placement.name == "second" else 0


def world_with(plugin):
    multi = {"enabled": [{"name": "Halves", "weight": 3}]}
    multi["disabled"] = [{"name": "TopologyPlacementGenerator"}]
    body = {**HEAD, "profiles": [{"plugins": {"multiPoint": multi}}]}
    nodes = [make_node(name).capacity(cpu="4").build() for name in "abcd"]
    pods = [make_pod(f"p{number}").group("g").req(cpu="1").build() for number in range(2)]
    made = convert(PodGroup, {"apiVersion": "scheduling.k8s.io/v1beta1", **gang(2)})
    config, registry = from_data(body, BOTH[0]), {"Halves": lambda args, handle: plugin}
    return World(*nodes, made, *pods, config=config, registry=registry, gates=BOTH[0])


def test_an_outside_plugin_proposes_and_scores_placements():
    world = world_with(Halves())
    world.run()

    assert {world.node_of("p0"), world.node_of("p1")} <= {"c", "d"}


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        (
            Halves(likes=101),
            'applying score defaultWeights on PlacementScore plugins: plugin "Halves" returns an '
            "invalid score 101, it should in the range of [0, 100] after normalizing",
        ),
        (
            Halves(likes=None),
            'running PlacementScore plugins: plugin "Halves" failed with: no opinion',
        ),
        (
            Halves(missing=["nowhere"]),
            "failed to assume pod group placement: node nowhere in placement is not present in "
            "snapshot",
        ),
    ],
    ids=["out of range", "raises", "unknown node"],
)
def test_what_an_outside_plugin_does_wrong_fails_the_group(plugin, text):
    world = world_with(plugin)
    world.carry_out(world.step())

    assert not world.node_of("p0")
    assert text == world.condition("p0").message


# -- what wakes a group ------------------------------------------------------------------------


def waiting_world(nodes, count=2):
    pods = [make_pod(f"p{number}").group("g").req(cpu="1").build() for number in range(count)]
    made = convert(PodGroup, {"apiVersion": "scheduling.k8s.io/v1beta1", **gang(count)})
    world = World(*nodes, made, *pods, config=from_data(HEAD, BOTH[0]), gates=BOTH[0])
    world.run()
    assert not world.node_of("p0")
    return world


def test_a_group_without_a_domain_is_tried_again_when_a_node_gets_one():
    world = waiting_world([make_node("a").capacity(cpu="4").build()])
    world.show(make_node("a").capacity(cpu="4").label({ZONE: "x"}))
    world.wait(3)

    assert "a" == world.node_of("p0") == world.node_of("p1")


def test_a_group_is_tried_again_for_what_it_lacked_on_any_placement():
    """The first domain lacks cpu, the second is closed: opening it is enough."""
    full = make_node("a").capacity(cpu="1").label({ZONE: "x"}).build()
    closed = (
        make_node("b").capacity(cpu="4").label({ZONE: "y"}).with_spec(unschedulable=True).build()
    )
    world = waiting_world([full, closed])
    world.change_node("b", unschedulable=False)
    world.wait(3)

    assert "b" == world.node_of("p0") == world.node_of("p1")


class Moody:
    """Fails, and does not refuse, the second pod of a group."""

    name = "Moody"

    def filter(self, state, pod, nodes):
        if pod.metadata.name == "p1":
            raise PluginError("not today")
        return Verdict.all_pass(nodes)


@pytest.mark.parametrize("gates", BOTH, ids=["1.37", "1.36"])
def test_a_group_that_fails_in_the_middle_leaves_nothing_assumed(gates):
    body = {**HEAD, "profiles": [{"plugins": {"filter": {"enabled": [{"name": "Moody"}]}}}]}
    policy = {"gang": {"minCount": 2}}
    made = convert(
        PodGroup,
        {"apiVersion": "scheduling.k8s.io/v1beta1", **group("g", schedulingPolicy=policy)},
    )
    pods = [make_pod(f"p{number}").group("g").req(cpu="1").build() for number in range(2)]
    world = World(
        make_node("a").capacity(cpu="4", pods="9").build(),
        made,
        *pods,
        config=from_data(body, gates),
        registry={"Moody": lambda args, handle: Moody()},
        gates=gates,
    )
    world.carry_out(world.step())

    assert "not today" in world.condition("p0").message
    assert 0 == world.scheduler.cache.assumed_count
    assert not world.node_of("p0")


@pytest.mark.parametrize("gates", BOTH, ids=["1.37", "1.36"])
def test_the_rest_of_a_placed_group_is_tried_at_once_since_1_37(gates):
    """Two of three fit, which is enough: the third does not wait for its backoff."""
    policy = {"gang": {"minCount": 2}}
    body = {"apiVersion": "scheduling.k8s.io/v1beta1", **group("g", schedulingPolicy=policy)}
    pods = [make_pod(f"p{number}").group("g").req(cpu="1").build() for number in range(3)]
    world = World(
        make_node("a").capacity(cpu="2", pods="9").build(),
        convert(PodGroup, body),
        *pods,
        config=from_data(HEAD, gates),
        gates=gates,
    )
    world.carry_out(world.step())
    (left,) = (name for name in ("p0", "p1", "p2") if not world.node_of(name))

    at_once = gates.since("1.37")
    assert at_once is (world.scheduler.place_of(f"default/{left}") == "active")

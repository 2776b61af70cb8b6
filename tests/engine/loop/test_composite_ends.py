"""How a composite group's attempt ends when a plugin refuses, fails or names an unknown node."""

import pytest

from bayplan.api import CompositePodGroup, PodGroup, convert
from bayplan.config import FeatureGates, from_data
from bayplan.engine.loop import CallApi
from bayplan.framework import Code, Placement, Status, unschedulable
from bayplan.testing import make_node, make_pod
from tests.engine.loop.helper import HEAD, World, kinds
from tests.engine.loop.test_composite_cycle import GATES, composite, part
from tests.plugins.test_preempted_groups import group

POLICY = {"gang": {"minCount": 2}}


class Rooms:
    """Proposes halves of the nodes for composite groups, and does what it is told."""

    name = "Rooms"

    def __init__(self, status=None, missing=(), child=None, likes=0):
        self.status, self.missing, self.child, self.likes = status, missing, child, likes
        self.proposed = []

    def generate_placements(self, state, group, parent):
        if isinstance(group.group, PodGroup):
            return [parent], self.child
        names = parent.node_names
        half = len(names) // 2
        first = Placement("first", (*names[:half], *self.missing))
        return [first, Placement("second", names[half:])], self.status

    def score_placement(self, state, group, proposed):
        found = {pod.metadata.name: node for pod, node in proposed.assignments}
        self.proposed.append((proposed.placement.name, found))
        return self.likes if proposed.placement.name == "second" else 50


def world_of(plugin, counts=(1, 1), cpu="4"):
    multi = {"enabled": [{"name": "Rooms"}], "disabled": [{"name": "TopologyPlacementGenerator"}]}
    config = from_data({**HEAD, "profiles": [{"plugins": {"multiPoint": multi}}]}, GATES)
    other = {"apiVersion": "scheduling.k8s.io/v1beta1"}
    whole = convert(
        CompositePodGroup, {"apiVersion": "scheduling.k8s.io/v1alpha3", **composite(count=2)}
    )
    groups = [
        convert(PodGroup, {**other, **part(name, count)})
        for name, count in zip("gh", counts, strict=True)
    ]
    pods = [
        make_pod(f"p-{name}{number}").group(name).req(cpu="1")
        for name, count in zip("gh", counts, strict=True)
        for number in range(count)
    ]
    nodes = [make_node(name).capacity(cpu=cpu) for name in "ab"]
    registry = {"Rooms": lambda args, handle: plugin}
    world = World(*nodes, whole, *groups, *pods, config=config, registry=registry, gates=GATES)
    world.carry_out(world.step())
    return world


@pytest.mark.parametrize(
    ("plugin", "reason", "text"),
    [
        (Rooms(unschedulable("no room of that kind")), "Unschedulable", "no room of that kind"),
        (Rooms(Status(Code.ERROR, "no plan")), "SchedulerError", "no plan"),
        (
            Rooms(missing=["cellar"]),
            "SchedulerError",
            "failed to assume pod group placement: node cellar in placement is not present in "
            "snapshot",
        ),
        (
            Rooms(child=Status(Code.ERROR, "no shelf")),
            "SchedulerError",
            "composite pod group evaluation failed due to child error: no shelf",
        ),
        (
            Rooms(likes=101),
            "SchedulerError",
            'applying score defaultWeights on PlacementScore plugins: plugin "Rooms" returns an '
            "invalid score 101, it should in the range of [0, 100] after normalizing",
        ),
    ],
    ids=["refused", "fails", "unknown node", "a child fails", "bad score"],
)
def test_every_pod_is_told_how_the_attempt_ended(plugin, reason, text):
    world = world_of(plugin)

    for name in ("p-g0", "p-h0"):
        condition = world.condition(name)
        assert not world.node_of(name)
        assert (reason, text) == (condition.reason, condition.message.partition(", pod group")[0])
    assert 0 == world.scheduler.cache.pod_count


@pytest.mark.parametrize(("likes", "node"), [(49, "a"), (50, "a"), (51, "b")])
def test_the_placement_that_is_liked_more_is_taken_and_the_first_of_equals(likes, node):
    plugin = Rooms(likes=likes)
    world = world_of(plugin)

    assert [("first", {"p-g0": "a", "p-h0": "a"}), ("second", {"p-g0": "b", "p-h0": "b"})] == (
        plugin.proposed
    )
    assert [node, node] == [world.node_of("p-g0"), world.node_of("p-h0")]


def test_nothing_is_scored_where_only_one_placement_fits():
    plugin = Rooms()
    world = world_of(plugin, counts=(2, 3), cpu="4")

    assert not plugin.proposed
    assert not any(world.node_of(name) for name in ("p-g0", "p-h0"))
    assert 0 == world.scheduler.cache.pod_count


@pytest.mark.parametrize("generation", [0, 3])
def test_a_condition_of_a_group_tells_which_version_of_the_group_it_is_about(generation):
    body = {"apiVersion": "scheduling.k8s.io/v1beta1", **group("g", schedulingPolicy=POLICY)}
    body["metadata"] |= {"generation": generation}
    node, gates = make_node("a").capacity(cpu="1"), FeatureGates({"GenericWorkload": True}, "1.37")
    pods = [make_pod(f"p{number}").group("g").req(cpu="1") for number in range(2)]
    world = World(node, convert(PodGroup, body), *pods, gates=gates, config=from_data(HEAD, gates))
    (call,) = [call for action in kinds(world.step(), CallApi) for call in action.calls]
    (condition,) = call.body["status"]["conditions"]

    assert (generation or None) == condition.get("observedGeneration")

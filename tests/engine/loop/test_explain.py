"""The scheduler can tell why a pod is where it is, and what has changed since."""

import msgspec

from bayplan.config import FeatureGates, from_data
from bayplan.testing import make_node, make_pod, make_pod_group
from tests.engine.clusters import plugin_config
from tests.engine.loop.helper import HEAD, World


def node(name):
    return make_node(name).capacity(cpu="2", memory="4Gi", pods="10")


def test_groups_add_up_to_the_nodes():
    world = World(
        node("a").taint("x"), node("b").cordon(), node("c"), node("d"), make_pod("p").req(cpu="3")
    )
    world.run()

    told = world.scheduler.explain("default/p", world.now)

    assert told.place == "unschedulable"
    assert told.attempts == 1
    assert "NodeResourcesFit" in told.waits_for
    verdicts = told.attempt.verdicts
    assert sum(verdict.nodes for verdict in verdicts) == told.attempt.node_count == 4
    assert {(v.plugin, v.nodes) for v in verdicts} == {
        ("NodeResourcesFit", 2),
        ("TaintToleration", 1),
        ("NodeUnschedulable", 1),
    }
    assert told.history[-1].what == "failed, now unschedulable"
    assert told.changed == ()


def test_placed_pod_shows_its_scores():
    world = World(node("a"), node("b"), make_pod("x").node("a").req(cpu="1"), make_pod("p"))
    world.run()

    told = world.scheduler.explain("default/p", world.now)

    assert told.node == "b"
    assert told.place == "bound to b"
    assert told.attempt.verdicts[0].result == "fits"
    best = told.attempt.scores[0]
    assert best.node == "b"
    weights = told.attempt.weights
    assert best.total == sum(score * weights[name] for name, score in best.by_plugin.items())
    assert best.total > told.attempt.scores[1].total


def test_nodes_with_a_negative_total_are_shown_and_rejected_ones_are_not():
    scorers = {"disabled": [{"name": "*"}], "enabled": [{"name": "TaintToleration", "weight": -3}]}
    config = from_data(plugin_config(score=scorers))
    taken = node("a").taint("x")
    world = World(taken, node("b"), node("c"), make_pod("p"), config=config)
    world.run()

    scores = world.scheduler.explain("default/p", world.now).attempt.scores

    assert {"b", "c"} == {score.node for score in scores}
    assert {-300} == {score.total for score in scores}


def test_what_changed_since_the_last_attempt():
    world = World(node("a").taint("x"), node("b"), make_pod("p").req(cpu="3"))
    world.run()

    world.scheduler.cache.update_node(node("a").build())
    world.show(make_node("c").capacity(cpu="1", memory="1Gi", pods="5"))
    before = world.scheduler.engine.next_start
    told = world.scheduler.explain("default/p", world.now)

    changes = {change.node: (change.before, change.now) for change in told.changed}
    assert changes["a"][1] == "NodeResourcesFit: Insufficient cpu"
    assert changes["a"][0].startswith("TaintToleration: ")
    assert changes["c"] == ("unknown", "NodeResourcesFit: Insufficient cpu")
    assert "b" not in changes
    assert world.scheduler.engine.next_start == before


def test_explanation_is_data_and_unknown_pods_have_none():
    world = World(node("a"), make_pod("p").gate("x"))
    world.run()

    told = world.scheduler.explain("default/p", world.now)

    assert told.place == "gated by SchedulingGates"
    assert msgspec.json.encode(told)
    assert world.scheduler.explain("default/none", world.now) is None


ZONE = "topology.kubernetes.io/zone"
GATES = FeatureGates({"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}, "1.37")


def zoned_world(cpu):
    """Two pods of a group that stays in one of three zones, and one attempt."""
    nodes = [node(name).label({ZONE: name[0]}) for name in ("a1", "a2", "b1", "b2", "c1", "c2")]
    group = make_pod_group("g", 2).with_spec(schedulingConstraints={"topology": [{"key": ZONE}]})
    pods = [make_pod(name).group("g").req(cpu=cpu) for name in ("p", "q")]
    world = World(*nodes, group, *pods, gates=GATES, config=from_data(HEAD, GATES))
    world.run()
    return world


def test_a_group_that_was_tried_on_several_zones_made_one_attempt():
    world = zoned_world("1")

    told = world.scheduler.explain("default/p", world.now)

    assert 1 == told.attempts
    assert told.node == told.attempt.node != ""


def test_a_group_that_does_not_fit_backs_off_without_an_error():
    world = zoned_world("9")

    told = world.scheduler.explain("default/p", world.now)

    assert ("backoff", 1) == (told.place, told.attempts)
    assert "failed, now backoff" == told.history[-1].what


def test_a_pod_whose_group_failed_has_no_node_in_its_last_attempt():
    group, pods = make_pod_group("g", 2), [make_pod("p").group("g").req(cpu="1")]
    pods.append(make_pod("q").group("g").req(cpu="9"))
    world = World(node("a"), group, *pods, gates=GATES, config=from_data(HEAD, GATES))
    world.run()

    attempt = world.scheduler.explain("default/p", world.now).attempt

    assert "" == attempt.node
    assert "minCount (2) cannot be satisfied: 1 scheduled" in attempt.message
    assert attempt.verdicts[0].result == "fits"

"""The scheduler can tell why a pod is where it is, and what has changed since."""

import msgspec

from bayplan.testing import make_node, make_pod
from tests.engine.loop.helper import World


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

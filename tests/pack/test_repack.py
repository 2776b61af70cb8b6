"""The optional plugin: moves instead of losses, gangs by the solver, and nothing if it cannot."""

import pytest

from bayplan.config.load import load
from bayplan.engine.engine import Engine
from bayplan.errors import ConfigError
from bayplan.pack import repack
from bayplan.plugins import in_tree_registry
from bayplan.testing.builders import HOSTNAME, make_node, make_pod

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins:
      postFilter:
        enabled: [{name: Repack}, {name: DefaultPreemption}]
        disabled: [{name: "*"}]
    pluginConfig:
      - {name: Repack, args: {timeoutSeconds: 20, %s}}
"""


def node(name, cpu=4, **labels):
    found = make_node(name).label({HOSTNAME: name, **labels})
    return found.capacity(cpu=cpu, memory="8Gi", pods=20).build()


def runs(name, on, cpu=1, priority=0):
    pod = make_pod(name).req(cpu=cpu).owner("ReplicaSet", name, uid=name).priority(priority)
    return pod.node(on).build()


def build(*nodes, args="maxMoves: 3"):
    registry = in_tree_registry() | repack.PLUGINS
    engine = Engine.build(load(CONFIG % args).config, registry)
    for item in nodes:
        engine.cache.add_node(item)
    return engine


def add(engine, *pods):
    for pod in pods:
        engine.cache.add_pod(pod)


def test_the_pods_that_go_have_a_place_to_go_to():
    engine = build(node("a"), node("b"), node("c"))
    # On b somebody would have to be lost; from a one pod can go to c.
    add(engine, runs("x", "a", 2), runs("y", "b", 4), runs("z", "c", 2))

    decision = engine.schedule(make_pod("w").req(cpu=4).priority(9).build(), 0.0)

    assert decision.nominating.nominated_node_name in ("a", "c")
    assert 1 == len(decision.victims.pods)
    assert "y" != decision.victims.pods[0].name
    engine.cache.validate()


def test_without_a_place_for_victims_preemption_is_asked_as_before():
    engine = build(node("a"))
    add(engine, runs("x", "a", 3))

    decision = engine.schedule(make_pod("w").req(cpu=4).priority(9).build(), 0.0)

    assert ["x"] == [pod.name for pod in decision.victims.pods]


def test_a_pod_of_no_importance_moves_nobody():
    engine = build(node("a"), node("b"))
    add(engine, runs("x", "a", 2), runs("y", "b", 2))

    decision = engine.schedule(make_pod("w").req(cpu=4).build(), 0.0)

    assert decision.victims is None


def test_a_solver_that_fails_changes_nothing(monkeypatch):
    engine = build(node("a"), node("b"))
    add(engine, runs("x", "a", 3), runs("y", "b", 3))

    def broken(*args, **kwargs):
        raise RuntimeError("no")

    monkeypatch.setattr(repack.Asked, "by_moves", broken)
    decision = engine.schedule(make_pod("w").req(cpu=4).priority(9).build(), 0.0)

    assert 1 == len(decision.victims.pods)
    (profile,) = engine.profiles.values()
    assert 1 == profile.problems["Repack", "post_filter"]


def test_a_gang_gets_the_places_that_one_by_one_misses():
    engine = build(node("a", pool="x"), node("b"))
    small = [make_pod(f"s-{i}").req(cpu=2).build() for i in range(2)]
    large = make_pod("large").req(cpu=4).node_selector({"pool": "x"}).build()

    result = engine.place_all([*small, large], 0.0)

    assert result.placed
    assert ["b", "b", "a"] == [decision.node_name for decision in result.decisions]
    assert 3 == engine.cache.pod_count
    engine.cache.validate()


def test_a_gang_that_fits_nowhere_leaves_nothing_behind():
    engine = build(node("a"), node("b"))

    result = engine.place_all([make_pod(f"p-{i}").req(cpu=3).build() for i in range(3)], 0.0)

    assert not result.placed
    assert 0 == engine.cache.pod_count


@pytest.mark.parametrize(
    "args",
    [
        pytest.param("maxMoves: 0", id="no moves"),
        pytest.param("maxMoves: x", id="no number"),
        pytest.param("color: red", id="an unknown field"),
    ],
)
def test_wrong_arguments_are_told(args):
    with pytest.raises(ConfigError, match="Repack"):
        build(args=args)

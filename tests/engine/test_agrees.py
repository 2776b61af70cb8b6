"""The engine decides as the scalar reference does, whatever the cluster."""

import os

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.cli.conformance_decisions import differences
from bayplan.cluster.limits import Limits
from bayplan.config.gates import FeatureGates
from bayplan.conformance.kept import FEW
from bayplan.engine.cache import Cache
from bayplan.engine.replay import describe
from bayplan.testing.strategies import clusters, nodes, pods
from tests.engine.clusters import engine_for, world_for
from tests.reference import decide

RELAXED = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
NOW = 2_000_000_000.0
GATES = FeatureGates(version="1.36")
"""The reference was written from 1.36."""


def fit_args(**strategy):
    version = "kubescheduler.config.k8s.io/v1"
    args = {
        "apiVersion": version,
        "kind": "NodeResourcesFitArgs",
        "scoringStrategy": {
            "resources": [{"name": "cpu", "weight": 3}, {"name": "example.com/gpu", "weight": 2}],
            **strategy,
        },
    }
    return {
        "apiVersion": version,
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "pluginConfig": [{"name": "NodeResourcesFit", "args": args}],
            }
        ],
    }


SHAPE = [{"utilization": 0, "score": 2}, {"utilization": 40, "score": 10},
         {"utilization": 100, "score": 0}]  # fmt: skip
STRATEGIES = {
    "least": {"type": "LeastAllocated"},
    "most": {"type": "MostAllocated"},
    "ratio": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": SHAPE}},
}


@RELAXED
@given(cluster=clusters(), pod=pods())
def test_decisions_agree_with_the_reference(cluster, pod):
    """Statuses, reasons, scores, totals, winners, texts and victims are the same."""
    engine = engine_for(cluster, gates=GATES)

    decision = engine.schedule(pod, NOW)

    expected = decide(world_for(cluster), pod).body()
    assert [] == differences(expected, describe(engine, decision))
    engine.cache.validate()
    if decision.placed:
        assert decision.node_name in expected["best"]


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@settings(RELAXED, max_examples=30)
@given(cluster=clusters(max_pods=6), pod=pods())
def test_scoring_strategies_agree_with_the_reference(strategy, cluster, pod):
    config = fit_args(**STRATEGIES[strategy])
    engine = engine_for(cluster, config, gates=GATES)

    decision = engine.schedule(pod, NOW)

    expected = decide(world_for(cluster), pod, config).body()
    assert [] == differences(expected, describe(engine, decision))


@pytest.mark.parametrize("limits", [Limits(), FEW], ids=["roomy", "single digits"])
@settings(RELAXED, max_examples=int(os.environ.get("BAYPLAN_EXAMPLES", "40")))
@given(cluster=clusters(), incoming=st.lists(pods(), min_size=1, max_size=3), data=st.data())
def test_kept_answers_are_those_of_a_fresh_start(limits, cluster, incoming, data):
    """Pods come, go and are placed, nodes change: what is kept never differs from asking anew.

    `BAYPLAN_EXAMPLES=2000` makes it tens of thousands of decisions.
    """
    engine = engine_for(cluster, cache=Cache(limits))
    names = [node.name for node in cluster.nodes]
    for step in range(data.draw(st.integers(1, 6))):
        change(engine, cluster, names, incoming, step, data)
        for pod in incoming:
            kept = engine.schedule(pod, NOW)
            described = describe(engine, kept)
            engine.forget_answers()
            fresh = engine.schedule(pod, NOW)

            assert described == describe(engine, fresh)
            assert kept.node_name == fresh.node_name
    engine.cache.validate()


@settings(RELAXED, max_examples=int(os.environ.get("BAYPLAN_EXAMPLES", "40")))
@given(cluster=clusters(), incoming=st.lists(pods(), min_size=2, max_size=4), data=st.data())
def test_what_is_kept_never_differs_from_an_engine_that_keeps_nothing(cluster, incoming, data):
    """The same events to two engines, one of which forgets everything before each decision."""
    kept = engine_for(cluster, cache=Cache(FEW))
    forgetful = engine_for(cluster)
    names = [node.name for node in cluster.nodes]
    for step in range(data.draw(st.integers(2, 8))):
        event = draw_change(kept, names, incoming, step, data)
        for engine in (kept, forgetful):
            event(engine)
        for pod in incoming:
            forgetful.forget_answers()
            mine, theirs = kept.schedule(pod, NOW), forgetful.schedule(pod, NOW)

            assert describe(kept, mine) == describe(forgetful, theirs)
            assert mine.node_name == theirs.node_name
    kept.validate()


def draw_change(engine, names, incoming, step, data):
    """One random event, to be applied to several engines."""
    kinds = ("place", "place", "add", "remove", "node", "drop", "nominate")
    what = data.draw(st.sampled_from(kinds))
    if what == "place":
        pod = named(data.draw(st.sampled_from(incoming)), f"placed-{step}")
        return lambda engine: engine.place(pod, NOW)
    if what == "add":
        pod = data.draw(pods(f"new-{step}", data.draw(st.sampled_from(names))))
        return lambda engine: engine.cache.put(pod)
    if what == "remove" and engine.cache.pod_count:
        infos = [*engine.cache.table.all_pods(), *engine.cache.table.pods_aside()]
        pod = data.draw(st.sampled_from(sorted(infos, key=lambda info: info.uid))).pod
        return lambda engine: engine.cache.remove_pod(pod)
    if what == "drop":
        name = data.draw(st.sampled_from(names))
        return lambda engine: engine.cache.remove_node(name)
    if what == "nominate":
        pod, name = data.draw(pods(f"promised-{step}")), data.draw(st.sampled_from(names))
        return lambda engine: engine.cache.nominator.add(engine.cache.infos.make(pod), name)
    node = data.draw(nodes(data.draw(st.sampled_from(names))))
    return lambda engine: engine.cache.put(node)


def change(engine, cluster, names, incoming, step, data):
    """One random event."""
    cache = engine.cache
    what = data.draw(st.sampled_from(("place", "place", "add", "remove", "node", "drop", "label")))
    if what == "place":
        pod = data.draw(st.sampled_from(incoming))
        placed = named(pod, f"placed-{step}")
        engine.place(placed, NOW)
    elif what == "add":
        pod = data.draw(pods(f"new-{step}", data.draw(st.sampled_from(names))))
        cache.put(pod)
    elif what == "remove" and cache.pod_count:
        infos = [*cache.table.all_pods(), *cache.table.pods_aside()]
        cache.remove_pod(data.draw(st.sampled_from(infos)).pod)
    elif what == "drop":
        cache.remove_node(data.draw(st.sampled_from(names)))
    elif what in ("node", "label"):
        cache.put(data.draw(nodes(data.draw(st.sampled_from(names)))))


def named(pod, name):
    meta = msgspec.structs.replace(pod.metadata, name=name, uid=f"uid-{name}")
    return msgspec.structs.replace(pod, metadata=meta)

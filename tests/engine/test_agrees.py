"""The engine decides as the scalar reference does, whatever the cluster."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.cli.conformance_decisions import differences
from bayplan.engine.replay import describe
from bayplan.testing.strategies import clusters, nodes, pods
from tests.engine.clusters import engine_for, world_for
from tests.reference import decide

RELAXED = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
NOW = 2_000_000_000.0


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
    engine = engine_for(cluster)

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
    engine = engine_for(cluster, config)

    decision = engine.schedule(pod, NOW)

    expected = decide(world_for(cluster), pod, config).body()
    assert [] == differences(expected, describe(engine, decision))


@settings(RELAXED, max_examples=60)
@given(cluster=clusters(), incoming=st.lists(pods(), min_size=1, max_size=3), data=st.data())
def test_kept_answers_are_those_of_a_fresh_start(cluster, incoming, data):
    """Pods come, go and are placed, nodes change: what is kept never differs from asking anew."""
    engine = engine_for(cluster)
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
        infos = [*cache.table.all_pods(), *cache.table.waiting_pods()]
        cache.remove_pod(data.draw(st.sampled_from(infos)).pod)
    elif what == "drop":
        cache.remove_node(data.draw(st.sampled_from(names)))
    elif what in ("node", "label"):
        cache.put(data.draw(nodes(data.draw(st.sampled_from(names)))))


def named(pod, name):
    meta = msgspec.structs.replace(pod.metadata, name=name, uid=f"uid-{name}")
    return msgspec.structs.replace(pod, metadata=meta)

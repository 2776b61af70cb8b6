"""A search for victims that was cut into slices comes to what one at once would come to."""

import random

import pytest

from bayplan.framework import Unfinished
from bayplan.testing import make_budget, make_node, make_pod
from tests.engine.clusters import make_engine
from tests.plugins.test_preemption_memory import told

NOW = 1_900_000_000.0
ZONE = "zone"


def node(number, cpu="4"):
    labels = {ZONE: f"z{number % 2}", "kubernetes.io/hostname": f"n{number}"}
    return make_node(f"n{number}").label(labels).capacity(cpu=cpu, memory="8Gi", pods=110).build()


def victim(rng, name, where):
    pod = make_pod(name).req(cpu=rng.choice(["1", "2"])).priority(rng.choice([0, 5]))
    pod = pod.label(app=rng.choice("ab")).node(where)
    return pod.started(f"202{rng.randrange(3)}-01-01T00:00:00Z")


def change(rng, engine, step):
    """One change of what a search may have seen, often where rows do not show it."""
    table = engine.cache.table
    where = f"n{rng.randrange(6)}"
    placed = [info.pod for info in table.all_pods()]
    kind = rng.randrange(7)
    if kind <= 1 and placed:
        body = rng.choice(placed)
        status = type(body.status)(start_time=f"202{rng.randrange(5)}-06-01T00:00:00Z")
        engine.cache.put(type(body)(metadata=body.metadata, spec=body.spec, status=status))
    elif kind == 2 and placed:
        engine.cache.remove_pod(rng.choice(placed))
    elif kind == 3:
        engine.cache.put(make_budget("b", f"app={rng.choice('ab')}", rng.randrange(2)).build())
    elif kind == 4:
        engine.cache.put(victim(rng, f"v{step}", where).apart("app=high", ZONE).build())
    elif kind == 5:
        engine.cache.put(victim(rng, f"v{step}", where).build())


def in_slices(rng, engine, pod):
    """Decide with one row a slice and changes in between."""
    for step in range(200):
        try:
            return engine.schedule(pod, NOW, late=lambda: True)
        except Unfinished:
            if rng.random() < 0.5:
                change(rng, engine, step)
    raise AssertionError("never finished")


def copied(engine):
    """An engine that has heard of the same pods in the order in which they lie."""
    table, objects = engine.cache.table, engine.cache.objects
    nodes = [table.nodes[row] for row in table.order.tolist()]
    pods = [info.pod for row in table.order.tolist() for info in table.pods[row]]
    return make_engine(nodes, pods, list(objects.pod_disruption_budgets))


@pytest.mark.parametrize("wish", ["plain", "spread"])
def test_changes_between_slices_are_seen(wish):
    preempted = 0
    for seed in range(80):
        rng = random.Random(seed)
        engine = make_engine([node(number) for number in range(6)])
        for number in range(18):
            engine.cache.put(victim(rng, f"p{number}", f"n{number % 6}").build())
        pod = make_pod("high").label(app="high").req(cpu=rng.choice(["3", "4"])).priority(10)
        if wish == "spread":
            pod = pod.spread(1, ZONE, "app=high")
        decision = in_slices(rng, engine, pod.build())

        assert told(copied(engine).schedule(pod.build(), NOW)) == told(decision), seed
        preempted += decision.victims is not None
    assert preempted > 20

"""Remembered dry runs come to what fresh ones would."""

import random

import msgspec

from bayplan.plugins.default_preemption.memory import Memories
from bayplan.plugins.default_preemption.sums import Sums
from bayplan.testing import make_budget, make_node, make_pod
from tests.engine.clusters import make_engine

NOW = 1_900_000_000.0
YEARS = ["2024", "2025", "2026", "2080"]


def node(name, cpu):
    return make_node(name).capacity(cpu=cpu, memory="8Gi", pods=110).build()


def victim(rng, name, where):
    pod = make_pod(name).req({"cpu": rng.choice(["1", "2"])}).priority(rng.choice([0, 5, 50]))
    pod = pod.label(app=rng.choice("ab")).node(where)
    if rng.random() < 0.8:
        pod = pod.started(f"{rng.choice(YEARS)}-01-01T00:00:00Z")
    return pod.build()


def preemptor(name, cpu):
    return make_pod(name).req({"cpu": cpu}).priority(10).build()


def plugin_of(engine):
    (plugin,) = (
        p for p in engine.profiles["default-scheduler"].post_filter if p.name == "DefaultPreemption"
    )
    return plugin


def told(decision):
    victims = decision.victims
    names = [] if victims is None else [pod.key for pod in victims.pods]
    nominating = decision.nominating
    node_name = "" if nominating is None else nominating.nominated_node_name
    count = None if victims is None else victims.pdb_violations
    return decision.node_name, node_name, names, count, decision.message


def change(rng, engine, step):
    """One random change of the cluster."""
    where = f"n{rng.randrange(5)}"
    placed = [info.pod for info in engine.cache.table.all_pods()]
    kind = rng.randrange(6)
    if kind == 0 and placed:
        engine.cache.remove_pod(rng.choice(placed))
    elif kind == 1 and placed:
        # The start time alone: the table's journal does not tell it.
        body = rng.choice(placed)
        status = type(body.status)(start_time=f"{rng.choice(YEARS)}-06-01T00:00:00Z")
        engine.cache.put(type(body)(metadata=body.metadata, spec=body.spec, status=status))
    elif kind == 2:
        engine.cache.put(node(where, rng.choice(["3", "4"])))
    elif kind == 3:
        engine.cache.put(make_budget("b", f"app={rng.choice('ab')}", rng.randrange(2)).build())
    else:
        engine.cache.put(victim(rng, f"v{step}", where))


def test_remembered_outcomes_equal_fresh_ones_whatever_changes():
    preempted = 0
    for seed in range(12):
        rng = random.Random(seed)
        engine = make_engine([node(f"n{i}", "4") for i in range(5)])
        for number in range(12):
            engine.cache.put(victim(rng, f"p{number}", f"n{number % 5}"))
        plugin = plugin_of(engine)
        for step in range(15):
            change(rng, engine, step)
            pod = preemptor(f"x{step}", rng.choice(["3", "4"]))
            kept = told(engine.schedule(pod, NOW + step))
            plugin._memories = Memories(8)
            fresh = told(engine.schedule(pod, NOW + step))
            again = told(engine.schedule(pod, NOW + step))

            assert fresh == kept == again, (seed, step)
            preempted += bool(fresh[2])
    assert preempted > 20


def test_pods_with_affinity_are_not_remembered():
    engine = make_engine([node("n0", "4")])
    engine.cache.put(make_pod("v").req({"cpu": "3"}).node("n0").build())
    pod = make_pod("x").req({"cpu": "3"}).priority(10).apart("app=a").build()
    plugin = plugin_of(engine)

    assert ["default/v"] == told(engine.schedule(pod, NOW))[2]
    assert {} == plugin._memories._known


def test_rows_of_one_shape_lose_the_pods_that_each_would_lose_alone(monkeypatch):
    """Few kinds of nodes and pods, so that many rows have one shape."""
    preempted = 0
    for seed in range(15):
        rng = random.Random(seed)
        engine = make_engine([node(f"n{i}", "4") for i in range(16)])
        kinds = [victim(rng, "kind", "n0") for _ in range(3)]
        for number in range(48):
            body = make_pod(f"p{number}").node(f"n{number % 16}").build()
            like = rng.choice(kinds[: 1 + seed % 3])
            meta = msgspec.structs.replace(body.metadata, labels=like.metadata.labels)
            spec = msgspec.structs.replace(like.spec, node_name=body.spec.node_name)
            engine.cache.put(
                msgspec.structs.replace(body, metadata=meta, spec=spec, status=like.status)
            )
        if rng.random() < 0.7:
            budget = make_budget("b", f"app={rng.choice('ab')}", rng.randrange(3)).build()
            engine.cache.put(budget)
        pod = preemptor("x", rng.choice(["3", "4"]))
        plugin, found = plugin_of(engine), []
        for alone in (False, True):
            plugin._memories = Memories(8)
            with monkeypatch.context() as patch:
                if alone:
                    patch.setattr(Sums, "shape", lambda *_: None)
                found.append(told(engine.schedule(pod, NOW)))

        assert found[0] == found[1], seed
        preempted += bool(found[0][2])
    assert preempted >= 5

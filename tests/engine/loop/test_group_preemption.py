"""Room for a pod group: pods come back in the order in which kube-scheduler lists them."""

import random

import pytest

from bayplan.config import FeatureGates
from bayplan.conformance.run import Run
from bayplan.engine.engine import Engine
from bayplan.plugins.default_preemption.groups import GroupPreemption
from tests.plugins.test_preempted_groups import budget, group, node, pod

CHANGED = {"GenericWorkload": True, "OpportunisticBatching": False}
GATES = FeatureGates(CHANGED, "1.37")
ZONE = "topology.kubernetes.io/zone"


def case(asked="1"):
    """Listed are n1, n3, n2: zones take turns. A budget protects all but one of a0 and a1."""
    nodes = [node(name, "2") for name in ("n1", "n2", "n3")]
    for body, zone in zip(nodes, ("z1", "z1", "z2"), strict=True):
        body["metadata"]["labels"] = {ZONE: zone}
    wish = {"nodeSelector": {ZONE: "z2"}, "priority": 10}
    objects = {
        "nodes": nodes,
        "podGroups": [group("g", schedulingPolicy={"gang": {"minCount": 1}}, priority=10)],
        "podDisruptionBudgets": [budget("b", 1, ["a"])],
        "pods": [
            *(pod("a0", "n2"), pod("c", "n3"), pod("a1", "n3"), pod("d", "n3", "0")),
            pod("g0", cpu=asked, group="g", **wish),
        ],
    }
    return {"id": "listed", "family": "run", "objects": objects, "gates": CHANGED}


def test_nodes_count_in_list_order():
    """a1 is met before a0, so that the budget allows that it goes: it comes back after c."""
    (step,) = Run(case(), GATES).run()

    assert ["default/a1"] == step["deleted"]


@pytest.mark.parametrize("asked", ["1", "3"])
def test_the_search_leaves_pods_as_they_lay(asked):
    run = Run(case(asked), GATES)
    table = run._scheduler.cache.table
    before = list(table.pods_of("n3"))
    run._scheduler.step(run._now, 1)

    assert before == table.pods_of("n3")


def test_who_comes_back_is_counted_on_the_state_of_the_trial():
    """PreFilter counts nobody for an empty selector; that a pod comes back counts all the same."""
    only = node("n1", "2")
    only["metadata"]["labels"] = {ZONE: "z1"}
    spread = {"topologyKey": ZONE, "maxSkew": 1, "minDomains": 2, "labelSelector": {}}
    wish = {"topologySpreadConstraints": [{**spread, "whenUnsatisfiable": "DoNotSchedule"}]}
    objects = {
        "nodes": [only],
        "podGroups": [group("g", schedulingPolicy={"gang": {"minCount": 1}}, priority=10)],
        "pods": [
            *(pod("a", "n1", "2"), pod("b", "n1", "0")),
            pod("g0", cpu="2", group="g", priority=10, **wish),
        ],
    }
    (step,) = Run({"objects": objects}, GATES).run()

    assert ["default/a", "default/b"] == sorted(step["deleted"])


def test_of_the_domains_only_two_are_followed_while_pods_come_back():
    """The third has the fewest in the end: a4 would have to go, but upstream does not notice."""
    nodes = [node(name, "4") for name in ("n1", "n2", "n3")]
    for number, body in enumerate(nodes):
        body["metadata"]["labels"] = {ZONE: f"z{number}"}
    skew = {"topologyKey": ZONE, "maxSkew": 1, "labelSelector": {"matchLabels": {"app": "a"}}}
    wish = {"topologySpreadConstraints": [{**skew, "whenUnsatisfiable": "DoNotSchedule"}]}
    stay = [("a5", "n2", "0"), ("a6", "n3", "0"), ("a7", "n3", "0")]
    stay += [("c0", "n2", "4"), ("c1", "n3", "4")]
    leave = [(f"a{number}", f"n{1 + number % 2}", "0") for number in range(5)] + [("b", "n1", "4")]
    pods = [pod(*given, priority=20) for given in stay] + [pod(*given) for given in leave]
    for number, body in enumerate(pods):
        body["status"]["startTime"] = f"2026-01-01T00:{number:02}:00Z"
    objects = {
        "nodes": nodes,
        "podGroups": [group("g", schedulingPolicy={"gang": {"minCount": 1}}, priority=10)],
        "pods": [*pods, pod("a-g", cpu="4", group="g", priority=10, **wish)],
    }
    (step,) = Run({"objects": objects}, GATES).run()

    assert ["default/b"] == step["deleted"]


def random_case(rng):
    """Nodes that are full of less important pods, some with wishes about others, and a group."""
    count = rng.randrange(2, 7)
    nodes = [node(f"n{number}", "4") for number in range(count)]
    for number, body in enumerate(nodes):
        host = {ZONE: f"z{number % 2}", "kubernetes.io/hostname": f"n{number}"}
        body["metadata"]["labels"] = host
    pods = []
    for number in range(rng.randrange(2, 4 * count)):
        cpu, where = rng.choice(["1", "2"]), f"n{rng.randrange(count)}"
        body = pod(f"{rng.choice('ab')}{number}", where, cpu, priority=rng.choice([0, 5]))
        if rng.random() < 0.2:
            body["spec"]["affinity"] = apart(rng.choice("ag"), rng)
        pods.append(body)
    size = rng.randrange(1, 4)
    for number in range(size):
        asked = pod(f"g{number}", cpu=rng.choice(["1", "2", "3"]), group="g", priority=10)
        if rng.random() < 0.2:
            asked["spec"]["affinity"] = apart(rng.choice("ag"), rng)
        pods.append(asked)
    wanted = {"gang": {"minCount": size}}
    objects = {
        "nodes": nodes,
        "podGroups": [group("g", schedulingPolicy=wanted, priority=10)],
        "podDisruptionBudgets": [budget("b", rng.randrange(3), ["a"])],
        "pods": pods,
    }
    return {"objects": objects}


def apart(app, rng):
    key = rng.choice([ZONE, "kubernetes.io/hostname"])
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_victims_are_those_of_asking_the_whole_group_each_time(monkeypatch):
    preempted = 0
    for seed in range(60):
        body = random_case(random.Random(seed))
        found = Run(body, GATES).run()
        with monkeypatch.context() as patched:
            patched.setattr(GroupPreemption, "_stands_alone", lambda self, placed: False)

            assert found == Run(body, GATES).run(), seed
        preempted += bool(found[0].get("deleted"))
    assert preempted > 15


@pytest.mark.parametrize("nodes", [10, 40])
def test_only_pods_that_share_a_node_with_a_victim_are_asked_again(monkeypatch, nodes):
    asked = []
    objects = {
        "nodes": [node(f"n{number}", "1") for number in range(nodes)],
        "podGroups": [group("g", schedulingPolicy={"gang": {"minCount": 4}}, priority=10)],
        "pods": [pod(f"a{number}", f"n{number}") for number in range(nodes)]
        + [pod(f"g{number}", group="g", priority=10) for number in range(4)],
    }
    fits_on = Engine.fits_on
    monkeypatch.setattr(Engine, "fits_on", lambda *given: asked.append(given) or fits_on(*given))
    (step,) = Run({"objects": objects}, GATES).run()

    assert 4 == len(step["deleted"])
    assert 8 == len(asked)  # all four at first, then each with the pod on its node

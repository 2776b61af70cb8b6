"""A single pod that preempts pods of a group, and what a broken budget uses up, by version."""

import pytest

from bayplan.config import FeatureGates
from bayplan.engine.replay import decide
from bayplan.framework import Handle
from bayplan.plugins.default_preemption.units import Unit, by_importance
from bayplan.testing import make_pod

GROUPS = {"GenericWorkload": True}


def node(name, cpu="4"):
    return {"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "pods": "10"}}}


def pod(name, node_name="", cpu="1", group="", **more):
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **more}
    if node_name:
        spec["nodeName"] = node_name
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {"app": name[0]}}
    return {"metadata": meta, "spec": spec, "status": {"startTime": "2026-01-01T00:00:00Z"}}


def group(name, mode=None, **spec):
    body = {"schedulingPolicy": {"basic": {}}, **spec}
    if mode:
        body["disruptionMode"] = {mode: {}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": body}


def victims(objects, asked, version="1.37", **gates):
    found = decide(objects, asked, gates=FeatureGates(gates, version))
    return found["postFilter"]["nominatedNodeName"], sorted(found["postFilter"]["victims"] or ())


def cluster(mode, **spec):
    """Pods of a group on both nodes; a is full, b has no room for the preemptor at all."""
    return {
        "nodes": [node("a"), node("b", "2")],
        "pods": [pod("g0", "a", "4", group="g"), pod("g1", "b", "1", group="g")],
        "podGroups": [group("g", mode, **spec)],
    }


BIG = pod("big", cpu="4", priority=10)


def test_a_group_that_leaves_as_one_goes_as_a_whole():
    assert ("a", ["default/g0", "default/g1"]) == victims(cluster("all"), BIG, **GROUPS)
    assert ("a", ["default/g0"]) == victims(cluster("single"), BIG, **GROUPS)


@pytest.mark.parametrize(
    ("priority", "gone"), [(9, ["default/g0"]), (10, []), (None, ["default/g0"])]
)
def test_the_priority_of_the_group_counts(priority, gone):
    spec = {} if priority is None else {"priority": priority}
    objects = cluster("single", **spec)
    for body in objects["pods"]:
        body["spec"]["priority"] = 50  # as before its group was made

    assert ("a" if gone else "", gone) == victims(objects, BIG, **GROUPS)


def test_without_the_gate_pods_stand_for_themselves():
    assert ("a", ["default/g0"]) == victims(cluster("all"), BIG)


def test_the_pods_elsewhere_no_longer_repel():
    """That they leave is told to the plugins that count over nodes."""
    objects = cluster("all")
    zone = {"topology.kubernetes.io/zone": "z"}
    for body in objects["nodes"]:
        body["metadata"]["labels"] = zone
    term = {
        "topologyKey": "topology.kubernetes.io/zone",
        "labelSelector": {"matchLabels": {"app": "g"}},
    }
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    asked = pod("big", cpu="4", priority=10, affinity=anti)

    assert ("a", ["default/g0", "default/g1"]) == victims(objects, asked, **GROUPS)


def budget(name, allowed, apps):
    chosen = {"matchExpressions": [{"key": "app", "operator": "In", "values": apps}]}
    meta, status = {"name": name, "namespace": "default"}, {"disruptionsAllowed": allowed}
    return {"metadata": meta, "spec": {"selector": chosen}, "status": status}


@pytest.mark.parametrize(("version", "node_name"), [("1.36", "b"), ("1.37", "a")])
def test_since_1_37_a_pod_that_breaks_a_budget_leaves_the_next_one_alone(version, node_name):
    """x breaks the first budget; only in 1.36 it uses up what y would have of the second.

    With one pod that breaks a budget on each node, a costs less: its priorities are lower.
    """
    objects = {
        "nodes": [node("a", "2"), node("b", "2")],
        "pods": [pod("x", "a", priority=2),
                 pod("y", "a"), pod("v", "b", priority=3), pod("w", "b")],
        "podDisruptionBudgets": [budget("b0", 0, ["x"]), budget("b1", 1, ["x", "y"]),
                                 budget("b2", 0, ["v"])],
    }  # fmt: skip
    assert node_name == victims(objects, pod("big", cpu="2", priority=10), version)[0]


def test_of_units_that_began_together_the_order_stays_and_of_those_that_did_not_begin_too():
    def unit(name, place, start=None):
        built = make_pod(name)
        info = Handle().info((built.started(start) if start else built).build())
        return Unit(0, [info], False, place)

    began = "2026-01-01T00:00:00Z"
    same = [unit("a", 1, began), unit("b", 0, began)]
    never = [unit("c", 1), unit("d", 0)]

    assert same == by_importance(same, 2e9)
    assert never[::-1] == by_importance(never, 2e9)


def test_units_by_importance():
    """Priority, then groups, then the larger, then who began earlier."""

    def unit(*names, priority=0, of_group=True, year=2026):
        pods = [make_pod(name).started(f"{year}-01-01T00:00:00Z").build() for name in names]
        return Unit(priority, [Handle().info(pod) for pod in pods], of_group, 0)

    in_order = [
        unit("important", priority=5, of_group=False),
        unit("a", "b", "c"),
        unit("d", "e", year=2024),
        unit("f", "g", year=2025),
        unit("h", year=2023),
        unit("single", of_group=False, year=2020),
    ]

    assert in_order == by_importance(in_order[::-1], 2e9)
    assert in_order == by_importance(in_order[3:] + in_order[:3], 2e9)

"""Host ports in dry runs: who leaves frees a port that another pod holds, too, as upstream."""

import pytest

from bayplan.config import FeatureGates
from bayplan.engine.replay import decide
from bayplan.testing import make_node, make_pod


def holding(name, port, node="", priority=0):
    pod = make_pod(name).priority(priority)
    body = (pod.node(node).started("2026-01-01T00:00:00Z") if node else pod).body()
    body["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
    return body


def victims(pods, priority, version):
    objects = {"nodes": [make_node("a").body()], "pods": pods}
    found = decide(objects, holding("new", 80, "", priority), gates=FeatureGates({}, version))
    return found["postFilter"]["victims"]


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_a_port_that_two_hold_is_free_when_one_leaves(version):
    pods = [holding("low", 80, "a"), holding("high", 80, "a", 10)]

    assert victims(pods, 5, version) == ["default/low"]


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_other_ports_stay_taken(version):
    pods = [holding("low", 81, "a"), holding("high", 80, "a", 10)]

    assert victims(pods, 5, version) is None


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_who_comes_back_takes_the_port_again(version):
    pods = [holding("a", 81, "a"), holding("b", 80, "a"), holding("c", 81, "a")]

    assert victims(pods, 5, version) == ["default/b"]

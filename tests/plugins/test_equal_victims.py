"""Which of equally important pods must go, and what it means that a pod has not started."""

import pytest

from bayplan.config import FeatureGates
from bayplan.engine.replay import decide
from bayplan.testing import make_budget, make_node, make_pod


def victims(starts, version="1.37", wanted=1):
    """Who goes from a node full of pods that take one CPU each, for one that takes `wanted`."""
    node = make_node("a").capacity(cpu=len(starts), pods=110).body()
    pods = []
    for number, second in enumerate(starts):
        pod = make_pod(f"p{number}").req(cpu="1").node("a")
        if second is not None:
            pod = pod.started(f"2026-01-01T00:00:{second:02}Z")
        pods.append(pod.body())
    urgent = make_pod("urgent").req(cpu=str(wanted)).priority(10).body()
    objects = {"nodes": [node], "pods": pods}
    found = decide(objects, urgent, gates=FeatureGates({}, version))
    return [name.removeprefix("default/") for name in found["postFilter"]["victims"]]


@pytest.mark.parametrize("version", ["1.36", "1.37"])
@pytest.mark.parametrize(
    ("count", "kinds", "last"),
    [(12, 5, [4, 9]), (13, 5, [9, 4]), (20, 3, [2, 17]), (40, 2, [3, 39])],
)
def test_of_many_equal_pods_those_go_that_go_sorts_last(version, count, kinds, last):
    starts = [number % kinds for number in range(count)]

    assert victims(starts, version) == [f"p{last[-1]}"]
    assert sorted(victims(starts, version, 2)) == sorted(f"p{number}" for number in last)


def test_who_was_listed_last_of_those_that_have_not_started_goes():
    assert victims([None, None, None]) == ["p2"]


def test_1_36_reads_the_clock_at_each_comparison():
    # the first that is asked is older, so that insertion turns the order round
    assert victims([None, None, None], "1.36") == ["p0"]


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_who_has_not_started_goes_before_who_has(version):
    assert victims([5, None, 7], version) == ["p1"]


@pytest.mark.parametrize("gates", [{}, {"GenericWorkload": True}], ids=["pods", "units"])
def test_the_most_important_victim_counts_whatever_budgets_the_others_break(gates):
    """On both nodes one of two victims is guarded; on the first the other one is above all."""
    pods = [
        make_pod("guarded-a").req(cpu="1").node("a").label(app="x").priority(1),
        make_pod("other-a").req(cpu="1").node("a").priority(5),
        make_pod("guarded-b").req(cpu="1").node("b").label(app="x").priority(3),
        make_pod("other-b").req(cpu="1").node("b").priority(3),
    ]
    objects = {
        "nodes": [make_node(name).capacity(cpu=2, pods=110).body() for name in "ab"],
        "pods": [pod.body() for pod in pods],
        "podDisruptionBudgets": [make_budget("b", "app=x", 0).body()],
    }
    urgent = make_pod("urgent").req(cpu="2").priority(10).body()
    found = decide(objects, urgent, gates=FeatureGates(gates, "1.37"))

    assert "b" == found["postFilter"]["nominatedNodeName"]

"""Worked examples of kube-scheduler's arithmetic, one table a plugin."""

import numpy as np
import pytest

from bayplan.config.args import (
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from bayplan.framework import CycleState, Handle, Victims
from bayplan.framework.runtime.scoring import default_normalize
from bayplan.plugins.default_preemption.victims import (
    Budgets,
    compile_budgets,
    pick_node,
)
from bayplan.plugins.image_locality import normalized
from bayplan.plugins.inter_pod_affinity import InterPodAffinity
from bayplan.plugins.node_resources_balanced_allocation import new as balanced
from bayplan.plugins.node_resources_fit import NodeResourcesFit
from bayplan.plugins.node_resources_fit.strategies import piecewise
from bayplan.testing import make_budget, make_node, make_pod


@pytest.mark.parametrize(
    ("counts", "reverse", "scores"),
    [
        ([0, 1, 2], True, [100, 50, 0]),
        ([0, 0], True, [100, 100]),
        ([1, 2, 3], True, [67, 34, 0]),
        ([2, 0, 5], False, [40, 0, 100]),
        ([4, 11], False, [36, 100]),
        ([0, 0], False, [0, 0]),
    ],
)
def test_default_normalisation(counts, reverse, scores):
    raw = np.array(counts, dtype=np.int64)

    assert scores == default_normalize(raw, np.ones(len(raw), bool), reverse=reverse).tolist()


@pytest.mark.parametrize(
    ("points", "values"),
    [
        ([(10, 1), (90, 9)], {0: 1, 19: 1, 20: 2, 89: 8, 110: 9}),
        ([(0, 2), (40, 10), (100, 0)], {20: 6, 70: 5, 100: 0}),
        ([(0, 100), (100, 0)], {25: 75, 33: 67}),
    ],
)
def test_shapes_are_straight_lines_truncated_as_in_go(points, values):
    assert values == {at: piecewise(points, at) for at in values}


def node_with(cpu, memory, used_cpu=0, used_memory=0):
    """One node with a pod that uses something; amounts are milli and bytes."""
    handle = Handle()
    handle.table.add_node(make_node("n").capacity(cpu=f"{cpu}m", memory=memory, pods=10).build())
    used = make_pod("used").req({"cpu": f"{used_cpu}m", "memory": used_memory}).node("n").build()
    handle.table.add_pod(handle.infos.make(used))
    return handle


def strategy(kind, cpu=1, memory=1, shape=()):
    param = RequestedToCapacityRatioParam(shape=shape) if shape else None
    resources = (ResourceSpec(name="cpu", weight=cpu), ResourceSpec(name="memory", weight=memory))
    scoring = ScoringStrategy(type=kind, resources=resources, requested_to_capacity_ratio=param)
    return NodeResourcesFitArgs(scoring_strategy=scoring)


DOWN = (
    UtilizationShapePoint(utilization=0, score=10),
    UtilizationShapePoint(utilization=100, score=0),
)


@pytest.mark.parametrize(
    ("args", "node", "ask", "score"),
    [
        pytest.param(strategy("LeastAllocated"), (4000, 10000), (3000, 5000), 37, id="least"),
        pytest.param(
            strategy("LeastAllocated"), (10000, 20000, 3000, 0), (3000, 5000), 57, id="least, used"
        ),
        pytest.param(strategy("LeastAllocated", 1, 2), (4000, 10000), (3000, 5000), 41, id="mean"),
        pytest.param(strategy("LeastAllocated"), (4000, 10000), (6000, 0), 50, id="over the top"),
        pytest.param(strategy("MostAllocated"), (4000, 10000), (3000, 5000), 62, id="most"),
        pytest.param(strategy("MostAllocated"), (10000, 20000), (6000, 5000), 42, id="most, large"),
        pytest.param(
            strategy("RequestedToCapacityRatio", shape=DOWN), (4000, 10000), (3000, 5000), 38,
            id="ratio rounds half up",
        ),
        pytest.param(
            strategy("RequestedToCapacityRatio", shape=DOWN), (6000, 10000), (3000, 5000), 50,
            id="ratio",
        ),
    ],
)  # fmt: skip
def test_fit_scores(args, node, ask, score):
    handle = node_with(*node)
    plugin = NodeResourcesFit(args, handle)
    pod = make_pod("p").req({"cpu": f"{ask[0]}m", "memory": ask[1]}).build()
    state = CycleState()
    plugin.pre_score(state, pod, handle.table, np.ones(1, bool))

    assert score == plugin.score(state, pod, handle.table)[0]
    assert score == plugin.score_node(state, pod, handle.table.info(0))


@pytest.mark.parametrize(
    ("node", "ask", "score"),
    [
        ((10000, 20000, 3000, 0), (3000, 5000), 73),
        ((10000, 20000, 3000, 5000), (3000, 5000), 74),
        ((10000, 50000, 3000, 5000), (3000, 5000), 70),
        ((3000, 5000, 3000, 0), (0, 5000), 100),
        ((3000, 5000), (0, 5000), 50),
        ((6000, 10000, 3000, 0), (3000, 0), 62),
    ],
)
def test_balance_scores(node, ask, score):
    handle = node_with(*node)
    plugin = balanced(None, handle)
    pod = make_pod("p").req({"cpu": f"{ask[0]}m", "memory": ask[1]}).build()
    state = CycleState()
    plugin.pre_score(state, pod, handle.table, np.ones(1, bool))

    assert score == plugin.score(state, pod, handle.table)[0]
    assert score == plugin.score_node(state, pod, handle.table.info(0))


def test_affinity_scores_divide_before_they_multiply():
    """29 of 50 gives 57 in floats, 58 in whole numbers; upstream uses floats."""
    scores = np.array([0, 29, 50], dtype=np.int64)
    plugin = InterPodAffinity.__new__(InterPodAffinity)

    assert [0, 57, 100] == plugin.normalize(None, None, scores, np.ones(3, bool)).tolist()


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("nginx", "nginx:latest"),
        ("nginx:1", "nginx:1"),
        ("host:5000/nginx", "host:5000/nginx:latest"),
        ("a/b@sha256:0", "a/b@sha256:0"),
    ],
)
def test_image_names_get_a_tag(name, full):
    assert full == normalized(name)


def pods(*priorities, start="2026-01-01T00:00:00Z"):
    found = [make_pod(f"v{i}").priority(p).started(start).build() for i, p in enumerate(priorities)]
    return tuple(found)


HIGH, MID, LOW, NEGATIVE = 100, 10, 1, -10


@pytest.mark.parametrize(
    ("candidates", "winner"),
    [
        pytest.param(
            {"n1": Victims(pods(LOW), 1), "n2": Victims(pods(HIGH), 0)},
            "n2",
            id="fewest violations",
        ),
        pytest.param(
            {
                "n1": Victims(pods(MID, MID)),
                "n2": Victims(pods(MID, LOW)),
                "n3": Victims(pods(LOW, LOW)),
            },
            "n3",
            id="lowest highest priority",
        ),
        pytest.param(
            {
                "n1": Victims(pods(MID, MID)),
                "n2": Victims(pods(MID, LOW)),
                "n3": Victims(pods(MID, MID)),
            },
            "n2",
            id="smallest sum",
        ),
        pytest.param(
            {
                "n1": Victims(pods(MID, MID, NEGATIVE, NEGATIVE)),
                "n2": Victims(pods(MID, NEGATIVE)),
                "n3": Victims(pods(MID, LOW, NEGATIVE)),
            },
            "n2",
            id="fewest",
        ),
        pytest.param(
            {
                "n1": Victims(pods(MID, start="2026-01-01T00:00:02Z")),
                "n2": Victims(pods(MID, start="2026-01-01T00:00:03Z")),
                "n3": Victims(pods(MID, start="2026-01-01T00:00:01Z")),
            },
            "n2",
            id="latest start",
        ),
    ],
)
def test_the_node_that_loses_least_is_chosen(candidates, winner):
    assert winner == pick_node(candidates, 2e9, {})


def test_budgets_are_spent_in_order_of_importance():
    handle = Handle()
    infos = [handle.infos.make(make_pod(n).label({"app": "x"}).build()) for n in ("a", "b")]
    infos.append(handle.infos.make(make_pod("free").build()))
    budgets = compile_budgets(
        [make_budget("one", "app=x", 1).build(), make_budget("all", "", 0).build()]
    )
    violating, harmless = Budgets(budgets).split(infos)

    assert ["b"] == [info.pod.name for info in violating]
    assert ["a", "free"] == [info.pod.name for info in harmless]

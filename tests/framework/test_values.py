"""Statuses, verdicts, states, events: the small values of the contract."""

import numpy as np
import pytest

from bayplan.errors import PluginError
from bayplan.framework import (
    ActionType,
    ClusterEvent,
    Code,
    CycleState,
    NodeTable,
    Resource,
    StateMissing,
    Status,
    Verdict,
    unresolvable,
)
from bayplan.framework.contract.permits import WaitingPod, WaitingPods, go_duration
from bayplan.testing import make_node, make_pod


def table_of(*names):
    table = NodeTable()
    for name in names:
        table.add_node(make_node(name).build())
    return table


def test_a_status_puts_its_error_before_its_reasons():
    status = Status(Code.ERROR, "while filtering", error=ValueError("boom"))

    assert "boom, while filtering" == status.message
    assert not status.rejected
    assert Status(Code.PENDING).rejected


def test_statuses_compare_by_value():
    assert unresolvable("a") == unresolvable("a")
    assert unresolvable("a") != unresolvable("a").with_plugin("X")
    assert 1 == len({unresolvable("a"), unresolvable("a")})


def test_a_verdict_tells_the_status_of_each_row():
    table = table_of("a", "b", "c")
    reasons = (unresolvable("one"), unresolvable("two"))
    verdict = Verdict.by_outcome(np.array([0, 2, 1]), reasons)

    assert [True, False, False] == verdict.mask.tolist()
    assert [None, reasons[1], reasons[0]] == [verdict.status_of(i) for i in range(3)]
    assert Verdict.all_pass(table).mask.all()
    assert not Verdict.none_pass(table, reasons[0]).mask.any()


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        pytest.param(Verdict(np.ones(2, dtype=bool)), "over 2 rows for a table of 3", id="short"),
        pytest.param(Verdict(np.ones(3)), "mask of float64", id="not a mask"),
        pytest.param(Verdict(np.ones((3, 2), dtype=bool)), "shape (3, 2)", id="two dimensions"),
        pytest.param(
            Verdict.by_outcome(np.array([0, 0, 1]), ()), "without a status", id="no such outcome"
        ),
        pytest.param(
            Verdict.by_outcome(np.array([0, -1, 0]), ()), "without a status", id="negative outcome"
        ),
    ],
)
def test_a_verdict_of_the_wrong_shape_names_the_plugin(verdict, text):
    with pytest.raises(PluginError, match="Mine") as problem:
        verdict.check(3, "Mine")

    assert text in str(problem.value)


class Counter:
    def __init__(self, count=0):
        self.count = count

    def clone(self):
        return Counter(self.count)


def test_a_cloned_state_copies_what_can_be_cloned_and_shares_the_rest():
    state = CycleState()
    shared = object()
    state.write("counter", Counter(1))
    state.write("shared", shared)
    state.skip_filter.add("A")
    copy = state.clone()
    copy.read("counter", Counter).count = 5
    copy.skip_filter.add("B")

    assert 1 == state.read("counter", Counter).count
    assert shared is copy.read("shared")
    assert {"A"} == state.skip_filter
    with pytest.raises(StateMissing, match="not found"):
        state.read("nothing")


@pytest.mark.parametrize(
    ("registered", "incoming", "matches"),
    [
        (("Node", ActionType.ADD), ("Node", ActionType.ADD), True),
        (("Node", ActionType.ADD), ("Node", ActionType.DELETE), False),
        (("Pod", ActionType.DELETE), ("AssignedPod", ActionType.DELETE), True),
        (("*", ActionType.ALL), ("Anything", ActionType.DELETE), True),
        (("*", ActionType.ADD), ("Node", ActionType.ADD), True),
        (("Node", ActionType.UPDATE_NODE_LABEL), ("Node", ActionType.UPDATE), False),
        (("Pod", ActionType.UPDATE), ("UnschedulablePod", ActionType.UPDATE_POD_LABEL), True),
    ],
)
def test_events_match_as_upstream(registered, incoming, matches):
    assert matches == ClusterEvent(*registered).matches(ClusterEvent(*incoming))


def test_labels_of_events_are_upstreams():
    event = ClusterEvent(Resource.ASSIGNED_POD, ActionType.DELETE)

    assert "AssignedPodDelete" == event.label
    assert 8191 == ActionType.ALL
    assert "NodeUpdateNodeTaint" == ClusterEvent("Node", ActionType.UPDATE_NODE_TAINT).label


def test_a_waiting_pod_goes_when_every_plugin_allows_it():
    waiting = WaitingPod(make_pod("p").build(), "n", {"A": 10.0, "B": 20.0}, now=100.0)

    assert not waiting.allow("A")
    assert waiting.allow("B")
    assert waiting.outcome is not None
    assert waiting.outcome.success
    assert not waiting.reject("A", "too late")


def test_a_waiting_pod_is_rejected_when_its_time_is_up():
    pods = WaitingPods()
    pods.add(WaitingPod(make_pod("p").build(), "n", {"A": 900.0}, now=100.0))

    assert [] == pods.take_decided(999.0)
    (late,) = pods.take_decided(1000.0)
    text = "rejected due to timeout after waiting 15m0s at plugin A"
    assert Status(Code.UNSCHEDULABLE, text, plugin="A") == late.outcome
    assert 0 == len(pods)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(900, "15m0s"), (3600, "1h0m0s"), (1.5, "1.5s"), (0.02, "20ms"), (0, "0s"), (61, "1m1s")],
)
def test_durations_are_written_as_in_go(seconds, text):
    assert text == go_duration(seconds)

"""Timers stand in front of plugins from the start and read the clock in one attempt of ten."""

from itertools import count

import numpy as np
import pytest

from bayplan.engine.loop import Bind, PermitDecision
from bayplan.engine.loop.timing import EVERY, Timed, Timing, status_of
from bayplan.framework import Code, Status, Verdict
from bayplan.plugins.priority_sort import PrioritySort
from bayplan.testing import make_node, make_pod
from tests.engine.loop.helper import World
from tests.engine.loop.test_binding import Preparer, Waiter, world_with

NOBODY = Verdict(np.zeros(2, dtype=bool), Code.UNSCHEDULABLE, ("no",))


class Inner:
    """Rejects all nodes."""

    name = "Inner"

    def filter(self, state, pod, nodes):
        return NOBODY


class Outer:
    """Asks another plugin within its PostFilter, as preemption does; its scores always fail."""

    name = "Outer"

    def __init__(self, inner):
        self.inner = inner

    def post_filter(self, state, pod, statuses):
        self.inner.filter(state, pod, None)
        return None, Status(Code.UNSCHEDULABLE)

    def score(self, state, pod, nodes):
        raise ValueError("broken")


class Run:
    """Two plugins under a clock that ticks once a second when it is read."""

    def __init__(self):
        self.seen: list[tuple[str, tuple[str, ...], float]] = []
        ticks = count()
        self.timing = Timing(lambda: float(next(ticks)), lambda *what: self.seen.append(what))
        self.inner = self.timing.wrap(Inner(), "p")
        self.outer = self.timing.wrap(Outer(self.inner), "p")

    def attempt(self, *calls):
        self.timing.begin(0.0)
        for call in calls:
            call()
        self.timing.end("p")


@pytest.fixture
def run():
    return Run()


def test_the_first_of_ten_attempts_is_timed(run):
    for _ in range(EVERY):
        run.attempt(lambda: run.inner.filter(None, None, None))

    assert run.seen == [
        ("plugin", ("Inner", "Filter", "Unschedulable"), 1.0),
        ("point", ("Filter", "Success", "p"), 1.0),
    ]
    assert run.timing.evaluations()["Inner", "Filter", "p"] == 1


def test_a_plugin_is_left_as_it_is(run):
    plugin = Inner()
    timed = run.timing.wrap(plugin, "p")
    run.attempt(lambda: timed.filter(None, None, None))

    assert not vars(plugin)
    assert "Inner" == timed.name


def test_what_has_no_timer_is_the_plugin_s_own(run):
    outer = Outer(None)
    outer.facet = lambda: "facet"
    timed = run.timing.wrap(outer, "p")

    assert "facet" == timed.facet()
    assert not hasattr(timed, "filter")


def test_a_plugin_that_attempts_do_not_call_needs_no_timer(run):
    plugin = PrioritySort()

    assert plugin is run.timing.wrap(plugin, "p")


def test_a_call_within_a_timed_call_is_part_of_it(run):
    run.attempt(lambda: run.outer.post_filter(None, None, None))

    assert [what for what, *_ in run.seen] == ["plugin", "point"]
    assert run.seen[0][1] == ("Outer", "PostFilter", "Unschedulable")


def test_a_plugin_that_raises_counts_as_an_error_and_raises(run):
    def score():
        with pytest.raises(ValueError, match="broken"):
            run.outer.score(None, None, None)

    run.attempt(score)

    assert ("point", ("Score", "Error", "p"), 1.0) in run.seen


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (None, "Success"),
        (Status(Code.WAIT), "Wait"),
        ((None, Status(Code.SKIP)), "Skip"),
        ((None, None), "Success"),
        (NOBODY, "Unschedulable"),
        (np.zeros(3), "Success"),
    ],
)
def test_status_of(answer, status):
    assert status_of(answer) == status


def test_without_a_clock_nothing_is_wrapped():
    world = World(make_node("a").capacity(cpu="9", pods="99"))

    plugins = world.scheduler.engine.profiles["default-scheduler"].plugins.values()

    assert not [plugin for plugin in plugins if isinstance(plugin, Timed)]


def test_a_step_begins_no_pod_after_its_time_is_up():
    ticks = iter(range(100_000))
    world = World(
        make_node("a").capacity(cpu="9", pods="99"),
        *(make_pod(f"p{number}") for number in range(9)),
        timing=Timing(lambda: float(next(ticks)), lambda *_: None),
    )
    at_once = world.scheduler.step(world.now, limit=9, until=0.0)
    rest = world.scheduler.step(world.now, limit=9, until=1e9)

    binds = [sum(isinstance(a, Bind) for a in actions) for actions in (at_once, rest)]
    assert [1, 8] == binds


def test_calls_outside_of_attempts_are_not_timed(run):
    run.inner.filter(None, None, None)
    run.attempt()
    run.inner.filter(None, None, None)

    assert [] == run.seen
    assert 0 == run.timing.evaluations()["Inner", "Filter", "p"]


def test_what_comes_and_what_goes_is_timed_as_an_event():
    ticks, seen = count(), []
    world = World(timing=Timing(lambda: float(next(ticks)), lambda *what: seen.append(what)))
    world.show(make_node("a").capacity(cpu="9", pods="99"))
    world.gone("Node", "a")

    events = [labels for what, labels, _ in seen if what == "event"]
    assert [("NodeAdd",), ("NodeDelete",)] == events


def test_of_what_comes_every_tenth_pod_is_timed_and_everything_else():
    ticks, seen = count(), []
    world = World(timing=Timing(lambda: float(next(ticks)), lambda *what: seen.append(what)))
    for number in range(2 * EVERY + 1):
        world.show(make_pod(f"p{number}"))
        if number < 3:
            world.show(make_node(f"n{number}"))

    events = [event for what, (event, *_), _ in seen if what == "event"]
    assert ["UnschedulablePodAdd", *["NodeAdd"] * 3, *["UnschedulablePodAdd"] * 2] == events


def test_a_binding_step_is_timed_from_its_call_to_its_end():
    seen = []
    plugin = Preparer()
    timing = Timing(lambda: 0.0, lambda *what: seen.append(what))
    world = world_with(plugin, make_pod("p"), timing=timing)
    world.run()
    plugin.status = Status(Code.SUCCESS)
    world.wait(1)

    assert world.node_of("p") == "a"
    assert ("plugin", ("Preparer", "PreBind", "Success"), 1.0) in seen


@pytest.mark.parametrize("cpu", ["1", "9"], ids=["found", "found none"])
def test_each_decision_is_told_once_whether_or_not_a_node_was_found(cpu):
    """Metrics read it as what the algorithm took, from the beginning of the attempt on."""
    ticks, seen = count(), []
    timing = Timing(lambda: float(next(ticks)), lambda *what: seen.append(what))
    node = make_node("a").capacity(cpu="2", memory="4Gi", pods="10")
    world = World(node, make_pod("p").req(cpu=cpu), timing=timing)
    world.step()

    ((what, labels, seconds),) = [each for each in seen if each[0] == "algorithm"]
    assert ("algorithm", ()) == (what, labels)
    assert seconds >= 1


def test_how_long_a_pod_waited_on_permit_is_told():
    ticks, seen = count(), []
    timing = Timing(lambda: float(next(ticks)), lambda *what: seen.append(what))
    world = world_with(Waiter(), make_pod("p"), timing=timing)
    world.step()
    world.now += 7
    world.report(PermitDecision(world.pod("p").uid, "Waiter", True))
    world.step()

    assert [("permit", ("Success",), 7.0)] == [each for each in seen if each[0] == "permit"]

"""All that the scheduler says of a pod, in order and to the letter, in the lives that pods have."""

import pytest

from bayplan.engine.loop import BindDone, PermitDecision
from bayplan.framework import ApiCall, Code, Effects, Status, unschedulable
from bayplan.testing import make_node, make_pod
from tests.engine.loop.told import LARGE, NODE, TIMEOUT, Steps, Told, world_with

WAITS = Status(Code.WAIT), 60.0


def test_a_pod_that_is_placed_at_once():
    world = Told(NODE, make_pod("p").req(cpu="1"))
    world.run()

    expected = """
        0 bind p to a
        0 event p scheduled: Successfully assigned default/p to a
        0 observe p scheduled attempts=1
        p: 0 bound: a
        """
    world.said(expected, "p")


def test_a_pod_that_a_new_node_helps():
    world = Told(NODE, make_pod("p").req(cpu="3"))
    world.run()
    world.wait(4.5)
    world.show(LARGE)
    world.run()

    expected = """
        0 observe p unschedulable preemption_tried=1
        0 event p failed: HELPLESS
        0 patch p at 0 Unschedulable: HELPLESS
        4.5 bind p to large
        4.5 event p scheduled: Successfully assigned default/p to large
        4.5 observe p scheduled attempts=2 sli_seconds=4.5
        p: 0 failed, now unschedulable: HELPLESS
        p: 4.5 bound: large
        """
    world.said(expected, "p")


def test_a_pod_that_waits_too_long_is_tried_again_and_counts_as_flushed():
    world = Told(NODE, make_pod("p").req(cpu="3"))
    world.run()
    world.wait(400)
    world.scheduler.cache.put(make_node("a").capacity(cpu="8", memory="4Gi", pods="10").build())
    world.wait(400)

    expected = """
        0 observe p unschedulable preemption_tried=1
        0 event p failed: HELPLESS
        0 patch p at 0 Unschedulable: HELPLESS
        330 observe p unschedulable preemption_tried=1
        330 event p failed: HELPLESS
        660 bind p to a
        660 event p scheduled: Successfully assigned default/p to a
        660 observe p scheduled attempts=3 sli_seconds=660 flushed=1
        """
    world.said(expected)


def test_pods_alike_are_refused_one_after_the_other_and_told_once():
    world = Told(NODE, *(make_pod(name).req(cpu="3") for name in "pqr"))
    world.limit = 3
    world.run()
    world.now += 20
    world.show(make_node("b").capacity(cpu="1", memory="4Gi", pods="10"))
    world.run()

    expected = """
        0 observe p unschedulable preemption_tried=1
        0 event p failed: HELPLESS
        0 patch p at 0 Unschedulable: HELPLESS
        0 observe q unschedulable preemption_tried=1
        0 event q failed: HELPLESS
        0 patch q at 0 Unschedulable: HELPLESS
        0 observe r unschedulable preemption_tried=1
        0 event r failed: HELPLESS
        0 patch r at 0 Unschedulable: HELPLESS
        q: 0 failed, now unschedulable: HELPLESS
        """
    world.said(expected, "q")


def test_a_bind_that_fails_frees_the_room_for_others_first():
    world = Told(NODE, make_pod("p").req(cpu="2"), make_pod("q").req(cpu="2"))
    actions = world.step(limit=2)
    world.carry_out(actions[1:])
    world.now += 2
    world.report(BindDone(world.pod("p").uid, "no answer"))
    world.run()

    expected = """
        0 bind p to a
        0 observe q unschedulable preemption_tried=1
        0 event q failed: NOBODY
        0 patch q at 0 Unschedulable: NOBODY
        2 observe p error seconds=2
        2 event p failed: running Bind plugin "DefaultBinder": no answer
        2 patch p at 2 SchedulerError: running Bind plugin "DefaultBinder": no answer
        2 bind q to a
        2 event q scheduled: Successfully assigned default/q to a
        2 observe q scheduled attempts=2 sli_seconds=2
        p: 2 failed, now error backoff: running Bind plugin "DefaultBinder": no answer
        q: 0 failed, now unschedulable: NOBODY
        q: 2 bound: a
        """
    world.said(expected, "p", "q")


def test_a_pod_that_waits_on_permit_and_is_allowed():
    world = world_with(Steps(permit=WAITS), make_pod("p"))
    world.run()
    world.now += 7
    world.report(PermitDecision(world.pod("p").uid, "Steps", True))
    world.run()

    expected = """
        0 patch p at 0 nominated to a
        7 bind p to a
        7 event p scheduled: Successfully assigned default/p to a
        7 observe p scheduled attempts=1 sli_seconds=7 seconds=7
        p: 0 waits on permit: a
        p: 7 bound: a
        """
    world.said(expected, "p")
    assert [("permit", ("Success",), 7.0)] == world.took("permit")


@pytest.mark.parametrize("late", [False, True])
def test_a_pod_that_waits_on_permit_and_is_refused(late):
    plugin = Steps(permit=WAITS)
    world = world_with(plugin, make_pod("p"))
    world.run()
    if late:
        world.wait(60)
    else:
        world.now += 60
        text = TIMEOUT
        world.report(PermitDecision(world.pod("p").uid, "Steps", False, text))
        world.run()

    expected = """
        0 patch p at 0 nominated to a
        60 observe p unschedulable seconds=60
        60 event p failed: 0/1 nodes are available: 1 TIMEOUT.
        60 patch p at 60 nominated to nothing Unschedulable: 0/1 nodes are available: 1 TIMEOUT.
        60 patch p at 60 nominated to a
        p: 0 waits on permit: a
        p: 60 failed, now unschedulable: 0/1 nodes are available: 1 TIMEOUT.
        p: 60 waits on permit: a
        """
    world.said(expected, "p")
    assert [("permit", ("Unschedulable",), 60.0)] == world.took("permit")
    assert [("p", "a")] == plugin.unreserved


def test_a_pod_that_leaves_while_it_waits_on_permit():
    world = world_with(Steps(permit=WAITS), make_pod("p").req(cpu="2"))
    world.run()
    world.show(make_pod("q").req(cpu="2"))
    world.run()
    world.now += 3
    world.told()
    world.gone("Pod", "default/p")
    world.run()

    expected = """
        3 observe p unschedulable seconds=3
        3 event p failed: 0/1 nodes are available: 1 removed.
        3 patch q at 3 nominated to a
        p: 0 waits on permit: a
        p: 3 deleted
        p: 3 dropped: it was deleted or bound meanwhile
        q: 0 failed, now unschedulable: NOBODY
        q: 3 waits on permit: a
        """
    world.said(expected, "p", "q")


def test_what_pre_bind_does_is_called_awaited_and_timed():
    done = []
    call = ApiCall("patch", "persistentvolumeclaims", "default", "c", {})
    effects = Effects((call,), lambda: Status(Code.SUCCESS) if done else None, 30.0)
    world = world_with(Steps(pre_bind=effects, flight=(None, None)), make_pod("p"))
    world.run()
    world.wait(2.5)
    done.append(True)
    world.wait(1)

    expected = """
        0 patch p at 0 nominated to a
        0 call 1 of Steps for p: patch persistentvolumeclaims/c
        3 bind p to a
        3 event p scheduled: Successfully assigned default/p to a
        3 observe p scheduled attempts=1 sli_seconds=3 seconds=3
        p: 3 bound: a
        """
    world.said(expected, "p")
    steps = [told for told in world.took("plugin", "point") if "PreBind" in told[1]]
    assert [
        ("plugin", ("Steps", "PreBind", "Success"), 3.0),
        ("point", ("PreBind", "Success", "default-scheduler"), 3.0),
    ] == steps


@pytest.mark.parametrize(
    ("status", "result", "text"),
    [
        (
            Status(Code.ERROR, "lost"),
            "error",
            'SchedulerError: running PreBind plugin "Steps": lost',
        ),
        (unschedulable("no volume"), "unschedulable", "Unschedulable: no volume"),
    ],
    ids=["fails", "rejects"],
)
def test_a_pre_bind_that_ends_badly_gives_the_room_back(status, result, text):
    plugin = Steps(pre_bind=Effects((), lambda: status, 0.0), flight=(None, None))
    world = world_with(plugin, make_pod("p").req(cpu="2"))
    world.run()

    expected = f"""
        0 patch p at 0 nominated to a
        0 observe p {result}
        0 event p failed: {text.partition(": ")[2]}
        0 patch p at 0 {text}
        p: 0 failed, now error backoff: {text.partition(": ")[2]}
        """
    world.said(expected, "p")
    steps = [told for told in world.took("plugin", "point") if "PreBind" in told[1]]
    code = status.code.text
    assert [
        ("plugin", ("Steps", "PreBind", code), 0.0),
        ("point", ("PreBind", code, "default-scheduler"), 0.0),
    ] == steps


@pytest.mark.parametrize(
    ("status", "result", "where", "text"),
    [
        (
            Status(Code.ERROR, "lost"),
            "error",
            "error backoff",
            'SchedulerError: running Reserve plugin "Steps": lost',
        ),
        (
            unschedulable("no desk"),
            "unschedulable",
            "unschedulable",
            "Unschedulable: 0/1 nodes are available: 1 no desk.",
        ),
    ],
    ids=["fails", "rejects"],
)
def test_a_reserve_that_refuses(status, result, where, text):
    plugin = Steps(reserve=status)
    world = world_with(plugin, make_pod("p").req(cpu="2"))
    world.run()

    expected = f"""
        0 observe p {result}
        0 event p failed: {text.partition(": ")[2]}
        0 patch p at 0 {text}
        p: 0 failed, now {where}: {text.partition(": ")[2]}
        """
    world.said(expected, "p")
    assert [("p", "a")] == plugin.unreserved


class Binder:
    """An extender that binds."""

    is_filter = is_prioritizer = supports_preemption = blocking = False
    is_binder = True
    weight = 1

    def __init__(self, name, *, ignorable):
        self.name, self.ignorable = name, ignorable

    def interested(self, pod):
        return True


def test_a_binder_that_may_be_ignored_is_followed_by_the_next():
    binders = [Binder(name, ignorable=True) for name in ("first", "second")]
    world = Told(NODE, make_pod("p"), extenders=binders)
    world.step()
    for error in ("is away", "is broken", ""):
        world.now += 1
        world.report(BindDone(world.pod("p").uid, error))
        world.step()

    expected = """
        0 let first bind p to a
        1 let second bind p to a
        2 bind p to a
        3 event p scheduled: Successfully assigned default/p to a
        3 observe p scheduled attempts=1 sli_seconds=3 seconds=3
        p: 3 bound: a
        """
    world.said(expected, "p")


def test_a_binder_that_matters_is_asked_first_and_ends_the_cycle():
    binders = [Binder("other", ignorable=True), Binder("important", ignorable=False)]
    world = Told(NODE, make_pod("p"), extenders=binders)
    world.step()
    for error in ("is away", "is late"):
        world.now += 1
        world.report(BindDone(world.pod("p").uid, error))
        world.step()

    expected = """
        0 let important bind p to a
        1 observe p error seconds=1
        1 event p failed: is away
        1 patch p at 1 SchedulerError: is away
        p: 1 failed, now error backoff: is away
        """
    world.said(expected, "p")


def test_pods_that_are_gone_changed_or_bound_when_their_attempt_ends():
    world = world_with(Steps(permit=WAITS), *(make_pod(name) for name in "pqr"))
    world.step(limit=3)
    world.told()
    world.now += 1
    world.gone("Pod", "default/p")
    world.show(make_pod("q").uid("another"))
    world.show(make_pod("r").node("a"))
    for name in ("p", "q", "r"):
        world.report(PermitDecision(f"uid-default-{name}", "Steps", False, "no"))
    world.step(limit=0)

    expected = """
        1 observe p unschedulable seconds=1
        1 event p failed: 0/1 nodes are available: 1 removed.
        1 observe q unschedulable seconds=1
        1 observe r unschedulable seconds=1
        1 event r failed: 0/1 nodes are available: 1 no.
        p: 0 waits on permit: a
        p: 1 deleted
        p: 1 dropped: it was deleted or bound meanwhile
        q: 0 waits on permit: a
        q: 1 deleted
        q: 1 dropped: it was made anew under the same name
        r: 0 waits on permit: a
        r: 1 dropped: it was deleted or bound meanwhile
        """
    world.said(expected, "p", "q", "r")


def test_a_pod_that_is_being_deleted_and_one_of_another_scheduler_are_left_alone():
    world = Told(NODE, make_pod("p").terminating(), make_pod("q").scheduler("another"))
    world.run()
    world.show(make_pod("q").scheduler("another").node("a"))
    world.gone("Pod", "default/p")
    world.gone("Pod", "default/q")

    expected = """
        0 event p failed: skip schedule deleting pod: default/p
        p: 0 deleted
        """
    world.said(expected, "p", "q")


def test_a_pod_that_somebody_else_binds():
    world = Told(make_pod("p"))
    world.run()
    world.now += 1
    world.show(NODE, make_pod("p").node("a"))
    world.run()
    world.gone("Pod", "default/p")

    expected = """
        0 observe p unschedulable
        0 event p failed: no nodes available to schedule pods
        0 patch p at 0 Unschedulable: no nodes available to schedule pods
        p: 0 failed, now error backoff: no nodes available to schedule pods
        p: 1 bound by somebody else: a
        """
    world.said(expected, "p")

"""What the scheduling queue does, one behaviour a test; times are made up."""

import math
from types import SimpleNamespace

import pytest

from bayplan.engine.queue import (
    AlreadyQueuedError,
    HintIndex,
    Place,
    QueuedPod,
    SchedulingQueue,
)
from bayplan.engine.queue.changes import ASSIGNED_POD_DELETE, NODE_ADD, NODE_DELETE
from bayplan.framework.contract.events import (
    ActionType,
    ClusterEvent,
    QueueingHint,
    Resource,
    on,
)
from bayplan.plugins.priority_sort import PrioritySort, priority_key
from bayplan.testing import make_node, make_pod
from tests.engine.queue.helper import (
    BROKEN,
    GATES,
    NODE_ADD_ONLY,
    PICKY,
    POD_DELETE,
    FakeNominations,
    make_queue,
)

NODE_TAINT = ClusterEvent(Resource.NODE, ActionType.UPDATE_NODE_TAINT)


def fail(queue, item, now, *plugins, pending=()):
    item.rejected_by(plugins, pending)
    place = queue.add_unschedulable(item, now)
    queue.validate()
    return place


def names(queue):
    result = []
    while (item := queue.pop()) is not None:
        result.append(item.pod.name)
    return result


def test_higher_priority_first_then_older():
    queue = make_queue()
    for name, priority, now in (("a", 0, 1), ("b", 5, 2), ("c", 0, 0), ("d", 5, 3)):
        queue.add(make_pod(name).priority(priority).build(), now)

    assert names(queue) == ["b", "d", "c", "a"]


@pytest.mark.parametrize("place", [Place.ACTIVE, Place.BACKOFF])
def test_a_queued_pod_whose_priority_changes_takes_its_new_place(place):
    queue = make_queue()
    pods = [make_pod(name).priority(5).build() for name in "abc"]
    for now, pod in enumerate(pods):
        queue.add(pod, now)
    if place is Place.BACKOFF:
        for item in [queue.pop() for _ in pods]:
            fail(queue, item, 3, NODE_ADD_ONLY)
        queue.move_all(NODE_ADD, None, make_node("n").build(), 3)

    for name, priority in (("c", 9), ("a", 1)):
        old = next(pod for pod in pods if pod.name == name)
        queue.update(old, make_pod(name).priority(priority).build(), 4)
        queue.validate()
    queue.flush(100)

    assert names(queue) == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("early", "most", "wanted", "found"),
    [
        (True, 9, "abcd", ["a", "b", "c", "d"]),
        (True, 3, "abcd", ["a", "b", "c"]),
        (True, 1, "abcd", ["a"]),
        (True, 9, "abc", ["a", "b", "c"]),
        (True, 9, "acd", ["a"]),
        (False, 9, "abcd", ["a", "b"]),
    ],
)
def test_pods_that_are_popped_together_are_those_that_pop_would_give(early, most, wanted, found):
    """From backoff, which c and d are in, only once no active pod is left."""
    queue = make_queue(pop_from_backoff=early)
    for now, name in enumerate("abcd"):
        queue.add(make_pod(name).build(), now)
    items = {item.pod.name: item for item in [queue.pop() for _ in "abcd"]}
    for name in "cd":
        fail(queue, items[name], 10, NODE_ADD_ONLY)
    queue.move_all(NODE_ADD, None, make_node("n").build(), 10)
    for name in "ab":
        queue.done(items[name].pod.uid)
        queue.add(items[name].pod, 10)

    popped = queue.pop_while(lambda item: item.pod.name in wanted, most)

    assert found == [item.pod.name for item in popped]


@pytest.mark.parametrize(
    ("one", "other", "first"),
    [
        ((1, 5), (0, 1), True),
        ((0, 1), (1, 5), False),
        ((0, 1), (0, 2), True),
        ((0, 2), (0, 1), False),
        ((0, 1), (0, 1), False),
    ],
)
def test_priority_comes_before_time_and_nobody_before_an_equal(one, other, first):
    def queued(priority, timestamp):
        pod = make_pod("p").priority(priority).build()
        return SimpleNamespace(pod=pod, timestamp=timestamp)

    a, b = queued(*one), queued(*other)

    assert first == PrioritySort().less(a, b) == (priority_key(a) < priority_key(b))


def test_custom_order_by_less():
    from bayplan.engine.queue import sort_key_of

    class ByName:
        name = "ByName"

        def less(self, a, b):
            return a.pod.name > b.pod.name

    queue = make_queue(sort_key=sort_key_of(ByName()))
    for name in "bdac":
        queue.add(make_pod(name).build(), 0)

    assert names(queue) == ["d", "c", "b", "a"]


def test_rejected_pod_waits_for_an_event_of_its_plugin():
    queue = make_queue()
    queue.add(make_pod("a").build(), 100.5)
    item = queue.pop()

    assert fail(queue, item, 100.6, POD_DELETE) is Place.UNSCHEDULABLE
    assert queue.move_all(NODE_ADD, None, make_node().build(), 101) == 0
    assert queue.move_all(ASSIGNED_POD_DELETE, make_pod("x").build(), None, 101) == 1
    assert item.place is Place.BACKOFF
    assert queue.incoming["backoff", "AssignedPodDelete"] == 1


def test_moved_pod_is_active_once_its_backoff_is_over():
    queue = make_queue()
    queue.add(make_pod("a").build(), 0)
    item = queue.pop()
    fail(queue, item, 10.9, NODE_ADD_ONLY)

    queue.move_all(NODE_ADD, None, make_node().build(), 12.0)

    assert item.place is Place.ACTIVE


def test_hint_decides():
    queue = make_queue()
    queue.add(make_pod("a").build(), 0)
    item = queue.pop()
    fail(queue, item, 0, PICKY)

    queue.move_all(NODE_ADD, None, make_node("n").build(), 10)
    assert item.place is Place.UNSCHEDULABLE
    queue.move_all(NODE_ADD, None, make_node("n").label({"for": "a"}).build(), 10)
    assert item.place is Place.ACTIVE


def test_hint_that_raises_counts_as_queue():
    told = []
    queue = make_queue(problem=lambda *words: told.append((*words[:3], str(words[3]))))
    queue.add(make_pod("a").build(), 0)
    item = queue.pop()
    fail(queue, item, 0, BROKEN)

    queue.move_all(NODE_TAINT, None, make_node("n").build(), 10)

    assert item.place is Place.ACTIVE
    assert told == [("default-scheduler", BROKEN, "hint", "a hint that fails")]


def test_gate_that_raises_is_closed():
    def broken(pod):
        raise ValueError("a gate that fails")

    told = []
    queue = make_queue(
        gates={"default-scheduler": [(GATES, broken)]},
        problem=lambda *words: told.append((*words[:3], str(words[3]))),
    )
    queue.add(make_pod("a").build(), 0)

    assert queue.pop() is None
    assert told == [("default-scheduler", GATES, "pre_enqueue", "a gate that fails")]


def test_one_hint_and_one_gate_in_ten_are_timed():
    queue, moments, told, timed = make_queue(), iter(range(1000)), [], []

    def time_gates(profile, gates):
        timed.append(profile)
        return gates

    queue.measure(lambda: float(next(moments)), lambda *words: told.append(words), time_gates)
    for number in range(20):
        queue.add(make_pod(f"p{number}").build(), 0)
        fail(queue, queue.pop(), 0, PICKY)
    queue.move_all(NODE_ADD, None, make_node("n").label({"for": "p0"}).build(), 10)

    assert (20, ["default-scheduler"] * 2) == (queue.hint_calls, timed[:2])
    assert [
        ("hint", (PICKY, "NodeAdd", "Queue"), 1.0),
        ("hint", (PICKY, "NodeAdd", "QueueSkip"), 1.0),
    ] == sorted(told)


def test_event_nobody_waits_for_looks_at_no_pod():
    queue = make_queue()
    for i in range(100):
        queue.add(make_pod(f"p{i}").build(), 0)
        fail(queue, queue.pop(), 0, PICKY)

    queue.move_all(NODE_DELETE, make_node().build(), None, 10)
    queue.move_all(ASSIGNED_POD_DELETE, make_pod("x").build(), None, 10)

    assert queue.hint_calls == 0


def test_error_goes_to_error_backoff_and_is_not_popped_early():
    queue = make_queue()
    queue.add(make_pod("a").build(), 0)
    item = queue.pop()

    assert fail(queue, item, 100.2) is Place.ERROR_BACKOFF
    assert queue.pop() is None
    assert queue.next_flush() == 102.0
    queue.flush(101.99)
    assert queue.pop() is None
    queue.flush(102.0)
    assert queue.pop() is item


def test_backoff_head_is_popped_early_when_nothing_is_active():
    queue = make_queue()
    for name, priority in (("low", 1), ("high", 2)):
        queue.add(make_pod(name).priority(priority).build(), 0)
        fail(queue, queue.pop(), 100.1, NODE_ADD_ONLY)
    queue.move_all(NODE_ADD, None, make_node().build(), 100.2)

    assert names(queue) == ["high", "low"]
    assert queue.incoming["active", "PopFromBackoffQ"] == 2


@pytest.mark.parametrize("plugins", [(), (NODE_ADD_ONLY,)], ids=["errors", "rejections"])
def test_backoff_doubles_until_the_limit(plugins):
    queue = make_queue()
    queue.add(make_pod("a").build(), 0)
    now, waited = 1000.0, []
    for _ in range(6):
        item = queue.pop()
        fail(queue, item, now, *plugins)
        queue.move_all(NODE_ADD, None, make_node().build(), now)
        waited.append(queue.backoff.expiration(item) - now)
        now = queue.backoff.over_at(item)
        queue.flush(now)

    assert waited == [1, 2, 4, 8, 10, 10]


def test_errors_and_rejections_count_apart():
    queue = make_queue()
    queue.add(make_pod("a").build(), 0)
    now = 0.0
    for plugins in ((), (), (NODE_ADD_ONLY,), ()):
        item = queue.pop()
        fail(queue, item, now, *plugins)
        now += 100
        queue.move_all(NODE_ADD, None, make_node().build(), now)
        queue.flush(now)

    assert item.unschedulable_count == 1
    assert item.consecutive_errors == 1


def test_event_during_the_attempt_is_not_missed():
    queue = make_queue()
    queue.add(make_pod("a").build(), 0)
    queue.add(make_pod("b").build(), 1)
    a, b = queue.pop(), queue.pop()

    queue.move_all(NODE_ADD, None, make_node().build(), 2)

    assert fail(queue, a, 3, NODE_ADD_ONLY) is Place.BACKOFF
    assert fail(queue, b, 3, POD_DELETE) is Place.UNSCHEDULABLE
    assert queue.in_flight_event_count == 0


def test_event_before_the_attempt_does_not_count():
    queue = make_queue()
    queue.add(make_pod("a").build(), 0)
    queue.add(make_pod("b").build(), 1)
    a = queue.pop()
    queue.move_all(NODE_ADD, None, make_node().build(), 2)
    b = queue.pop()

    assert fail(queue, b, 3, NODE_ADD_ONLY) is Place.UNSCHEDULABLE
    assert fail(queue, a, 3, NODE_ADD_ONLY) is Place.BACKOFF


def test_pending_plugin_skips_backoff():
    queue = make_queue()
    for name in ("a", "b"):
        queue.add(make_pod(name).build(), 0)
    a, b = queue.pop(), queue.pop()
    fail(queue, a, 5, POD_DELETE, pending=[NODE_ADD_ONLY])
    fail(queue, b, 5, NODE_ADD_ONLY, pending=[POD_DELETE])

    queue.move_all(NODE_ADD, None, make_node().build(), 5)

    assert a.place is Place.ACTIVE
    assert b.place is Place.BACKOFF


def test_gated_pod_waits_until_its_gates_are_gone():
    queue = make_queue()
    gated, free = make_pod("a").uid("u").gate("x").build(), make_pod("a").uid("u").build()
    queue.add(gated, 0)

    assert queue.pending() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
    queue.move_all(NODE_ADD, None, make_node().build(), 1)
    assert queue.pop() is None
    queue.update(gated, free, 2)
    queue.validate()
    item = queue.pop()
    assert item.pod is free
    assert item.unschedulable_plugins == {GATES}


def test_gated_pod_that_is_flushed_stays_gated():
    queue = make_queue()
    queue.add(make_pod("a").gate("x").build(), 0)

    queue.flush(301.0)
    queue.validate()

    assert queue.pending()["gated"] == 1
    assert not queue.get("default/a").was_flushed


def test_leftover_is_tried_after_five_minutes():
    queue = make_queue()
    queue.add(make_pod("a").build(), 0)
    item = queue.pop()
    fail(queue, item, 10, "Nobody")

    queue.flush(310.0)
    assert item.place is Place.UNSCHEDULABLE
    assert queue.next_flush() == 340.0
    queue.flush(340.0)
    assert item.place is Place.ACTIVE
    assert item.was_flushed
    assert queue.incoming["active", "UnschedulableTimeout"] == 1


def test_update_in_flight_is_an_event_for_later():
    queue = make_queue()
    old = make_pod("a").uid("u").gate("x").build()
    new = make_pod("a").uid("u").build()
    queue.add(new, 0)
    item = queue.pop()

    queue.update(old, new, 1)

    assert len(queue) == 0
    assert fail(queue, item, 2, GATES) is Place.BACKOFF


def test_updated_pod_is_replaced_in_place():
    queue = make_queue()
    old, new = make_pod("a").uid("u").build(), make_pod("a").uid("u").label(x="y").build()
    queue.add(old, 0)

    queue.update(old, new, 5)

    assert queue.pop().pod is new


def test_unknown_updated_pod_is_added():
    queue = make_queue()
    pod = make_pod("a").nominated("n").build()

    queue.update(pod, pod, 5)

    assert queue.incoming == {("active", "UnschedulablePodUpdate"): 1}
    assert queue._nominations.nodes == {pod.uid: "n"}


def test_pod_made_anew_under_the_same_name_replaces_the_old_one():
    queue = make_queue()
    old, new = make_pod("a").uid("1").build(), make_pod("a").uid("2").build()
    queue.add(old, 0)

    queue.update(old, new, 5)
    queue.validate()

    assert [new.uid] == [queue.pop().pod.uid]
    assert queue.pop() is None


def test_deleted_pod_is_gone_wherever_it_is():
    queue = make_queue()
    pods = [make_pod(name).build() for name in "abcd"]
    for pod in pods:
        queue.add(pod, 0)
    items = [queue.pop() for _ in pods]
    fail(queue, items[0], 1)
    fail(queue, items[1], 1, NODE_ADD_ONLY)
    queue.move_all(NODE_ADD, None, make_node().build(), 1)
    fail(queue, items[2], 1, POD_DELETE)
    queue.done(items[3].pod.uid)
    queue.add(pods[3], 2)

    for pod in pods:
        queue.delete(pod)
        queue.validate()

    assert len(queue) == 0
    assert queue.pop() is None
    assert math.isinf(queue.next_flush())


def test_activate_skips_backoff_and_reaches_pods_in_flight():
    queue = make_queue()
    for name in "abc":
        queue.add(make_pod(name).build(), 0)
    a, b, c = queue.pop(), queue.pop(), queue.pop()
    fail(queue, a, 5)
    fail(queue, b, 5, "Nobody")

    queue.activate([a.pod, b.pod, c.pod, make_pod("unknown").build()], 5)

    assert a.place is Place.ACTIVE
    assert b.place is Place.ACTIVE
    assert fail(queue, c, 6, "Nobody") is Place.BACKOFF


def test_pop_specific_takes_a_pod_from_anywhere():
    queue = make_queue()
    for name in "ab":
        queue.add(make_pod(name).build(), 0)
    a = queue.pop()
    fail(queue, a, 5, "Nobody")

    assert queue.pop_specific(a.pod, 5) is a
    assert a.place is Place.IN_FLIGHT
    assert queue.pop_specific(make_pod("unknown").build(), 5) is None


def test_pod_that_is_queued_cannot_come_back():
    queue = make_queue()
    queue.add(make_pod("a").uid("1").build(), 0)
    item = queue.pop()
    queue.add(make_pod("a").uid("2").build(), 1)

    with pytest.raises(AlreadyQueuedError):
        queue.add_unschedulable(item, 2)

    assert not queue.in_flight("1")
    queue.validate()


def test_move_can_be_limited_to_some_pods():
    queue = make_queue()
    for name in "ab":
        queue.add(make_pod(name).build(), 0)
        fail(queue, queue.pop(), 0, NODE_ADD_ONLY)

    node = make_node().build()
    moved = queue.move_all(NODE_ADD, None, node, 10, lambda pod: pod.name == "b")

    assert moved == 1
    assert queue.pop().pod.name == "b"


def test_without_popping_from_backoff_times_are_exact():
    queue = make_queue(pop_from_backoff=False)
    queue.add(make_pod("a").build(), 0)
    item = queue.pop()
    fail(queue, item, 10.5, NODE_ADD_ONLY)
    queue.move_all(NODE_ADD, None, make_node().build(), 10.6)

    assert queue.pop() is None
    queue.flush(11.5)
    assert queue.pop() is None
    queue.flush(queue.next_flush())
    assert queue.pop() is item


def test_reconfigured_queue_keeps_every_pod():
    queue = make_queue()
    for i in range(20):
        queue.add(make_pod(f"p{i}").priority(i % 3).build(), i)
    for n in range(5):
        fail(queue, queue.pop(), 100, *((NODE_ADD_ONLY,) if n % 2 else ()))

    hints = queue._requeuing.hints
    queue.reconfigure(hints, {}, sort_key=priority_key, initial_backoff=2, max_backoff=20)
    queue.validate()

    assert len(queue) == 20


def test_reconfigured_queue_keeps_the_order_of_pods_that_are_equal():
    queue = make_queue()
    for i in range(20):
        queue.add(make_pod(f"p{i:02}").build(), 0)
    queue.pop()

    hints = queue._requeuing.hints
    queue.reconfigure(hints, {}, sort_key=lambda item: 0)

    assert [f"p{i:02}" for i in range(1, 20)] == names(queue)


def test_metrics_by_plugin():
    queue = make_queue()
    queue.add(make_pod("a").build(), 0)
    fail(queue, queue.pop(), 0, PICKY, POD_DELETE)

    assert queue.unschedulable_by_plugin() == {
        (PICKY, "default-scheduler"): 1,
        (POD_DELETE, "default-scheduler"): 1,
    }


def test_pods_alike_are_ruled_out_by_one_hint():
    def roomy(pod, old, new):
        return QueueingHint.QUEUE if new.name == "roomy" else QueueingHint.SKIP

    events = {"NodeResourcesFit": (on(Resource.NODE, ActionType.ADD, roomy),)}
    hints = HintIndex({"default-scheduler": events}, class_hints={"NodeResourcesFit"})
    queue = SchedulingQueue(hints, FakeNominations(), sort_key=priority_key, problem=print)
    for i in range(100):
        queue.add(make_pod(f"p{i}").build(), 0)
        item = queue.pop()
        item.signature = b"alike"
        fail(queue, item, 0, "NodeResourcesFit")

    assert queue.move_all(NODE_ADD, None, make_node("small").build(), 10) == 0
    assert queue.hint_calls == 1
    assert queue.move_all(NODE_ADD, None, make_node("roomy").build(), 10) == 100


def test_gauges_can_be_read_while_another_thread_changes_the_queue(monkeypatch):
    """A thread switch may come between any two pods that a gauge looks at."""
    queue, made = make_queue(), iter(range(100, 200))
    for number in range(3):
        queue.add(make_pod(f"p{number}").build(), 0)
        fail(queue, queue.pop(), 0, NODE_ADD_ONLY)
    rejectors = QueuedPod.rejectors.fget

    def meanwhile(item):
        monkeypatch.setattr(QueuedPod, "rejectors", property(rejectors))
        queue.add(make_pod(f"p{next(made)}").build(), 0)
        return rejectors(item)

    monkeypatch.setattr(QueuedPod, "rejectors", property(meanwhile))

    assert {(NODE_ADD_ONLY, "default-scheduler"): 3} == queue.unschedulable_by_plugin()


def test_equals_that_one_event_wakes_come_in_the_order_of_the_plugins_that_rejected_them():
    """Not in that of a set of names, which differs from one run of a program to the next."""
    plugins = [f"Plugin{number}" for number in range(20)]
    events = {name: (on(Resource.NODE, ActionType.ADD),) for name in plugins}
    index = HintIndex({"default-scheduler": events})
    queue = SchedulingQueue(index, FakeNominations(), sort_key=priority_key, problem=print)
    for name in plugins:
        queue.add(make_pod(name.lower()).build(), 0)
    for name in plugins:
        fail(queue, queue.pop(), 0, name)

    queue.move_all(NODE_ADD, None, make_node().build(), 10)

    assert [name.lower() for name in plugins] == names(queue)


@pytest.mark.parametrize("pending", [(), (NODE_ADD_ONLY,)], ids=["waits", "is active already"])
def test_a_pod_that_is_to_be_tried_again_takes_the_place_of_the_timestamp_it_is_given(pending):
    queue = make_queue()
    for now, name in enumerate("ab"):
        queue.add(make_pod(name).build(), now)
    item = queue.pop()
    queue.move_all(NODE_ADD, None, make_node().build(), 2)  # brings it back at once if it pends
    fail(queue, item, 3, POD_DELETE, pending=pending)

    queue.retry(item, 0, 3)

    assert ["a", "b"] == names(queue)

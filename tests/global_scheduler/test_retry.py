"""What could not be placed waits, longer each time, unless something changes; on the second."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.global_scheduler.retry import FIRST, FLUSH, LIMIT, RetryQueue
from tests.effort import at_most


def test_in_order_of_arrival_and_each_once():
    queue = RetryQueue()
    for key in ("b", "a", "b"):
        queue.add(key)

    assert 2 == len(queue)
    assert ["b", "a", None] == [queue.pop(0.0) for _ in range(3)]


def test_the_wait_doubles_up_to_a_limit_and_begins_anew_when_it_was_placed():
    queue = RetryQueue()

    assert [1, 2, 4, 8, 10, 10] == [queue.fail("a", 0.0) for _ in range(6)]
    queue.forget("a")
    assert (1, 1) == (queue.fail("a", 0.0), len(queue))


@pytest.mark.parametrize(("now", "key"), [(FLUSH - 0.001, None), (FLUSH, "a"), (FLUSH + 1, "a")])
def test_without_any_hint_it_is_tried_again_after_a_while(now, key):
    queue = RetryQueue()
    queue.fail("a", 0.0)

    assert FLUSH == queue.next_time()
    assert key == queue.pop(now)
    assert (key is None) == len(queue)


@pytest.mark.parametrize(("hinted", "due"), [(0.0, 1.0), (0.5, 1.0), (1.0, 1.0), (3.0, 3.0)])
def test_a_hint_counts_when_the_backoff_is_over(hinted, due):
    queue = RetryQueue()
    queue.fail("a", 0.0)
    queue.hint(hinted)

    assert due == queue.next_time()
    assert [None, "a", None] == [queue.pop(now) for now in (due - 0.001, due, due + FLUSH)]


def test_a_thousand_hints_cost_what_waits_no_more_than_one():
    """Everything that is released anywhere is a hint."""
    queue = RetryQueue()
    for number in range(1000):
        queue.fail(f"a{number}", 0.0)

    with at_most(20):
        for _ in range(2000):
            queue.hint(0.0)

    assert 2000 == len(queue._timers)


def test_a_change_makes_it_due_at_once_and_what_is_gone_is_not_tried():
    queue = RetryQueue()
    for key in ("a", "b", "c"):
        queue.fail(key, 0.0)
    queue.add("b")
    queue.forget("a")

    assert ["b", None] == [queue.pop(0.0), queue.pop(0.0)]
    assert ["c", None] == [queue.pop(FLUSH), queue.pop(FLUSH)]
    assert (0, None) == (len(queue), queue.next_time())


def test_who_fails_again_waits_from_then_on():
    queue = RetryQueue()
    queue.fail("a", 0.0)
    queue.hint(1.0)
    queue.pop(1.0)
    queue.fail("a", 1.0)

    assert queue.pop(FLUSH) is None
    assert "a" == queue.pop(1.0 + FLUSH)


steps = st.lists(
    st.tuples(
        st.sampled_from(("add", "forget", "fail", "fail", "hint", "pop")),
        st.sampled_from("abc"),
        st.sampled_from((0.0, 0.5, 1.0, 3.0, FLUSH)),
    ),
    max_size=30,
)


@given(steps)
def test_whatever_happens_each_is_tried_when_it_is_due_and_no_other(steps):
    """Against plain sets: what is due, and from when on what waits is."""
    queue, now = RetryQueue(), 0.0
    due, waits, tries = set(), {}, dict.fromkeys("abc", 0)
    for what, key, pause in steps:
        now += pause
        if what == "add":
            queue.add(key)
            due.add(key)
            waits.pop(key, None)
        elif what == "forget":
            queue.forget(key)
            due.discard(key)
            waits.pop(key, None)
            tries[key] = 0
        elif what == "fail" and key not in due:
            wait = min(FIRST * 2 ** tries[key], LIMIT)
            tries[key] += 1
            assert wait == queue.fail(key, now)
            waits[key] = now + wait, now + FLUSH
        elif what == "hint":
            queue.hint(now)
            waits = {key: (ready, max(ready, now)) for key, (ready, _) in waits.items()}
        elif what == "pop":
            due |= {key for key, (_, at) in waits.items() if at <= now}
            waits = {key: one for key, one in waits.items() if key not in due}
            found = [queue.pop(now) for _ in range(len(due) + 1)]
            assert sorted(due) == sorted(found[:-1])
            assert found[-1] is None
            due.clear()
            following = queue.next_time()
            assert (following is None) == (not waits)
            assert following is None or now < following <= min(at for _, at in waits.values())
        assert len(due) + len(waits) == len(queue)

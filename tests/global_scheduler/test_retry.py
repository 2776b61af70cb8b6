"""What could not be placed waits, longer each time, unless something changes; on the second."""

import pytest

from bayplan.global_scheduler.retry import FLUSH, RetryQueue


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

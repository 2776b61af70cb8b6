"""Which failures make a pod wait longer."""

import pytest

from bayplan.engine.queue.backoff import Backoff
from bayplan.engine.queue.pods import QueuedPod
from bayplan.testing import make_pod


@pytest.mark.parametrize(
    ("errors", "rejections", "seconds"),
    [
        pytest.param(0, 3, 4, id="rejections alone"),
        pytest.param(1, 5, 1, id="errors in a row count before any number of rejections"),
        pytest.param(3, 1, 4, id="and by their own number"),
        pytest.param(0, 5, 10, id="never longer than the maximum"),
        pytest.param(0, 1000, 10, id="after any number of failures"),
    ],
)
def test_backoff_grows_by_errors_in_a_row_or_else_by_rejections(errors, rejections, seconds):
    item = QueuedPod(make_pod("p").build(), 1000.0)
    item.consecutive_errors, item.unschedulable_count = errors, rejections

    assert 1000.0 + seconds == Backoff(1.0, 10.0, aligned=False).expiration(item)


@pytest.mark.parametrize(
    ("rejections", "maximum"),
    [
        pytest.param(0, 10.0, id="a pod that never failed"),
        pytest.param(3, 0.0, id="backoff is switched off"),
    ],
)
def test_who_has_no_backoff(rejections, maximum):
    item = QueuedPod(make_pod("p").build(), 1000.0)
    item.unschedulable_count = rejections
    backoff = Backoff(1.0, maximum, aligned=False)

    assert 0.0 == backoff.expiration(item)
    assert not backoff.active(item, 1000.0)

"""Our histogram exposes what prometheus_client's own exposes."""

import prometheus_client
from hypothesis import given
from hypothesis import strategies as st

from bayplan.observe.histogram import Histogram

BOUNDS = (0.001, 0.5, 1.0, 64.0)
values = st.one_of(st.sampled_from(BOUNDS), st.floats(0, 1000))


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), values)))
def test_same_text_as_the_reference(observed):
    mine, theirs = (prometheus_client.CollectorRegistry() for _ in range(2))
    fast = Histogram("x_seconds", "A time.", ["kind"], BOUNDS, mine)
    slow = prometheus_client.Histogram(
        "x_seconds", "A time.", ["kind"], buckets=BOUNDS, registry=theirs
    )

    for kind, value in observed:
        fast.labels(kind).observe(value)
        slow.labels(kind).observe(value)

    prometheus_client.disable_created_metrics()
    assert lines(theirs) == lines(mine)


def lines(registry):
    text = prometheus_client.generate_latest(registry).decode().splitlines()
    return sorted(line for line in text if "_created" not in line)


def test_without_labels():
    registry = prometheus_client.CollectorRegistry()
    Histogram("y", "A number.", [], (1.0, 2.0), registry).observe(1.5)

    text = prometheus_client.generate_latest(registry).decode()

    assert 'y_bucket{le="1.0"} 0.0' in text
    assert 'y_bucket{le="2.0"} 1.0' in text
    assert "y_sum 1.5" in text

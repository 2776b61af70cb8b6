"""What `bench/load.py` finds too much makes it fail, and `make attack` with it."""

from pathlib import Path
from runpy import run_path

import pytest

load = run_path(str(Path(__file__).parents[1] / "bench" / "load.py"))
HELD = {
    "quiet": [0.01] * 100,
    "loaded": [0.03] * 100,
    "failed": 0,
    "missed": 0,
    "memory": [60.0, 80.0, 84.05],
}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, []),
        ({"failed": 1}, ["1 writes failed"]),
        ({"missed": 2}, ["2 watchers missed events"]),
        ({"loaded": [0.03] * 98 + [0.031] * 2}, ["p99 is 3.1 times that without watchers"]),
        ({"loaded": [0.03] * 99 + [9.0]}, ["p99 is 900.0 times that without watchers"]),
        ({"memory": [60.0, 80.0, 84.06]}, ["memory grew from 80 to 84 MB"]),
        ({"memory": [60.0, 80.0, 70.0]}, []),
        ({"loaded": [0.03] * 40_000, "memory": [60.0, 80.0, 103.9]}, []),
        (
            {"loaded": [0.03] * 100_000, "memory": [60.0, 80.0, 85.0]},
            ["memory grew from 80 to 85 MB"],
        ),
    ],
    ids=[
        "held",
        "failed",
        "missed",
        "slower",
        "one in a hundred",
        "grown",
        "shrunk",
        "filling",
        "full",
    ],
)
def test_what_is_too_much(changed, said):
    assert said == load["Found"](**HELD | changed).problems()


def test_events_are_counted_wherever_the_stream_is_cut():
    seen = [0, 0]
    text = b'{"type":"ADDED","object":{}}\n{"type":"DELETED","object":{}}\n'
    for cut in range(len(text)):
        seen[1] = 0
        follower = load["Follower"](1, seen)

        follower.data_received(text[:cut])
        follower.data_received(text[cut:])

        assert [0, 2] == seen

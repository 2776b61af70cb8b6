"""The judge of histories: what it accepts and what it refuses."""

import math

import pytest

from bayplan.dst.linear import Operation, linearizable


def read(begin, end, seen):
    return Operation(begin, end, lambda state: state if state == seen else None)


def write(begin, end, value):
    return Operation(begin, end, lambda state: value)


@pytest.mark.parametrize(
    ("fits", "history"),
    [
        pytest.param(True, [], id="nothing"),
        pytest.param(True, [write(0, 1, "a"), read(2, 3, "a")], id="in turn"),
        pytest.param(False, [write(0, 1, "a"), read(2, 3, "")], id="a stale read"),
        pytest.param(True, [write(0, 3, "a"), read(1, 2, "")], id="before, while it is written"),
        pytest.param(True, [write(0, 3, "a"), read(1, 2, "a")], id="after, while it is written"),
        pytest.param(
            False,
            [write(0, 9, "a"), read(1, 2, "a"), read(3, 4, "")],
            id="seen, then not seen",
        ),
        pytest.param(True, [write(0, math.inf, "a"), read(5, 6, "")], id="lost, and not done"),
        pytest.param(True, [write(0, math.inf, "a"), read(5, 6, "a")], id="lost, and done"),
        pytest.param(
            False,
            [write(0, math.inf, "a"), read(5, 6, "a"), read(7, 8, "")],
            id="lost, done, and undone",
        ),
        pytest.param(
            False,
            [write(0, 1, "a"), write(2, 3, "b"), read(4, 5, "a")],
            id="an overwritten value",
        ),
    ],
)
def test_what_fits(fits, history):
    assert fits == linearizable(history, "")

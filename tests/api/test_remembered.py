"""Short texts are looked up, long ones never kept."""

import pytest

from bayplan.api.labels import MANY_VALUES, requirement
from bayplan.api.remembered import LONGEST, remembered


@pytest.mark.parametrize(
    ("text", "times"),
    [("a", 1), ("a" * LONGEST, 1), ("a" * (LONGEST + 1), 2), (b"a" * (LONGEST + 1), 2), (7, 1)],
)
def test_only_short_texts_are_remembered(text, times):
    made = []

    @remembered(10)
    def make(given, more):
        made.append(given)
        return more

    assert ["x", "x"] == [make(text, "x"), make(text, "x")]
    assert times == len(made)


@pytest.mark.parametrize(("count", "same"), [(MANY_VALUES, True), (MANY_VALUES + 1, False)])
def test_requirements_of_many_values_are_not_remembered(count, same):
    values = tuple(f"v{n}" for n in range(count))
    first, second = requirement("k", "In", values), requirement("k", "In", values)

    assert first == second
    assert same == (first is second)

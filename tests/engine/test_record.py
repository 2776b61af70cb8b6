"""A record answers from its arrays what looking at one node after the other would tell."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.engine.answers.share import Score
from bayplan.engine.cycle.records import AttemptRecord
from bayplan.framework import Outcomes, unresolvable, unschedulable
from bayplan.testing import make_pod

STATUSES = [unschedulable("a"), unschedulable("a", "b"), unresolvable("c")]


class Kept:
    """A layout: what was said by row."""

    def __init__(self, fails=(), scores=()):
        self.profile, self.outcomes = "default-scheduler", Outcomes()
        for number, status in enumerate(STATUSES):
            self.outcomes.number(f"Plugin{number}", status)
        self._fails, self._scores = fails, scores
        self.asked = []

    def fails(self, version):
        self.asked.append(version)
        return [np.array(numbers, dtype=np.uint32) for numbers in self._fails]

    def scores(self, version):
        self.asked.append(version)
        return list(self._scores)


def record_of(names, layout, own=None):
    return AttemptRecord(make_pod("p").build(), 5.0, names, layout, 7, own=own)


SIZE = 4
NUMBERS = st.lists(st.integers(0, len(STATUSES)), min_size=SIZE, max_size=SIZE)


@given(st.lists(NUMBERS, max_size=3), st.dictionaries(st.integers(0, SIZE - 1), st.integers(0, 2)))
def test_the_first_plugin_that_rejects_a_node_tells_why(fails, own):
    names = [f"n{row}" for row in range(SIZE)]
    layout = Kept(fails)
    record = record_of(names, layout, {row: STATUSES[number] for row, number in own.items()})
    first = [next((numbers[row] for numbers in fails if numbers[row]), 0) for row in range(SIZE)]
    expected = {
        name: STATUSES[own[row]]
        if row in own
        else (layout.outcomes.statuses[first[row]] if first[row] else None)
        for row, name in enumerate(names)
    }

    assert expected == {name: record.status_of(name) for name in names}
    grouped = {names[row]: status for status, rows in record.groups() for row in rows.tolist()}
    assert {name: status for name, status in expected.items() if status is not None} == grouped
    assert len(grouped) == sum(len(rows) for _, rows in record.groups())
    tally = {}
    for number in first:
        for reason in layout.outcomes.statuses[number].reasons if number else ():
            tally[reason] = tally.get(reason, 0) + 1
    assert tally == record.reasons()
    assert {7} <= set(layout.asked) <= {7}


def test_scores_are_told_by_plugin_and_weighted_in_sum():
    values, raw = np.array([10, 20]), np.array([1, 2])
    scores = [Score("A", 2, values, raw), Score("Silent", 5, None, None), Score("B", 3, raw, None)]
    record = record_of(["x", "y"], Kept(scores=scores))

    assert [("A", 2, values, raw), ("B", 3, raw, None)] == list(map(tuple, record.columns))
    assert {"A": 2, "B": 3} == record.weights
    assert {"A": 40, "B": 6} == record.scores_of("y")
    assert (23, 46) == (record.total_of("x"), record.total_of("y"))
    assert [20, 2] == [int(column[1]) for column in record.normalized.values()]


def test_a_record_is_about_its_pod():
    record = record_of(["x"], Kept())

    assert ("default/p", "uid-default-p") == (record.pod_key, record.uid)
    assert ("default-scheduler", 5.0) == (record.profile, record.now)
    with pytest.raises(ValueError, match="is not in"):
        record.status_of("nowhere")

"""The nodes that are nearest to fitting: rejected by the fewest filters, missing the least."""

from __future__ import annotations

import numpy as np

from bayplan.cluster.arrays import distinct
from bayplan.inspect.why.answer import Near
from bayplan.inspect.why.case import Case
from bayplan.inspect.why.families import missing_on
from bayplan.inspect.why.families.resources import shortage
from bayplan.inspect.why.families.taints import trouble

SHOWN = 5
LOOKED_AT = 64


def nearest(case: Case) -> tuple[Near, ...]:
    """The nearest nodes with what is missing on each."""
    rows = nearest_rows(case, 0, SHOWN)
    return tuple(Near(case.name(row), missing_on(case, row), case.failing(row)) for row in rows)


def nearest_rows(case: Case, filters: int, most: int) -> list[int]:
    """The nearest rows, of those that exactly so many filters reject (0: whatever is fewest).

    Rows that the same filters reject stand for each other: at most a few of each set are given.
    """
    if case.rejection is not None or not case.table.count:
        return []
    failures = case.failures
    rejected = failures[failures > 0]
    if not len(rejected):
        return []
    wanted = filters or int(rejected.min())
    rows = np.flatnonzero(failures == wanted)
    away = shortage(case, rows) + trouble(case, rows)
    sets = case.failing_sets(rows)
    order = np.argsort(away, kind="stable")
    by_set: dict[int, list[tuple[float, str, int]]] = {}
    for number in distinct(sets):
        near = order[sets[order] == number]
        # those as near as the last that may be chosen, so that names and not rows decide
        near = near[away[near] <= away[near[min(most, len(near)) - 1]]][:LOOKED_AT]
        by_set[number] = sorted(
            (float(away[i]), case.name(int(rows[i])), int(rows[i])) for i in near
        )
    # one of each set in turn, so that different ways out are all seen, also in the first three
    chosen: list[tuple[float, str, int]] = []
    while len(chosen) < most and any(by_set.values()):
        chosen += sorted(some.pop(0) for some in by_set.values() if some)
    return [row for _, _, row in chosen[:most]]

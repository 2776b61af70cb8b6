"""The nodes that are nearest to fitting: rejected by the fewest filters, missing the least."""

from __future__ import annotations

import numpy as np

from bayplan.inspect.why.answer import Near
from bayplan.inspect.why.case import Case
from bayplan.inspect.why.families import missing_on, resources
from bayplan.inspect.why.families.taints import LIFECYCLE, in_the_way

SHOWN = 5
LOOKED_AT = 64


def nearest(case: Case, most: int = SHOWN) -> tuple[Near, ...]:
    """The nearest nodes with what is missing on each."""
    rows = nearest_rows(case, 0, most)
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
    by_set: dict[tuple[str, ...], list[int]] = {}
    for row in _spread_out(case, rows):
        by_set.setdefault(case.failing(row), []).append(row)
    for some in by_set.values():
        some.sort(key=lambda row: (distance(case, row), case.name(row)))
    # one of each set in turn, so that different ways out are all seen
    chosen: list[int] = []
    while len(chosen) < most and any(by_set.values()):
        for some in by_set.values():
            if some and len(chosen) < most:
                chosen.append(some.pop(0))
    if not filters:
        chosen.sort(key=lambda row: (distance(case, row), case.name(row)))
    return chosen


def _spread_out(case: Case, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[int]:
    """Not more rows than can be looked at one by one; the emptiest nodes of all sets."""
    if len(rows) <= LOOKED_AT:
        return rows.tolist()
    free = case.table.allocatable(0)[rows] - case.table.requested(0)[rows]
    best = rows[np.argsort(-free, kind="stable")[: LOOKED_AT // 2]]
    step = max(1, len(rows) // (LOOKED_AT // 2))
    return list(dict.fromkeys([*best.tolist(), *rows[::step].tolist()]))


def distance(case: Case, row: int) -> float:
    """How far a node is from fitting; a node in trouble is farther than any shortage."""
    taints = in_the_way(case.pod, case.table.nodes[row])
    trouble = sum(2.0 if taint.key in LIFECYCLE else 0.5 for taint in taints)
    return resources.shortage(case, row) + trouble

"""Weighted scores of a pod's candidates, put together from the columns of its score plugins.

A row's total is summed from the columns whenever one of them changed there, never corrected by a
difference. Rows that are no candidates have LOWEST, which no sum of weighted scores can reach: the
profile was refused if its weights could overflow.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.engine.answers.answer import ClusterAnswer, RowAnswer
from bayplan.engine.answers.asking import AttemptFailed, Desk, as_scores
from bayplan.engine.answers.candidates import Candidates
from bayplan.engine.answers.column import Column, Rows, rows_of
from bayplan.engine.answers.share import Share
from bayplan.engine.cycle.choice import ListOrder
from bayplan.framework import PodInfo, Status
from bayplan.framework.runtime.scoring import call_normalize, range_problem

LOWEST = int(np.iinfo(np.int64).min)

_AHEAD = 512
"""So many winners are sorted ahead; more would often be sorted in vain."""

Scorer = RowAnswer | ClusterAnswer


class Part:
    """One plugin's share: normalised scores for the candidates, and what they were made for."""

    __slots__ = ("_share", "_stamp", "answer", "column", "raw", "shared", "told_raw", "weight")

    def __init__(self, desk: Desk, answer: Scorer) -> None:
        self.answer = answer
        self.weight = answer.weight
        self.shared = not answer.normalizes and (isinstance(answer, RowAnswer) or answer.steady)
        """Whether the answer's own scores are used as they are."""
        self.raw: Column | None = answer.raw if isinstance(answer, RowAnswer) else None
        """What the plugin said before normalising, if it does that."""
        self.column = answer.raw if self.shared else Column(desk.limits.changes)
        if answer.normalizes and self.raw is None:
            self.raw = Column(desk.limits.changes)
        self.told_raw = self.raw if answer.normalizes else None
        """What records show beside the normalised scores."""
        self._stamp: Hashable = None
        """What `column` was made for; None: void."""
        self._share: tuple[int, int, Share] | None = None
        """Versions of both columns, and what records keep of them."""

    def share(self) -> tuple[Share, int]:
        """What records keep, and the bytes that nobody else accounts for."""
        column, raw = self.column, self.told_raw
        size, version = column.unpaid, 0
        column.unpaid = 0
        if raw is not None:
            size, version = size + raw.unpaid, raw.version
            raw.unpaid = 0
        known = self._share
        if known is None or known[0] != column.version or known[1] != version:
            share = Share.of(self.answer.name, self.weight, column, raw)
            known = self._share = (column.version, version, share)
        return known[2], size

    def sync(self, info: PodInfo, candidates: Candidates) -> None:
        """Bring `column` up to date with the answer, which is; raises AttemptFailed."""
        answer = self.answer
        if self.shared:
            if not answer.in_range:
                check_range(answer, candidates.mask)
            return
        if isinstance(answer, RowAnswer):
            fixed = answer.constant
            stamp: Hashable = (answer.raw.version, None if fixed else candidates.version)
        else:
            stamp = (answer.epoch, candidates.version)
        if stamp == self._stamp:
            return
        self._stamp = None
        self.column.replace(self._normalized(info, candidates))
        self._stamp = stamp

    def _normalized(self, info: PodInfo, candidates: Candidates) -> npt.NDArray[np.uint8]:
        answer, mask = self.answer, candidates.mask
        if isinstance(answer, RowAnswer):
            scores = answer.raw.values
            assert scores is not None
        else:
            answer.prepare_scores(info, mask, candidates.stamp)
            scores = answer.score_rows(info, mask)
            if self.raw is not None:
                self.raw.put(scores)
        return normalized(answer, info, scores, mask)


def normalized(
    answer: Scorer, info: PodInfo, scores: IntArray, mask: BoolArray
) -> npt.NDArray[np.uint8]:
    """Scores 0..100 of the candidates; raises AttemptFailed if one is outside."""
    state = answer.state if isinstance(answer, RowAnswer) else answer.normalizing_state()
    result = call_normalize(answer.desk.profile, answer.plugin, state, info.pod, scores, mask)
    if isinstance(result, Status):
        raise AttemptFailed(result)
    return as_scores(result)


def check_range(answer: Scorer, mask: BoolArray) -> None:
    """Raise if a candidate's score, which is not normalised, is outside 0..100."""
    values = answer.raw.values
    if values is not None and values.dtype != np.uint8:
        problem = range_problem(answer.name, values, mask)
        if problem is not None:
            raise AttemptFailed(problem)


Place = tuple[int, IntArray, int]
"""Version of the candidates, list order, start of the search: what heap keys hang on."""


def _same(one: Place, other: Place) -> bool:
    return one[0] == other[0] and one[1] is other[1] and one[2] == other[2]


class Leaders:
    """The first of the rows that had the highest total, the next winner last."""

    __slots__ = ("_place", "_rows", "top")

    def __init__(self, place: Place, top: int, rows: list[int]) -> None:
        self._place = place
        self.top = top
        self._rows = rows

    def holds_for(self, place: Place) -> bool:
        return _same(self._place, place)

    def next(self, masked: IntArray) -> int:
        """The first row that still has the highest total; -1 if there is none left."""
        rows, top, total = self._rows, self.top, masked.item
        while rows:
            if total(rows[-1]) == top:
                return rows[-1]
            rows.pop()
        return -1


class Totals:
    """The sums of one set of score plugins over one set of candidates."""

    __slots__ = (
        "__weakref__",
        "_candidates",
        "_fits_seen",
        "_leaders",
        "_moving",
        "_place",
        "_seen",
        "_settled",
        "masked",
        "parts",
    )

    def __init__(self, desk: Desk, candidates: Candidates, scorers: tuple[Scorer, ...]) -> None:
        self._candidates = candidates
        self.parts = [Part(desk, answer) for answer in scorers]
        self.masked: IntArray = np.zeros(0, dtype=np.int64)
        """Totals of candidates, LOWEST elsewhere."""
        self._seen: list[int] | None = None
        """The version of each part that `masked` was summed from; None: void."""
        self._moving: list[Part] = []
        """Parts whose columns changed after they were summed; each is added row by row."""
        self._settled: IntArray = self.masked
        """The sum of all other parts."""
        self._fits_seen = -1
        self._leaders: Leaders | None = None
        self._place: Place | None = None

    def sync(self, info: PodInfo) -> None:
        """Bring every part and the sums up to date; raises AttemptFailed."""
        candidates = self._candidates
        for part in self.parts:
            if not part.shared or not part.answer.in_range:
                part.sync(info, candidates)
        rows = self._changed_rows()
        if rows is None:
            self._sum_all()
        elif isinstance(rows, int):
            self._sum_row(rows)
        elif len(rows):
            self._sum_rows(rows)
        self._seen = [part.column.version for part in self.parts]
        self._fits_seen = candidates.version

    def problems(self) -> list[str]:
        """What differs from the parts' columns, if those were followed."""
        candidates, seen = self._candidates, self._seen
        if seen is None or seen != [part.column.version for part in self.parts]:
            return []
        if self._fits_seen != candidates.version:
            return []
        parts = [(p.column.values, p.weight) for p in self.parts if p.column.values is not None]
        sums = [
            sum(weight * int(values[row]) for values, weight in parts) if fits else LOWEST
            for row, fits in enumerate(candidates.mask.tolist())
        ]
        if sums == self.masked.tolist():
            return []
        return [f"totals of {[part.answer.name for part in self.parts]}"]

    def shares(self) -> tuple[tuple[Share, ...], int]:
        """What was scored, for records, and the bytes that nobody else accounts for."""
        shares, size = [], 0
        for part in self.parts:
            share, mine = part.share()
            shares.append(share)
            size += mine
        return tuple(shares), size

    def best(self, order: ListOrder, start: int) -> int:
        """The row that upstream's heap has at its root.

        Among equals that is the first by heap key. While the candidates and their order stay, so do
        the keys: the best rows are then sorted once and the next one is simply the next that still
        has the highest total. A row that rises to the top or above it ends that.
        """
        masked, candidates = self.masked, self._candidates
        place = (candidates.version, order.rows, start)
        leaders = self._leaders
        if leaders is not None and leaders.holds_for(place):
            row = leaders.next(masked)
            if row >= 0:
                return row
        top = int(masked.max())
        ties = np.flatnonzero(masked == top)
        if len(ties) == 1:
            self._leaders = None
            return int(ties[0])
        again = self._place is not None and _same(self._place, place)
        self._place, self._leaders = place, None
        if not again:
            first = order.first(candidates.mask, start)
            if masked[first] == top:  # the heap's first place; nothing equal comes before it
                return first
        keys = candidates.heap_keys(order, start)[ties]
        if not again:
            return int(ties[keys.argmin()])
        if len(ties) > _AHEAD:
            early = keys.argpartition(_AHEAD)[:_AHEAD]
            ties, keys = ties[early], keys[early]
        rows = ties[keys.argsort()[::-1]].tolist()
        self._leaders = Leaders(place, top, rows)
        row = rows[-1]
        return int(row)

    def _changed_rows(self) -> Rows | None:
        """The rows to sum again; None for all."""
        seen, mask = self._seen, self._candidates.mask
        self._seen = None
        if seen is None or len(self.masked) != len(mask):
            return None
        changes: list[Rows] = []
        moved = False
        for part, version in zip(self.parts, seen, strict=True):
            if part.column.version != version:
                if part not in self._moving:
                    self._moving.append(part)
                    moved = True
                found = part.column.since(version)
                if found is None:
                    return None
                changes += found
        fits = self._candidates.fits
        if fits.version != self._fits_seen:
            found = fits.since(self._fits_seen)
            if found is None:
                return None
            changes += found
        if moved:
            self._settle()
        return rows_of(changes, len(mask))

    def _settle(self) -> None:
        still = [part for part in self.parts if part not in self._moving]
        count = len(self._candidates.mask)
        self._settled = add_up([(p.column.values, p.weight) for p in still], count)

    def _sum_all(self) -> None:
        mask = self._candidates.mask
        self._leaders = None
        self._settle()
        moving = add_up([(p.column.values, p.weight) for p in self._moving], len(mask))
        self.masked = np.where(mask, self._settled + moving, LOWEST)

    def _sum_row(self, row: int) -> None:
        total = self._settled.item(row)
        for part in self._moving:
            values = part.column.values
            if values is not None:
                total += part.weight * values.item(row)
        if not self._candidates.mask[row]:
            total = LOWEST
        leaders = self._leaders
        if leaders is not None and total >= leaders.top and self.masked[row] != total:
            self._leaders = None
        self.masked[row] = total

    def _sum_rows(self, rows: IntArray) -> None:
        total = self._settled.take(rows)
        for part in self._moving:
            values = part.column.values
            if values is not None:
                mine = values.take(rows).astype(np.int64)
                if part.weight != 1:
                    mine *= part.weight
                total += mine
        candidates = self._candidates
        if candidates.count < len(candidates.mask):
            total[~candidates.mask.take(rows)] = LOWEST
        leaders = self._leaders
        if leaders is not None and total.max() >= leaders.top:
            risen = (total >= leaders.top) & (self.masked[rows] != total)
            if risen.any():
                self._leaders = None
        self.masked[rows] = total


def add_up(columns: Sequence[tuple[npt.NDArray[np.uint8] | None, int]], count: int) -> IntArray:
    """The weighted sum of some columns."""
    weights = sum(abs(weight) for _, weight in columns)
    bytewise = all(values is None or values.dtype == np.uint8 for values, _ in columns)
    # Scores below 256 and small weights fit 16 bits, which are added four times as fast.
    small = bytewise and weights * 255 < np.iinfo(np.int16).max
    kind = np.dtype(np.int16 if small else np.int64)
    total: npt.NDArray[Any] = np.zeros(count, dtype=kind)
    for values, weight in columns:
        if values is not None:
            total += values if weight == 1 else np.multiply(values, kind.type(weight), dtype=kind)
    wide: IntArray = total.astype(np.int64, copy=False)
    return wide

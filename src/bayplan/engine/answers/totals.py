"""Weighted scores of a pod's candidates, put together from the columns of its score plugins.

A row's total is summed from the columns whenever one of them changed there, never corrected by a
difference. Rows that are no candidates have LOWEST, which no sum of weighted scores can reach: the
profile was refused if its weights could overflow. The totals of some of a profile's plugins are
shared by all pods that these say the same about; what one more says by domain is added when the
best rows of the domains are compared (`domain_totals.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bayplan.cluster.arrays import IntArray
from bayplan.cluster.column import Rows, rows_of
from bayplan.cluster.label_column import Domains
from bayplan.engine.answers.asking import FEW, Desk
from bayplan.engine.answers.candidates import Candidates
from bayplan.engine.answers.domains import LOWEST, DomainLeaders, DomainShare
from bayplan.engine.answers.kind_column import KindColumn, Said
from bayplan.engine.answers.leaders import Leaders, Place, same_place, sums_by_kind
from bayplan.engine.answers.part import Part
from bayplan.engine.answers.share import ByRow, Layout, Share, moment, pay
from bayplan.engine.answers.standing import rows_to_trust
from bayplan.engine.cycle.choice import ListOrder
from bayplan.framework import PodInfo

_MOST = int(np.iinfo(np.int16).max)

_SMALL = (np.dtype(np.uint8), np.dtype(np.int16))
"""What scores 0..100 are kept in."""

_KEYS = 4
"""Labels whose domains have leaders at a time."""


class Totals:
    """The sums of one set of score plugins over one set of candidates.

    They are brought up to date when somebody needs them: often the leaders are enough.
    """

    __slots__ = (
        "__weakref__",
        "_by_kind",
        "_candidates",
        "_columns",
        "_desk",
        "_domain_leaders",
        "_fits_seen",
        "_kinds",
        "_layout",
        "_leaders",
        "_moving",
        "_others",
        "_place",
        "_said",
        "_seen",
        "_settled",
        "_versions",
        "masked",
        "parts",
    )

    def __init__(self, desk: Desk, candidates: Candidates, parts: list[Part]) -> None:
        self._desk = desk
        self._candidates = candidates
        self.parts = parts
        self._kinds = desk.table.kinds
        self._by_kind = [(p.column, p.weight) for p in parts if isinstance(p.column, KindColumn)]
        by_kind = self._kinds.column
        self._columns = [by_kind if isinstance(p.column, KindColumn) else p.column for p in parts]
        """What tells the changes of each part."""
        raws = [part.told_raw for part in parts if part.told_raw is not None]
        self._others = [column for column in self._columns if column is not by_kind] + raws
        """All that is told of scores besides kinds."""
        self._versions: list[int] = []
        """Of these, in this attempt; another list in the next."""
        self.masked: IntArray = np.zeros(0, dtype=np.int64)
        """Totals of candidates, LOWEST elsewhere."""
        self._domain_leaders: tuple[Place, dict[Domains, DomainLeaders]] | None = None
        self._seen: list[int] | None = None
        """The version of each part that `masked` was summed from; None: void."""
        self._moving = [part for part in self.parts if part.by_kind]
        """Parts whose columns change after they were summed; each is added row by row."""
        self._settled: IntArray = self.masked
        """The sum of all other parts."""
        self._fits_seen = -1
        self._layout: Layout | None = None
        """Where records find what was said, of versions of all but kinds, and of verdicts."""
        self._said: int | None = None
        self._leaders: Leaders | None = None
        self._place: Place | None = None

    def sync(self, info: PodInfo) -> None:
        """Bring every part up to date; raises AttemptFailed."""
        for part in self.parts:
            if not part.shared or not part.answer.in_range:
                part.sync(info, self._candidates)
        self._versions = [column.version for column in self._others]

    def _add_up(self) -> None:
        """Bring the sums up to date with the parts."""
        rows = self._changed_rows()
        if rows is None:
            self._sum_all()
        elif isinstance(rows, int):
            self._sum_row(rows)
        elif len(rows) <= FEW:
            for row in rows.tolist():
                self._sum_row(row)
        else:
            self._sum_rows(rows)
        self._seen = [column.version for column in self._columns]
        self._fits_seen = self._candidates.version

    def problems(self) -> list[str]:
        """What differs from the parts' columns on rows that nobody said have changed since."""
        if self._seen is None:
            return []
        columns = [*zip(self._columns, self._seen, strict=True)]
        columns.append((self._candidates.fits, self._fits_seen))
        mask, wrong = self._candidates.mask.tolist(), []
        for row in rows_to_trust(columns, min(len(mask), len(self.masked))):
            total = sum(part.weight * part.column.item(row) for part in self.parts)
            if self.masked.item(row) != (total if mask[row] else LOWEST):
                wrong.append(row)
        named = [part.answer.name for part in self.parts]
        return [f"totals of {named}, rows {wrong}"] if wrong else []

    def layout(self) -> tuple[Layout, int]:
        """Where records find what was said, and the bytes that nobody else accounts for."""
        layout, candidates, kinds = self._layout, self._candidates, self._kinds.column
        if layout is not None and layout.kinds is kinds.history and layout.stamp == self._versions:
            if candidates.said == self._said:
                return layout, 0
            shares, size = layout.shares, 0
        else:
            shares = [Share(p.answer.name, p.weight, moment(p.column), _raw(p)) for p in self.parts]
            size = pay(self._others)
        layout = self._layout = candidates.layout_with(shares, self._versions)
        self._said = candidates.said
        return layout, size + candidates.pay()

    def best(self, order: ListOrder, start: int) -> int:
        """The row that upstream's heap has at its root.

        Among equals that is the first by heap key. While the candidates and their order stay, so do
        the keys: the best rows are then listed once and the next one is simply the next that still
        has the highest total. A row that rises to the top ends that, or a second one above it.
        """
        candidates = self._candidates
        place = (candidates.version, order.rows, start)
        others = self._versions
        if self._leaders is not None and not self._leaders.holds_at(place):
            self._leaders = None
        row = -1 if self._leaders is None else self._leaders.next(others)
        if row >= 0:
            return row
        self._add_up()
        masked = self.masked
        by_kind = len(self._moving) == len(self._by_kind) > 0  # nothing else moves
        settled = self._settled if by_kind else None
        if self._leaders is not None and self._leaders.settled is settled:  # they still lead
            row = self._leaders.among(masked, others)
            if row >= 0:
                return row
        again = self._place is not None and same_place(self._place, place)
        self._place, self._leaders = place, None
        top = int(masked.max())
        if not again:  # maybe the candidates change all the time, and listing is in vain
            first = candidates.first(order, start)
            if masked.item(first) == top:  # the heap's first place; nothing equal comes before it
                return first
        rows = order.leading(candidates.listed(order, start), masked, top)
        if not again:
            return rows.item(0)
        self._leaders = Leaders(place, top, rows, self._kinds, self._by_kind, settled)
        return self._leaders.among(masked, others)

    def best_with(self, share: DomainShare, weight: int, order: ListOrder, start: int) -> int:
        """The same with the scores that one more plugin gives domains."""
        self._add_up()
        candidates, domains = self._candidates, share.domains
        place = (candidates.version, order.rows, start)
        known = self._domain_leaders
        if known is None or not same_place(known[0], place) or len(known[1]) > _KEYS:
            known = self._domain_leaders = (place, {})
        leaders = known[1].get(domains)
        if leaders is None:
            walk = candidates.walk(order, start)
            leaders = known[1][domains] = DomainLeaders(domains, walk)
        keys = candidates.heap_keys(order, start)
        return leaders.best(share, weight, self.masked, keys)

    def _changed_rows(self) -> Rows | None:
        """The rows to sum again; None for all."""
        seen, count, size = self._seen, len(self._candidates.mask), len(self.masked)
        self._seen = None
        if seen is None or size > count:
            return None
        changes: list[Rows] = []
        moved = told = False
        for part, version in zip(self.parts, seen, strict=True):
            if part.column.version != version:
                if part.by_kind:  # all columns by kind tell the same changes
                    rows = None if told else self._kinds.changed(version)
                    if rows is None and not told:
                        return None
                    changes += [] if rows is None else [rows]
                    told = True
                    continue
                found = part.column.since(version)
                if found is None:
                    return None
                if part not in self._moving and not _all_beyond(found, size):
                    self._moving.append(part)
                    moved = True
                changes += found
        fits = self._candidates.fits
        if fits.version != self._fits_seen:
            found = fits.since(self._fits_seen)
            if found is None:
                return None
            changes += found
        if size < count:
            self._grow(size, count)
        if moved:
            self._settle()
        return rows_of(changes, count)

    def _grow(self, size: int, count: int) -> None:
        """Rows were added; all of them are among those that changed."""
        self._domain_leaders = None  # their domains do not know the new rows
        still = [p for p in self.parts if p not in self._moving]
        more = [sum(p.weight * p.column.item(row) for p in still) for row in range(size, count)]
        self._settled = np.concatenate([self._settled, np.array(more, dtype=np.int64)])
        none = np.full(count - size, LOWEST, dtype=np.int64)
        self.masked = np.concatenate([self.masked, none])

    def _settle(self) -> None:
        still = [
            (p.column, p.column.version, p.weight) for p in self.parts if p not in self._moving
        ]
        count = len(self._candidates.mask)
        # Others may have added up the very same: templates that come one after the other.
        known = self._desk.sum
        if known is None or known[0] != count or known[1] != still:
            total = add_up([(column.values, weight) for column, _, weight in still], count)
            known = self._desk.sum = (count, still, total)
        self._settled = known[2]

    def _sum_all(self) -> None:
        mask = self._candidates.mask
        self._leaders = self._domain_leaders = None
        self._settle()
        moving = [p for p in self._moving if not p.by_kind]
        total = add_up([(p.column.values, p.weight) for p in moving], len(mask))
        total += self._settled
        if self._by_kind:  # there are fewer kinds than rows
            total += sums_by_kind(self._by_kind, self._kinds.size).take(self._kinds.of)
        if self._candidates.count < len(mask):
            total[~mask] = LOWEST
        self.masked = total

    def _sum_row(self, row: int) -> None:
        total = self._settled.item(row)
        for part in self._moving:
            total += part.weight * part.column.item(row)
        if not self._candidates.mask[row]:
            total = LOWEST
        if self.masked.item(row) == total:
            return
        if self._leaders is not None and not self._leaders.outlast(row, total):
            self._leaders = None
        if self._domain_leaders is not None:
            for leaders in self._domain_leaders[1].values():
                leaders.risen(row, total)
        self.masked[row] = total

    def _sum_rows(self, rows: IntArray) -> None:
        total = self._settled.take(rows)
        for part in self._moving:
            mine = part.column.take(rows)
            total += mine if part.weight == 1 else mine.astype(np.int64) * part.weight
        candidates = self._candidates
        if candidates.count < len(candidates.mask):
            total[~candidates.mask.take(rows)] = LOWEST
        ahead = self._leaders
        if ahead is not None and (ahead.above >= 0 or total.max() >= ahead.top):
            risen = (total >= ahead.top) & (self.masked.take(rows) != total)
            if ahead.above >= 0 or risen.any():
                self._leaders = None
        if self._domain_leaders is not None:
            changed = self.masked.take(rows) != total
            for leaders in self._domain_leaders[1].values():
                leaders.all_risen(rows.compress(changed), total.compress(changed))
        self.masked[rows] = total


def _raw(part: Part) -> ByRow | Said | None:
    return None if part.told_raw is None else moment(part.told_raw)


def _all_beyond(changes: list[Rows], size: int) -> bool:
    """Whether all rows that changed are new."""
    return all(
        (rows if isinstance(rows, int) else int(rows.min(initial=size))) >= size for rows in changes
    )


def add_up(columns: Sequence[tuple[npt.NDArray[np.uint8] | None, int]], count: int) -> IntArray:
    """The weighted sum of some columns."""
    weights = sum(abs(weight) for _, weight in columns)
    bytewise = all(values is None or values.dtype in _SMALL for values, _ in columns)
    # Scores below 256 and small weights fit 16 bits, which are added four times as fast.
    small = bytewise and weights * 255 < _MOST
    kind = np.dtype(np.int16 if small else np.int64)
    total: npt.NDArray[Any] = np.zeros(count, dtype=kind)
    for values, weight in columns:
        if values is not None:
            total += values if weight == 1 else np.multiply(values, kind.type(weight), dtype=kind)
    wide: IntArray = total.astype(np.int64, copy=False)
    return wide

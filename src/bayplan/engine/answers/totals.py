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
from bayplan.cluster.column import Column, Rows, rows_of
from bayplan.engine.answers.asking import AttemptFailed, Desk, as_scores
from bayplan.engine.answers.candidates import Candidates
from bayplan.engine.answers.cluster_answer import ClusterAnswer
from bayplan.engine.answers.domains import (
    AHEAD,
    LOWEST,
    DomainLeaders,
    DomainShare,
)
from bayplan.engine.answers.kind_answer import KindAnswer
from bayplan.engine.answers.kind_column import KindColumn
from bayplan.engine.answers.row_answer import RowAnswer
from bayplan.engine.answers.share import AnyColumn, Layout, ScoreMoment, pay
from bayplan.engine.cycle.choice import ListOrder
from bayplan.framework import PodInfo, Status
from bayplan.framework.runtime.scoring import call_normalize, range_problem

Scorer = RowAnswer | KindAnswer | ClusterAnswer

_MOST = int(np.iinfo(np.int16).max)

_SMALL = (np.dtype(np.uint8), np.dtype(np.int16))
"""What scores 0..100 are kept in."""


class Part:
    """One plugin's share: normalised scores for the candidates, and what they were made for."""

    __slots__ = (
        "_stamp",
        "answer",
        "by_domain",
        "by_kind",
        "column",
        "domain",
        "raw",
        "shared",
        "told_raw",
        "weight",
    )

    def __init__(self, desk: Desk, answer: Scorer) -> None:
        self.answer = answer
        self.weight = answer.weight
        steady = not isinstance(answer, ClusterAnswer) or answer.steady
        self.shared = steady and not answer.normalizes
        """Whether the answer's own scores are used as they are."""
        self.raw: Column | None = answer.raw if isinstance(answer, RowAnswer) else None
        """What the plugin said before normalising, if it does that."""
        self.column: AnyColumn = answer.raw if self.shared else Column(desk.limits.changes)
        self.by_kind = isinstance(self.column, KindColumn)
        """Whether scores hang on the kind of a row."""
        if answer.normalizes and self.raw is None:
            self.raw = Column(desk.limits.changes)
        self.told_raw = self.raw if answer.normalizes else None
        """What records show beside the normalised scores."""
        self._stamp: Hashable = None
        """What `column` was made for; None: void."""
        self.by_domain = isinstance(answer, ClusterAnswer) and answer.tells_domains
        """Whether the plugin can tell its scores by domain."""
        self.domain: DomainShare | None = None
        """The scores by domain, if they are kept so; `column` then means nothing."""

    def sync(self, info: PodInfo, candidates: Candidates, by_domain: bool) -> None:
        """Bring the scores up to date with the answer, which is; raises AttemptFailed.

        They may be kept by domain only if the caller says so.
        """
        answer = self.answer
        if self.shared:
            if not answer.in_range:
                check_range(answer, candidates.mask)
            return
        stamp: Hashable = (answer.epoch, candidates.version)
        if isinstance(answer, RowAnswer):
            stamp = (answer.raw.version, None if answer.constant else candidates.version)
        if stamp == self._stamp and (by_domain or self.domain is None):
            return
        self._stamp = None
        self.domain = self._by_domain(info, candidates) if by_domain else None
        if self.domain is None:
            assert isinstance(self.column, Column)  # what is kept by kind is shared
            self.column.replace(self._normalized(info, candidates))
        self._stamp = stamp

    def _by_domain(self, info: PodInfo, candidates: Candidates) -> DomainShare | None:
        """The scores by domain, normalised; None if there are too many different ones."""
        answer = self.answer
        assert isinstance(answer, ClusterAnswer)
        answer.prepare_scores(info, candidates.mask, candidates.stamp)
        found = answer.score_domains(info)
        if found is None:
            return None
        table = answer.desk.table
        domains = table.label_column(found.key).domains(table.count)
        counts = candidates.per_domain(domains)
        share = DomainShare(domains, found.worth, found.own, candidates.mask, counts)
        share.normalize(answer.normalize_domains(info, share.scores()))
        return share

    def _normalized(self, info: PodInfo, candidates: Candidates) -> npt.NDArray[np.uint8]:
        answer, mask = self.answer, candidates.mask
        if not isinstance(answer, ClusterAnswer):
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
    state = answer.normalizing_state() if isinstance(answer, ClusterAnswer) else answer.state
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
    """The first of the rows that had the highest total, the next winner first."""

    __slots__ = ("_next", "_place", "_rows", "top")

    def __init__(self, place: Place, top: int, rows: IntArray) -> None:
        self._place = place
        self.top = top
        self._rows = rows
        self._next = 0

    def holds_for(self, place: Place) -> bool:
        return _same(self._place, place)

    def next(self, masked: IntArray) -> int:
        """The first row that still has the highest total; -1 if there is none left."""
        rows, top, place = self._rows, self.top, self._next
        end = len(rows)
        for near in range(place, min(place + 3, end)):
            row = rows.item(near)
            if masked.item(row) == top:
                self._next = near
                return row
        ahead = rows[place + 3 :]  # pods of other kinds took many
        leading = masked.take(ahead) == top
        far = int(leading.argmax()) if len(ahead) else 0
        if not len(ahead) or not leading.item(far):
            self._next = end
            return -1
        self._next = place + 3 + far
        return ahead.item(far)


class Totals:
    """The sums of one set of score plugins over one set of candidates."""

    __slots__ = (
        "__weakref__",
        "_by_domain",
        "_candidates",
        "_domain",
        "_domain_leaders",
        "_fits_seen",
        "_kinds",
        "_layout",
        "_leaders",
        "_moving",
        "_place",
        "_raws",
        "_seen",
        "_settled",
        "masked",
        "parts",
    )

    def __init__(self, desk: Desk, candidates: Candidates, scorers: tuple[Scorer, ...]) -> None:
        self._candidates = candidates
        self.parts = [Part(desk, answer) for answer in scorers]
        self.masked: IntArray = np.zeros(0, dtype=np.int64)
        """Totals of candidates without scores that are kept by domain, LOWEST elsewhere."""
        self._by_domain = next((part for part in self.parts if part.by_domain), None)
        """The part that may be kept by domain; one at most."""
        self._domain: Part | None = None
        """The part that is."""
        self._domain_leaders: tuple[Place, DomainLeaders] | None = None
        self._seen: list[int] | None = None
        """The version of each part that `masked` was summed from; None: void."""
        self._kinds = desk.table.kinds
        self._moving = [part for part in self.parts if part.by_kind]
        """Parts whose columns change after they were summed; each is added row by row."""
        self._settled: IntArray = self.masked
        """The sum of all other parts."""
        self._fits_seen = -1
        self._raws = [part.told_raw for part in self.parts if part.told_raw is not None]
        self._layout: Layout | None = None
        """Where records find scores; None after a column may have begun anew."""
        self._leaders: Leaders | None = None
        self._place: Place | None = None

    def sync(self, info: PodInfo) -> None:
        """Bring every part and the sums up to date; raises AttemptFailed."""
        candidates = self._candidates
        for part in self.parts:
            if not part.shared or not part.answer.in_range:
                part.sync(info, candidates, part is self._by_domain)
        may = self._by_domain
        domain = None if may is None or may.domain is None else may
        if domain is not self._domain:
            self._domain, self._seen = domain, None
        rows = self._changed_rows()
        if rows is None:
            self._sum_all()
        elif isinstance(rows, int):
            self._sum_row(rows)
        elif len(rows):
            self._sum_rows(rows)
        self._seen = self._versions()
        self._fits_seen = candidates.version

    def _versions(self) -> list[int]:
        domain = self._domain
        return [-1 if part is domain else part.column.version for part in self.parts]

    def problems(self) -> list[str]:
        """What differs from the parts' columns, if those were followed."""
        candidates, seen = self._candidates, self._seen
        if seen is None or seen != self._versions() or self._fits_seen != candidates.version:
            return []
        kept = [part for part in self.parts if part is not self._domain]
        parts = [(p.column.values, p.weight) for p in kept if p.column.values is not None]
        sums = [
            sum(weight * int(values[row]) for values, weight in parts) if fits else LOWEST
            for row, fits in enumerate(candidates.mask.tolist())
        ]
        if sums == self.masked.tolist():
            return []
        return [f"totals of {[part.answer.name for part in self.parts]}"]

    def moment(self) -> tuple[ScoreMoment, int]:
        """What was scored, for records, and the bytes that nobody else accounts for."""
        seen, layout = self._seen, self._layout
        assert seen is not None
        raws = [raw.version for raw in self._raws]
        if layout is None or layout.raw_versions != raws:
            parts = [(p.answer.name, p.weight, p.column, p.told_raw) for p in self.parts]
            layout = self._layout = Layout(parts, raws)
            size = pay([part.column for part in self.parts]) + pay(self._raws)
        else:
            size = pay([part.column for part in self._moving])
        domain = None if self._domain is None else self._domain.domain
        if domain is not None:
            size += 256 + 64 * len(domain.own)
        return ScoreMoment(layout, seen, domain), size

    def best(self, order: ListOrder, start: int) -> int:
        """The row that upstream's heap has at its root.

        Among equals that is the first by heap key. While the candidates and their order stay, so do
        the keys: the best rows are then listed once and the next one is simply the next that still
        has the highest total. A row that rises to the top or above it ends that.
        """
        masked, candidates = self.masked, self._candidates
        place = (candidates.version, order.rows, start)
        if self._domain is not None:
            return self._best_by_domain(self._domain, order, place)
        leaders = self._leaders
        if leaders is not None and leaders.holds_for(place):
            row = leaders.next(masked)
            if row >= 0:
                return row
        again = self._place is not None and _same(self._place, place)
        self._place, self._leaders = place, None
        top = int(masked.max())
        walk = candidates.walk(order, start, known=not again)
        if walk is None:  # maybe the candidates change all the time, and sorting is in vain
            first = candidates.first(order, start)
            if masked.item(first) == top:  # the heap's first place; nothing equal comes before it
                return first
            ties = np.flatnonzero(masked == top)
            if len(ties) == 1:
                return int(ties[0])
            return int(ties[candidates.heap_keys(order, start).take(ties).argmin()])
        rows = walk.compress(masked.take(walk) == top)[:AHEAD]
        self._leaders = Leaders(place, top, rows)
        return int(rows[0])

    def _best_by_domain(self, part: Part, order: ListOrder, place: Place) -> int:
        share = part.domain
        assert share is not None
        known = self._domain_leaders
        if known is None or not _same(known[0], place) or known[1].domains is not share.domains:
            known = self._domain_leaders = (place, DomainLeaders(share.domains))
        keys = self._candidates.heap_keys(order, place[2])
        walk = self._candidates.walk(order, place[2])
        assert walk is not None
        return known[1].best(share, part.weight, self.masked, keys, walk)

    def _changed_rows(self) -> Rows | None:
        """The rows to sum again; None for all."""
        seen, count, size = self._seen, len(self._candidates.mask), len(self.masked)
        self._seen = None
        if seen is None or size > count:
            return None
        changes: list[Rows] = []
        moved = told = False
        for part, version in zip(self.parts, seen, strict=True):
            if part is not self._domain and part.column.version != version:
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
        still = [p for p in self.parts if p not in self._moving and p is not self._domain]
        columns = [(p.column.values, p.weight) for p in still]
        new = [(None if values is None else values[size:], weight) for values, weight in columns]
        self._settled = np.concatenate([self._settled, add_up(new, count - size)])
        more = np.full(count - size, LOWEST, dtype=np.int64)
        self.masked = np.concatenate([self.masked, more])

    def _settle(self) -> None:
        still = [p for p in self.parts if p not in self._moving and p is not self._domain]
        count = len(self._candidates.mask)
        self._settled = add_up([(p.column.values, p.weight) for p in still], count)

    def _sum_all(self) -> None:
        mask = self._candidates.mask
        self._leaders = self._domain_leaders = self._layout = None
        if self._domain in self._moving:
            self._moving.remove(self._domain)
        self._settle()
        moving = add_up([(p.column.values, p.weight) for p in self._moving], len(mask))
        self.masked = np.where(mask, self._settled + moving, LOWEST)

    def _sum_row(self, row: int) -> None:
        total = self._settled.item(row)
        for part in self._moving:
            total += part.weight * part.column.item(row)
        if not self._candidates.mask[row]:
            total = LOWEST
        if self.masked.item(row) == total:
            return
        if self._leaders is not None and total >= self._leaders.top:
            self._leaders = None
        if self._domain_leaders is not None:
            self._domain_leaders[1].risen(row, total)
        self.masked[row] = total

    def _sum_rows(self, rows: IntArray) -> None:
        total = self._settled.take(rows)
        for part in self._moving:
            mine = part.column.take(rows)
            total += mine if part.weight == 1 else mine.astype(np.int64) * part.weight
        candidates = self._candidates
        if candidates.count < len(candidates.mask):
            total[~candidates.mask.take(rows)] = LOWEST
        leaders = self._leaders
        if leaders is not None and total.max() >= leaders.top:
            risen = (total >= leaders.top) & (self.masked.take(rows) != total)
            if risen.any():
                self._leaders = None
        if self._domain_leaders is not None:
            changed = self.masked.take(rows) != total
            self._domain_leaders[1].all_risen(rows.compress(changed), total.compress(changed))
        self.masked[rows] = total


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

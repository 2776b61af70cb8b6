"""The next winners, listed ahead, so that most attempts need not add up anything.

Among equal totals the order is fixed while the candidates and their list order stay. A row that
stays of one kind (`bayplan.cluster.row_kinds`) keeps its total while no other column changes. So as
long as no row came to a kind that reaches the top, the next winner is the next listed row that is
still of its kind, whatever became of all others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayplan.cluster.arrays import IntArray
from bayplan.cluster.row_kinds import RowKinds
from bayplan.engine.answers.kind_column import KindColumn

Place = tuple[int, IntArray, int]
"""Version of the candidates, list order, start of the search: what heap keys hang on."""

_CHUNK = 64
"""So many rows are looked at at a time once the next one is gone."""

_NONE = -1
"""The kind of no row."""


def same_place(one: Place, other: Place) -> bool:
    return one[0] == other[0] and one[1] is other[1] and one[2] == other[2]


def sums_by_kind(columns: Sequence[tuple[KindColumn, int]], count: int) -> IntArray:
    """The weighted sums of some columns by kind; kinds without rows may have any."""
    total: IntArray = np.zeros(count, dtype=np.int64)
    for column, weight in columns:
        said = column.said.array[:count]
        total[: len(said)] += weight * said.astype(np.int64)
    return total


class Leaders:
    """The first of the rows that had the highest total, the next winner first."""

    __slots__ = (
        "_births",
        "_by_kind",
        "_history",
        "_kinds",
        "_listed",
        "_most",
        "_near",
        "_next",
        "_others",
        "_place",
        "_rows",
        "_seen",
        "above",
        "settled",
        "top",
    )

    _next: int
    """The place of the next winner in the list, since `among` began it."""
    _seen: int
    """The version of the rows' kinds then."""
    _births: int
    """How far the births of kinds were followed."""
    _most: int
    """The highest of the settled sums, once `_near` is known."""

    def __init__(
        self,
        place: Place,
        top: int,
        rows: IntArray,
        kinds: RowKinds,
        by_kind: Sequence[tuple[KindColumn, int]],
        settled: IntArray | None,
    ) -> None:
        """`by_kind` has all columns that are kept by kind, with their weights.

        `settled` are the sums of all other columns; None if these sums change with the rows, or if
        nothing is kept by kind.
        """
        self._place = place
        self.settled = settled
        self.top = top
        self._rows = rows
        self._kinds, self._by_kind = kinds, by_kind
        self._listed: IntArray = rows
        """The kind of each row when totals were known last; _NONE: it did not lead then."""
        self._others: list[int] = []
        self._history = kinds.column.history
        self.above = -1
        """The only row above the top, if there is one: a pod has left it, or it is new."""
        self._near: set[int] | None = None
        """Kinds whose rows may reach the top."""

    def holds_at(self, place: Place) -> bool:
        """Whether the order is the same, and kinds were not numbered or asked about anew."""
        return same_place(self._place, place) and self._kinds.column.history is self._history

    def outlast(self, row: int, total: int) -> bool:
        """Whether the listed rows are the next to win, but for one above them, after a change."""
        if total > self.top:
            if self.above not in (-1, row):
                return False
            self.above = row
        elif total == self.top:
            return False
        elif self.above == row:
            self.above = -1
        return True

    def among(self, masked: IntArray, others: list[int]) -> int:
        """The row that wins by totals that are known, as `outlast` was told them; -1 if none.

        `others` are the versions of all columns that are not kept by kind.
        """
        if self.above >= 0:
            return self.above
        leading = masked.take(self._rows) == self.top
        first = int(leading.argmax())
        if not leading.item(first):
            return -1
        kinds = self._kinds
        self._others, self._next = others, first
        self._listed = np.where(leading, kinds.of.take(self._rows), _NONE)
        self._seen, self._births = kinds.column.version, kinds.births.generation
        return self._rows.item(first)

    def next(self, others: list[int]) -> int:
        """The row that wins now; -1 if that is not to be known without totals."""
        if self.above >= 0 or self.settled is None or others != self._others:
            return -1
        if not self._quiet(self.settled):
            return -1
        rows, listed, kinds, near = self._rows, self._listed, self._kinds.of, self._next
        while near < len(rows):
            row = rows.item(near)
            if kinds.item(row) == listed.item(near):
                self._next = near
                return row
            end = near + _CHUNK  # pods of other templates may have taken many
            still = kinds.take(rows[near:end]) == listed[near:end]
            first = int(still.argmax())
            near = near + first if still.item(first) else end
        return -1

    def _quiet(self, settled: IntArray) -> bool:
        """Whether no row can have come to the top since totals were known."""
        kinds, seen, births = self._kinds, self._seen, self._births
        if self._near is None:
            self._most = int(settled.max())
            self._near = self._reaching()
        if kinds.births.generation != births:
            born = kinds.born(births)
            if born is None:
                return False
            self._near.update([kind for kind in born if self._reach(kind) >= self.top])
            self._births = kinds.births.generation
        arrived = kinds.arrived
        return all([arrived[kind] <= seen for kind in self._near])  # noqa: C419  a list is quicker

    def _reach(self, kind: int) -> int:
        """The highest total that a row of a kind may have."""
        total = self._most
        for column, weight in self._by_kind:
            total += weight * column.said.array.item(kind)
        return total

    def _reaching(self) -> set[int]:
        """The kinds that reach the top; those that have had no row are told by their births."""
        sums = sums_by_kind(self._by_kind, self._kinds.size)
        return set(np.flatnonzero(sums >= self.top - self._most).tolist())

"""Which rows of a table are alike: equal numbers for rows that agree in everything that is summed.

Rows are alike if their nodes offer the same and their pods add up to the same. Plugins that look at
nothing else (`Depends.SUMS`) need to be asked about one of them only. A number is never used again
for other sums, so what is remembered by number can be incomplete but not wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayplan.cluster.arrays import IntArray

if TYPE_CHECKING:
    from bayplan.cluster.table import NodeTable

_SPARE = 1024
"""So many numbers more than rows may be known before those without a row are forgotten."""


class RowKinds:
    """Follows the table's journal; call `sync` before reading."""

    __slots__ = ("_generation", "_groups", "_known", "_next", "_table", "of")

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._generation: int | None = None
        self._known: dict[bytes, int] = {}
        self._next = 0
        self.of: IntArray = np.zeros(0, dtype=np.int64)
        """By row; entries beyond the last row mean nothing."""
        self._groups: tuple[int, tuple[IntArray, IntArray] | None] | None = None

    def sync(self) -> None:
        """Look at the rows that changed."""
        journal, seen, count = self._table.changes, self._generation, self._table.count
        if journal.generation == seen:
            return
        rows = None if seen is None else journal.since(seen)
        if len(self.of) < count:
            self.of = np.concatenate([self.of, np.zeros(count, dtype=np.int64)])
        if rows is None:
            self._number(range(count))
        elif len(rows) == 1:
            if rows[0] < count:
                self.of[rows[0]] = self._kind(self._table.sums_at(rows[0]))
        else:
            self._number([row for row in set(rows) if row < count])
        self._generation = journal.generation
        if len(self._known) > 2 * count + _SPARE:
            self._renumber(count)

    def _renumber(self, count: int) -> None:
        """Forget kinds without rows; the others get new numbers that lie close together."""
        used, places = np.unique(self.of[:count], return_inverse=True)
        sums_of = {kind: sums for sums, kind in self._known.items()}
        first = self._next
        self._known = {sums_of[kind]: first + n for n, kind in enumerate(used.tolist())}
        self.of[:count] = first + places
        self._next = first + len(used)

    def _number(self, rows: Sequence[int]) -> None:
        lines = self._table.sums_of(np.array(rows, dtype=np.int64))
        text, width = lines.tobytes(), lines.shape[1] * lines.itemsize
        starts = range(0, len(rows) * width, width)
        self.of[rows] = [self._kind(text[start : start + width]) for start in starts]

    def _kind(self, sums: bytes) -> int:
        kind = self._known.get(sums)
        if kind is None:
            kind = self._known[sums] = self._next
            self._next += 1
        return kind

    def groups(self) -> tuple[IntArray, IntArray] | None:
        """One row of each kind, and for every row the place of its kind; None if few are alike."""
        known = self._groups
        if known is None or known[0] != self._generation:
            known = self._groups = (self._generation or 0, self._find_groups())
        return known[1]

    def _find_groups(self) -> tuple[IntArray, IntArray] | None:
        count = self._table.count
        if not count:
            return None
        kinds = self.of[:count]
        least = int(kinds.min())
        span = int(kinds.max()) - least + 1
        first = np.full(span, -1, dtype=np.int64)
        first[kinds - least] = np.arange(count)
        alive = np.flatnonzero(first >= 0)
        if 4 * len(alive) > count:
            return None
        places = np.zeros(span, dtype=np.int64)
        places[alive] = np.arange(len(alive))
        return first[alive], places[kinds - least]

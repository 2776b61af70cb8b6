"""Which rows of a table are alike: equal numbers for rows that agree in everything that is summed.

Rows are alike if their nodes offer the same and their pods add up to the same. Plugins that look at
nothing else (`Depends.SUMS`) are asked about one row of a kind, and what they say is kept by kind.
Within one era a number stands for the same sums for ever, so what is kept can be incomplete but not
wrong. Numbers without a row are forgotten when there are too many; that begins a new era.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayplan.cluster.arrays import IntArray
from bayplan.cluster.column import Column, Rows, rows_of

if TYPE_CHECKING:
    from bayplan.cluster.table import NodeTable


_FEW = 4
"""Up to this many changed rows are looked at one by one."""


class RowKinds:
    """Follows the table's journal; call `sync` before reading."""

    __slots__ = ("_behind", "_generation", "_in_use", "_known", "_table", "column", "era")

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._generation: int | None = None
        self._known: dict[bytes, int] = {}
        self.era = 0
        """Another number after kinds were numbered anew."""
        self.column = Column(table.limits.changes, np.zeros(0, dtype=np.int64))
        """The kind of each row; its version is the clock of all that is kept by kind."""
        self._in_use: tuple[int, tuple[IntArray, IntArray]] | None = None
        self._behind: tuple[int, int, Rows | None, IntArray | None] = (-1, -1, None, None)
        """Two versions, the rows that changed between, and their kinds now."""

    @property
    def of(self) -> IntArray:
        """By row."""
        kinds = self.column.values
        assert kinds is not None
        return kinds

    @property
    def size(self) -> int:
        """So many kinds have been seen in this era, numbered from 0."""
        return len(self._known)

    def sync(self) -> None:
        """Look at the rows that changed."""
        journal, seen, count = self._table.changes, self._generation, self._table.count
        if journal.generation == seen:
            return
        rows = None if seen is None else journal.since(seen)
        self.column.resize(count)
        if rows is None:
            self.column.replace(self._numbers(range(count)))
        elif len(rows) <= _FEW:
            for row in rows:
                if row < count:
                    self.column.set_row(row, self._kind(self._table.sums_at(row)))
        else:
            there = [row for row in dict.fromkeys(rows) if row < count]
            if there:
                places = np.array(there, dtype=np.int64)
                self.column.set_rows(places, self._numbers(there))
        self._generation = journal.generation
        if len(self._known) > 2 * count + self._table.limits.alike:
            self._renumber()

    def changed(self, version: int) -> Rows | None:
        """The rows of which the kind changed after a version of the column; None: any may have.

        Those who stopped at the same version get the same array.
        """
        now, behind = self.column.version, self._behind
        if behind[0] != version or behind[1] != now:
            found = self.column.since(version)
            rows = None if found is None else rows_of(found, len(self.of))
            kinds = None if rows is None or isinstance(rows, int) else self.of.take(rows)
            behind = self._behind = (version, now, rows, kinds)
        return behind[2]

    def at(self, rows: IntArray) -> IntArray:
        """The kinds of some rows."""
        behind = self._behind
        if rows is behind[2] and behind[1] == self.column.version:
            assert behind[3] is not None
            return behind[3]
        return self.of.take(rows)

    def in_use(self) -> tuple[IntArray, IntArray]:
        """The kinds that rows have, and one row of each."""
        known, version = self._in_use, self.column.version
        if known is None or known[0] != version:
            of = self.of
            row_of = np.full(self.size, -1, dtype=np.int64)
            row_of[of] = np.arange(len(of))
            kinds = np.flatnonzero(row_of >= 0)
            known = self._in_use = (version, (kinds, row_of[kinds]))
        return known[1]

    def _renumber(self) -> None:
        """Forget kinds without rows."""
        used, places = np.unique(self.of, return_inverse=True)
        sums_of = {kind: sums for sums, kind in self._known.items()}
        self._known = {sums_of[kind]: number for number, kind in enumerate(used.tolist())}
        self.era += 1
        self.column.put(places.astype(np.int64, copy=False))

    def _numbers(self, rows: Sequence[int]) -> IntArray:
        lines = self._table.sums_of(np.array(rows, dtype=np.int64))
        text, width = lines.tobytes(), lines.shape[1] * lines.itemsize
        starts = range(0, len(rows) * width, width)
        kinds = [self._kind(text[start : start + width]) for start in starts]
        return np.array(kinds, dtype=np.int64)

    def _kind(self, sums: bytes) -> int:
        known = self._known
        return known.setdefault(sums, len(known))

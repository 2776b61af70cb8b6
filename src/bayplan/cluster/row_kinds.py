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
from bayplan.cluster.journal import Journal

if TYPE_CHECKING:
    from bayplan.cluster.table import NodeTable


_FEW = 4
"""Up to this many changed rows are looked at one by one."""


class RowKinds:
    """Follows the table's journal; call `sync` before reading."""

    __slots__ = (
        "_asked",
        "_behind",
        "_born",
        "_generation",
        "_in_use",
        "_known",
        "_row_of",
        "_table",
        "_users",
        "arrived",
        "births",
        "column",
        "era",
    )

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._generation: int | None = None
        self._known: dict[bytes, int] = {}
        self.era = 0
        """Another number after kinds were numbered anew."""
        self.column = Column(table.limits.changes, np.zeros(0, dtype=np.int64))
        """The kind of each row; its version is the clock of all that is kept by kind."""
        self._in_use: tuple[int, tuple[IntArray, IntArray]] | None = None
        self.births = Journal(table.limits.journal)
        """Kinds that a row came to have while none had them."""
        self._born: tuple[int, int, list[int]] | None = None
        """Two births and the kinds that came up between them."""
        self._asked: tuple[int, list[int], list[int]] | None = None
        """A version, some kinds and a row of each that had one."""
        self._users: list[int] = []
        """How many rows each kind has."""
        self.arrived: list[int] = []
        """By kind the version of `column` up to which rows may have come to have it."""
        self._row_of: list[int] = []
        """A row of each kind, when it was given one last."""
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
        size = len(self.of)
        self.column.resize(count)
        if rows is None:
            self.column.replace(self._numbers(range(count)))
            self._count()
        elif len(rows) <= _FEW and count >= size:
            for row in dict.fromkeys(rows):  # a pod that is bound is noted twice
                if row < count:
                    self._give(row, self._kind(self._table.sums_at(row)), row >= size)
                    size = max(size, row + 1)
        else:
            there = [row for row in dict.fromkeys(rows) if row < count]
            if there:
                places = np.array(there, dtype=np.int64)
                self.column.set_rows(places, self._numbers(there))
            self._count()
        self._generation = journal.generation
        if len(self._known) > 2 * count + self._table.limits.alike:
            self._renumber()

    def _give(self, row: int, kind: int, new: bool) -> None:
        """A row is of a kind now; a new row was of none before."""
        users = self._users
        if not new:
            old = self.of.item(row)
            if old == kind:
                return
            users[old] -= 1
        self.column.set_row(row, kind)
        self.arrived[kind] = self.column.version
        users[kind] += 1
        self._row_of[kind] = row
        if users[kind] == 1:
            self.births.note(kind)

    def _count(self) -> None:
        """Count the rows of each kind anew."""
        before = self._users
        self.arrived = [self.column.version] * self.size
        self._users = np.bincount(self.of, minlength=self.size).tolist()
        self._row_of = [-1] * self.size
        for kind, row in zip(*(found.tolist() for found in self.in_use()), strict=True):
            self._row_of[kind] = row
        for kind, (now, then) in enumerate(zip(self._users, before, strict=True)):
            if now and not then:
                self.births.note(kind)

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

    def born(self, birth: int) -> list[int] | None:
        """The kinds that came up after a birth, each once; None: any may have.

        Those who stopped at the same birth get the same list.
        """
        known, now = self._born, self.births.generation
        if known is None or known[0] != birth or known[1] != now:
            noted = self.births.since(birth)
            if noted is None:
                return None
            known = self._born = (birth, now, list(dict.fromkeys(noted)))
        return known[2]

    def rows_of(self, kinds: list[int]) -> list[int]:
        """One row of each of some kinds that has any; plugins ask for the same one by one."""
        known, version = self._asked, self.column.version
        if known is None or known[0] != version or known[1] != kinds:
            rows = [self._one_of(kind) for kind in kinds if self._users[kind]]
            known = self._asked = (version, kinds, rows)
        return known[2]

    def _one_of(self, kind: int) -> int:
        of, row = self.of, self._row_of[kind]
        if not 0 <= row < len(of) or of.item(row) != kind:
            row = self._row_of[kind] = int(np.flatnonzero(of == kind)[0])
        return row

    def _renumber(self) -> None:
        """Forget kinds without rows."""
        used, places = np.unique(self.of, return_inverse=True)
        sums_of = {kind: sums for sums, kind in self._known.items()}
        self._known = {sums_of[kind]: number for number, kind in enumerate(used.tolist())}
        self.era += 1
        self.column.put(places.astype(np.int64, copy=False))
        self._users = [0] * self.size
        self._count()
        self.births.restart()

    def _numbers(self, rows: Sequence[int]) -> IntArray:
        lines = self._table.sums_of(np.array(rows, dtype=np.int64))
        text, width = lines.tobytes(), lines.shape[1] * lines.itemsize
        starts = range(0, len(rows) * width, width)
        kinds = [self._kind(text[start : start + width]) for start in starts]
        return np.array(kinds, dtype=np.int64)

    def _kind(self, sums: bytes) -> int:
        kind = self._known.get(sums)
        if kind is None:
            kind = self._known[sums] = len(self._known)
            self._users.append(0)
            self.arrived.append(self.column.version)
            self._row_of.append(-1)
        return kind

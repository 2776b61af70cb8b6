"""Values by kind of row (`bayplan.cluster.row_kinds`), read like a column of rows.

Only the kinds are followed row by row, once for all plugins; what a plugin says about a kind never
changes while numbers of kinds mean the same. A record holds the values and a moment of the kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bayplan.cluster.arrays import IntArray
from bayplan.cluster.column import Rows, Values
from bayplan.cluster.row_kinds import RowKinds

UNKNOWN = -(1 << 15)
"""Stands for a value that has not been asked for; one that is equal to it is asked for again."""

_WIDE = np.dtype(np.int64)


class Said:
    """What was said by kind; grows, but no value that somebody may have read changes."""

    __slots__ = ("array",)

    def __init__(self, array: Values) -> None:
        self.array = array


class KindColumn:
    """One value a kind of row, read by row; follow `version` and `since` as with a column."""

    __slots__ = ("_always", "_kinds", "_kinds_column", "_small", "era", "known", "said", "some")

    def __init__(self, kinds: RowKinds, small: npt.DTypeLike, some: bool) -> None:
        """`some`: whether a value may differ from zero before any has been told."""
        self._kinds = kinds
        self._kinds_column = kinds.column
        self._small = np.dtype(small)
        self._always = self.some = some
        self.said = Said(np.zeros(0, dtype=small))
        self.era: int | None = None
        """The kinds' era that the values belong to; None: there are none."""
        self.known = False
        """Whether anything was said about a kind."""

    @property
    def version(self) -> int:
        return self._kinds_column.version

    def since(self, version: int) -> list[Rows] | None:
        """The rows that may have changed after `version`; None: any may have."""
        return self._kinds_column.since(version)

    @property
    def values(self) -> Values | None:
        """By row; None if all are zero."""
        return self.said.array.take(self._kinds.of) if self.some else None

    def item(self, row: int) -> int:
        return self.said.array.item(self._kinds.of.item(row))  # type: ignore[no-any-return]

    def take(self, rows: IntArray) -> Values:
        return self.said.array.take(self._kinds.at(rows))

    # -- learning -------------------------------------------------------------------------------

    def forget(self) -> None:
        """Begin anew; those who follow look at everything again."""
        if self.known:
            self._kinds_column.restart()
        self._begin()

    def _begin(self) -> None:
        self.said = Said(np.zeros(0, dtype=self._small))
        self.era, self.known, self.some = self._kinds.era, False, self._always

    def missing(self, stamp: int | None) -> list[int]:
        """One row of each kind without a value, if those alive at a birth had one; None: of any.

        There is room for all kinds afterwards.
        """
        kinds = self._kinds
        if self.era != kinds.era:
            self._begin()
            stamp = None
        if len(self.said.array) < kinds.size:
            self._grow(kinds.size)
        values = self.said.array
        born = None if stamp is None else kinds.born(stamp)
        if born is None:
            used, rows = kinds.in_use()
            found: list[int] = rows.compress(values.take(used) == UNKNOWN).tolist()
            return found
        value_of = values.item
        wanted = [kind for kind in born if value_of(kind) == UNKNOWN]
        return kinds.rows_of(wanted) if wanted else wanted

    def _grow(self, size: int) -> None:
        old = self.said.array
        array = np.full(size + size // 2 + 16, UNKNOWN, dtype=old.dtype)
        array[: len(old)] = old
        self.said.array = array

    def learn(self, rows: list[int], values: Sequence[int]) -> None:
        """Take what was said about rows that were missing."""
        low, high = min(values), max(values)
        limits: Any = np.iinfo(self.said.array.dtype)
        if not limits.min <= low <= high <= limits.max:
            self.said.array = self.said.array.astype(_WIDE)
        self.said.array[self._kinds.of.take(rows)] = values
        self.known = True
        self.some = self.some or low != 0 or high != 0

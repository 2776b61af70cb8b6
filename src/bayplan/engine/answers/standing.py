"""How a kept answer stands to the journal that it follows: fresh, behind by some rows, or void."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayplan.cluster.arrays import IntArray
from bayplan.framework import NodeTable


class Fresh(NamedTuple):
    """Nothing changed since the answer was given."""


class Void(NamedTuple):
    """Everything has to be asked."""


class Behind:
    """Some rows changed since; made once for all answers that stopped at the same place."""

    __slots__ = ("_array", "_kinds", "_table", "rows")

    def __init__(self, table: NodeTable, rows: list[int]) -> None:
        self._table = table
        self.rows = rows
        """Each once."""
        self._array: IntArray | None = None
        self._kinds: list[int] | None = None

    @property
    def array(self) -> IntArray:
        """The rows as an array; the same one at each call."""
        if self._array is None:
            self._array = np.array(self.rows, dtype=np.int64)
        return self._array

    @property
    def kinds(self) -> list[int]:
        """Which of the rows are alike (`bayplan.cluster.kinds`)."""
        if self._kinds is None:
            kinds = self._table.kinds
            kinds.sync()
            one = len(self.rows) == 1
            self._kinds = (
                [kinds.of.item(self.rows[0])] if one else kinds.of.take(self.array).tolist()
            )
        return self._kinds


FRESH, VOID = Fresh(), Void()
Standing = Fresh | Behind | Void


def distinct(rows: Sequence[int], count: int) -> list[int]:
    """Noted rows that are still there, each once."""
    if len(rows) == 1:
        return [rows[0]] if rows[0] < count else []
    return [row for row in dict.fromkeys(rows) if row < count]

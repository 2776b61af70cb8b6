"""How a kept answer stands to the journal that it follows: fresh, behind by some rows, or void."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from bayplan.cluster.arrays import IntArray
from bayplan.cluster.column import Rows


class Fresh(NamedTuple):
    """Nothing changed since the answer was given."""


class Void(NamedTuple):
    """Everything has to be asked."""


class Behind:
    """Some rows changed since; made once for all answers that stopped at the same place."""

    __slots__ = ("_array", "rows")

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows
        """Each once."""
        self._array: IntArray | None = None

    @property
    def array(self) -> IntArray:
        """The rows as an array; the same one at each call."""
        if self._array is None:
            self._array = np.array(self.rows, dtype=np.int64)
        return self._array


FRESH, VOID = Fresh(), Void()
Standing = Fresh | Behind | Void


def distinct(rows: Sequence[int], count: int) -> list[int]:
    """Noted rows that are still there, each once."""
    if len(rows) == 1:
        return [rows[0]] if rows[0] < count else []
    return [row for row in dict.fromkeys(rows) if row < count]


class Telling(Protocol):
    """What can be followed."""

    def since(self, version: int) -> list[Rows] | None:
        """The rows that changed after `version`; None: any may have."""


def rows_to_trust(columns: Sequence[tuple[Telling, int]], count: int) -> list[int]:
    """The rows that no column says have changed after the version beside it."""
    changed: set[int] = set()
    for column, version in columns:
        found = column.since(version)
        if found is None:
            return []
        for rows in found:
            changed.update([rows] if isinstance(rows, int) else rows.tolist())
    return [row for row in range(count) if row not in changed]

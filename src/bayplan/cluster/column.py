"""Values by row that tell what changed since when, and what they were.

Whoever computes something from a column remembers the column's version and later asks for the rows
that changed `since`. The same notes serve records: a record holds a `History` and how many of its
changes had happened, which gives the array of that moment back. Arrays are never changed while
somebody else may hold them as a whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bayplan.cluster.arrays import IntArray

Values = npt.NDArray[Any]
Rows = int | IntArray


class History:
    """An array as it was, and every change since, in order; shared by many records."""

    __slots__ = ("base", "rows", "start", "values")

    def __init__(self, base: Values | None, start: int) -> None:
        self.base = base
        self.start = start
        """The column's version when this began."""
        self.rows: list[Rows] = []
        """What changed, in order."""
        self.values: list[Any] = []
        """What it became."""

    def array(self, end: int) -> Values | None:
        """The array as it was after `end` changes."""
        if self.base is None or not end:
            return self.base
        size = max(len(self.base), *(_beyond(rows) for rows in self.rows[:end]))
        array: Values = np.zeros(size, dtype=self.base.dtype)
        array[: len(self.base)] = self.base
        for rows, values in zip(self.rows[:end], self.values, strict=False):
            array[rows] = values
        return array


def _beyond(rows: Rows) -> int:
    """The number of rows that there are at least."""
    return (rows if isinstance(rows, int) else int(rows.max(initial=-1))) + 1


class Column:
    """One value a row; None as a whole stands for all zero."""

    __slots__ = ("_limit", "_room", "history", "unpaid", "values", "version")

    def __init__(self, limit: int, values: Values | None = None) -> None:
        self._limit = limit
        self.values = values
        self._room: Values | None = None
        """What `values` is the beginning of, if nobody else holds it."""
        self.version = 0
        """Another number after every change."""
        self.unpaid = 0
        """Bytes of the history that no record has accounted for yet, roughly."""
        self.history = History(values, 0)

    @property
    def some(self) -> bool:
        """Whether any value may differ from zero."""
        return self.values is not None

    def item(self, row: int) -> int:
        values = self.values
        return 0 if values is None else int(values.item(row))

    def take(self, rows: IntArray) -> Values:
        values = self.values
        return np.zeros(len(rows), dtype=np.uint8) if values is None else values.take(rows)

    def since(self, version: int) -> list[Rows] | None:
        """The rows that changed after `version`, in order; None: any may have."""
        history = self.history
        start = version - history.start
        return None if start < 0 else history.rows[start:]

    def replace(self, values: Values | None) -> None:
        """Take whole new values; notes single rows if few differ. Do not change them later."""
        old = self.values
        if values is old:
            return
        if values is None or old is None or len(values) < len(old) or values.dtype != old.dtype:
            self._restart(values)
            return
        if len(values) > len(old):
            self.resize(len(values))
            old = self.values
        differs = values != old
        changed = int(np.count_nonzero(differs))
        if changed == 1:
            row = int(differs.argmax())
            self._write(row, values[row])
        elif 3 * changed >= len(values):
            self._restart(values)
        elif changed:
            rows = differs.nonzero()[0]
            self._write(rows, values[rows])

    def put(self, values: Values) -> None:
        """Take whole new values that nobody follows row by row. Do not change them later."""
        self._restart(values)

    def restart(self) -> None:
        """Let everybody who follows look at all rows again."""
        self._restart(self.values)

    def set_row(self, row: int, value: int) -> None:
        values = self.values
        assert values is not None
        if values[row] != value:
            self._write(row, value)

    def set_rows(self, rows: IntArray, values: Any) -> None:
        old = self.values
        assert old is not None
        differs = old.take(rows) != values
        changed = np.count_nonzero(differs)
        if changed == len(rows):
            self._write(rows, values)
        elif changed:
            self._write(rows.compress(differs), values[differs] if np.ndim(values) else values)

    def write_rows(self, rows: IntArray, values: Values) -> None:
        """Set rows without looking whether they differ; each row must be there once."""
        self._write(rows, values)

    def resize(self, count: int) -> None:
        """The table has another number of rows now; new ones hold zero until they are set."""
        values = self.values
        if values is None or len(values) == count:
            return
        size = len(values)
        if count < size:
            self._restart(values[:count].copy())
            return
        if self._room is None or len(self._room) < count:
            self._make_own(count + count // 8)
        assert self._room is not None
        self.values = self._room[:count]
        self.values[size:] = 0
        more = size if count == size + 1 else np.arange(size, count, dtype=np.int64)
        self._note(more, np.zeros(count - size, dtype=values.dtype) if count > size + 1 else 0)

    def _make_own(self, room: int) -> None:
        """Copy the values, which records may hold, to where there is room for more."""
        values = self.values
        assert values is not None
        self._room = np.zeros(room, dtype=values.dtype)
        self._room[: len(values)] = values
        self.values = self._room[: len(values)]

    def _note(self, rows: Rows, values: Any) -> None:
        if len(self.history.rows) >= self._limit:
            self._restart(self.values)
            return
        self.history.rows.append(rows)
        self.history.values.append(values)
        self.version += 1
        self.unpaid += 64 if isinstance(rows, int) else 10 * len(rows)

    def _write(self, rows: Rows, values: Any) -> None:
        if len(self.history.rows) >= self._limit:
            self._restart(self.values)
        if self._room is None:
            assert self.values is not None
            self._make_own(len(self.values))
        array = self.values
        assert array is not None
        array[rows] = values
        self._note(rows, values)

    def _restart(self, values: Values | None) -> None:
        self.version += 1
        self.history = History(values, self.version)
        self.values, self._room = values, None
        self.unpaid += 0 if values is None else values.nbytes


def rows_of(changes: list[Rows], count: int) -> Rows:
    """Noted rows as one array, which may hold a row twice, or as one row if there is no other."""
    if len(changes) == 1:
        return changes[0]
    try:
        rows = set(changes)  # quick while all are single rows
    except TypeError:  # arrays cannot be in a set
        single = {rows for rows in changes if isinstance(rows, int)}
        # Columns that followed the same rows noted the very same array.
        arrays = {id(rows): rows for rows in changes if not isinstance(rows, int)}
        return _joined(list(arrays.values()), single, count)
    if len(rows) == 1:
        return rows.pop()
    return np.array(list(rows), dtype=np.int64)


def _joined(arrays: list[IntArray], single: set[int], count: int) -> IntArray:
    if single:
        arrays.append(np.array(list(single), dtype=np.int64))
    if len(arrays) == 1:
        return arrays[0]
    found: IntArray = np.concatenate(arrays)
    if len(found) > count // 4:
        mask = np.zeros(count, dtype=bool)
        mask[found] = True
        found = mask.nonzero()[0]
    return found

"""The rows that pass a set of filters, put together from their columns."""

from __future__ import annotations

import numpy as np

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.engine.answers.answer import Answer
from bayplan.engine.answers.asking import Desk
from bayplan.engine.answers.column import Column, Rows, rows_of
from bayplan.engine.cycle.choice import ListOrder


class Candidates:
    """Shared by all pods that the same answers speak about; a row fits if no answer rejects it."""

    __slots__ = (
        "__weakref__",
        "_desk",
        "_heap_keys",
        "_seen",
        "_serial",
        "count",
        "filters",
        "fits",
    )

    def __init__(self, desk: Desk, filters: tuple[Answer, ...]) -> None:
        self._desk = desk
        self._serial = desk.serial()
        self.filters = filters
        self.fits = Column(desk.limits.changes)
        """True where a row passes."""
        self.count = 0
        self._seen: list[int] | None = None
        """The version of each filter's column that `fits` was put together from; None: void."""
        self._heap_keys: tuple[int, IntArray, int, IntArray] | None = None

    @property
    def mask(self) -> BoolArray:
        mask = self.fits.values
        assert mask is not None
        return mask

    @property
    def version(self) -> int:
        return self.fits.version

    @property
    def stamp(self) -> tuple[int, int]:
        """Stands for these rows and no others."""
        return self._serial, self.fits.version

    def sync(self) -> None:
        """Follow the columns."""
        if not self.filters and self._seen is not None:
            values = self.fits.values
            if values is not None and len(values) == self._desk.table.count:
                return
        rows = self._changed_rows()
        if rows is None:
            mask = np.ones(self._desk.table.count, dtype=bool)
            for answer in self.filters:
                values = answer.fails.values
                if values is not None:
                    mask &= values == 0
            self.fits.replace(mask)
            self.count = int(np.count_nonzero(mask))
        elif isinstance(rows, int):
            self._sync_row(rows)
        elif len(rows):
            fits = np.ones(len(rows), dtype=bool)
            for answer in self.filters:
                values = answer.fails.values
                if values is not None:
                    fits &= values[rows] == 0
            self.fits.set_rows(rows, fits)
            self.count = int(np.count_nonzero(self.mask))
        self._seen = [answer.fails.version for answer in self.filters]

    def problems(self) -> list[str]:
        """What differs from the filters' columns, if those were followed."""
        if self._seen is None or self._seen != [a.fails.version for a in self.filters]:
            return []
        columns = [answer.fails.values for answer in self.filters]
        fits = [
            not any(column is not None and column[row] for column in columns)
            for row in range(len(self.mask))
        ]
        if fits == self.mask.tolist() and self.count == sum(fits):
            return []
        return [f"candidates of {[answer.name for answer in self.filters]}"]

    def _sync_row(self, row: int) -> None:
        fits = True
        for answer in self.filters:
            values = answer.fails.values
            if values is not None and values[row]:
                fits = False
        if self.mask[row] != fits:
            self.fits.set_row(row, fits)
            self.count += 1 if fits else -1

    def _changed_rows(self) -> Rows | None:
        """The rows to look at again; None for all."""
        values, seen = self.fits.values, self._seen
        self._seen = None
        if seen is None or values is None or len(values) != self._desk.table.count:
            return None
        changes: list[Rows] = []
        for answer, version in zip(self.filters, seen, strict=True):
            column = answer.fails
            if column.version != version:
                found = column.since(version)
                if found is None:
                    return None
                changes += found
        return rows_of(changes, len(values))

    def heap_keys(self, order: ListOrder, start: int) -> IntArray:
        """Keys of rows in upstream's heap of candidates, kept while these stay the same."""
        known, version = self._heap_keys, self.version
        if known is None or known[0] != version or known[1] is not order.rows or known[2] != start:
            keys = order.heap_keys(self.mask, start)
            known = self._heap_keys = (version, order.rows, start, keys)
        return known[3]

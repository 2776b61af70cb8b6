"""How empty sites are, kept by blocks, so that the emptiest are found without looking at all.

The *emptiness* of a site for one shape of request (a pool of machines, types of volumes) is what
`SiteResourcesLeastAllocated` adds up for a request of nothing, before rounding; no request gets
more, and how much less at least follows from the largest site. Rows stand in blocks of 64 whose
greatest emptiness is kept too. A table notes which rows were touched (`SiteTable.touched`), so
that one placement costs its own rows and blocks, whatever the number of sites.

What it does not do: say what fits, or rank (`quick`).
"""

from collections.abc import Iterable, Sequence
from operator import mul

import msgspec
import numpy as np

from bayplan.cluster.arrays import FloatArray, IntArray
from bayplan.global_scheduler.plugins.scores import (
    CPU_WEIGHT,
    FULL,
    MEMORY_WEIGHT,
    STORAGE_WEIGHT,
)
from bayplan.global_scheduler.table import SiteTable

BITS = 6
BLOCK = 1 << BITS
FEW = 16
"""Rows that are brought up to date one by one; more go at once."""
Shape = tuple[str, tuple[str, ...]]
"""A pool and volume types."""


class Part(msgspec.Struct):
    """What is asked for as one: its weight, the columns that are free, those of the whole."""

    weight: int
    free: Sequence[IntArray]
    total: Sequence[IntArray]
    largest: int = 1


class Emptiness:
    """The emptiness of every row, and the greatest of every block."""

    def __init__(self, table: SiteTable, shape: Shape) -> None:
        key, kinds = shape
        pool = table.pools[key]
        self.parts = [
            Part(CPU_WEIGHT, [pool.free_vcpus], [pool.vcpus]),
            Part(MEMORY_WEIGHT, [pool.free_memory], [pool.memory]),
        ]
        if kinds:
            storage = [table.storage[kind] for kind in kinds]
            free, total = [each.free for each in storage], [each.total for each in storage]
            self.parts.append(Part(STORAGE_WEIGHT, free, total))
        for part in self.parts:
            part.largest = max(int(sum(part.total).max()), 1)  # type: ignore[union-attr]
        self.weight = sum(part.weight for part in self.parts)
        self._each = [part.weight * FULL / part.largest for part in self.parts]
        self.seen = len(table.touched)
        blocks = -(-table.count // BLOCK)
        self.value: FloatArray = np.full(blocks * BLOCK, -1.0)
        self.value[: table.count] = self._of(slice(table.count))
        self._blocks = self.value.reshape(blocks, BLOCK)
        self.best: FloatArray = self._blocks.max(axis=1)

    def _of(self, rows: IntArray | slice) -> FloatArray:
        result: FloatArray = np.zeros(1)
        for part in self.parts:
            free = sum(column[rows] for column in part.free)
            total = sum(column[rows] for column in part.total)
            result = result + part.weight * FULL * np.maximum(free, 0) / np.maximum(total, 1)
        return result

    def _of_one(self, row: int) -> float:
        result = 0.0
        for part in self.parts:
            free = sum(column.item(row) for column in part.free)
            total = sum(column.item(row) for column in part.total)
            result += part.weight * FULL * max(free, 0) / max(total, 1)
        return result

    def catch_up(self, touched: Sequence[int | IntArray]) -> None:
        """Bring the rows that were touched since the last time up to date."""
        if self.seen == len(touched):
            return
        rows = _flat(touched[self.seen :])
        self.seen = len(touched)
        if len(rows) <= FEW:
            for row in rows:
                self.value[row] = self._of_one(row)
            for block in {row >> BITS for row in rows}:
                self.best[block] = self._blocks[block].max()
            return
        some = np.fromiter(rows, np.int64, len(rows))
        self.value[some] = self._of(some)
        blocks = np.unique(some >> BITS)
        self.best[blocks] = self._blocks[blocks].max(axis=1)

    def least_taken(self, amounts: tuple[int, int, int]) -> float:
        """By how much a request of this many vcpus, memory and GB is worse off at least."""
        return float(sum(map(mul, self._each, amounts)))

    def rows_from(self, value: float) -> IntArray:
        """The rows that are at least so empty, in order."""
        blocks = np.flatnonzero(self.best >= value)
        block, place = np.nonzero(self._blocks[blocks] >= value)
        return (blocks[block] << BITS) + place


def _flat(touched: Iterable[int | IntArray]) -> set[int]:
    rows: set[int] = set()
    for at in touched:
        if isinstance(at, int):
            rows.add(at)
        else:
            rows.update(at.tolist())
    return rows

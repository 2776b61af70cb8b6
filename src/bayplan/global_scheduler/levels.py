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


class Emptiness:
    """The emptiness of every row, and the greatest of every block.

    `free` has what a request is held against, one line each: vcpus, memory, every type of volume;
    `whole` what there is of vcpus, memory and all these types together.
    """

    def __init__(self, table: SiteTable, shape: Shape) -> None:
        key, kinds = shape
        pool, storage = table.pools[key], [table.storage[kind] for kind in kinds]
        self._columns = [pool.free_vcpus, pool.free_memory, *(each.free for each in storage)]
        self.free: IntArray = np.array(self._columns)
        totals = np.array([pool.vcpus, pool.memory, *(each.total for each in storage)])
        self.whole: IntArray = np.maximum(together(totals), 1)
        self.weights = np.array([CPU_WEIGHT, MEMORY_WEIGHT, STORAGE_WEIGHT][: len(self.whole)])
        self.weight = int(self.weights.sum())
        self._scale = (FULL * self.weights).tolist()
        largest = self.whole.max(axis=1).tolist()
        self._each = [scale / most for scale, most in zip(self._scale, largest, strict=True)]
        self.seen = len(table.touched)
        blocks = -(-table.count // BLOCK)
        self.value: FloatArray = np.full(blocks * BLOCK, -1.0)
        self.value[: table.count] = self._of(slice(table.count))
        self._blocks = self.value.reshape(blocks, BLOCK)
        self.best: FloatArray = self._blocks.max(axis=1)

    def _of(self, rows: IntArray | slice) -> FloatArray:
        free, whole = np.maximum(together(self.free[:, rows]), 0), self.whole[:, rows]
        result: FloatArray = (np.array(self._scale)[:, None] * free / whole).sum(axis=0)
        return result

    def _of_one(self, row: int, free: list[int]) -> float:
        whole = self.whole[:, row].tolist()
        free[2:] = [sum(free[2:])] * (len(whole) - 2)
        result = 0.0
        for scale, left, all_ in zip(self._scale, free, whole, strict=True):
            result += scale * max(left, 0) / all_
        return result

    def catch_up(self, touched: Sequence[int | IntArray]) -> None:
        """Bring the rows that were touched since the last time up to date."""
        if self.seen == len(touched):
            return
        rows = _flat(touched[self.seen :])
        self.seen = len(touched)
        if len(rows) <= FEW:
            for row in rows:
                free = [column.item(row) for column in self._columns]
                self.free[:, row] = free
                self.value[row] = self._of_one(row, free)
            for block in {row >> BITS for row in rows}:
                self.best[block] = np.maximum.reduce(self._blocks[block])
            return
        some = np.fromiter(rows, np.int64, len(rows))
        self.free[:, some] = [column[some] for column in self._columns]
        self.value[some] = self._of(some)
        [blocks] = np.bincount(some >> BITS).nonzero()
        self.best[blocks] = self._blocks[blocks].max(axis=1)

    def least_taken(self, amounts: tuple[int, int, int]) -> float:
        """By how much a request of this many vcpus, memory and GB is worse off at least."""
        return float(sum(map(mul, self._each, amounts)))

    def rows_from(self, value: float) -> IntArray:
        """The rows that are at least so empty, in order."""
        [blocks] = (self.best >= value).nonzero()
        [places] = (self._blocks[blocks].ravel() >= value).nonzero()
        rows: IntArray = (blocks[places >> BITS] << BITS) + (places & (BLOCK - 1))
        return rows


def together(lines: IntArray) -> IntArray:
    """Vcpus, memory and volumes of one type or more: all volumes as one line."""
    if len(lines) <= 3:
        return lines
    return np.concatenate((lines[:2], lines[2:].sum(axis=0, keepdims=True)))


def _flat(touched: Iterable[int | IntArray]) -> set[int]:
    rows: set[int] = set()
    for at in touched:
        if isinstance(at, int):
            rows.add(at)
        else:
            rows.update(at.tolist())
    return rows

"""Who wins among nodes with the highest score: kube-scheduler's order, exactly.

Upstream builds a binary heap over the feasible nodes, in list order from a moving start, and takes
its root. Heapify swaps a child up only if it is strictly better, so among equals the winner is the
one that comes first in a pre-order walk of the implicit tree. That order depends only on a node's
rank in the list, so ranks have fixed keys, computed once.
"""

from __future__ import annotations

import numpy as np

from bayplan.framework import BoolArray, IntArray, NodeTable

_DEPTH = 26
_CHUNK = 256
"""So many rows are looked at first when the best of many is sought."""


def preorder_keys(count: int) -> IntArray:
    """A key for each heap index; smaller keys come earlier in a pre-order walk."""
    numbers = np.arange(1, count + 1, dtype=np.int64)  # (n,): index in a heap that starts at 1
    depth = np.frexp(numbers.astype(np.float64))[1].astype(np.int64) - 1
    return (numbers << (_DEPTH - depth)) * 64 + depth


class ListOrder:
    """Rows in list order and the heap keys of places in it."""

    def __init__(self) -> None:
        self.rows: IntArray = np.zeros(0, dtype=np.int64)
        """Another array after every change of the order."""
        self.keys: IntArray = np.zeros(0, dtype=np.int64)
        self._walk: IntArray = self.keys
        """Heap indices by key."""
        self._turned: tuple[int, IntArray, IntArray] = (0, self.rows, self.rows)
        """A start, the rows, and the rows from that start on."""

    def sync(self, table: NodeTable) -> ListOrder:
        self.rows = table.order
        if len(self.keys) < table.count:
            self.keys = preorder_keys(max(table.count, 2 * len(self.keys)))
            self._walk = self.keys.argsort()
        return self

    def of(self, rows: IntArray) -> ListOrder:
        """The same for some rows, in the order in which they are given."""
        some = ListOrder()
        some.rows, some.keys, some._walk = rows, self.keys, self._walk
        return some

    def from_place(self, start: int) -> IntArray:
        """All rows in list order from a place on; one search asks more than once."""
        known, rows, turned = self._turned
        if known != start or rows is not self.rows:
            rows = self.rows
            turned = np.roll(rows, -start) if start else rows
            self._turned = start, rows, turned
        return turned

    def heap_keys(self, feasible: BoolArray, start: int) -> IntArray:
        """For each row its key in upstream's heap, when the search starts at place `start`."""
        listed = self.listed(feasible, start)
        # Rows that do not fit have any key; nobody asks for it.
        keys: IntArray = np.empty(len(feasible), dtype=np.int64)
        keys[listed] = self.keys[: len(listed)]
        return keys

    def walk(self, feasible: BoolArray, start: int) -> IntArray:
        """The feasible rows by heap key: among equals, the first of these wins."""
        listed = self.listed(feasible, start)
        # A key hangs on the index alone, so a smaller heap is walked like a larger one.
        return listed.take(self._walk.compress(self._walk < len(listed)))

    def leading(self, listed: IntArray, totals: IntArray, top: int) -> IntArray:
        """Some rows that have a total, the first by heap key at the beginning; there is one.

        Rows are looked at by key, ever more at a time, until one has it.
        """
        start, end = 0, _CHUNK
        while start < len(self._walk):
            places = self._walk[start:end]
            rows = listed.take(places.compress(places < len(listed)))
            found = rows.compress(totals.take(rows) == top)
            if len(found):
                return found
            start, end = end, 8 * end
        raise ValueError(f"no row has a total of {top}")

    def listed(self, feasible: BoolArray, start: int) -> IntArray:
        """The feasible rows in list order from place `start` on: heap index to row."""
        rows = self.from_place(start)
        everywhere = np.count_nonzero(feasible) == len(rows)
        return rows if everywhere else rows.compress(feasible.take(rows))

    def first(self, feasible: BoolArray, start: int) -> int:
        """The place of the feasible row that the search from `start` finds first: heap index 0."""
        near = feasible.take(self.rows[start : start + _CHUNK])
        first = int(near.argmax())
        if near.item(first):
            return start + first
        rows = self.from_place(start)
        return (int(feasible.take(rows).argmax()) + start) % len(rows)


def sample(
    order: ListOrder, feasible: BoolArray, start: int, wanted: int, within: BoolArray | None
) -> tuple[BoolArray, BoolArray, int]:
    """Search the list from `start` until `wanted` nodes fit.

    Returns which rows were found, which were looked at at all, and how many those are. `within`
    limits the search to some rows (a PreFilter's).
    """
    rows = order.from_place(start)
    if within is not None:
        rows = rows[within[rows]]
    fits = feasible[rows]
    places = np.flatnonzero(fits)
    end = len(rows) if len(places) < wanted else int(places[wanted - 1]) + 1
    seen = np.zeros(len(feasible), dtype=bool)
    seen[rows[:end]] = True
    return feasible & seen, seen, end


def nodes_to_find(percentage: int, count: int) -> int:
    """How many fitting nodes upstream looks for; 0 means its adaptive rule."""
    if count < 100 or percentage >= 100:
        return count
    share = percentage or max(5, 50 - count // 125)
    return max(100, count * share // 100)

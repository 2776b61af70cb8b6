"""The numbers of a node table: what nodes offer, what their pods use; one array a column.

Arrays have room for more rows than there are, so that a node that comes is a number written, not
an array copied.
"""

from __future__ import annotations

import numpy as np

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.cluster.info import PodInfo
from bayplan.cluster.nodes import CodeArray
from bayplan.cluster.resources import resource_count

NO_PODS = np.iinfo(np.int64).max
"""`min_priority` of a node without pods."""

_ROOM = 64
"""Rows that there is room for at first."""


class RowNumbers:
    """Columns of numbers over `count` rows; the node table adds what they are about."""

    def __init__(self) -> None:
        self.count = 0
        self.capacity = _ROOM
        self._all_rows = np.arange(_ROOM, dtype=np.int64)
        resources = max(resource_count(), 4)
        self._allocatable = np.zeros((resources, _ROOM), dtype=np.int64)
        self._requested = np.zeros((resources, _ROOM), dtype=np.int64)
        self._numbers = np.zeros((6, _ROOM), dtype=np.int64)
        self._unschedulable = np.zeros(_ROOM, dtype=bool)
        self._taint_sets = np.zeros(_ROOM, dtype=np.int64)

    # -- what plugins read (part of the Nodes protocol) ---------------------------------------

    @property
    def rows(self) -> IntArray:
        return self._all_rows[: self.count]

    def allocatable(self, resource: int) -> IntArray:
        return self._resource(self._allocatable, resource)

    def requested(self, resource: int) -> IntArray:
        return self._resource(self._requested, resource)

    @property
    def nonzero_cpu(self) -> IntArray:
        return self._numbers[0, : self.count]

    @property
    def nonzero_memory(self) -> IntArray:
        return self._numbers[1, : self.count]

    @property
    def allowed_pods(self) -> IntArray:
        return self._numbers[2, : self.count]

    @property
    def pod_count(self) -> IntArray:
        return self._numbers[3, : self.count]

    @property
    def min_priority(self) -> IntArray:
        return self._numbers[4, : self.count]

    @property
    def unschedulable(self) -> BoolArray:
        return self._unschedulable[: self.count]

    @property
    def taint_sets(self) -> CodeArray:
        return self._taint_sets[: self.count]

    # -- several columns of some rows -----------------------------------------------------------

    def blocks(self, rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """For some rows: what is offered and used by resource id, and the other numbers."""
        return (
            self._allocatable.take(rows, axis=1),
            self._requested.take(rows, axis=1),
            self._numbers.take(rows, axis=1),
        )

    def sums_of(self, rows: IntArray) -> IntArray:
        """All that is summed of some rows, a line each."""
        allocatable, requested, numbers = self.blocks(rows)
        lines: IntArray = np.concatenate([allocatable, requested, numbers[:4]]).T
        return lines

    def sums_at(self, row: int) -> bytes:
        """The same of one row."""
        numbers = self._numbers[:4, row].tobytes()
        return self._allocatable[:, row].tobytes() + self._requested[:, row].tobytes() + numbers

    # -- changes ----------------------------------------------------------------------------------

    def _clear_row(self, row: int) -> None:
        """Start a row anew, without pods."""
        self._numbers[:, row] = (0, 0, 0, 0, NO_PODS, 0)
        self._requested[:, row] = 0

    def _offer(self, row: int, offers: list[tuple[int, int]], pods: int) -> None:
        """Set what a node offers by resource id, and how many pods it allows."""
        self._make_resources()
        self._allocatable[:, row] = 0
        for number, amount in offers:
            self._allocatable[number, row] = amount
        self._numbers[2, row] = pods

    def _sum(self, info: PodInfo, row: int, sign: int) -> None:
        """Count a pod in, or out."""
        requested, numbers, traits = self._requested, self._numbers, info.traits
        for number, amount in traits.used:
            if number >= len(requested):
                self._make_resources()
                requested = self._requested
            requested[number, row] += sign * amount
        cpu, memory = traits.resources.nonzero
        numbers[0, row] += sign * cpu
        numbers[1, row] += sign * memory
        numbers[3, row] += sign

    # -- room -------------------------------------------------------------------------------------

    def _resource(self, columns: IntArray, resource: int) -> IntArray:
        if resource >= len(columns):
            return np.zeros(self.count, dtype=np.int64)
        column: IntArray = columns[resource, : self.count]
        return column

    def _make_resources(self) -> None:
        wanted = resource_count()
        if wanted > len(self._allocatable):
            more = ((0, max(wanted, 2 * len(self._allocatable)) - len(self._allocatable)), (0, 0))
            self._allocatable = np.pad(self._allocatable, more)
            self._requested = np.pad(self._requested, more)

    def _make_room(self, row: int) -> None:
        if row < self.capacity:
            return
        more = self.capacity
        self.capacity += more
        wide = ((0, 0), (0, more))
        self._allocatable = np.pad(self._allocatable, wide)
        self._requested = np.pad(self._requested, wide)
        self._numbers = np.pad(self._numbers, wide)
        self._unschedulable = np.pad(self._unschedulable, (0, more))
        self._taint_sets = np.pad(self._taint_sets, (0, more))
        self._all_rows = np.arange(self.capacity, dtype=np.int64)

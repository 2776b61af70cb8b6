"""What a plugin sees of the node table: all rows, or a selection of them, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.cluster.info import NodeInfo

if TYPE_CHECKING:
    from bayplan.cluster.table import NodeTable

CodeArray = npt.NDArray[np.int64]


class Nodes(Protocol):
    """What a plugin sees: all rows of a table, or a selection of them, in one order.

    Arrays have one entry a row of *this* view, must not be changed, and are good for one call.
    """

    @property
    def count(self) -> int: ...
    @property
    def table(self) -> NodeTable:
        """The full table, for counts and topology that reach beyond the selected rows."""

    @property
    def rows(self) -> IntArray:
        """Where each row of this view stands in the full table."""

    def pick(self, column: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Bring an array over the full table to the rows of this view."""

    def names(self) -> Sequence[str]: ...
    def allocatable(self, resource: int) -> IntArray:
        """What nodes offer of a resource id (`bayplan.cluster.resources`)."""

    def requested(self, resource: int) -> IntArray:
        """What placed pods use of a resource id."""

    @property
    def nonzero_cpu(self) -> IntArray:
        """CPU used, with the defaults for containers that ask for none; for scoring."""

    @property
    def nonzero_memory(self) -> IntArray: ...
    @property
    def allowed_pods(self) -> IntArray: ...
    @property
    def pod_count(self) -> IntArray: ...
    @property
    def min_priority(self) -> IntArray:
        """The lowest priority of a placed pod, NO_PODS where there is none."""

    @property
    def unschedulable(self) -> BoolArray: ...
    @property
    def taint_sets(self) -> CodeArray:
        """A number for each distinct list of taints; `table.taints[number]` is the list."""

    def label_codes(self, key: str) -> CodeArray:
        """A number for each distinct value of a label, -1 where the node does not have it."""

    def label_values(self, key: str) -> Sequence[str]:
        """The values that the codes of a label stand for."""

    def info(self, place: int) -> NodeInfo:
        """One row of this view in scalar form."""


class NodeSelection:
    """Some rows of a table; the same surface, numbers gathered together when first asked for."""

    __slots__ = ("_blocks", "count", "rows", "table")

    def __init__(self, table: NodeTable, rows: IntArray) -> None:
        self.table = table
        self.rows = rows
        self.count = len(rows)
        self._blocks: tuple[IntArray, IntArray, IntArray] | None = None

    def pick(self, column: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        return column[self.rows]

    def names(self) -> Sequence[str]:
        nodes = self.table.nodes
        return [nodes[row].metadata.name for row in self.rows.tolist()]

    def _block(self, number: int) -> IntArray:
        blocks = self._blocks
        if blocks is None:
            blocks = self._blocks = self.table.blocks(self.rows)
        return blocks[number]

    def _resource(self, block: IntArray, resource: int) -> IntArray:
        if resource >= len(block):
            return np.zeros(self.count, dtype=np.int64)
        column: IntArray = block[resource]
        return column

    def allocatable(self, resource: int) -> IntArray:
        return self._resource(self._block(0), resource)

    def requested(self, resource: int) -> IntArray:
        return self._resource(self._block(1), resource)

    @property
    def nonzero_cpu(self) -> IntArray:
        return self._resource(self._block(2), 0)

    @property
    def nonzero_memory(self) -> IntArray:
        return self._resource(self._block(2), 1)

    @property
    def allowed_pods(self) -> IntArray:
        return self._resource(self._block(2), 2)

    @property
    def pod_count(self) -> IntArray:
        return self._resource(self._block(2), 3)

    @property
    def min_priority(self) -> IntArray:
        return self._resource(self._block(2), 4)

    @property
    def unschedulable(self) -> BoolArray:
        return self.table.unschedulable[self.rows]

    @property
    def taint_sets(self) -> CodeArray:
        return self.table.taint_sets[self.rows]

    def label_codes(self, key: str) -> CodeArray:
        return self.table.label_codes(key)[self.rows]

    def label_values(self, key: str) -> Sequence[str]:
        return self.table.label_values(key)

    def info(self, place: int) -> NodeInfo:
        return self.table.info(int(self.rows[place]))

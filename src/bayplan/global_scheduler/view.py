"""Some rows of a site table, as plugins see them.

A selector that names regions leaves few of many sites; columns are then taken at those rows only,
so that an allocation costs what its regions cost.
"""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from bayplan.global_scheduler.table import IntArray, SiteTable

D = TypeVar("D", bound=np.generic)


class SiteView:
    """A table, or a selection of its rows in order."""

    def __init__(self, table: SiteTable, rows: IntArray | None = None) -> None:
        self.table = table
        self.rows = rows
        self.count = table.count if rows is None else len(rows)

    def take(self, column: npt.NDArray[D]) -> npt.NDArray[D]:
        """A column of the table at this view's rows; do not change it."""
        return column if self.rows is None else column[self.rows]

    def table_row(self, row: int) -> int:
        """The table's row of a row of this view."""
        return row if self.rows is None else int(self.rows[row])

    def narrow(self, positions: IntArray) -> "SiteView":
        """The view at some of its rows."""
        return SiteView(self.table, positions if self.rows is None else self.rows[positions])

"""What a filter answers about a whole table: which rows fit, and why the others do not.

A verdict is an array of small numbers, one a row: 0 fits, k stands for `outcomes[k - 1]`.
Reasons are thus stored once, not once a node, and the text of a failure is a count over numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from bayplan.cluster.arrays import BoolArray
from bayplan.errors import PluginError
from bayplan.framework.contract.status import Code, Status

OutcomeArray = npt.NDArray[np.uint16]


class Sized(Protocol):
    """Anything with rows; a table of nodes or of sites."""

    @property
    def count(self) -> int: ...


class Verdict:
    """Which rows pass a filter.

    `Verdict(mask, code, reasons)` gives all failing rows the same status; `Verdict.by_outcome`
    takes a number a row for filters with several ways to fail.
    """

    __slots__ = ("_mask", "count", "outcomes", "which")

    def __init__(
        self,
        mask: BoolArray,
        code: Code = Code.UNSCHEDULABLE,
        reasons: str | Sequence[str] = (),
    ) -> None:
        self._mask: BoolArray | None = mask
        self.count = len(mask)
        self.outcomes: tuple[Status, ...] = (Status(code, reasons),)
        self.which: npt.NDArray[np.integer] | None = None
        """None: rows outside the mask have `outcomes[0]`. Else 0 fits, k is `outcomes[k - 1]`."""

    @classmethod
    def all_pass(cls, table: Sized) -> Verdict:
        """Every row fits; costs nothing."""
        verdict = cls.__new__(cls)
        verdict._mask, verdict.which, verdict.outcomes = None, None, ()
        verdict.count = table.count
        return verdict

    @classmethod
    def none_pass(cls, table: Sized, status: Status) -> Verdict:
        """Every row fails for the same reason."""
        return cls(np.zeros(table.count, dtype=bool), status.code, status.reasons)

    @classmethod
    def by_outcome(cls, which: npt.NDArray[np.integer], outcomes: Sequence[Status]) -> Verdict:
        """Give each row 0 (fits) or k, which stands for `outcomes[k - 1]`."""
        verdict = cls.__new__(cls)
        verdict._mask, verdict.which = None, which
        verdict.outcomes, verdict.count = tuple(outcomes), len(which)
        return verdict

    @property
    def passes_all(self) -> bool:
        """Whether the filter said so without looking at rows."""
        return self._mask is None and self.which is None

    @property
    def mask(self) -> BoolArray:
        """True where the row fits."""
        if self._mask is None:
            if self.which is None:
                self._mask = np.ones(self.count, dtype=bool)
            else:
                self._mask = self.which == 0
        return self._mask

    def status_of(self, row: int) -> Status | None:
        """What the filter says about one row; None means it fits."""
        if self.which is not None:
            number = int(self.which[row])
            return None if number == 0 else self.outcomes[number - 1]
        return None if self._mask is None or self._mask[row] else self.outcomes[0]

    def check(self, rows: int, plugin: str) -> None:
        """Raise PluginError unless the verdict has the shape that its table asks for."""
        if self.count != rows:
            raise PluginError(
                f'plugin "{plugin}" returned a verdict over {self.count} rows for a table of {rows}'
            )
        array = self.which if self.which is not None else self._mask
        if array is not None and array.ndim != 1:
            raise PluginError(f'plugin "{plugin}" returned a verdict with shape {array.shape}')
        if self.which is None and self._mask is not None and self._mask.dtype != np.bool_:
            raise PluginError(
                f'plugin "{plugin}" returned a mask of {self._mask.dtype}; it must be bool'
            )
        which = self.which
        if which is None or not rows:
            return
        if which.max() > len(self.outcomes) or (which.dtype.kind == "i" and which.min() < 0):
            raise PluginError(f'plugin "{plugin}" returned an outcome number without a status')

"""A label of all nodes as numbers: equal values have equal codes, nodes without it have -1."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class LabelColumn:
    """The codes of one label key by row, and the values they stand for.

    Codes are never reused, so a value that no node has any more keeps its code.
    """

    __slots__ = ("_ids", "codes", "key", "values", "version")

    def __init__(self, key: str, capacity: int) -> None:
        self.key = key
        self.codes: npt.NDArray[np.int32] = np.full(capacity, -1, dtype=np.int32)
        self.values: list[str] = []
        self._ids: dict[str, int] = {}
        self.version = 0

    def set(self, row: int, value: str | None) -> None:
        code = -1 if value is None else self.code_for(value)
        if self.codes[row] != code:
            self.codes[row] = code
            self.version += 1

    def code_for(self, value: str) -> int:
        """The code of a value, given out on first use."""
        code = self._ids.get(value)
        if code is None:
            code = self._ids[value] = len(self.values)
            self.values.append(value)
        return code

    def code_of(self, value: str) -> int:
        """The code of a value, or -1 if no node ever had it."""
        return self._ids.get(value, -1)

    def grow(self, capacity: int) -> None:
        more = capacity - len(self.codes)
        self.codes = np.pad(self.codes, (0, more), constant_values=-1)

"""A label of all nodes as numbers: equal values have equal codes, nodes without it have -1."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class Domains:
    """The rows by value of a label, as they were at one moment; the last domain has no label."""

    __slots__ = ("_rows", "codes", "sizes")

    def __init__(self, codes: npt.NDArray[np.int64], sizes: list[int]) -> None:
        self.codes = codes
        """The domain of each row."""
        self.sizes = sizes
        """How many rows each domain has."""
        self._rows: dict[int, npt.NDArray[np.int64]] = {}

    def rows(self, domain: int) -> npt.NDArray[np.int64]:
        """The rows of a domain."""
        found = self._rows.get(domain)
        if found is None:
            found = self._rows[domain] = np.flatnonzero(self.codes == domain)
        return found


class LabelColumn:
    """The codes of one label key by row, and the values they stand for.

    Codes are never reused, so a value that no node has any more keeps its code and size 0.
    """

    __slots__ = ("_domains", "_ids", "codes", "key", "labelled", "sizes", "values")

    def __init__(self, key: str, capacity: int) -> None:
        self.key = key
        # Wider than needed, because numpy gathers three times as fast with its own index type.
        self.codes: npt.NDArray[np.int64] = np.full(capacity, -1, dtype=np.int64)
        self.values: list[str] = []
        self.sizes: list[int] = []
        """How many rows have each value."""
        self.labelled = 0
        """How many rows have the label."""
        self._ids: dict[str, int] = {}
        self._domains: Domains | None = None

    def domains(self, count: int) -> Domains:
        """The first `count` rows by value; the same object until that changes."""
        known = self._domains
        if known is None or len(known.codes) != count:
            codes = self.codes[:count].copy()
            codes[codes < 0] = len(self.values)
            known = self._domains = Domains(codes, [*self.sizes, count - self.labelled])
        return known

    def set(self, row: int, value: str | None) -> None:
        """Give a row a value, or take its label off."""
        new = -1 if value is None else self.code_for(value)
        old = int(self.codes[row])
        if old == new:
            return
        self.codes[row] = new
        self._domains = None
        if old >= 0:
            self.sizes[old] -= 1
            self.labelled -= 1
        if new >= 0:
            self.sizes[new] += 1
            self.labelled += 1

    def code_for(self, value: str) -> int:
        """The code of a value, given out on first use."""
        code = self._ids.get(value)
        if code is None:
            code = self._ids[value] = len(self.values)
            self.values.append(value)
            self.sizes.append(0)
        return code

    def code_of(self, value: str) -> int:
        """The code of a value, or -1 if no node ever had it."""
        return self._ids.get(value, -1)

    def grow(self, capacity: int) -> None:
        more = capacity - len(self.codes)
        self.codes = np.pad(self.codes, (0, more), constant_values=-1)

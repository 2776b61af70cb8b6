"""The domains with the fewest pods while pods come and go in a dry run.

Upstream keeps two of them. As long as pods change in one domain that is exact; where they come back
in several, one that was not among the two can have fewer than both, and upstream does not notice.
"""

from __future__ import annotations

import numpy as np

from bayplan.framework import BoolArray, IntArray

_NONE = (2**31 - 1, -1)


class LeastTwo:
    """Count and label code of two domains, the least first; upstream draws among equal ones."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: tuple[int, int] = _NONE, second: tuple[int, int] = _NONE) -> None:
        self._first = first
        self._second = second

    @classmethod
    def of(cls, counts: IntArray, present: BoolArray) -> LeastTwo:
        """Of the domains that are taken in."""
        codes = np.flatnonzero(present)
        left = counts[codes]  # (domains,), a copy
        found = []
        for _ in range(min(2, len(codes))):
            place = int(left.argmin())
            found.append((int(left[place]), int(codes[place])))
            left[place] = _NONE[0]
        return cls(*found)

    @property
    def least(self) -> int:
        return self._first[0]

    def clone(self) -> LeastTwo:
        return LeastTwo(self._first, self._second)

    def update(self, code: int, count: int) -> None:
        """A domain has so many pods now."""
        changed, first, second = (count, code), self._first, self._second
        if code == first[1]:
            first = changed
        elif code == second[1] or first[0] <= count < second[0]:
            second = changed
        elif count < first[0]:
            first, second = changed, first
        if first[0] > second[0]:
            first, second = second, first
        self._first, self._second = first, second

"""Sums over a collection, kept: each version of an object is looked into once.

Quotas and service addresses ask for every write what all others of a collection use. Who reads the
collection tells a tally what is new in it; `totals` are the sums, without what is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any


class Tally:
    """What `amounts` finds in the objects of a collection, summed by name."""

    def __init__(self, amounts: Callable[[dict[str, Any]], Mapping[str, int]]) -> None:
        self.totals: dict[str, int] = {}
        self._amounts = amounts
        self._seen: dict[str, tuple[int, Mapping[str, int]]] = {}

    @property
    def size(self) -> int:
        """Return how many objects are known."""
        return len(self._seen)

    def knows(self, key: str, revision: int) -> bool:
        seen = self._seen.get(key)
        return seen is not None and seen[0] == revision

    def see(self, key: str, revision: int, obj: dict[str, Any]) -> None:
        """Look into an object that is new, or is of a new version."""
        self._forget(key)
        amounts = self._amounts(obj)
        self._seen[key] = revision, amounts
        self._add(amounts, 1)

    def keep(self, keys: Collection[str]) -> None:
        """Forget all but these, which are known."""
        if len(keys) < len(self._seen):
            for key in self._seen.keys() - set(keys):
                self._forget(key)

    def _forget(self, key: str) -> None:
        _, amounts = self._seen.pop(key, (0, {}))
        self._add(amounts, -1)

    def _add(self, amounts: Mapping[str, int], times: int) -> None:
        for name, amount in amounts.items():
            total = self.totals.get(name, 0) + times * amount
            if total:
                self.totals[name] = total
            else:
                self.totals.pop(name, None)

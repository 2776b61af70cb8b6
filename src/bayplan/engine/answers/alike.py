"""What plugins said about rows that are alike (`bayplan.cluster.kinds`), so that one is asked.

Each answer has a dictionary from kind of row to what its plugin said; all of a profile together are
bounded. Forgetting costs time, never an answer.
"""

from __future__ import annotations

from collections.abc import Mapping

Said = dict[int, int]
"""Kind of row to outcome number or score."""


class Remembered:
    """Bounds what all answers of a profile remember by kind of row."""

    __slots__ = ("_held", "_limit", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._held: list[Said] = []

    def add(self, said: Said, more: Mapping[int, int]) -> None:
        """Remember more in `said`; if that is too much in all, everybody forgets."""
        self._size += len(more)
        if self._size > self._limit:
            for held in self._held:
                held.clear()
            self._held.clear()
            self._size = len(more)
        if not said:
            self._held.append(said)
        said.update(more)

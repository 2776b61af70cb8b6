"""Which rows changed, in order, for readers that remember how far they have read."""

from __future__ import annotations


class Journal:
    """A list of rows with a moving start; what is too long ago cannot be told."""

    __slots__ = ("_limit", "_rows", "_start", "generation")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rows: list[int] = []
        self._start = 0
        self.generation = 0
        """How many changes there have been."""

    def note(self, row: int) -> None:
        """A row changed."""
        rows = self._rows
        rows.append(row)
        self.generation += 1
        if len(rows) > self._limit:
            gone = len(rows) - self._limit // 2
            del rows[:gone]
            self._start += gone

    def since(self, generation: int) -> list[int] | None:
        """Rows that changed after `generation`, maybe repeated; None: look at everything."""
        start = generation - self._start
        return None if start < 0 else self._rows[start:]

    def restart(self) -> None:
        """Let every reader look at everything."""
        self.generation += 1
        self._rows, self._start = [], self.generation

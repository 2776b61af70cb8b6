"""What a record keeps of a column: the array itself, or a moment of its history."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy.typing as npt

from bayplan.engine.answers.column import Column, History

Kept = npt.NDArray[Any] | tuple[History, int] | None


class Share(NamedTuple):
    """One plugin's numbers at one moment."""

    plugin: str
    weight: int
    values: Kept
    raw: Kept = None

    @classmethod
    def of(cls, plugin: str, weight: int, column: Column, raw: Column | None = None) -> Share:
        """The present moment of a column."""
        return cls(plugin, weight, moment(column), None if raw is None else moment(raw))


def moment(column: Column) -> tuple[History, int]:
    history = column.history
    return history, len(history.rows)


def array(kept: Kept) -> npt.NDArray[Any] | None:
    """The numbers as they were; do not change them."""
    return kept[0].array(kept[1]) if isinstance(kept, tuple) else kept


def pay(columns: Iterable[Column]) -> int:
    """The bytes that a record is the first to hold on to, roughly."""
    size = 0
    for column in columns:
        size += column.unpaid
        column.unpaid = 0
    return size

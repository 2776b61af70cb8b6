"""What a record keeps of a column: the array itself, or a moment of its history."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy.typing as npt

from bayplan.engine.answers.column import Column, History
from bayplan.engine.answers.domains import ByDomain, DomainShare

Kept = npt.NDArray[Any] | tuple[History, int] | ByDomain | None


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


class Layout:
    """Where the scores of a set of plugins are found, as long as no column begins anew."""

    __slots__ = ("_histories", "_named", "_raws", "raw_versions")

    def __init__(
        self, parts: Sequence[tuple[str, int, Column, Column | None]], raw_versions: list[int]
    ) -> None:
        """Name, weight, scores and raw scores of each plugin."""
        self._named = [(name, weight) for name, weight, _, _ in parts]
        self._histories = [column.history for _, _, column, _ in parts]
        self._raws = [None if raw is None else moment(raw) for _, _, _, raw in parts]
        self.raw_versions = raw_versions

    def shares(self, versions: list[int], domain: DomainShare | None) -> tuple[Share, ...]:
        """Each plugin's numbers at one moment; a version below 0 stands for those by domain."""
        found: list[Share] = []
        each = zip(self._named, self._histories, self._raws, versions, strict=True)
        for (name, weight), history, raw, version in each:
            if version < 0:
                assert domain is not None
                found.append(Share(name, weight, domain.record(), domain.raw))
            else:
                found.append(Share(name, weight, (history, version - history.start), raw))
        return tuple(found)


class ScoreMoment:
    """All plugins' numbers at one moment, put together when somebody asks."""

    __slots__ = ("_domain", "_layout", "_versions")

    def __init__(self, layout: Layout, versions: list[int], domain: DomainShare | None) -> None:
        self._layout = layout
        self._versions = versions
        self._domain = domain

    def shares(self) -> tuple[Share, ...]:
        return self._layout.shares(self._versions, self._domain)


def moment(column: Column) -> tuple[History, int]:
    history = column.history
    return history, len(history.rows)


def array(kept: Kept) -> npt.NDArray[Any] | None:
    """The numbers as they were; do not change them."""
    if isinstance(kept, ByDomain):
        return kept.array()
    return kept[0].array(kept[1]) if isinstance(kept, tuple) else kept


def pay(columns: Iterable[Column]) -> int:
    """The bytes that a record is the first to hold on to, roughly."""
    size = 0
    for column in columns:
        size += column.unpaid
        column.unpaid = 0
    return size

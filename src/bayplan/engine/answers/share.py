"""What a record keeps of a column: the array itself, or a moment of its history."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy.typing as npt

from bayplan.cluster.column import Column, History
from bayplan.engine.answers.domains import ByDomain, DomainShare
from bayplan.engine.answers.kind_column import KindColumn, Said

AnyColumn = Column | KindColumn


class ByKind(NamedTuple):
    """Numbers by kind of row, and the rows' kinds after some changes of their history."""

    kinds: History
    end: int
    said: Said

    def array(self) -> npt.NDArray[Any]:
        kinds = self.kinds.array(self.end)
        assert kinds is not None
        return self.said.array.take(kinds)


class ByRow(NamedTuple):
    """An array after some changes of its history."""

    history: History
    end: int

    def array(self) -> npt.NDArray[Any] | None:
        return self.history.array(self.end)


Kept = npt.NDArray[Any] | ByRow | ByKind | ByDomain | None


class Share(NamedTuple):
    """One plugin's numbers at one moment."""

    plugin: str
    weight: int
    values: Kept
    raw: Kept = None

    @classmethod
    def of(cls, plugin: str, weight: int, column: AnyColumn) -> Share:
        """The present moment of a column."""
        return cls(plugin, weight, moment(column))


class Layout:
    """Where the scores of a set of plugins are found, as long as no column begins anew."""

    __slots__ = ("_named", "_raws", "_said", "histories", "raw_versions")

    def __init__(
        self, parts: Sequence[tuple[str, int, AnyColumn, Column | None]], raw_versions: list[int]
    ) -> None:
        """Name, weight, scores and raw scores of each plugin."""
        self._named = [(name, weight) for name, weight, _, _ in parts]
        self.histories = [column.history for _, _, column, _ in parts]
        self._said = [c.said if isinstance(c, KindColumn) else None for _, _, c, _ in parts]
        self._raws = [None if raw is None else moment(raw) for _, _, _, raw in parts]
        self.raw_versions = raw_versions

    def shares(self, versions: list[int]) -> list[Share]:
        """Each plugin's numbers at one moment."""
        found: list[Share] = []
        each = zip(self._named, self.histories, self._said, self._raws, versions, strict=True)
        for (name, weight), history, said, raw, version in each:
            end = version - history.start
            kept = ByRow(history, end) if said is None else ByKind(history, end, said)
            found.append(Share(name, weight, kept, raw))
        return found


class ScoreMoment:
    """All plugins' numbers at one moment, put together when somebody asks."""

    __slots__ = ("_by_domain", "_layout", "_versions")

    def __init__(self, layout: Layout, versions: list[int]) -> None:
        self._layout = layout
        self._versions = versions
        self._by_domain: tuple[int, str, int, DomainShare] | None = None

    def add(self, place: int, name: str, weight: int, share: DomainShare) -> None:
        """One more plugin's, at its place among the others."""
        self._by_domain = (place, name, weight, share)

    def shares(self) -> tuple[Share, ...]:
        found = self._layout.shares(self._versions)
        if self._by_domain is not None:
            place, name, weight, share = self._by_domain
            found.insert(place, Share(name, weight, share.record(), share.raw))
        return tuple(found)


def moment(column: AnyColumn) -> ByRow | ByKind:
    """What a record keeps of a column."""
    history = column.history
    end = len(history.rows)
    if isinstance(column, KindColumn):
        return ByKind(history, end, column.said)
    return ByRow(history, end)


def array(kept: Kept) -> npt.NDArray[Any] | None:
    """The numbers as they were; do not change them."""
    return kept.array() if isinstance(kept, ByRow | ByKind | ByDomain) else kept


def pay(columns: Iterable[AnyColumn]) -> int:
    """The bytes that a record is the first to hold on to, roughly."""
    size = 0
    for column in columns:
        size += column.unpaid
        column.unpaid = 0
    return size

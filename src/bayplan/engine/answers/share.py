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
    """Where the scores of a set of plugins are found, while only kinds of rows change."""

    __slots__ = ("_named", "_raws", "_values", "kinds", "others")

    def __init__(
        self,
        parts: Sequence[tuple[str, int, AnyColumn, Column | None]],
        kinds: History,
        others: list[int],
    ) -> None:
        """Name, weight, scores and raw scores of each plugin.

        `others` are the versions of all columns that are not kept by kind.
        """
        self._named = [(name, weight) for name, weight, _, _ in parts]
        self._values = [c.said if isinstance(c, KindColumn) else moment(c) for _, _, c, _ in parts]
        self._raws = [None if raw is None else moment(raw) for _, _, _, raw in parts]
        self.kinds = kinds
        self.others = others

    def shares(self, version: int) -> list[Share]:
        """Each plugin's numbers when the kinds had a version."""
        end = version - self.kinds.start
        return [
            Share(name, weight, ByKind(self.kinds, end, v) if isinstance(v, Said) else v, raw)
            for (name, weight), v, raw in zip(self._named, self._values, self._raws, strict=True)
        ]


class ScoreMoment:
    """All plugins' numbers at one moment, put together when somebody asks."""

    __slots__ = ("_by_domain", "_layout", "_version")

    def __init__(self, layout: Layout, version: int) -> None:
        self._layout = layout
        self._version = version
        self._by_domain: tuple[int, str, int, DomainShare] | None = None

    def add(self, place: int, name: str, weight: int, share: DomainShare) -> None:
        """One more plugin's, at its place among the others."""
        self._by_domain = (place, name, weight, share)

    def shares(self) -> tuple[Share, ...]:
        found = self._layout.shares(self._version)
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

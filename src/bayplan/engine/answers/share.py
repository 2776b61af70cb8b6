"""What a record keeps of what plugins said: arrays, moments of columns, and where kinds were.

Most attempts differ from the one before in the kinds of some rows alone. What all others are found
by is a `Layout` that such attempts share, so one more record holds a reference and a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy.typing as npt

from bayplan.cluster.column import Column, History
from bayplan.engine.answers.asking import Desk
from bayplan.engine.answers.domains import ByDomain, DomainShare
from bayplan.engine.answers.kind_column import KindColumn, Said
from bayplan.framework import Outcomes

AnyColumn = Column | KindColumn
Array = npt.NDArray[Any]


class ByRow(NamedTuple):
    """An array after some changes of its history."""

    history: History
    end: int

    def array(self) -> Array | None:
        return self.history.array(self.end)


Kept = Array | ByRow | ByDomain | Said | None


class Share(NamedTuple):
    """One plugin's scores."""

    plugin: str
    weight: int
    values: Kept
    raw: Kept = None
    """Before they were normalised; None if they are not."""


class Score(NamedTuple):
    """The same as arrays; no values if all are zero."""

    plugin: str
    weight: int
    values: Array | None
    raw: Array | None


class Layout:
    """Where the rejections and scores of an attempt are found, while only kinds of rows change."""

    __slots__ = ("_fails", "kinds", "outcomes", "profile", "shares", "stamp")

    def __init__(
        self,
        desk: Desk,
        fails: Sequence[Kept] = (),
        scores: Sequence[Share] = (),
        stamp: object = None,
    ) -> None:
        """`stamp` stands for the state of all columns that are not kept by kind."""
        self.profile = desk.profile.name
        self.outcomes = desk.outcomes
        """What the numbers of rejections stand for."""
        self.kinds = desk.table.kinds.column.history
        self._fails = fails
        self.shares = scores
        self.stamp = stamp

    def fails(self, version: int) -> list[Array]:
        """One array per plugin that rejected a node, when the kinds had a version."""
        kinds = self._kinds(self._fails, version)
        arrays = [array(kept, kinds) for kept in self._fails]
        return [numbers for numbers in arrays if numbers is not None and numbers.any()]

    def scores(self, version: int) -> list[Score]:
        """What each plugin scored then."""
        kinds = self._kinds([share.values for share in self.shares], version)
        return [
            Score(name, weight, array(values, kinds), array(raw))
            for name, weight, values, raw in self.shares
        ]

    def _kinds(self, kept: Sequence[Kept], version: int) -> Array | None:
        """The kinds of all rows, if anything was said by kind."""
        wanted = any(isinstance(item, Said) for item in kept)
        return self.kinds.array(version - self.kinds.start) if wanted else None


class WithDomains(msgspec.Struct, gc=False):
    """A layout, and the scores that one more plugin gave whole domains."""

    layout: Layout
    place: int
    """Of the plugin among the others."""
    plugin: str
    weight: int
    share: DomainShare

    @property
    def profile(self) -> str:
        return self.layout.profile

    @property
    def outcomes(self) -> Outcomes:
        return self.layout.outcomes

    def fails(self, version: int) -> list[Array]:
        return self.layout.fails(version)

    def scores(self, version: int) -> list[Score]:
        found = self.layout.scores(version)
        values, raw = self.share.record().array(), self.share.raw.array()
        found.insert(self.place, Score(self.plugin, self.weight, values, raw))
        return found


def moment(column: AnyColumn) -> ByRow | Said:
    """What a record keeps of a column."""
    if isinstance(column, KindColumn):
        return column.said
    return ByRow(column.history, len(column.history.rows))


def array(kept: Kept, kinds: Array | None = None) -> Array | None:
    """The numbers as they were by row, of these kinds; do not change them."""
    if isinstance(kept, Said):
        assert kinds is not None
        return kept.array.take(kinds)
    return kept.array() if isinstance(kept, ByRow | ByDomain) else kept


def pay(columns: Iterable[AnyColumn]) -> int:
    """The bytes that a record is the first to hold on to, roughly."""
    size = 0
    for column in columns:
        if isinstance(column, Column):  # kinds are paid for once for all
            size += column.unpaid
            column.unpaid = 0
    return size

"""A plugin's answers for one facet that hang on what a node offers and what its pods add up to.

They are kept by kind of row: a row that becomes like another needs no question and no note.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bayplan.engine.answers.answer import Answer
from bayplan.engine.answers.asking import Desk
from bayplan.engine.answers.kind_column import UNKNOWN, KindColumn
from bayplan.engine.answers.row_answer import RowAnswer
from bayplan.framework import BoolArray, Depends, PodInfo
from bayplan.framework.contract.points import MAX_SCORE, MIN_SCORE


class KindAnswer(Answer):
    """Hangs on the kind of a row; its stamps are births of kinds: all alive then have values."""

    usage = True

    def __init__(self, desk: Desk, plugin: Any, points: dict[str, bool], info: PodInfo) -> None:
        super().__init__(desk, plugin, points, info)
        self._kinds = desk.table.kinds
        self.fails: KindColumn = KindColumn(self._kinds, np.int32, some=False)
        self.raw: KindColumn = KindColumn(self._kinds, np.int16, some=True)
        self._stamp: int | None = None
        """How far `fails` has followed the births; None: void."""
        self._score_stamp: int | None = None
        """How far `raw` has."""

    @property
    def settled(self) -> bool:
        """Whether no change of a row can change `fails`: PreFilter, asked once, said so."""
        return self._stamp is not None and (self.skips_filter or not self.filters)

    def refresh(self, info: PodInfo) -> None:
        """Bring `fails` up to date; raises AttemptFailed."""
        stamp, born = self._stamp, self._kinds.births.generation
        if stamp == born:
            return
        self._stamp = None
        self.state.info = info
        if stamp is None:
            self.fails.forget()
            self._ask_pre_filter(self.state, info)
        if self.filters and not self.skips_filter and not self.rejects:
            self._learn(self.fails, stamp, self._numbers_of, info)
        self._stamp = None if self.errs else born

    def refresh_scores(self, info: PodInfo, feasible: BoolArray) -> None:
        """Bring `raw` up to date; raises AttemptFailed."""
        stamp, born = self._score_stamp, self._kinds.births.generation
        if stamp == born:
            return
        self._score_stamp = None
        self.state.info = info
        if stamp is None:
            self.raw.forget()
            self.in_range = True
            self._ask_pre_score(self.state, info, feasible)
        if not self.skips_score:
            self._learn(self.raw, stamp, self._checked_scores_of, info)
        self._score_stamp = born

    def _learn(
        self,
        column: KindColumn,
        stamp: int | None,
        ask: Callable[[list[int], PodInfo], list[int]],
        info: PodInfo,
    ) -> None:
        rows = column.missing(stamp)
        if rows:
            column.learn(rows, ask(rows, info))

    def _checked_scores_of(self, rows: list[int], info: PodInfo) -> list[int]:
        scores = self._scores_of(rows, info)
        if min(scores) < MIN_SCORE or max(scores) > MAX_SCORE:
            self.in_range = False  # wrong only if such a row fits
        return scores

    def problems(self) -> list[str]:
        """What is kept as right and differs from what the plugin says when asked anew."""
        info, table = self.state.info, self.desk.table
        if info is None or not table.count:
            return []
        self._kinds.sync()
        anew = RowAnswer(self.desk, self.plugin, self._points, info, Depends.USAGE)
        anew.refresh(info)
        found: list[str] = []
        if self._stamp is not None and not self.rejects:
            found += self._compared("filter", self.fails, anew.fails.values)
        if self._score_stamp is not None and self.scores:
            anew.refresh_scores(info, np.ones(table.count, dtype=bool))
            if anew.skips_score != self.skips_score:
                found.append(f"{self.name}: whether there are scores")
            elif not self.skips_score:
                found += self._compared("score", self.raw, anew.raw.values)
        return found

    def _compared(self, what: str, kept: KindColumn, anew: Any) -> list[str]:
        """The rows whose kind has another value than the row, as words."""
        if kept.era != self._kinds.era:
            return []
        values, kinds = kept.said.array.tolist(), self._kinds.of.tolist()
        expected = [0] * len(kinds) if anew is None else anew.tolist()
        wrong = [
            row
            for row, (kind, value) in enumerate(zip(kinds, expected, strict=True))
            if kind < len(values) and values[kind] not in (UNKNOWN, value)
        ]
        return [f"{self.name}: {what} of rows {wrong}"] if wrong else []

"""A plugin's answers for one facet that hang, row by row, on the node and the pods on it.

They follow a journal of the table: after a change only the rows that changed are asked again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayplan.engine.answers.answer import ColumnAnswer, compared
from bayplan.engine.answers.asking import Desk
from bayplan.engine.answers.standing import VOID, Behind, Standing, Void
from bayplan.framework import BoolArray, Depends, PodInfo
from bayplan.framework.contract.points import MAX_SCORE, MIN_SCORE


class RowAnswer(ColumnAnswer):
    """Hangs on the node of a row, and, unless it depends on the node alone, on the pods there."""

    def __init__(
        self,
        desk: Desk,
        plugin: Any,
        points: dict[str, bool],
        info: PodInfo,
        depends: Depends,
    ) -> None:
        super().__init__(desk, plugin, points, info)
        table = desk.table
        self.usage = depends is not Depends.NODE
        self._journal = table.changes if self.usage else table.node_changes
        self._stamp: int | None = None
        """How far `fails` has followed the journal; None: void."""
        self._score_stamp: int | None = None
        """How far `raw` has."""
        self._depends = depends

    @property
    def settled(self) -> bool:
        """Whether no change of a row can change `fails`: PreFilter, asked once, said so."""
        return self._stamp is not None and (self.skips_filter or not self.filters)

    def _standing(self, stamp: int | None) -> Standing:
        return VOID if stamp is None else self.desk.standing(self._journal, stamp)

    def problems(self) -> list[str]:
        """What is kept as right and differs from what the plugin says when asked anew."""
        info = self.state.info
        if info is None or not self.desk.table.count:
            return []
        anew = RowAnswer(self.desk, self.plugin, self._points, info, self._depends)
        anew.refresh(info)
        found: list[str] = []
        name, count = self.name, self.desk.table.count
        standing = self._standing(self._stamp)
        if not isinstance(standing, Void) and not self.rejects:
            found += compared(f"{name}: filter", self.fails, anew.fails, standing, count)
        standing = self._standing(self._score_stamp)
        if not isinstance(standing, Void) and self.scores:
            anew.refresh_scores(info, np.ones(count, dtype=bool))
            if anew.skips_score != self.skips_score:
                found.append(f"{name}: whether there are scores")
            elif not self.skips_score:
                found += compared(f"{name}: score", self.raw, anew.raw, standing, count)
        return found

    # -- filters --------------------------------------------------------------------------------

    def refresh(self, info: PodInfo) -> None:
        """Bring `fails` up to date; raises AttemptFailed."""
        generation = self._journal.generation
        if self._stamp == generation:
            return
        if self.settled:
            self._stamp = generation
            return
        standing = self._standing(self._stamp)
        self._stamp = None
        self.state.info = info
        if isinstance(standing, Behind):
            if self.filters and not self.skips_filter and not self.rejects:
                self._follow(standing, info)
        else:
            self._ask_pre_filter(self.state, info)
            self._ask_filter(self.state, info)
        self._stamp = None if self.errs else generation

    def _follow(self, behind: Behind, info: PodInfo) -> None:
        fails, rows, count = self.fails, behind.rows, self.desk.table.count
        self._verdict = None
        fails.resize(count)
        numbers = self._numbers_of(rows, info)
        if fails.values is None:
            if not any(numbers):
                return
            fails.replace(np.zeros(count, dtype=np.uint32))
        if len(rows) == 1:
            fails.set_row(rows[0], numbers[0])
        elif rows:
            fails.set_rows(behind.array, np.array(numbers, dtype=np.uint32))

    # -- scores ---------------------------------------------------------------------------------

    def refresh_scores(self, info: PodInfo, feasible: BoolArray) -> None:
        """Bring `raw` up to date; raises AttemptFailed."""
        generation = self._journal.generation
        if self._score_stamp == generation or (self._score_stamp is not None and self.skips_score):
            return  # that there are no scores no row can change
        standing = self._standing(self._score_stamp)
        self._score_stamp = None
        self.state.info = info
        if not isinstance(standing, Behind):
            self._ask_pre_score(self.state, info, feasible)
            if not self.skips_score:
                self._ask_all_scores(info)
        elif not self.skips_score:
            self._follow_scores(standing, info)
        self._score_stamp = generation

    def _ask_all_scores(self, info: PodInfo) -> None:
        self._take_raw(self._ask_scores(self.state, info, self.desk.table))

    def _follow_scores(self, behind: Behind, info: PodInfo) -> None:
        raw, rows = self.raw, behind.rows
        raw.resize(self.desk.table.count)
        if not rows:
            return
        scores = self._scores_of(rows, info)
        values = raw.values
        assert values is not None
        least, most = min(scores), max(scores)
        outside = least < MIN_SCORE or most > MAX_SCORE
        kind = values.dtype
        if kind != np.int64 and (outside or kind != np.uint8):
            # Wrong only if the row fits, or too large for the column: a whole pass finds out.
            self._ask_all_scores(info)
            return
        self.in_range = self.in_range and not outside
        if self.constant and (least != most or values.item(0) != least):
            self.constant = False
        if len(rows) == 1:
            raw.set_row(rows[0], least)
        else:
            raw.write_rows(behind.array, np.array(scores, dtype=kind))

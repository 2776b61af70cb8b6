"""A plugin's answers for one facet that hang, row by row, on the node and the pods on it.

They follow a journal of the table: after a change only the rows that changed are asked again. Of
rows that are alike one is asked, if the plugin looks at sums only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bayplan.engine.answers.alike import Said
from bayplan.engine.answers.answer import Answer, compared
from bayplan.engine.answers.asking import FEW, Desk
from bayplan.engine.answers.standing import VOID, Behind, Standing, Void
from bayplan.framework import BoolArray, CycleState, Depends, IntArray, PodInfo
from bayplan.framework.contract.points import MAX_SCORE, MIN_SCORE

_MANY = 64
"""More kinds of rows than this are not remembered when all rows are asked."""


class RowAnswer(Answer):
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
        self._scalar_filter = hasattr(plugin, "filter_node")
        self._scalar_score = hasattr(plugin, "score_node")
        self._by_kind = depends is Depends.SUMS
        """Whether rows that are alike are asked once."""
        self._numbers: Said = {}
        self._scores: Said = {}

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
        depends = Depends.USAGE if self._by_kind else self._depends
        anew = RowAnswer(self.desk, self.plugin, self._points, info, depends)
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
            self._numbers.clear()
            self._ask_pre_filter(self.state, info)
            self._ask_filter(self.state, info)
        self._stamp = None if self.errs else generation

    def _ask_filter(self, state: CycleState, info: PodInfo) -> None:
        groups = self.desk.groups() if self._by_kind else None
        if groups is None or not self.filters or self.skips_filter or self.rejects:
            super()._ask_filter(state, info)
            return
        rows, places = groups
        numbers = self.desk.numbers(
            self.desk.verdict(self.plugin, state, info, self.desk.table.select(rows)), self.name
        )
        self._verdict = None
        self.fails.replace(None if numbers is None else numbers.take(places))
        said = np.zeros(len(rows), dtype=np.int64) if numbers is None else numbers
        self._remember(self._numbers, rows, said)

    def _follow(self, behind: Behind, info: PodInfo) -> None:
        fails, rows, count = self.fails, behind.rows, self.desk.table.count
        self._verdict = None
        fails.resize(count)
        if self._by_kind:
            numbers = self._said(behind, self._numbers, self._numbers_of, info)
        else:
            numbers = self._numbers_of(rows, info)
        if fails.values is None:
            if not any(numbers):
                return
            fails.replace(np.zeros(count, dtype=np.uint32))
        if len(rows) == 1:
            fails.set_row(rows[0], numbers[0])
        elif rows:
            fails.set_rows(behind.array, np.array(numbers, dtype=np.uint32))

    def _numbers_of(self, rows: list[int], info: PodInfo) -> list[int]:
        """Outcome numbers of some rows, asked now."""
        desk = self.desk
        if len(rows) <= FEW and self._scalar_filter:
            return [desk.number(self.plugin, self.state, info, row) for row in rows]
        verdict = desk.verdict(self.plugin, self.state, info, desk.view(rows))
        numbers = desk.numbers(verdict, self.name)
        return [0] * len(rows) if numbers is None else numbers.tolist()

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
            self._scores.clear()
            self._ask_pre_score(self.state, info, feasible)
            if not self.skips_score:
                self._ask_all_scores(info)
        elif not self.skips_score:
            self._follow_scores(standing, info)
        self._score_stamp = generation

    def _ask_all_scores(self, info: PodInfo) -> None:
        groups = self.desk.groups() if self._by_kind else None
        if groups is None:
            self._take_raw(self._ask_scores(self.state, info, self.desk.table))
            return
        rows, places = groups
        scores = self._ask_scores(self.state, info, self.desk.table.select(rows))
        self._take_raw(scores.take(places))
        self._remember(self._scores, rows, scores)

    def _follow_scores(self, behind: Behind, info: PodInfo) -> None:
        raw, rows = self.raw, behind.rows
        raw.resize(self.desk.table.count)
        if not rows:
            return
        if self._by_kind:
            scores = self._said(behind, self._scores, self._scores_of, info)
        else:
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

    def _scores_of(self, rows: list[int], info: PodInfo) -> list[int]:
        """Scores of some rows, asked now."""
        if len(rows) <= FEW and self._scalar_score:
            return [self._score_one(row, info) for row in rows]
        scores: list[int] = self._ask_scores(self.state, info, self.desk.view(rows)).tolist()
        return scores

    def _score_one(self, row: int, info: PodInfo) -> int:
        try:
            return int(self.plugin.score_node(self.state, info.pod, self.desk.node(row)))
        except Exception as problem:
            raise self.desk.broken(self.name, "score_node", problem) from problem

    # -- rows that are alike --------------------------------------------------------------------

    def _said(
        self,
        behind: Behind,
        known: Said,
        ask: Callable[[list[int], PodInfo], list[int]],
        info: PodInfo,
    ) -> list[int]:
        """What the plugin says about rows, asked only about kinds that it was not asked about."""
        kinds = behind.kinds
        found = list(map(known.get, kinds))
        if None not in found:
            return found  # type: ignore[return-value]  # there is no None
        missing = {
            kind: row
            for kind, row, said in zip(kinds, behind.rows, found, strict=True)
            if said is None
        }
        more = dict(zip(missing, ask(list(missing.values()), info), strict=True))
        result = [
            more[kind] if said is None else said for kind, said in zip(kinds, found, strict=True)
        ]
        self.desk.remembered.add(known, more)
        return result

    def _remember(self, known: Said, rows: IntArray, said: Any) -> None:
        if len(rows) <= _MANY:
            kinds = self.desk.table.kinds.of[rows].tolist()
            self.desk.remembered.add(known, dict(zip(kinds, said.tolist(), strict=True)))

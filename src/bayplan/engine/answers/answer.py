"""One plugin's answers for one facet: what PreFilter said, who fits, how nodes score.

There are three kinds. A `RowAnswer` hangs, row by row, on the node and the pods on it; it follows a
journal of the table. A `KindAnswer` hangs on what these add up to, and is kept by kind of row. A
`ClusterAnswer` may hang on anything; it is asked as a whole, whenever the plugin's revision or a
node changed, or in every attempt if the plugin has no revision. Here is what they have in common.

Validity is a stamp. It is taken away before a plugin is asked and written together with the values
afterwards, so a plugin that raises midway leaves a *void* answer, never a stale one.
"""

from __future__ import annotations

from typing import Any

from bayplan.cluster.column import Column
from bayplan.engine.answers.asking import FEW, AttemptFailed, Desk, as_scores
from bayplan.engine.answers.kind_column import KindColumn
from bayplan.engine.answers.standing import Behind, Standing
from bayplan.errors import RAISED
from bayplan.framework import (
    BoolArray,
    Code,
    CycleState,
    IntArray,
    PodInfo,
    PreFilterResult,
    Status,
    Verdict,
)
from bayplan.framework.contract.points import MAX_SCORE, MIN_SCORE
from bayplan.framework.runtime.filtering import call_pre_filter
from bayplan.framework.runtime.scoring import call_pre_score, call_score


def compared(what: str, kept: Column, anew: Column, standing: Standing, count: int) -> list[str]:
    """The rows on which a kept column differs from one made anew, as words."""
    behind = set(standing.rows) if isinstance(standing, Behind) else set()
    wrong = [row for row in range(count) if row not in behind and _at(kept, row) != _at(anew, row)]
    return [f"{what} of rows {wrong}"] if wrong else []


def _at(column: Column, row: int) -> int | None:
    values = column.values
    if values is None:
        return 0
    return int(values[row]) if row < len(values) else None


class Answer:
    """What all kinds have in common."""

    fails: Column | KindColumn
    """Outcome numbers by row, 0 fits."""
    raw: Column | KindColumn
    """Scores by row, before normalising, if they do not hang on which rows fit."""

    def __init__(self, desk: Desk, plugin: Any, points: dict[str, bool], info: PodInfo) -> None:
        self.desk = desk
        self.plugin = plugin
        self._points = points
        self.name: str = plugin.name
        self.weight = desk.profile.weight_of(plugin.name)
        self.pre_filters, self.filters = points["preFilter"], points["filter"]
        self.pre_scores, self.scores = points["preScore"], points["score"]
        self.normalizes = self.scores and hasattr(plugin, "normalize")
        self.state = CycleState(info)
        """What the plugin wrote; nobody else writes here."""
        self.epoch = 0
        """Grows when PreFilter is asked."""
        self.result: PreFilterResult | None = None
        self.status: Status | None = None
        """What PreFilter said."""
        self.skips_filter = self.rejects = self.errs = False
        self.plain = True
        """Whether PreFilter neither rejected the pod nor narrowed the search."""
        self._scalar_filter = hasattr(plugin, "filter_node")
        self._scalar_score = hasattr(plugin, "score_node")
        self.in_range = True
        """Whether no raw score is outside 0..100, on any row."""
        self.skips_score = not self.scores
        """Whether the plugin has no scores for pods like this, as far as is known."""

    def _ask_pre_filter(self, state: CycleState, info: PodInfo) -> None:
        self.epoch += 1
        self.result = self.status = None
        if self.pre_filters:
            desk = self.desk
            answer = call_pre_filter(desk.profile, self.plugin, state, info.pod, desk.table)
            self.result, self.status = answer
        code = None if self.status is None else self.status.code
        self.skips_filter = code is Code.SKIP
        self.rejects = code not in (None, Code.SUCCESS, Code.SKIP)
        self.errs = code is not None and self.rejects and not code.rejected
        narrows = self.result is not None and self.result.node_names is not None
        self.plain = not narrows and not self.rejects
        if self.skips_filter:
            state.skip_filter.add(self.name)
        else:
            state.skip_filter.discard(self.name)

    def _ask_pre_score(self, state: CycleState, info: PodInfo, feasible: BoolArray) -> None:
        self.skips_score = False
        if not self.pre_scores:
            return
        state.skip_score.discard(self.name)
        desk = self.desk
        problem = call_pre_score(desk.profile, self.plugin, state, info.pod, desk.table, feasible)
        if problem is not None:
            raise AttemptFailed(problem)
        self.skips_score = self.name in state.skip_score

    def _ask_scores(
        self, state: CycleState, info: PodInfo, nodes: Any, feasible: BoolArray | None = None
    ) -> IntArray:
        scores = call_score(self.desk.profile, self.plugin, state, info.pod, nodes, feasible)
        if isinstance(scores, Status):
            raise AttemptFailed(scores)
        return scores

    def _numbers_of(self, rows: list[int], info: PodInfo) -> list[int]:
        """Outcome numbers of some rows, asked now."""
        desk = self.desk
        if len(rows) <= FEW and self._scalar_filter:
            return [desk.number(self.plugin, self.state, info, row) for row in rows]
        verdict = desk.verdict(self.plugin, self.state, info, desk.view(rows))
        numbers = desk.numbers(verdict, self.name)
        return [0] * len(rows) if numbers is None else numbers.tolist()

    def _scores_of(self, rows: list[int], info: PodInfo) -> list[int]:
        """Scores of some rows, asked now."""
        if len(rows) <= FEW and self._scalar_score:
            return [self._score_one(row, info) for row in rows]
        scores: list[int] = self._ask_scores(self.state, info, self.desk.view(rows)).tolist()
        return scores

    def _score_one(self, row: int, info: PodInfo) -> int:
        try:
            return int(self.plugin.score_node(self.state, info.pod, self.desk.node(row)))
        except RAISED as problem:
            raise self.desk.broken(self.name, "score_node", problem) from problem


class ColumnAnswer(Answer):
    """An answer that is kept by row."""

    def __init__(self, desk: Desk, plugin: Any, points: dict[str, bool], info: PodInfo) -> None:
        super().__init__(desk, plugin, points, info)
        self.fails: Column = Column(desk.limits.changes)
        self._verdict: Verdict | None = None
        """What `fails` was made from as a whole; the very same object says nothing new."""
        self.raw: Column = Column(desk.limits.changes)
        self.constant = False
        """Whether all raw scores are equal; then they stay so whichever rows fit."""

    def _ask_filter(self, state: CycleState, info: PodInfo) -> None:
        """Filter over all rows, unless PreFilter made that needless."""
        desk = self.desk
        if self.filters and not self.skips_filter and not self.rejects:
            verdict = self._ask_verdict(state, info)
            if verdict is self._verdict:
                return
            numbers = desk.numbers(verdict, self.name)
            self.fails.replace(numbers)
            self._verdict = verdict
            return
        self._verdict = None
        self.fails.replace(None)

    def _ask_verdict(self, state: CycleState, info: PodInfo) -> Verdict:
        return self.desk.verdict(self.plugin, state, info, self.desk.table)

    def _take_raw(self, scores: IntArray) -> None:
        least, most = int(scores.min()), int(scores.max())
        self.constant = least == most
        self.in_range = MIN_SCORE <= least and most <= MAX_SCORE
        bytewise = not self.normalizes and self.in_range
        self.raw.replace(as_scores(scores) if bytewise else scores)

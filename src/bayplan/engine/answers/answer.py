"""One plugin's answers for one facet: what PreFilter said, who fits, how nodes score.

There are two kinds. A `RowAnswer` hangs, row by row, on the node and the pods on it; it follows a
journal of the table. A `ClusterAnswer` may hang on anything; it is asked as a whole, whenever the
plugin's revision or a node changed, or in every attempt if the plugin has no revision.

Validity is a stamp. It is taken away before a plugin is asked and written together with the values
afterwards, so a plugin that raises midway leaves a *void* answer, never a stale one.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from bayplan.engine.answers.asking import AttemptFailed, Desk, as_scores
from bayplan.engine.answers.column import Column
from bayplan.framework import (
    BoolArray,
    Code,
    CycleState,
    Depends,
    IntArray,
    PodInfo,
    PreFilterResult,
    Status,
    Verdict,
)
from bayplan.framework.contract.points import MAX_SCORE, MIN_SCORE
from bayplan.framework.runtime.filtering import call_pre_filter, row_error
from bayplan.framework.runtime.scoring import call_pre_score, call_score

_FEW = 4
"""Up to this many changed rows are asked one by one; more are cheaper in one array pass."""


class Fresh(NamedTuple):
    """Nothing changed since the answer was given."""


class Behind(NamedTuple):
    """Some rows changed since."""

    rows: list[int]


class Void(NamedTuple):
    """Everything has to be asked."""


FRESH, VOID = Fresh(), Void()
Standing = Fresh | Behind | Void


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
    """What both kinds have in common."""

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
        self.fails = Column(desk.limits.changes)
        """Outcome numbers by row, 0 fits."""
        self._verdict: Verdict | None = None
        """What `fails` was made from as a whole; the very same object says nothing new."""
        self.raw = Column(desk.limits.changes)
        """Scores by row, before normalising, if they do not hang on which rows fit."""
        self.constant = False
        """Whether all raw scores are equal; then they stay so whichever rows fit."""
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

    def _take_raw(self, scores: IntArray) -> None:
        least, most = int(scores.min()), int(scores.max())
        self.constant = least == most
        self.in_range = MIN_SCORE <= least and most <= MAX_SCORE
        bytewise = not self.normalizes and self.in_range
        self.raw.replace(as_scores(scores) if bytewise else scores)


class RowAnswer(Answer):
    """Hangs on the node of a row, and, if it depends on usage, on the pods there."""

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
        self._journal = table.changes if depends is Depends.USAGE else table.node_changes
        self._stamp: int | None = None
        """How far `fails` has followed the journal; None: void."""
        self._score_stamp: int | None = None
        """How far `raw` has."""
        self._depends = depends
        self.usage = depends is Depends.USAGE
        self._scalar_filter = hasattr(plugin, "filter_node")
        self._scalar_score = hasattr(plugin, "score_node")

    @property
    def settled(self) -> bool:
        """Whether no change of a row can change `fails`: PreFilter, asked once, said so."""
        return self._stamp is not None and (self.skips_filter or not self.filters)

    def _standing(self, stamp: int | None) -> Standing:
        journal = self._journal
        if stamp is None:
            return VOID
        if stamp == journal.generation:
            return FRESH
        rows = self.desk.behind(journal, stamp)
        return VOID if rows is None else Behind(rows)

    def refresh(self, info: PodInfo) -> None:
        """Bring `fails` up to date; raises AttemptFailed."""
        generation = self._journal.generation
        if self._stamp == generation:
            return
        standing = self._standing(self._stamp)
        self._stamp = None
        self.state.info = info
        if isinstance(standing, Behind):
            if self.filters and not self.skips_filter and not self.rejects:
                self._follow(standing.rows, info)
        else:
            self._ask_pre_filter(self.state, info)
            self._ask_filter(self.state, info)
        self._stamp = None if self.errs else generation

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

    def _follow(self, rows: list[int], info: PodInfo) -> None:
        desk, fails = self.desk, self.fails
        self._verdict = None
        fails.resize(desk.table.count)
        if len(rows) <= _FEW and self._scalar_filter:
            for row in rows:
                number = desk.number(self.plugin, self.state, info, row)
                if fails.values is not None:
                    fails.set_row(row, number)
                elif number:
                    fails.replace(np.zeros(desk.table.count, dtype=np.uint32))
                    fails.set_row(row, number)
            return
        view = desk.view(rows)
        numbers = desk.numbers(desk.verdict(self.plugin, self.state, info, view), self.name)
        if fails.values is None:
            if numbers is None:
                return
            fails.replace(np.zeros(desk.table.count, dtype=np.uint32))
        fails.set_rows(view.rows, 0 if numbers is None else numbers)

    def refresh_scores(self, info: PodInfo, feasible: BoolArray) -> None:
        """Bring `raw` up to date; raises AttemptFailed."""
        generation = self._journal.generation
        if self._score_stamp == generation or (self._score_stamp is not None and self.skips_score):
            return  # that there are no scores no row can change
        standing = self._standing(self._score_stamp)
        self._score_stamp = None
        self.state.info = info
        if (
            isinstance(standing, Behind)
            and len(standing.rows) == 1
            and self._scalar_score
            and self._follow_score(standing.rows[0], info)
        ):
            self._score_stamp = generation
            return
        if not isinstance(standing, Behind):
            self._ask_pre_score(self.state, info, feasible)
            if not self.skips_score:
                self._take_raw(self._ask_scores(self.state, info, self.desk.table))
        elif not self.skips_score:
            self._follow_scores(standing.rows, info)
        self._score_stamp = generation

    def _follow_score(self, row: int, info: PodInfo) -> bool:
        """The usual case, one row of a column of bytes; False if it is not that case."""
        values = self.raw.values
        if values is None or values.dtype != np.uint8 or len(values) != self.desk.table.count:
            return False
        score = self._score_one(row, info)
        if not MIN_SCORE <= score <= MAX_SCORE:
            return False
        if values[row] != score:
            self.constant = False
            self.raw.set_row(row, score)
        return True

    def _follow_scores(self, rows: list[int], info: PodInfo) -> None:
        raw, table = self.raw, self.desk.table
        raw.resize(table.count)
        if not rows:
            return
        if len(rows) <= _FEW and self._scalar_score:
            scores = [self._score_one(row, info) for row in rows]
            least, most = min(scores), max(scores)
        else:
            column = self._ask_scores(self.state, info, self.desk.view(rows))
            least, most = int(column.min()), int(column.max())
        values = raw.values
        assert values is not None
        outside = least < MIN_SCORE or most > MAX_SCORE
        wide = values.dtype == np.int64
        if not wide and (outside or values.dtype != np.uint8):
            # Wrong only if the row fits, or too large for the column: a whole pass finds out.
            self._take_raw(self._ask_scores(self.state, info, table))
            return
        self.in_range = self.in_range and not outside
        if self.constant and (least != most or int(values[0]) != least):
            self.constant = False
        if len(rows) <= _FEW and self._scalar_score:
            for row, score in zip(rows, scores, strict=True):
                raw.set_row(row, score)
        else:
            raw.set_rows(np.array(rows, dtype=np.int64), column.astype(values.dtype, copy=False))

    def _score_one(self, row: int, info: PodInfo) -> int:
        try:
            return int(self.plugin.score_node(self.state, info.pod, self.desk.node(row)))
        except Exception as problem:
            raise self.desk.broken(self.name, "score_node", problem) from problem


class ClusterAnswer(Answer):
    """May hang on anything: other nodes, other pods, volumes."""

    def __init__(self, desk: Desk, plugin: Any, points: dict[str, bool], info: PodInfo) -> None:
        super().__init__(desk, plugin, points, info)
        self._revised = hasattr(plugin, "revision")
        self._stamp: tuple[int, Hashable] | None = None
        """Revision of the nodes and of the plugin that PreFilter was asked for; None: void."""
        self._unfiltered = True
        """Whether PreFilter was asked and Filter was not, or failed."""
        self.failing = False
        """Whether Filter failed on some row. That ends an attempt which gets to this row."""
        self._working = self.state
        """Where the plugin writes: its own state, or the attempt's if nothing may be kept."""
        self.steady = not (self.pre_scores or self.normalizes)
        """Whether scores of one epoch are the same whichever nodes fit."""
        self._raw_epoch = -1
        self._prepared: Hashable = None
        """What PreScore was asked for last; None: void."""

    def refresh(self, info: PodInfo, state: CycleState) -> bool:
        """Bring PreFilter's answer up to date; False if it must be asked in this very attempt."""
        self.state.info = info
        if not self._revised:
            return False
        try:
            revision = self.plugin.revision(state, info.pod)
        except Exception as problem:
            self._stamp = None
            raise self.desk.broken(self.name, "revision", problem) from problem
        if revision is None:
            return False
        stamp = (self.desk.table.nodes_revision, revision)
        if stamp != self._stamp:
            self._ask(self.state, info)
            self._stamp = None if self.errs else stamp
        return True

    def problems(self) -> list[str]:
        """What is kept as right and differs from what the plugin says when asked anew."""
        info, stamp = self.state.info, self._stamp
        if info is None or stamp is None or self._unfiltered or self.rejects:
            return []
        state = CycleState(info)
        if stamp != (self.desk.table.nodes_revision, self.plugin.revision(state, info.pod)):
            return []
        anew = ClusterAnswer(self.desk, self.plugin, self._points, info)
        anew.refresh(info, state)
        anew.filter(info)
        count = self.desk.table.count
        return compared(f"{self.name}: filter", self.fails, anew.fails, FRESH, count)

    def ask_now(self, info: PodInfo, state: CycleState) -> None:
        """Ask PreFilter on the attempt's own state, where later points will look for it."""
        self._ask(state, info)

    def _ask(self, state: CycleState, info: PodInfo) -> None:
        self._stamp = None
        self._unfiltered = True
        self._working = state
        self._ask_pre_filter(state, info)

    def filter(self, info: PodInfo) -> None:
        """Bring `fails` up to date with what PreFilter said; raises AttemptFailed."""
        if self._unfiltered:
            self.failing = False
            self._ask_filter(self._working, info)
            self._unfiltered = False
            if self.failing:
                self._stamp = None

    def _ask_verdict(self, state: CycleState, info: PodInfo) -> Verdict:
        desk = self.desk
        verdict = desk.verdict_by_row(self.plugin, state, info, desk.table)
        self.failing = row_error(verdict) is not None
        return verdict

    def prepare_scores(self, info: PodInfo, feasible: BoolArray, rows: Hashable) -> None:
        """PreScore for the feasible rows, which `rows` stands for, unless that was asked last."""
        wanted = (self.epoch, rows)
        if self._prepared != wanted:
            self._prepared = None
            self._ask_pre_score(self._working, info, feasible)
            self._prepared = wanted

    def score_rows(self, info: PodInfo, feasible: BoolArray) -> IntArray:
        """Scores before normalising, for what PreScore was asked last."""
        return self._ask_scores(self._working, info, self.desk.table, feasible)

    def normalizing_state(self) -> CycleState:
        return self._working

    def refresh_scores(self, info: PodInfo, feasible: BoolArray) -> None:
        """Bring `raw` up to date; only for steady scores."""
        if self._raw_epoch != self.epoch:
            self._raw_epoch, self.skips_score = -1, False
            self._take_raw(self.score_rows(info, feasible))
            self._raw_epoch = self.epoch

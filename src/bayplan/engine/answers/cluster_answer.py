"""A plugin's answers for one facet that may hang on anything: other nodes, other pods, volumes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from bayplan.engine.answers.answer import ColumnAnswer, compared
from bayplan.engine.answers.asking import FEW, AttemptFailed, Desk
from bayplan.engine.answers.standing import FRESH, Behind
from bayplan.errors import RAISED
from bayplan.framework import BoolArray, CycleState, IntArray, PodInfo, Verdict
from bayplan.framework.contract.domains import DomainScores
from bayplan.framework.contract.points import MAX_SCORE, MIN_SCORE
from bayplan.framework.runtime.filtering import row_error
from bayplan.framework.runtime.scoring import bad_score

_SHARE = 8
"""Rows are asked one by one if they are at most this part of all."""


class ClusterAnswer(ColumnAnswer):
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
        self.tells_domains = self.scores and hasattr(plugin, "score_domains")
        """Whether the plugin can tell scores by domain."""
        self._narrows = self.filters and hasattr(plugin, "filter_affects")
        self._followed: tuple[int, int, int] | None = None
        """When `fails` was right: the journal's and the nodes' generation, the epoch; or void."""
        self._raw_epoch: int | None = None
        self._prepared: Hashable = None
        """What PreScore was asked for last; None: void."""

    def refresh(self, info: PodInfo, state: CycleState) -> bool:
        """Bring PreFilter's answer up to date; False if it must be asked in this very attempt."""
        self.state.info = info
        revision = self.revision(info, state)
        if revision is None:
            return False
        stamp = (self.desk.table.nodes_revision, revision)
        if stamp != self._stamp:
            self._ask(self.state, info)
            self._stamp = None if self.errs else stamp
        return True

    def revision(self, info: PodInfo, state: CycleState) -> Hashable | None:
        """What the answer hangs on beside the nodes; None if it must not be kept."""
        if not self._revised:
            return None
        try:
            found: Hashable | None = self.plugin.revision(state, info.pod)
        except RAISED as problem:
            self._stamp = None
            raise self.desk.broken(self.name, "revision", problem) from problem
        return found

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
            followed, self._followed = self._followed, None
            self.failing = False
            if followed is None or not self._follow(followed, info):
                self._ask_filter(self._working, info)
            self._unfiltered = False
            if self.failing:
                self._stamp = None
            elif self._narrows and self._working is self.state:
                table = self.desk.table
                self._followed = (table.changes.generation, table.nodes_revision, self.epoch)

    def _follow(self, followed: tuple[int, int, int], info: PodInfo) -> bool:
        """Ask only about rows that a change of pods reaches; False if that is not to be known."""
        desk, (generation, nodes, epoch) = self.desk, followed
        table = desk.table
        kept = self._working is self.state and not self.skips_filter
        if not kept or nodes != table.nodes_revision or epoch != self.epoch - 1:
            return False
        standing = desk.standing(table.changes, generation)
        if not isinstance(standing, Behind):
            return False
        try:
            found = self.plugin.filter_affects(self.state, info.pod, standing.rows)
        except RAISED as problem:
            raise desk.broken(self.name, "filter_affects", problem) from problem
        if found is None or _SHARE * len(found) > table.count:
            return False
        rows = list(found)
        if not rows:
            return True
        numbers = self._numbers_or_none(rows, info)
        if numbers is None:
            return False
        self._verdict = None
        self._set_fails(rows, numbers)
        return True

    def _numbers_or_none(self, rows: list[int], info: PodInfo) -> list[int] | None:
        """Outcome numbers of some rows, asked now; None if one is an error."""
        desk = self.desk
        if len(rows) <= FEW and self._scalar_filter:
            try:
                return [desk.number(self.plugin, self.state, info, row) for row in rows]
            except AttemptFailed:
                return None  # asking about all rows tells what comes of it
        verdict = desk.verdict_by_row(self.plugin, self.state, info, desk.view(rows))
        if row_error(verdict) is not None:
            return None
        numbers = desk.numbers(verdict, self.name)
        return [0] * len(rows) if numbers is None else numbers.tolist()

    def _set_fails(self, rows: list[int], numbers: list[int]) -> None:
        fails = self.fails
        if fails.values is None:
            if not any(numbers):
                return
            fails.replace(np.zeros(self.desk.table.count, dtype=np.uint32))
        if len(rows) == 1:
            fails.set_row(rows[0], numbers[0])
        else:
            fails.set_rows(np.array(rows, dtype=np.int64), np.array(numbers, dtype=np.uint32))

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

    def score_domains(self, info: PodInfo) -> DomainScores | None:
        """The same by domain; None if the plugin cannot, or if there are too many."""
        limits = self.desk.limits
        try:
            found: DomainScores | None = self.plugin.score_domains(
                self._working, info.pod, self.desk.table
            )
        except RAISED as problem:
            raise self.desk.broken(self.name, "score_domains", problem) from problem
        if found is None or len(found.worth) > limits.domains or len(found.own) > limits.own_scores:
            return None
        return found

    def normalize_domains(self, info: PodInfo, scores: list[int]) -> list[int]:
        """The same after normalising; raises AttemptFailed if one is out of range."""
        try:
            found: list[int] = self.plugin.normalize_domains(self._working, info.pod, scores)
        except RAISED as problem:
            raise self.desk.broken(self.name, "normalize_domains", problem) from problem
        if found and not MIN_SCORE <= min(found) <= max(found) <= MAX_SCORE:
            wrong = next(score for score in found if not MIN_SCORE <= score <= MAX_SCORE)
            raise AttemptFailed(bad_score(self.name, wrong))
        return found

    def normalizing_state(self) -> CycleState:
        return self._working

    def refresh_scores(self, info: PodInfo, feasible: BoolArray) -> None:
        """Bring `raw` up to date; only for steady scores."""
        if self._raw_epoch != self.epoch:
            self._raw_epoch, self.skips_score = None, False
            self._take_raw(self.score_rows(info, feasible))
            self._raw_epoch = self.epoch

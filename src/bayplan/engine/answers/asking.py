"""Asks one plugin, and turns whatever goes wrong into the end of the attempt."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from bayplan.cluster.journal import Journal
from bayplan.cluster.limits import Limits
from bayplan.engine.answers.standing import FRESH, VOID, Behind, Standing, distinct
from bayplan.errors import RAISED
from bayplan.framework import (
    Code,
    CycleState,
    IntArray,
    NodeInfo,
    NodeSelection,
    NodeTable,
    Outcomes,
    PodInfo,
    Profile,
    Status,
    Verdict,
)
from bayplan.framework.runtime.filtering import call_filter, row_error, wrap_filter

FailArray = npt.NDArray[np.uint32]

FEW = 4
"""Up to this many changed rows are asked one by one; more are cheaper in one array pass."""


class AttemptFailed(Exception):
    """A plugin failed; carries the Error status that ends the attempt."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class Desk:
    """What all answers of one profile share: the table, the numbers of outcomes, the limits."""

    def __init__(
        self, profile: Profile, table: NodeTable, outcomes: Outcomes, limits: Limits
    ) -> None:
        self.profile = profile
        self.table = table
        self.outcomes = outcomes
        self.limits = limits
        self.serial = count().__next__
        """Gives a number that nobody else has."""
        self._node: tuple[int, int, NodeInfo] | None = None
        self._view: tuple[int, list[int], NodeSelection] | None = None
        self._behind: dict[Journal, tuple[int, int, Standing]] = {}
        self.sum: tuple[int, list[tuple[Any, int, int]], IntArray] | None = None
        """The columns that were added up last, with version and weight, and their sum by row."""

    def node(self, row: int) -> NodeInfo:
        """A row in scalar form, made once for all plugins that ask about it."""
        generation = self.table.changes.generation
        known = self._node
        if known is None or known[0] != row or known[1] != generation:
            known = self._node = (row, generation, self.table.info(row))
        return known[2]

    def standing(self, journal: Journal, stamp: int) -> Standing:
        """How an answer stands that has followed a journal so far, worked out once for all."""
        generation = journal.generation
        if stamp == generation:
            return FRESH
        known = self._behind.get(journal)
        if known is None or known[0] != stamp or known[1] != generation:
            rows = journal.since(stamp)
            found = VOID if rows is None else Behind(distinct(rows, self.table.count))
            known = self._behind[journal] = (stamp, generation, found)
        return known[2]

    def view(self, rows: list[int]) -> NodeSelection:
        """Some rows of the table, gathered once for all plugins that ask about them."""
        generation = self.table.changes.generation
        known = self._view
        if known is None or known[0] != generation or known[1] != rows:
            selection = self.table.select(np.array(rows, dtype=np.int64))
            known = self._view = (generation, rows, selection)
        return known[2]

    def broken(self, name: str, method: str, problem: BaseException) -> AttemptFailed:
        return AttemptFailed(self.profile.problem(name, method, problem))

    def verdict(self, plugin: Any, state: CycleState, info: PodInfo, nodes: Any) -> Verdict:
        """What a filter says; raises AttemptFailed on an error, also on that of a single row."""
        verdict = self.verdict_by_row(plugin, state, info, nodes)
        problem = row_error(verdict)
        if problem is not None:
            raise AttemptFailed(wrap_filter(plugin.name, problem))
        return verdict

    def verdict_by_row(self, plugin: Any, state: CycleState, info: PodInfo, nodes: Any) -> Verdict:
        """The same, but outcomes of single rows may be errors."""
        verdict = call_filter(self.profile, plugin, state, info.pod, nodes)
        if isinstance(verdict, Status):
            raise AttemptFailed(verdict)
        return verdict

    def numbers(self, verdict: Verdict, name: str) -> FailArray | None:
        """A verdict in the engine's own outcome numbers; None if every row fits."""
        if verdict.passes_all:
            return None
        if verdict.which is not None:
            if not np.count_nonzero(verdict.which):
                return None
            return self.outcomes.lookup(name, verdict.outcomes).take(verdict.which)
        if np.count_nonzero(verdict.mask) == verdict.count:
            return None
        number = self.outcomes.lookup(name, verdict.outcomes)[1]
        fails: FailArray = np.multiply(~verdict.mask, number, dtype=np.uint32)
        return fails

    def number(self, plugin: Any, state: CycleState, info: PodInfo, row: int) -> int:
        """What a scalar filter says about one row, as an outcome number; 0 fits."""
        try:
            status: Status | None = plugin.filter_node(state, info.pod, self.node(row))
        except RAISED as problem:
            raise self.broken(plugin.name, "filter_node", problem) from problem
        if status is None or status.code is Code.SUCCESS:
            return 0
        if not status.code.rejected:
            raise AttemptFailed(status.with_plugin(plugin.name))
        return self.outcomes.number(plugin.name, status)


def as_scores(values: IntArray) -> npt.NDArray[Any]:
    """Scores 0..100 in a byte each; rows that do not fit may hold anything else."""
    return values if values.dtype == np.uint8 else values.astype(np.uint8)

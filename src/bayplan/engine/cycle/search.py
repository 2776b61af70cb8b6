"""One search through the nodes for one pod: who is left, who is best, and if nobody, why.

Starts from the rows that pass all filters (`classes`), then narrows: by PreFilter's node set, by
pods nominated to nodes, by `percentageOfNodesToScore`, by extenders. It changes nothing but the
place where the next search starts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayplan.engine.answers.classes import AttemptFailed, PodClass
from bayplan.engine.cache import Cache
from bayplan.engine.cycle.choice import ListOrder, nodes_to_find, sample
from bayplan.engine.cycle.extending import add_extender_scores, filter_with_extenders
from bayplan.framework import (
    BoolArray,
    Code,
    CycleState,
    Diagnosis,
    Extender,
    FitError,
    Outcomes,
    PodInfo,
    Profile,
    Status,
)
from bayplan.framework.contract.diagnosis import NOT_EVALUATED
from bayplan.framework.runtime.filtering import PreFilterOutcome, run_filters_with_nominated

EXTENDER = "Extender"


class SearchSettings:
    """What all searches of an engine share."""

    __slots__ = ("cache", "extenders", "next_start", "outcomes", "percentage")

    def __init__(
        self, cache: Cache, outcomes: Outcomes, extenders: Sequence[Extender], percentage: int
    ) -> None:
        self.cache = cache
        self.outcomes = outcomes
        self.extenders = extenders
        self.percentage = percentage
        self.next_start = 0
        """Where in the list of nodes the next search starts; shared by all profiles."""


class Search:
    """One search through the nodes for one pod."""

    def __init__(
        self,
        shared: SearchSettings,
        info: PodInfo,
        profile: Profile,
        kept: PodClass,
        state: CycleState,
        order: ListOrder,
    ) -> None:
        self._shared = shared
        self._info = info
        self._profile = profile
        self._kept = kept
        self._state = state
        self._order = order
        self.own: dict[int, Status] = {}
        """Statuses of nodes that were looked at on their own."""
        self.feasible = 0
        self.evaluated = 0
        self.scored = False
        self._within: BoolArray | None = None
        self._seen: BoolArray | None = None
        self._extended = False

    def run(self) -> int:
        """The row of the winner, or -1."""
        shared, kept = self._shared, self._kept
        mask = kept.candidates
        narrowed = kept.narrowed
        if narrowed is not None:
            self._within = self._rows_named(narrowed)
            mask = mask & self._within
        if len(shared.cache.nominator):
            mask = self._with_nominated(mask)
        row = self._nominated_row(mask)
        if row >= 0:
            self.feasible = self.evaluated = 1
            return row
        mask = self._sampled(mask)
        if shared.extenders:
            mask = self._filter_by_extenders(mask)
        kept.restrict(mask)
        self.feasible = int(np.count_nonzero(mask))
        if self.feasible == 0:
            return -1
        if self.feasible == 1:
            return int(np.argmax(mask))
        return self._best()

    def _rows_named(self, narrowed: PreFilterOutcome) -> BoolArray:
        rows = self._order.row_of
        mask = np.zeros(len(rows), dtype=bool)
        for name in narrowed.node_names or ():
            row = rows.get(name)
            if row is not None:
                mask[row] = True
        return mask

    def _with_nominated(self, mask: BoolArray) -> BoolArray:
        cache, pod = self._shared.cache, self._info.pod
        changed = mask
        for name in list(cache.nominator.nodes()):
            row = self._order.row_of.get(name)
            if row is None or (self._within is not None and not self._within[row]):
                continue
            nominated = cache.nominator.pods_for(name)
            if not any(n.priority >= pod.priority and n.uid != pod.uid for n in nominated):
                continue
            status = run_filters_with_nominated(
                self._profile, self._state, pod, cache.table.info(row), nominated
            )
            if status is None:
                continue
            if not status.rejected:
                raise AttemptFailed(status)
            self.own[row] = status
            if changed[row]:
                changed = changed.copy() if changed is mask else changed
                changed[row] = False
        return changed

    def _nominated_row(self, mask: BoolArray) -> int:
        name = self._info.pod.status.nominated_node_name
        row = self._order.row_of.get(name) if name else None
        if row is None or not mask[row]:
            return -1
        if self._shared.extenders:
            only = np.zeros(len(mask), dtype=bool)
            only[row] = True
            try:
                return row if self._filter_by_extenders(only)[row] else -1
            except AttemptFailed:
                return -1
        return row

    def _sampled(self, mask: BoolArray) -> BoolArray:
        shared, order = self._shared, self._order
        count = len(mask)
        within = self._within
        size = count if within is None else int(np.count_nonzero(within))
        percentage = self._profile.percentage_of_nodes_to_score or shared.percentage
        # Extenders pay for every node that they are sent: with them upstream's adaptive rule holds.
        wanted = nodes_to_find(percentage, size) if percentage or shared.extenders else size
        if not self._profile.score and not shared.extenders:
            wanted = 1
        if wanted >= size:
            self.evaluated = size
        else:
            start = shared.next_start % count
            mask, self._seen, self.evaluated = sample(order, mask, start, wanted, within)
        self._start = shared.next_start % count
        shared.next_start = (shared.next_start + self.evaluated) % count
        return mask

    def _filter_by_extenders(self, mask: BoolArray) -> BoolArray:
        table = self._shared.cache.table
        rows = [row for row in self._order.rows.tolist() if mask[row]]
        left, failed, problem = filter_with_extenders(
            self._shared.extenders, self._info.pod, table, rows
        )
        if problem is not None:
            raise AttemptFailed(problem)
        if len(left) < len(rows):
            self._extended = True
        for row, status in failed.items():
            self.own[row] = status
        kept = np.zeros(len(mask), dtype=bool)
        kept[left] = True
        return kept

    def _best(self) -> int:
        kept, order = self._kept, self._order
        masked = kept.score(self._state, self._info)
        self.scored = True
        if self._shared.extenders:
            table = self._shared.cache.table
            masked = add_extender_scores(
                self._shared.extenders, self._info.pod, table, masked, kept.candidates
            )
        top = masked.max()
        # Who comes first in the list is the heap's root already, and loses to nobody equal.
        first = kept.first(order, self._start)
        if masked[first] == top:
            return first
        ties = np.flatnonzero(masked == top)
        if len(ties) == 1:
            return int(ties[0])
        keys = kept.heap_keys(order, self._start)[ties]
        return int(ties[keys.argmin()])

    def fit_error(self) -> FitError:
        """Why nothing fits: one status a node that was looked at."""
        numbers = None
        for fails in self._kept.fails():
            numbers = fails if numbers is None else np.where(numbers == 0, fails, numbers)
        absent, plugins = NOT_EVALUATED, set()
        looked_at = self._within if self._seen is None else self._seen
        if looked_at is not None and numbers is not None:
            numbers = np.where(looked_at, numbers, 0).astype(np.uint32)
        narrowed = self._kept.narrowed
        if narrowed is not None:
            names = " ".join(sorted(narrowed.narrowed_by))
            text = f"node(s) didn't satisfy plugin(s) [{names}]"
            absent = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, text)
            plugins = set(narrowed.narrowed_by)
        order = self._order
        diagnosis = Diagnosis(
            order.names, order.row_of, self._shared.outcomes, numbers, absent, self.own
        )
        if self._extended:
            plugins.add(EXTENDER)
        pending = diagnosis.plugins(Code.PENDING)
        return FitError(
            len(order.names),
            diagnosis,
            unschedulable_plugins=plugins
            | diagnosis.plugins(Code.UNSCHEDULABLE)
            | diagnosis.plugins(Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
            pending_plugins=pending,
        )

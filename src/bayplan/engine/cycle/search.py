"""One search through the nodes for one pod: who is left, who is best, and if nobody, why.

Starts from the rows that pass all filters (`answers`), then narrows: by PreFilter's node set, by
pods nominated to nodes, by `percentageOfNodesToScore`, by extenders. It changes nothing; where the
next search starts is for the caller to remember.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import numpy as np

from bayplan.api import Node, Pod
from bayplan.engine.answers import AttemptFailed, Judgement
from bayplan.engine.answers.asking import FailArray
from bayplan.engine.answers.share import Layout, WithDomains
from bayplan.engine.cache import Cache
from bayplan.engine.cycle.choice import ListOrder, nodes_to_find, sample
from bayplan.engine.cycle.extending import Conversation, nothing
from bayplan.engine.cycle.promised import too_full, with_nominated
from bayplan.framework import (
    BoolArray,
    Code,
    Diagnosis,
    Extender,
    FitError,
    IntArray,
    Outcomes,
    Profile,
    Status,
)
from bayplan.framework.contract.diagnosis import NOT_EVALUATED
from bayplan.framework.runtime.filtering import PreFilterOutcome, wrap_filter

EXTENDER = "Extender"
_NO_ROWS: IntArray = np.zeros(0, dtype=np.int64)
_NOTHING: Mapping[int, Status] = MappingProxyType({})


class Asked(Protocol):
    """Who may have asked extenders about a pod ahead of its turn."""

    def take(self, pod: Pod, nodes: list[Node]) -> Conversation | None: ...
    def advance(self) -> None: ...


class SearchSettings:
    """What all searches of an engine share."""

    __slots__ = ("cache", "extenders", "order", "outcomes", "percentage", "within")

    def __init__(
        self, cache: Cache, outcomes: Outcomes, extenders: Sequence[Extender], percentage: int
    ) -> None:
        self.cache = cache
        self.outcomes = outcomes
        self.extenders = extenders
        self.percentage = percentage
        self.order = ListOrder()
        self.within: IntArray | None = None
        """The rows that a pod group is tried on, in order; None for the whole table."""

    @property
    def count(self) -> int:
        """How many nodes are searched."""
        return self.cache.table.count if self.within is None else len(self.within)


class Search:
    """One search through the nodes for one pod."""

    feasible: int
    """How many nodes are left, once it was run."""
    evaluated: int
    """How many were looked at."""

    def __init__(
        self,
        shared: SearchSettings,
        profile: Profile,
        judgement: Judgement,
        start: int,
        *,
        recorded: bool = False,
        ahead: Asked | None = None,
    ) -> None:
        """`recorded`: whether somebody wants to know what plugins scored.

        `ahead` may have asked the extenders about this pod already.
        """
        self._shared = shared
        self._profile = profile
        self._judgement = judgement
        self._recorded = recorded
        self._ahead = ahead
        self._conversation: Conversation | None = None
        self._asked: IntArray = _NO_ROWS
        """The rows of the nodes that extenders left, as the conversation has them."""
        self._pod = judgement.info.pod
        self._order = shared.order.sync(shared.cache.table)
        if shared.within is not None:
            self._order = self._order.of(shared.within)
        self._start = start % max(1, shared.count)
        self.mask: BoolArray = judgement.candidates.mask
        """The rows left; do not keep."""
        self.own: Mapping[int, Status] = _NOTHING
        """Statuses of nodes that were looked at on their own; replaced, never changed."""
        self.next_start = self._start
        """Where in the list of nodes the next search starts."""
        self.layout: Layout | WithDomains | None = None
        """Where records find what plugins said; None: nothing was scored."""
        self.bytes = 0
        """What only this layout holds on to."""
        self._within: BoolArray | None = None
        self._seen: BoolArray | None = None
        self._extended = False

    def run(self) -> int:
        """The row of the winner, or -1."""
        shared, judgement = self._shared, self._judgement
        narrowed = judgement.narrowed
        if narrowed is not None:
            self._within = self._rows_named(narrowed)
        if shared.within is not None:
            self._within = self._rows_of_group(shared.within)
        if self._within is not None:
            self.mask = self.mask & self._within
        if len(shared.cache.nominator):
            self.mask = self._with_nominated(self.mask)
        row = self._nominated_row()
        if row >= 0:
            self.feasible = self.evaluated = 1
            return row
        if judgement.failing:
            self._raise_error()
        self.mask = self._sampled(self.mask)
        if shared.extenders:
            self.mask = self._filter_by_extenders(self.mask)
        candidates = judgement.candidates
        untouched = self.mask is candidates.mask
        self.feasible = candidates.count if untouched else int(np.count_nonzero(self.mask))
        if self.feasible == 0:
            return -1
        if self.feasible == 1:
            return int(np.argmax(self.mask))
        return self._best()

    def _rows_named(self, narrowed: PreFilterOutcome) -> BoolArray:
        table = self._shared.cache.table
        mask = np.zeros(table.count, dtype=bool)
        for name in narrowed.node_names or ():
            row = table.row_of(name)
            if row is not None:
                mask[row] = True
        return mask

    def _rows_of_group(self, rows: IntArray) -> BoolArray:
        mask = np.zeros(self._shared.cache.table.count, dtype=bool)
        mask[rows] = True
        return mask if self._within is None else mask & self._within

    def _raise_error(self) -> None:
        """Raise the first error that a search meets, as nodes are asked one after the other.

        A node that an earlier filter rejects is not asked further, nor one that the pods nominated
        to it leave no room on; the search ends when enough nodes are found. The next one starts at
        the node that failed.
        """
        numbers = self._first_fails()
        if numbers is None:
            return
        rows = np.roll(self._order.rows, -self._start)
        if self._within is not None:
            rows = rows[self._within[rows]]
        statuses, left = self._shared.outcomes.statuses, self._wanted(len(rows))
        cache = self._shared.cache
        promised = {cache.table.row_of(name) for name in cache.nominator.nodes()}
        found = zip(rows.tolist(), numbers[rows].tolist(), strict=True)
        for place, (row, number) in enumerate(found):
            status = statuses[number]
            self.next_start = (self._start + place) % self._shared.count
            if row in promised:
                full = with_nominated(cache, self._profile, self._judgement, row)
                if full is not None:
                    self.own = {**self.own, row: full}
                    continue
            if number and not status.code.rejected:
                raise AttemptFailed(wrap_filter(status.plugin, status))
            left -= not number
            if not left:
                return

    def _first_fails(self) -> FailArray | None:
        """By row the first rejection in filter order; None if no row was rejected."""
        numbers: FailArray | None = None
        for fails in self._judgement.fails():
            numbers = fails.copy() if numbers is None else np.where(numbers == 0, fails, numbers)
        return numbers

    def _with_nominated(self, mask: BoolArray) -> BoolArray:
        """Leave out nodes that would be too full with the pods nominated to them.

        Only nodes that fit are looked at: the others need not fail twice.
        """
        keep = self._within is None
        judgement = self._judgement
        statuses, memory = too_full(self._shared.cache, self._profile, judgement, mask, keep=keep)
        self.own = {**self.own, **statuses} if self.own else statuses
        if memory is not None:
            judgement.leave_out(memory)
            return judgement.candidates.mask
        rows = list(statuses)
        if not mask[rows].any():
            return mask
        left = mask.copy()
        left[rows] = False
        return left

    def _tell_nominated(self) -> None:
        """Nothing fits: upstream counts nominated pods first, so they may add to the reasons."""
        looked_at = self._within if self._seen is None else self._seen
        everywhere = np.ones(len(self.mask), dtype=bool) if looked_at is None else looked_at
        statuses, _ = too_full(
            self._shared.cache, self._profile, self._judgement, everywhere, keep=False
        )
        self.own = {**statuses, **self.own}

    def _nominated_row(self) -> int:
        name = self._pod.status.nominated_node_name
        row = self._shared.cache.table.row_of(name) if name else None
        if row is None or not self.mask[row]:
            return -1
        if self._shared.extenders:
            only = np.zeros(len(self.mask), dtype=bool)
            only[row] = True
            try:
                return row if self._filter_by_extenders(only)[row] else -1
            except AttemptFailed:
                return -1
        return row

    def _sampled(self, mask: BoolArray) -> BoolArray:
        count, within = self._shared.count, self._within
        size = count if within is None else int(np.count_nonzero(within))
        wanted = self._wanted(size)
        if wanted >= size:
            self.evaluated = size
        else:
            mask, self._seen, self.evaluated = sample(
                self._order, mask, self._start, wanted, within
            )
        self.next_start = (self._start + self.evaluated) % count
        return mask

    def _wanted(self, size: int) -> int:
        """How many nodes that fit are enough.

        A profile's own percentage wins over the configuration's, also when it is 0. Here 0 means
        every node, as columns are cheap; but extenders pay for every node that they are sent, so
        with them 0 is upstream's adaptive rule.
        """
        shared, own = self._shared, self._profile.percentage_of_nodes_to_score
        if not self._profile.score and not shared.extenders:
            return 1
        percentage = shared.percentage if own is None else own
        return nodes_to_find(percentage, size) if percentage or shared.extenders else size

    def rehearse(self) -> list[Node] | None:
        """The nodes that extenders would be asked about now; None if this is no plain search."""
        if self._judgement.failing or self._pod.status.nominated_node_name:
            return None
        if (narrowed := self._judgement.narrowed) is not None:
            self._within = self._rows_named(narrowed)
            self.mask = self.mask & self._within
        return self._nodes_of(self._listed(self._sampled(self.mask)))

    def _listed(self, mask: BoolArray) -> IntArray:
        order = self._order.rows
        return order[mask[order]]

    def _nodes_of(self, rows: IntArray) -> list[Node]:
        nodes = self._shared.cache.table.nodes
        return [nodes[row] for row in rows.tolist()]

    def _filter_by_extenders(self, mask: BoolArray) -> BoolArray:
        self._asked = self._listed(mask)
        nodes, ahead = self._nodes_of(self._asked), self._ahead
        talk = None if ahead is None else ahead.take(self._pod, nodes)
        if talk is None:
            meanwhile = nothing if ahead is None else ahead.advance
            talk = Conversation(self._shared.extenders, self._pod, nodes, meanwhile)
        self._conversation = talk
        problem = talk.filter()
        if problem is not None:
            raise AttemptFailed(problem)
        rows = self._shared.cache.table.row_by_name
        if talk.failed:
            self.own = {**self.own, **{rows[name]: why for name, why in talk.failed.items()}}
        if talk.untouched:
            return mask
        left = [rows[node.metadata.name] for node in talk.left]
        self._asked = np.array(left, dtype=np.int64)
        if len(left) == len(nodes):
            return mask
        self._extended = True
        kept = np.zeros(len(mask), dtype=bool)
        kept[self._asked] = True
        return kept

    def _best(self) -> int:
        candidates, order = self._judgement.candidates, self._order
        if self.mask is candidates.mask and not self._shared.extenders:
            totals = self._judgement.totals()
            if self._recorded:
                self.layout, self.bytes = totals.layout()
            return totals.best(order, self._start)
        ties = self._ties_among()
        if len(ties) == 1:
            return int(ties[0])
        keys = order.heap_keys(self.mask, self._start)
        return int(ties[keys[ties].argmin()])

    def _ties_among(self) -> IntArray:
        """The best of some of the candidates; extenders have their say."""
        talk = self._conversation
        try:
            totals, shares = self._judgement.totals_among(self.mask)
        except AttemptFailed:
            if talk is not None:
                talk.drop()
            raise
        if self._recorded:
            self.layout = self._judgement.candidates.layout_with(shares)
            self.bytes = 3 * len(totals) * len(shares) + self._judgement.candidates.pay()
        rows = np.flatnonzero(self.mask)
        inside = totals[rows]
        if talk is not None:
            more = np.zeros(len(self.mask), dtype=np.int64)
            more[self._asked] = talk.scores()
            inside = inside + more[rows]
        best: IntArray = rows[inside == inside.max()]
        return best

    def fit_error(self) -> FitError:
        """Why nothing fits: one status a node that was looked at."""
        if len(self._shared.cache.nominator):
            self._tell_nominated()
            if self._seen is not None:  # the others were looked at ahead of the search
                self.own = {row: why for row, why in self.own.items() if self._seen[row]}
        table, numbers = self._shared.cache.table, self._first_fails()
        absent, plugins = NOT_EVALUATED, set()
        looked_at = self._within if self._seen is None else self._seen
        if looked_at is not None and numbers is not None:
            numbers = np.where(looked_at, numbers, 0).astype(np.uint32)
        narrowed = self._judgement.narrowed
        if narrowed is not None:
            names = " ".join(sorted(narrowed.narrowed_by))
            text = f"node(s) didn't satisfy plugin(s) [{names}]"
            absent = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, text)
            plugins = set(narrowed.narrowed_by)
        diagnosis = Diagnosis(
            table.names(), table.row_by_name, self._shared.outcomes, numbers, absent, self.own
        )
        if self._extended:
            plugins.add(EXTENDER)
        pending = diagnosis.plugins(Code.PENDING)
        return FitError(
            self._shared.count,
            diagnosis,
            unschedulable_plugins=plugins
            | diagnosis.plugins(Code.UNSCHEDULABLE)
            | diagnosis.plugins(Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
            pending_plugins=pending,
        )

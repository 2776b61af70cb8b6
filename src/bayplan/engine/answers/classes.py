"""Pods that are alike share one class, and a class remembers what plugins said.

A class holds, for every plugin of a profile, the answers over all rows. Answers that depend on
nodes and on what runs on them are brought up to date from the table's journal: after a pod was
placed one row is asked again, in scalar form. Answers that may depend on anything are asked again
in every attempt, unless the plugin's revision says that nothing changed. When a node object
changes, comes or goes, the class starts anew: that is one pass over the columns.

Weighted totals are kept too, with -1 for rows that do not fit, so choosing a node is one maximum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bayplan.engine.answers.kept import FailArray, Kept, SmallArray, to_numbers
from bayplan.engine.cycle.choice import ListOrder
from bayplan.engine.cycle.records import Column, History
from bayplan.framework import (
    BoolArray,
    Code,
    CycleState,
    Depends,
    IntArray,
    NodeInfo,
    NodeTable,
    Outcomes,
    PodInfo,
    Profile,
    Status,
)
from bayplan.framework.contract.points import MAX_SCORE, MIN_SCORE
from bayplan.framework.runtime.filtering import (
    PreFilterMerge,
    PreFilterOutcome,
    call_filter,
    call_pre_filter,
    run_pre_filters,
)
from bayplan.framework.runtime.scoring import call_normalize, call_pre_score, call_score, compact

_FEW = 4
"""Up to this many changed rows are asked one by one; more are cheaper in one array pass."""

_LONG = 4096
"""After so many changes a history starts anew."""


class AttemptFailed(Exception):
    """A plugin failed; carries the Error status that ends the attempt."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class PodClass:
    """The kept answers for pods of one signature in one profile."""

    def __init__(
        self, profile: Profile, table: NodeTable, outcomes: Outcomes, info: PodInfo
    ) -> None:
        self._profile = profile
        self._table = table
        self._outcomes = outcomes
        kept = {plugin.name: self._keep(plugin, points, info) for plugin, points in profile.cycle}
        self._pre_filters = [kept[plugin.name] for plugin in profile.pre_filter]
        self._filters = [kept[plugin.name] for plugin in profile.filter]
        self.scores = [kept[plugin.name] for plugin in profile.score]
        self._stable = [item for item in kept.values() if item.stable]
        self._volatile = [item for item in kept.values() if not item.stable]
        self._usage = [item for item in self._stable if item.depends is Depends.USAGE]
        self._base = CycleState(info)
        self._structure = self._nodes_revision = -1
        self._generation = 0
        self._node_ok: BoolArray = np.zeros(0, dtype=bool)
        self._stable_ok: BoolArray = self._node_ok
        self._outcome: PreFilterOutcome | None = None
        self._merged = False
        self.candidates: BoolArray = self._node_ok
        """Rows that fit, as of the last `refresh` or `restrict`."""
        self.version = 0
        """Grows when the candidates change."""
        self.totals: IntArray | None = None
        self.masked: IntArray = np.zeros(0, dtype=np.int64)
        """Totals of candidates, -1 elsewhere."""
        self._masked_for = -1
        for place, item in enumerate(self._usage):
            item.slot = 2 * place
        self._history: History | None = None
        self._shared_columns: tuple[Column, ...] | None = None
        self._heap_keys: tuple[int, int, IntArray] | None = None
        self._first: tuple[int, int, int] | None = None

    def _keep(self, plugin: Any, points: dict[str, bool], info: PodInfo) -> Kept:
        profile = self._profile
        depends = Depends.CLUSTER
        if hasattr(plugin, "depends_on"):
            try:
                depends = Depends(plugin.depends_on(info.pod))
            except Exception as problem:
                raise AttemptFailed(
                    profile.problem(plugin.name, "depends_on", problem)
                ) from problem
        return Kept(plugin, depends, points, profile.weight_of(plugin.name))

    # -- bringing answers up to date ------------------------------------------------------------

    def refresh(self, info: PodInfo) -> CycleState:
        """Bring every kept answer up to date for an attempt; raises AttemptFailed.

        Afterwards either `rejection` is set, or `candidates` has the rows that pass all filters.
        """
        table = self._table
        self._base.info = info
        changes = None
        if self._structure == table.structure:
            changes = table.changes_since(self._generation)
        try:
            if changes is None:
                self._rebuild(info)
            elif changes:
                self._follow(changes, info)
        except AttemptFailed:
            self._structure = -1
            raise
        self._generation = table.generation
        return self._revise(info)

    @property
    def rejection(self) -> PreFilterOutcome | None:
        """What PreFilter said if it ended the attempt."""
        outcome = self._outcome
        return outcome if outcome is not None and outcome.status is not None else None

    @property
    def narrowed(self) -> PreFilterOutcome | None:
        """What PreFilter said if it left only some nodes in the search."""
        outcome = self._outcome
        return outcome if outcome is not None and outcome.node_names is not None else None

    def run_pre_filters_anew(self, info: PodInfo) -> tuple[CycleState, PreFilterOutcome]:
        """Ask PreFilter plugins on a fresh state, in order, as far as they go."""
        state = CycleState(info)
        return state, run_pre_filters(self._profile, state, info.pod, self._table)

    def _rebuild(self, info: PodInfo) -> None:
        table, pod = self._table, info.pod
        self._base = base = CycleState(info)
        self._node_ok = np.ones(table.count, dtype=bool)
        for item in self._stable:
            self._ask_pre_filter(item, base, info)
        usage: list[FailArray] = []
        for item in self._stable:
            item.fails, item.raw, item.normalized, item.scored_for = None, None, None, -1
            if not item.filters or item.skips_filter or item.rejects:
                continue
            fails = to_numbers(self._verdict(item, base, pod, table), item.name, self._outcomes)
            item.fails = fails
            if fails is not None:
                if item.depends is Depends.USAGE:
                    usage.append(fails)
                else:
                    self._node_ok &= fails == 0
        self._stable_ok = self._node_ok.copy()
        for fails in usage:
            self._stable_ok &= fails == 0
        for item in self._volatile:
            item.revision, item.scored_for = None, -1
        self.candidates, self.totals = self._stable_ok, None
        self._merged = False
        self._history = None
        self.version += 1
        self._structure, self._nodes_revision = table.structure, table.nodes_revision

    def _follow(self, changes: list[int], info: PodInfo) -> None:
        """Ask about changed rows again: about nodes that changed, all that depends on them."""
        rows = {change >> 1 for change in changes}
        if self._nodes_revision != self._table.nodes_revision:
            self._nodes_revision = self._table.nodes_revision
            changed = {change >> 1 for change in changes if change & 1}
            self._follow_nodes(np.fromiter(changed, dtype=np.int64, count=len(changed)), info)
        if len(rows) <= _FEW:
            for row in rows:
                self._follow_row(row, info)
        else:
            self._follow_rows(np.fromiter(rows, dtype=np.int64, count=len(rows)), info)

    def _follow_nodes(self, rows: IntArray, info: PodInfo) -> None:
        """Node objects changed: ask what depends on them alone, and everything volatile anew."""
        view = self._table.select(rows)
        fits = np.ones(len(rows), dtype=bool)
        for item in self._stable:
            if item.depends is not Depends.NODE:
                continue
            if item.filters and not item.skips_filter and not item.rejects:
                verdict = self._verdict(item, self._base, info.pod, view)
                numbers = to_numbers(verdict, item.name, self._outcomes)
                if numbers is not None or item.fails is not None:
                    old = item.fails
                    fails = np.zeros(len(self._node_ok), np.uint32) if old is None else old.copy()
                    fails[rows] = 0 if numbers is None else numbers
                    item.fails = fails
                if numbers is not None:
                    fits &= numbers == 0
            if item.raw is not None:
                # Columns of this kind may be shared with records, so they are made anew.
                item.raw, item.scored_for = None, -1
        self._node_ok[rows] = fits
        for item in self._volatile:
            item.revision, item.scored_for = None, -1

    def _follow_row(self, row: int, info: PodInfo) -> None:
        node = self._table.info(row)
        fits = bool(self._node_ok[row])
        for item in self._usage:
            if item.filters and not item.skips_filter:
                number = self._number_for(item, info, node)
                if number:
                    fits = False
                    if item.fails is None:
                        item.fails = np.zeros(self._table.count, dtype=np.uint32)
                        self._history = None
                if item.fails is not None:
                    item.fails[row] = number
                    self._log(item.slot + 1, row, number)
            if item.raw is not None:
                self._score_row(item, row, info, node)
        self._set_fits(row, fits)

    def _number_for(self, item: Kept, info: PodInfo, node: NodeInfo) -> int:
        if not item.scalar_filter:
            view = self._table.select(np.array([node.row], dtype=np.int64))
            fails = to_numbers(
                self._verdict(item, self._base, info.pod, view), item.name, self._outcomes
            )
            return 0 if fails is None else int(fails[0])
        try:
            status: Status | None = item.plugin.filter_node(self._base, info.pod, node)
        except Exception as problem:
            raise AttemptFailed(
                self._profile.problem(item.name, "filter_node", problem)
            ) from problem
        if status is None or status.code is Code.SUCCESS:
            return 0
        if not status.code.rejected:
            raise AttemptFailed(status.with_plugin(item.name))
        return self._outcomes.number(item.name, status)

    def _score_row(self, item: Kept, row: int, info: PodInfo, node: NodeInfo) -> None:
        assert item.raw is not None
        if not item.scalar_score:
            item.raw, item.scored_for = None, -1
            return
        try:
            score = int(item.plugin.score_node(self._base, info.pod, node))
        except Exception as problem:
            raise AttemptFailed(
                self._profile.problem(item.name, "score_node", problem)
            ) from problem
        if item.normalizes or item.normalized is None:
            item.raw, item.constant = item.raw.copy(), False
            self._forget_column(item)
            item.raw[row] = score
            item.scored_for = -1
            return
        if not MIN_SCORE <= score <= MAX_SCORE:
            # Wrong only if the row fits; a whole pass finds out.
            item.raw, item.scored_for = None, -1
            return
        if self.totals is not None:
            self.totals[row] += item.weight * (score - int(item.normalized[row]))
            if self.masked[row] >= 0:
                self.masked[row] = self.totals[row]
        item.normalized[row] = score
        self._log(item.slot, row, score)

    def _log(self, slot: int, rows: Any, values: Any) -> None:
        """Note a change for records that were made before it."""
        if self._history is not None:
            self._history.changes.append((slot, rows, values))

    def _set_fits(self, row: int, fits: bool) -> None:
        if self._stable_ok[row] == fits:
            return
        self._stable_ok[row] = fits
        if self.candidates is self._stable_ok:
            if self._masked_for == self.version and self.totals is not None:
                self.masked[row] = self.totals[row] if fits else -1
                self._masked_for += 1
            self.version += 1

    def _follow_rows(self, rows: IntArray, info: PodInfo) -> None:
        """Many rows changed: ask about all of them in one pass over a selection."""
        view = self._table.select(rows)
        fits = self._node_ok[rows]
        for item in self._usage:
            if item.filters and not item.skips_filter:
                verdict = self._verdict(item, self._base, info.pod, view)
                numbers = to_numbers(verdict, item.name, self._outcomes)
                if numbers is not None and item.fails is None:
                    item.fails = np.zeros(self._table.count, dtype=np.uint32)
                    self._history = None
                if item.fails is not None:
                    values = 0 if numbers is None else numbers
                    item.fails[rows] = values
                    self._log(item.slot + 1, rows, values)
                if numbers is not None:
                    fits &= numbers == 0
            if item.raw is not None:
                self._score_rows(item, rows, view, info)
        changed = self._stable_ok[rows] != fits
        if changed.any():
            self._stable_ok[rows] = fits
            if self.candidates is self._stable_ok:
                self.version += 1
        if self._masked_for == self.version and self.totals is not None:
            self._mask_rows(rows)

    def _score_rows(self, item: Kept, rows: IntArray, view: Any, info: PodInfo) -> None:
        assert item.raw is not None
        scores = call_score(self._profile, item.plugin, self._base, info.pod, view)
        if isinstance(scores, Status):
            raise AttemptFailed(scores)
        if item.normalizes or item.normalized is None:
            item.raw, item.constant = item.raw.copy(), False
            self._forget_column(item)
            item.raw[rows] = scores
            item.scored_for = -1
            return
        # Seen as unsigned, negative scores are far above the maximum too.
        if np.count_nonzero(scores.view(np.uint64) > MAX_SCORE):
            item.raw, item.scored_for = None, -1
            return
        if self.totals is not None:
            self.totals[rows] += item.weight * (scores - item.normalized[rows])
        item.normalized[rows] = scores
        self._log(item.slot, rows, scores)

    def _revise(self, info: PodInfo) -> CycleState:
        """Ask plugins that depend on anything again, unless their revision is the same."""
        base, pod = self._base, info.pod
        asked: list[tuple[Kept, CycleState]] = []
        later: list[Kept] = []
        for item in self._volatile:
            if item.revised:
                try:
                    revision = item.plugin.revision(base, pod)
                except Exception as problem:
                    raise AttemptFailed(
                        self._profile.problem(item.name, "revision", problem)
                    ) from problem
                if revision is not None and revision == item.revision:
                    continue
                item.revision = revision
                if revision is not None:
                    item.scored_for = -1
                    self._ask_pre_filter(item, base, info)
                    asked.append((item, base))
                    continue
            later.append(item)
        state = base.fork()
        for item in later:
            item.scored_for = -1
            self._ask_pre_filter(item, state, info)
            asked.append((item, state))
        if asked or not self._merged:
            self._outcome = self._merge()
            self._merged = True
        if self.rejection is None:
            self._refilter(asked, info)
        else:
            for item, _ in asked:
                item.revision = None
        return state

    def _ask_pre_filter(self, item: Kept, state: CycleState, info: PodInfo) -> None:
        if item.pre_filters:
            profile, table = self._profile, self._table
            answer = call_pre_filter(profile, item.plugin, state, info.pod, table)
            item.take_pre_filter(*answer)
            if item.skips_filter:
                state.skip_filter.add(item.name)
            else:
                state.skip_filter.discard(item.name)

    def _merge(self) -> PreFilterOutcome | None:
        if all(item.plain for item in self._pre_filters):
            return None
        merge = PreFilterMerge(CycleState())
        for item in self._pre_filters:
            if not merge.add(item.name, item.result, item.status):
                break
        return merge.outcome()

    def _refilter(self, asked: list[tuple[Kept, CycleState]], info: PodInfo) -> None:
        for item, state in asked:
            if item.filters and not item.skips_filter:
                verdict = self._verdict(item, state, info.pod, self._table)
                item.take_verdict(verdict, self._outcomes)
            else:
                item.fails = item.verdict = None
        mask = self._stable_ok
        for item in self._volatile:
            if item.fails is not None and item.filters:
                mask = mask & (item.fails == 0)
        self._set_candidates(mask)

    def _set_candidates(self, mask: BoolArray) -> None:
        old = self.candidates
        if mask is old:
            return
        self.candidates = mask
        changed = (mask != old).nonzero()[0] if len(mask) == len(old) else None
        if changed is not None and not len(changed):
            return
        kept = self._masked_for == self.version and changed is not None
        self.version += 1
        if kept and self.totals is not None and changed is not None:
            self._mask_rows(changed)
            self._masked_for = self.version

    def _mask_rows(self, rows: IntArray) -> None:
        """Bring `masked` up to date where totals or candidates changed."""
        assert self.totals is not None
        self.masked[rows] = np.where(self.candidates[rows], self.totals[rows], -1)

    def _verdict(self, item: Kept, state: CycleState, pod: Any, nodes: Any) -> Any:
        verdict = call_filter(self._profile, item.plugin, state, pod, nodes)
        if isinstance(verdict, Status):
            raise AttemptFailed(verdict)
        return verdict

    # -- what the engine reads --------------------------------------------------------------------

    def restrict(self, mask: BoolArray) -> None:
        """Score only these of the candidates in this attempt."""
        self._set_candidates(mask)

    def fails(self) -> list[Any]:
        """Outcome numbers by row, one array per plugin that rejected any, in filter order."""
        return [item.fails for item in self._filters if item.fails is not None]

    def for_record(
        self, scored: bool
    ) -> tuple[tuple[Column, ...], History, tuple[FailArray | int, ...], int]:
        """What a record keeps: shared columns, the history of the others, parts of `fails`."""
        history = self._history
        size = 512
        if history is None or len(history.changes) > _LONG:
            arrays: list[npt.NDArray[Any] | None] = []
            for item in self._usage:
                score = item.normalized if item.in_place else None
                arrays += [_copied(score), _copied(item.fails)]
            history = History(arrays, [(item.name, item.weight) for item in self._usage])
            self._history = history
            size += sum(array.nbytes for array in arrays if array is not None)
        shared: tuple[Column, ...] = ()
        if scored:
            if self._shared_columns is None:
                columns: list[Column] = []
                for item in self.scores:
                    if item.normalized is not None and not item.in_place:
                        if item.column is None:
                            size += 3 * len(self.candidates)
                        columns.append(item.column or _column(item))
                self._shared_columns = tuple(columns)
            shared = self._shared_columns
        parts = [
            item.slot + 1 if item.slot >= 0 else item.fails
            for item in self._filters
            if item.fails is not None
        ]
        return shared, history, tuple(parts), size

    def first(self, order: ListOrder, start: int) -> int:
        """The candidate that comes first in the list, kept while candidates stay the same."""
        known = self._first
        if known is None or known[0] != self.version or known[1] != start:
            known = self._first = (self.version, start, order.first(self.candidates, start))
        return known[2]

    def heap_keys(self, order: ListOrder, start: int) -> IntArray:
        """Keys of rows in upstream's heap of candidates, kept while these stay the same."""
        known = self._heap_keys
        if known is None or known[0] != self.version or known[1] != start:
            keys = order.heap_keys(self.candidates, start)
            known = self._heap_keys = (self.version, start, keys)
        return known[2]

    def score(self, state: CycleState, info: PodInfo) -> IntArray:
        """Bring scores up to date; returns totals of candidates, -1 elsewhere."""
        if self.totals is None:
            self.totals = np.zeros(self._table.count, dtype=np.int64)  # (N,)
            self._masked_for = -1
            for item in self.scores:
                item.normalized, item.scored_for = None, -1
        for item in self.scores:
            if item.stable:
                self._score_stable(item, info)
            elif item.scored_for != self.version and not (item.scored_for >= 0 and item.steady):
                self._score_volatile(item, state, info)
        if self._masked_for != self.version:
            self.masked = np.where(self.candidates, self.totals, -1)
            self._masked_for = self.version
        return self.masked

    def _score_stable(self, item: Kept, info: PodInfo) -> None:
        profile, base = self._profile, self._base
        if item.raw is None:
            if item.skips_score and item.scored_for == -2:
                return
            self._pre_score(item, base, info)
            if item.skips_score:
                item.scored_for = -2
                return
            raw = call_score(profile, item.plugin, base, info.pod, self._table)
            if isinstance(raw, Status):
                raise AttemptFailed(raw)
            item.raw, item.scored_for = raw, -1
            item.constant = bool(raw.min() == raw.max())
            self._forget_column(item)
        fixed = item.constant or not item.normalizes
        if item.scored_for != self.version and not (fixed and item.scored_for >= 0):
            self._normalize(item, base, info)

    def _score_volatile(self, item: Kept, state: CycleState, info: PodInfo) -> None:
        own = self._base if item.revised and item.revision is not None else state
        self._pre_score(item, own, info)
        if item.skips_score:
            item.scored_for = self.version
            self._set_column(item, None)
            return
        raw = call_score(self._profile, item.plugin, own, info.pod, self._table, self.candidates)
        if isinstance(raw, Status):
            raise AttemptFailed(raw)
        item.raw = raw
        self._forget_column(item)
        self._normalize(item, own, info)

    def _forget_column(self, item: Kept) -> None:
        """What records show of this plugin is out of date."""
        item.column = self._shared_columns = None

    def _pre_score(self, item: Kept, state: CycleState, info: PodInfo) -> None:
        item.skips_score = False
        if not item.pre_scores:
            return
        state.skip_score.discard(item.name)
        args = (self._profile, item.plugin, state, info.pod, self._table, self.candidates)
        problem = call_pre_score(*args)
        if problem is not None:
            raise AttemptFailed(problem)
        item.skips_score = item.name in state.skip_score

    def _normalize(self, item: Kept, state: CycleState, info: PodInfo) -> None:
        assert item.raw is not None
        args = (self._profile, item.plugin, state, info.pod, item.raw, self.candidates)
        result = call_normalize(*args)
        if isinstance(result, Status):
            raise AttemptFailed(result)
        # Rows that do not fit may hold anything; only 0..100 must survive.
        item.scored_for = self.version
        self._set_column(item, result.astype(np.uint8, copy=False))

    def _set_column(self, item: Kept, column: SmallArray | None) -> None:
        """Take a whole new column into the totals, where it differs from the old one."""
        old, totals = item.normalized, self.totals
        assert totals is not None
        rows: IntArray | None = None
        if column is None:
            if old is None:
                return
            totals -= np.multiply(old, item.weight, dtype=np.int64)
        elif old is None:
            totals += np.multiply(column, item.weight, dtype=np.int64)
        else:
            rows = (column != old).nonzero()[0]
            if not len(rows):
                return
            if 3 * len(rows) < len(column):
                change = np.subtract(column[rows], old[rows], dtype=np.int64)
                totals[rows] += change * item.weight
            else:
                rows = None
                totals += np.subtract(column, old, dtype=np.int16) * np.int64(item.weight)
        if rows is None:
            self._masked_for = -1
        elif self._masked_for == self.version:
            self._mask_rows(rows)
        item.normalized = column
        self._forget_column(item)
        if item.slot >= 0:
            self._history = None


def _copied(array: npt.NDArray[Any] | None) -> npt.NDArray[Any] | None:
    return None if array is None else array.copy()


def _column(item: Kept) -> Column:
    """A column for records; raw scores take a quarter of the space if they fit.

    Copying that quarter is cheaper than holding on to the whole: fresh pages cost more.
    """
    assert item.normalized is not None
    raw: npt.NDArray[Any] | None = item.raw if item.normalizes else None
    if raw is not None and raw.dtype == np.int64:
        raw = compact(raw)
    item.column = Column(item.name, item.weight, item.normalized, raw)
    return item.column

"""Whom to ask for pods of one kind: one answer per plugin, and what these come to.

The answers about single rows are a set of their own, shared by plans that differ only in answers
that may hang on anything: what was followed for one of these plans need not be followed again.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from bayplan.cluster.arrays import BoolArray
from bayplan.engine.answers.candidates import Candidates
from bayplan.engine.answers.cluster_answer import ClusterAnswer
from bayplan.engine.answers.domain_totals import DomainTotals
from bayplan.engine.answers.kind_answer import KindAnswer
from bayplan.engine.answers.part import Scorer
from bayplan.engine.answers.row_answer import RowAnswer
from bayplan.engine.answers.totals import Totals
from bayplan.framework import CycleState, NodeTable, PodInfo, Profile
from bayplan.framework.runtime.filtering import PreFilterMerge, PreFilterOutcome

ByRow = RowAnswer | KindAnswer


class Points:
    """Which of a profile's plugins are called at which point, by their place in the cycle."""

    __slots__ = ("filters", "pre_filters", "scorers")

    def __init__(self, profile: Profile) -> None:
        place = {plugin.name: number for number, (plugin, _) in enumerate(profile.cycle)}
        self.pre_filters = [place[plugin.name] for plugin in profile.pre_filter]
        self.filters = [place[plugin.name] for plugin in profile.filter]
        self.scorers = [place[plugin.name] for plugin in profile.score]


class RowSet:
    """All answers of a plan that hang on single rows."""

    __slots__ = (
        "_epochs",
        "_open",
        "_scores_seen",
        "_scoring",
        "_usage",
        "_usage_scorers",
        "_written",
        "answers",
        "nodes_seen",
    )

    def __init__(self, answers: list[ByRow]) -> None:
        self.answers = answers
        self._open = answers
        """Those that a change of some row may change."""
        self.nodes_seen: int | None = None
        """The nodes' generation that all answers have followed; None: not all of them have."""
        self._usage = answers
        """Those of the open ones that have to follow pods too."""
        self._scoring = [answer for answer in answers if answer.scores]
        """Those that have scores, as far as is known."""
        self._scores_seen: int | None = None
        """The nodes' generation that all scores have followed."""
        self._usage_scorers = self._scoring
        self._epochs: int | None = None
        self._written: tuple[dict[str, object], set[str], bool] = ({}, set(), True)

    def refresh(self, info: PodInfo, table: NodeTable) -> None:
        """Follow the journals; what hangs on nodes alone is passed over while no node changed."""
        table.kinds.sync()
        nodes = table.node_changes.generation
        if self.nodes_seen == nodes:
            for answer in self._usage:
                answer.refresh(info)
            return
        first, self.nodes_seen = self.nodes_seen is None, None
        for answer in self._open:
            answer.refresh(info)
        if first:
            self._open = [answer for answer in self.answers if not answer.settled]
            self._usage = [answer for answer in self._open if answer.usage]
            self._epochs = None
        if not any(answer.errs for answer in self._open):
            self.nodes_seen = nodes

    def refresh_scores(self, info: PodInfo, mask: BoolArray, table: NodeTable) -> None:
        """The same for scores."""
        nodes = table.node_changes.generation
        if self._scores_seen == nodes:
            for answer in self._usage_scorers:
                answer.refresh_scores(info, mask)
            return
        first, self._scores_seen = self._scores_seen is None, None
        for answer in self._scoring:
            answer.refresh_scores(info, mask)
        if first:
            self._scoring = [answer for answer in self._scoring if not answer.skips_score]
            self._usage_scorers = [answer for answer in self._scoring if answer.usage]
        self._scores_seen = nodes

    def written(self) -> tuple[dict[str, object], set[str], bool]:
        """What PreFilters wrote, who of them skips, whether all were plain; not to be changed."""
        epochs = 0
        for answer in self._open:  # the others are not asked again
            epochs += answer.epoch
        if self._epochs != epochs or self.nodes_seen is None:
            asked = [answer for answer in self.answers if answer.pre_filters]
            data: dict[str, object] = {}
            for answer in asked:
                data.update(answer.state.data)
            skip = {answer.name for answer in asked if answer.skips_filter}
            self._written = data, skip, all(answer.plain for answer in asked)
            self._epochs = epochs
        return self._written


class Plan:
    """Whom to ask for pods with one tuple of facets."""

    __slots__ = (
        "__weakref__",
        "_plain",
        "_pre_filters",
        "_rejecting",
        "_watched",
        "answers",
        "asked",
        "candidates",
        "cluster",
        "cluster_scorers",
        "facets",
        "filters",
        "narrowed",
        "promised",
        "rows",
        "scorers",
        "signatures",
        "totals",
    )

    _plain: bool
    """Whether no PreFilter had anything to say, as far as is known to `fill`."""

    def __init__(
        self,
        points: Points,
        facets: tuple[Hashable, ...],
        answers: list[Scorer],
        like: Plan | None,
    ) -> None:
        """`like` is another plan, which may have the same answers about rows."""
        self.facets = facets
        self.answers = answers
        rows = [answer for answer in answers if not isinstance(answer, ClusterAnswer)]
        known = None if like is None else like.rows
        self.rows: RowSet = known if known is not None and known.answers == rows else RowSet(rows)
        self.cluster = [answer for answer in answers if isinstance(answer, ClusterAnswer)]
        self._pre_filters = [answers[place] for place in points.pre_filters]
        self.filters = [answers[place] for place in points.filters]
        self.scorers = [answers[place] for place in points.scorers]
        self.cluster_scorers = [a for a in self.scorers if isinstance(a, ClusterAnswer)]
        self.signatures: set[tuple[bytes, str]] = set()
        """Who finds this plan without asking plugins for facets."""
        self.promised: dict[int, Any] = {}
        """What is remembered of nodes with nominated pods, by the pod's priority."""
        self.asked: PodInfo | None = None
        """The pod of the last attempt."""
        self.candidates: Candidates | None = None
        self.narrowed: Candidates | None = None
        """The same without rows that nominated pods leave no room on."""
        self.totals: tuple[Candidates, list[bool], Totals | DomainTotals] | None = None
        """For which candidates, and which scorers had nothing to say."""
        self._watched = [a for a in self.filters if isinstance(a, ClusterAnswer) or a.usage]
        """Filters that may begin to reject rows while no node changes."""
        self._rejecting: tuple[int | None, list[bool], tuple[Scorer, ...]] = (None, [], ())

    @property
    def hangs_on_rows(self) -> bool:
        """Whether every filter that runs looks at one node and the pods on it alone."""
        return all(answer.skips_filter or not answer.filters for answer in self.cluster)

    def rejecting(self) -> tuple[Scorer, ...]:
        """The filters that reject some row, in order; the same object while they are the same."""
        nodes, some, found = self._rejecting
        now = [answer.fails.some for answer in self._watched]
        if nodes is None or nodes != self.rows.nodes_seen or now != some:
            fresh = tuple([answer for answer in self.filters if answer.fails.some])
            found = found if found == fresh else fresh
            self._rejecting = (self.rows.nodes_seen, now, found)
        return found

    def fill(self, state: CycleState, fresh: Sequence[ClusterAnswer]) -> None:
        """Give an attempt's state what the kept answers' plugins wrote."""
        data, skip, plain = self.rows.written()
        data, skip = data.copy(), skip.copy()
        for other in self.cluster:
            plain = plain and other.plain
            if other.pre_filters and not (fresh and other in fresh):
                data.update(other.state.data)
                if other.skips_filter:
                    skip.add(other.name)
        self._plain = plain and not fresh
        state.take(data, skip)

    def outcome(self) -> PreFilterOutcome | None:
        """What all PreFilters together said; None if nothing worth telling."""
        if self._plain or all(answer.plain for answer in self._pre_filters):
            return None
        merge = PreFilterMerge(CycleState())
        for answer in self._pre_filters:
            if not merge.add(answer.name, answer.result, answer.status):
                break
        return merge.outcome()

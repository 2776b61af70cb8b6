"""All kept answers of one profile, and what they come to for one pod.

A pod is looked up by its signature, which leads to a `Plan`: one answer per plugin, found by
plugin and facet. Pods that differ only in what no plugin reads have the same facets, hence the same
plan. Answers, candidates and totals are held by plans alone; when memory runs short the plans that
were not used for longest go, and with them what nobody else uses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sized
from functools import partial
from typing import Any
from weakref import WeakSet, WeakValueDictionary

import numpy as np

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.cluster.limits import Limits
from bayplan.engine.answers.asking import AttemptFailed, Desk, FailArray
from bayplan.engine.answers.candidates import Candidates, Rejecting
from bayplan.engine.answers.cluster_answer import ClusterAnswer
from bayplan.engine.answers.domain_totals import DomainTotals
from bayplan.engine.answers.domains import LOWEST
from bayplan.engine.answers.kind_answer import KindAnswer
from bayplan.engine.answers.part import Part, Scorer, normalized
from bayplan.engine.answers.plan import Plan, Points
from bayplan.engine.answers.row_answer import RowAnswer
from bayplan.engine.answers.share import Layout, Share
from bayplan.engine.answers.totals import Totals, add_up
from bayplan.errors import RAISED
from bayplan.framework import CycleState, Depends, NodeTable, Outcomes, PodInfo, Profile
from bayplan.framework.runtime.filtering import (
    PreFilterOutcome,
    run_pre_filters,
)

_BYTES = (6, 1, 17, 26)
"""What an answer, a set of candidates, of totals and of promises take a row at most, roughly."""


def _whole(info: PodInfo) -> Hashable:
    """The facet of plugins that do not say what they read."""
    return info.signature, info.pod.spec.node_name


class Judgement:
    """What the plugins say about one pod in one attempt."""

    __slots__ = ("_answers", "_candidates", "info", "outcome", "plan", "state")

    def __init__(
        self,
        answers: Answers,
        plan: Plan,
        info: PodInfo,
        state: CycleState,
        outcome: PreFilterOutcome | None,
        candidates: Candidates | None,
    ) -> None:
        self._answers = answers
        self.plan = plan
        self.info = info
        self.state = state
        self.outcome = outcome
        self._candidates = candidates

    @property
    def candidates(self) -> Candidates:
        """The rows that pass all filters; there are none to ask about after a rejection."""
        assert self._candidates is not None
        return self._candidates

    @property
    def rejection(self) -> PreFilterOutcome | None:
        """What PreFilter said if it ended the attempt."""
        outcome = self.outcome
        return outcome if outcome is not None and outcome.status is not None else None

    @property
    def narrowed(self) -> PreFilterOutcome | None:
        """What PreFilter said if it left only some nodes in the search."""
        outcome = self.outcome
        return outcome if outcome is not None and outcome.node_names is not None else None

    def fails(self) -> list[FailArray]:
        """Outcome numbers by row, one array per plugin that rejected any, in filter order."""
        found = (answer.fails.values for answer in self.plan.filters)
        return [values.astype(np.uint32, copy=False) for values in found if values is not None]

    @property
    def failing(self) -> bool:
        """Whether a filter failed on some row."""
        return any(answer.failing for answer in self.plan.cluster)

    def nothing_said(self) -> Layout:
        """What a record of an attempt that PreFilter ended has to tell."""
        return self._answers.nothing_said()

    def leave_out(self, rejecting: Rejecting) -> None:
        """Take rows out that something besides the filters rejects."""
        self._candidates = self._answers.candidates_without(self.plan, rejecting)
        self._candidates.sync()

    def totals(self) -> Totals | DomainTotals:
        """Scores of all candidates, up to date; raises AttemptFailed."""
        self._answers.check_scores()
        totals = self._answers.totals_for(self)
        totals.sync(self.info)
        return totals

    def totals_among(self, mask: BoolArray) -> tuple[IntArray, tuple[Share, ...]]:
        """Scores if only some of the candidates count, which nobody keeps."""
        self._answers.check_scores()
        columns, shares = [], []
        for answer in self.plan.scorers:
            if not isinstance(answer, ClusterAnswer):
                answer.refresh_scores(self.info, mask)
                scores = None if answer.skips_score else answer.raw.values
            else:
                answer.prepare_scores(self.info, mask, object())
                skips = answer.skips_score
                scores = None if skips else answer.score_rows(self.info, mask)
            if scores is not None:
                values = normalized(answer, self.info, scores, mask)
                columns.append((values, answer.weight))
                raw = scores if answer.normalizes else None
                shares.append(Share(answer.name, answer.weight, values, raw))
        return np.where(mask, add_up(columns, len(mask)), LOWEST), tuple(shares)


class Answers:
    """What one profile's plugins said, for all pods."""

    def __init__(
        self, profile: Profile, table: NodeTable, outcomes: Outcomes, limits: Limits
    ) -> None:
        self._desk = Desk(profile, table, outcomes, limits)
        self._by_signature: dict[tuple[bytes, str], tuple[tuple[Hashable, ...], Plan]] = {}
        self._plans: dict[tuple[Hashable, ...], Plan] = {}
        self._recent: dict[Plan, None] = {}
        self._answers: WeakValueDictionary[tuple[str, Hashable], Scorer] = WeakValueDictionary()
        self._candidates: WeakValueDictionary[tuple[Rejecting, ...], Candidates]
        self._candidates = WeakValueDictionary()
        self._parts: WeakValueDictionary[tuple[Candidates, Scorer], Part] = WeakValueDictionary()
        self._totals: WeakValueDictionary[tuple[Candidates, tuple[Scorer, ...]], Totals]
        self._totals = WeakValueDictionary()
        self._promises: WeakSet[Rejecting] = WeakSet()
        """What else keeps rows out of some plan's candidates."""
        self._newest: Plan | None = None
        self._points = Points(profile)
        cycle = [plugin for plugin, _ in profile.cycle]
        self._facets = [(plugin.name, getattr(plugin, "facet", None)) for plugin in cycle]
        self._changing = [p for p in cycle if hasattr(p, "facet_revision")]

    def judge(self, info: PodInfo) -> Judgement:
        """Bring everything that a pod needs up to date; raises AttemptFailed."""
        state = CycleState(info)
        plan = self._plan_for(info, state)
        plan.asked = info
        plan.rows.refresh(info, self._desk.table)
        fresh = [answer for answer in plan.cluster if not answer.refresh(info, state)]
        plan.fill(state, fresh)
        for answer in fresh:
            answer.ask_now(info, state)
        outcome = plan.outcome()
        if outcome is not None and outcome.status is not None:
            return Judgement(self, plan, info, state, outcome, None)
        for answer in plan.cluster:
            answer.filter(info)
        candidates = self._candidates_for(plan)
        candidates.sync()
        return Judgement(self, plan, info, state, outcome, candidates)

    def nothing_said(self) -> Layout:
        """A layout without rejections and scores."""
        return Layout(self._desk)

    def revisions(self, info: PodInfo) -> tuple[Hashable, ...] | None:
        """What the answers for a pod hang on beside rows; None if one must not be kept."""
        state = CycleState(info)
        plan = self._plan_for(info, state)
        found: list[Hashable] = [plugin.facet_revision() for plugin in self._changing]
        for answer in plan.cluster:
            revision = answer.revision(info, state)
            if revision is None:
                return None
            found.append(revision)
        return tuple(found)

    def validate(self) -> None:
        """Ask everything that is kept as right anew, and compare; raises AssertionError.

        Plugins are asked with the pods that they were asked about last, unless these have another
        facet by now: the answer is about the facet, not about the pod. For tests.
        """
        answers = [a for (_, facet), a in self._answers.items() if self._has_facet(a, facet)]
        kept: list[Scorer | Candidates | Totals] = [
            *answers,
            *self._candidates.values(),
            *self._totals.values(),
        ]
        problems = [problem for item in kept for problem in item.problems()]
        assert not problems, "kept answers differ: " + "; ".join(problems)

    @property
    def asked(self) -> list[PodInfo]:
        """A pod of each kind about which something is kept."""
        return [plan.asked for plan in self._recent if plan.asked is not None]

    def _has_facet(self, answer: Scorer, facet: Hashable) -> bool:
        """Whether the pod that an answer was asked about last still has its facet."""
        info, asks = answer.state.info, getattr(answer.plugin, "facet", None)
        return info is None or asks is None or asks(CycleState(info), info.pod) == facet

    def run_pre_filters(self, info: PodInfo) -> tuple[CycleState, PreFilterOutcome]:
        """Ask PreFilter plugins on a fresh state, in order, as far as they go."""
        state, desk = CycleState(info), self._desk
        return state, run_pre_filters(desk.profile, state, info.pod, desk.table)

    # -- from pod to plan -----------------------------------------------------------------------

    def _plan_for(self, info: PodInfo, state: CycleState) -> Plan:
        key = (info.signature, info.pod.spec.node_name)
        stamp = tuple([plugin.facet_revision() for plugin in self._changing])
        known = self._by_signature.get(key)
        if known is not None and known[0] == stamp:
            plan = known[1]
        else:
            plan = self._find_plan(info, state)
            self._remember(key, stamp, plan)
        del self._recent[plan]
        self._recent[plan] = None  # last used last
        return plan

    def _remember(self, key: tuple[bytes, str], stamp: tuple[Hashable, ...], plan: Plan) -> None:
        known = self._by_signature.pop(key, None)
        if known is not None:
            known[1].signatures.discard(key)
        while len(self._by_signature) >= self._desk.limits.plans:
            old = next(iter(self._by_signature))
            self._by_signature.pop(old)[1].signatures.discard(old)
        self._by_signature[key] = (stamp, plan)
        plan.signatures.add(key)

    def _find_plan(self, info: PodInfo, state: CycleState) -> Plan:
        facets = tuple(
            [
                self._facet(name, facet, info, state) if facet is not None else _whole(info)
                for name, facet in self._facets
            ]
        )
        plan = self._plans.get(facets)
        if plan is None:
            answers = self._answers_for(facets, info)
            self._make_room()
            plan = self._plans[facets] = Plan(self._points, facets, answers, self._newest)
            self._recent[plan] = None
            self._newest = plan
        return plan

    def _facet(
        self,
        name: str,
        facet: Callable[[CycleState, Any], Hashable],
        info: PodInfo,
        state: CycleState,
    ) -> Hashable:
        try:
            return facet(state, info.pod)
        except RAISED as problem:
            raise self._desk.broken(name, "facet", problem) from problem

    def _answers_for(self, facets: tuple[Hashable, ...], info: PodInfo) -> list[Scorer]:
        """One answer a plugin; pods that come one after the other have most of them in common."""
        newest, cycle = self._newest, self._desk.profile.cycle
        if newest is None:
            each = zip(cycle, facets, strict=True)
            return [self._answer_for(plugin, points, f, info) for (plugin, points), f in each]
        return [
            answer if facet == known else self._answer_for(plugin, points, facet, info)
            for (plugin, points), facet, known, answer in zip(
                cycle, facets, newest.facets, newest.answers, strict=True
            )
        ]

    def _answer_for(
        self, plugin: Any, points: dict[str, bool], facet: Hashable, info: PodInfo
    ) -> Scorer:
        key = (plugin.name, facet)
        answer = self._answers.get(key)
        if answer is None:
            depends = Depends.CLUSTER
            if hasattr(plugin, "depends_on"):
                try:
                    depends = Depends(plugin.depends_on(info.pod))
                except RAISED as problem:
                    raise self._desk.broken(plugin.name, "depends_on", problem) from problem
            if depends is Depends.CLUSTER:
                answer = ClusterAnswer(self._desk, plugin, points, info)
            elif depends is Depends.SUMS and not hasattr(plugin, "normalize"):
                answer = KindAnswer(self._desk, plugin, points, info)
            else:
                answer = RowAnswer(self._desk, plugin, points, info, depends)
            self._answers[key] = answer
        return answer

    def _make_room(self) -> None:
        limits = self._desk.limits
        while self._recent and (
            self.bytes > limits.answer_bytes or len(self._recent) >= limits.plans
        ):
            gone = next(iter(self._recent))
            del self._recent[gone], self._plans[gone.facets]
            for key in gone.signatures:
                del self._by_signature[key]

    @property
    def count(self) -> int:
        """How many answers are kept."""
        return len(self._answers)

    @property
    def bytes(self) -> int:
        """What is kept takes about so much memory."""
        kept: tuple[Sized, ...] = (
            self._answers,
            self._candidates,
            self._totals,
            self._promises,
        )
        per_row = sum(size * len(items) for size, items in zip(_BYTES, kept, strict=True))
        return per_row * self._desk.table.count

    # -- from plan to candidates and totals -----------------------------------------------------

    def _candidates_for(self, plan: Plan) -> Candidates:
        filters = plan.rejecting()
        known = plan.candidates
        if known is None or (known.filters is not filters and known.filters != filters):
            known = self._candidates.get(filters)
            if known is None:
                known = self._candidates[filters] = Candidates(self._desk, filters)
            plan.candidates = known
        return known

    def candidates_without(self, plan: Plan, rejecting: Rejecting) -> Candidates:
        """A plan's candidates without rows that something else rejects."""
        assert plan.candidates is not None
        known, filters = plan.narrowed, plan.candidates.filters
        if known is None or known.filters[-1] is not rejecting or known.filters[:-1] != filters:
            every = (*filters, rejecting)
            known = plan.narrowed = self._candidates[every] = Candidates(self._desk, every)
            self._promises.add(rejecting)
        return known

    def check_scores(self) -> None:
        """Raise AttemptFailed if the profile can never score."""
        if (problem := self._desk.profile.score_problem) is not None:
            raise AttemptFailed(problem)

    def totals_for(self, judgement: Judgement) -> Totals | DomainTotals:
        """The sums that belong to a pod's candidates and the plugins that have scores for it."""
        plan, info, candidates = judgement.plan, judgement.info, judgement.candidates
        mask = candidates.mask
        plan.rows.refresh_scores(info, mask, self._desk.table)
        for answer in plan.cluster_scorers:
            if answer.steady:
                answer.refresh_scores(info, mask)
            else:
                answer.prepare_scores(info, mask, candidates.stamp)
        skips = [answer.skips_score for answer in plan.scorers]
        known = plan.totals
        if known is None or known[0] is not candidates or known[1] != skips:
            scorers = tuple([answer for answer in plan.scorers if not answer.skips_score])
            known = plan.totals = (candidates, skips, self._make_totals(candidates, scorers))
        return known[2]

    def _make_totals(
        self, candidates: Candidates, scorers: tuple[Scorer, ...]
    ) -> Totals | DomainTotals:
        for place, answer in enumerate(scorers):
            if isinstance(answer, ClusterAnswer) and answer.tells_domains:
                rest = self._totals_of(candidates, (*scorers[:place], *scorers[place + 1 :]))
                whole = partial(self._totals_of, candidates, scorers)
                return DomainTotals(candidates, answer, place, rest, whole)
        return self._totals_of(candidates, scorers)

    def _totals_of(self, candidates: Candidates, scorers: tuple[Scorer, ...]) -> Totals:
        key = (candidates, scorers)
        totals = self._totals.get(key)
        if totals is None:
            parts = [self._part_of(candidates, answer) for answer in scorers]
            totals = self._totals[key] = Totals(self._desk, candidates, parts)
        return totals

    def _part_of(self, candidates: Candidates, answer: Scorer) -> Part:
        key = (candidates, answer)
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = Part(self._desk, answer)
        return part

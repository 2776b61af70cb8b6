"""One attempt for one pod, top down: judge, search, choose; if nothing fits, PostFilter; record.

The names are upstream's where upstream has one: `Cycle.run` is schedulingCycle without its end
(assume, Reserve, Permit), which is the engine's.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.engine.answers import Answers, AttemptFailed, Judgement
from bayplan.engine.answers.share import Layout, WithDomains
from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.cycle.records import RECORD_BYTES, AttemptRecord, RecordRing
from bayplan.engine.cycle.search import Asked, Search, SearchSettings
from bayplan.framework import (
    CLEAR_NOMINATION,
    Code,
    CycleState,
    Diagnosis,
    FitError,
    Outcomes,
    PodInfo,
    Profile,
    Status,
)
from bayplan.framework.runtime.filtering import run_post_filters

NO_NODES = "no nodes available to schedule pods"


class Cycle:
    """Makes attempts; owns what is kept between them."""

    def __init__(self, settings: SearchSettings, profiles: Mapping[str, Profile]) -> None:
        self.settings = settings
        self._profiles = profiles
        self._answers = self._start_anew()

    def _start_anew(self) -> dict[str, Answers]:
        cache, outcomes = self.settings.cache, self.settings.outcomes
        return {
            name: Answers(profile, cache.table, outcomes, cache.limits)
            for name, profile in self._profiles.items()
        }

    def forget(self) -> None:
        """Drop everything kept."""
        self._answers = self._start_anew()

    def answers_of(self, profile: Profile) -> Answers:
        return self._answers[profile.name]

    def validate(self, start: int) -> None:
        """Try a pod of each kind again, here and with nothing kept; raises AssertionError."""
        fresh = Cycle(self.settings, self._profiles)
        for profile in self._profiles.values():
            for info in self._answers[profile.name].asked:
                mine, anew = (_told(cycle, info, profile, start) for cycle in (self, fresh))
                wrong = [what for what, value in anew.items() if mine[what] != value]
                assert not wrong, f"for {info.pod.key} {wrong} differ: {mine} is not {anew}"

    # -- the way of a pod -----------------------------------------------------------------------

    def run(
        self,
        info: PodInfo,
        profile: Profile,
        now: float,
        start: int,
        *,
        post_filter: bool,
        records: RecordRing | None,
        ahead: Asked | None = None,
    ) -> Decision:
        """Find a node for a pod, or say why there is none; changes nothing."""
        if not self.settings.count:
            return _failed(info, profile, start, _no_nodes())
        if self.settings.outcomes.crowded:
            # Records keep the old numbers' meaning; answers start anew.
            self.settings.outcomes = Outcomes()
            self.forget()
        search: Search | None = None
        try:
            judgement = self._answers[profile.name].judge(info)
            if judgement.rejection is not None:
                decision = self._rejected_early(judgement, profile, start)
            else:
                wanted = records is not None
                search = Search(
                    self.settings, profile, judgement, start, recorded=wanted, ahead=ahead
                )
                decision = self._search(search, judgement, profile)
        except AttemptFailed as problem:
            begun = start if search is None else search.next_start
            return _failed(info, profile, begun, problem.status)
        decision.start = start
        if decision.fit_error is not None:
            ask_post_filter(decision, post_filter)
        if records is not None and (decision.fit_error is not None or decision.node_name):
            self._record(decision, judgement, search, now, records)
        return decision

    def _search(self, search: Search, judgement: Judgement, profile: Profile) -> Decision:
        decision = Decision(judgement.info, profile, judgement.state)
        row = search.run()
        decision.next_start = search.next_start
        decision.feasible_nodes, decision.evaluated_nodes = search.feasible, search.evaluated
        if row >= 0:
            decision.node_name = self.settings.cache.table.name_of(row)
        else:
            decision.fit_error = search.fit_error()
            decision.status = Status(Code.UNSCHEDULABLE)
        return decision

    def _rejected_early(self, judgement: Judgement, profile: Profile, start: int) -> Decision:
        """PreFilter ended the attempt; PostFilter must see the state as far as it got."""
        info, table = judgement.info, self.settings.cache.table
        state, outcome = self._answers[profile.name].run_pre_filters(info)
        status = outcome.status
        if status is None:
            status = Status(Code.ERROR, "a PreFilter plugin changed its mind within one attempt")
        if not status.rejected:
            return _failed(info, profile, start, status)
        decision = Decision(info, profile, state)
        decision.next_start, decision.status = start, Status(Code.UNSCHEDULABLE)
        names, rows = table.names(), table.row_by_name
        diagnosis = Diagnosis(names, rows, self.settings.outcomes, absent=status)
        plugins = {status.plugin} if status.plugin else set()
        decision.fit_error = FitError(
            self.settings.count,
            diagnosis,
            pre_filter_message=status.message,
            unschedulable_plugins=plugins | set(outcome.narrowed_by),
        )
        return decision

    def _record(
        self,
        decision: Decision,
        judgement: Judgement,
        search: Search | None,
        now: float,
        records: RecordRing,
    ) -> None:
        table = self.settings.cache.table
        layout: Layout | WithDomains
        if search is None:
            layout, size = judgement.nothing_said(), 0
        elif search.layout is None:
            layout, size = judgement.candidates.layout()
        else:
            layout, size = search.layout, search.bytes
        record = AttemptRecord(
            decision.info.pod,
            now,
            table.names(),
            layout,
            table.kinds.column.version,
            decision.feasible_nodes,
            decision.node_name,
            None if search is None else search.own,
            RECORD_BYTES + size if size else RECORD_BYTES,
        )
        if not decision.node_name:
            record.message = decision.message
            record.victims = decision.victims
            if decision.nominating is not None:
                record.nominated_node_name = decision.nominating.nominated_node_name
        decision.record = record
        if size:
            records.add(record)
        else:
            records.keep(record)


def ask_post_filter(decision: Decision, wanted: bool) -> None:
    """Let PostFilter plugins propose how to make room."""
    error, profile = decision.fit_error, decision.profile
    assert error is not None
    if not wanted:
        return
    if not profile.post_filter:
        decision.nominating = CLEAR_NOMINATION
        return
    pod = decision.info.pod
    result, status = run_post_filters(profile, decision.state, pod, error.diagnosis)
    error.post_filter_message = status.message
    decision.post_filter, decision.post_filter_status = result, status
    decision.nominating = None if result is None else result.nominating_info


def _told(cycle: Cycle, info: PodInfo, profile: Profile, start: int) -> dict[str, object]:
    """All that an attempt comes to, without PostFilter."""
    decision = cycle.run(info, profile, 0.0, start, post_filter=False, records=RecordRing())
    found: dict[str, object] = {"node": decision.node_name, "message": decision.message}
    if decision.record is not None:
        names = decision.record.names
        found["statuses"] = {name: decision.record.status_of(name) for name in names}
        if decision.node_name:
            found["scores"] = {name: decision.record.scores_of(name) for name in names}
    return found


def _no_nodes() -> Status:
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NO_NODES)


def _failed(info: PodInfo, profile: Profile, start: int, status: Status) -> Decision:
    decision = Decision(info, profile, CycleState(info))
    decision.next_start = start
    decision.status, decision.nominating = status, CLEAR_NOMINATION
    return decision

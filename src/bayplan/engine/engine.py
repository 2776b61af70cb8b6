"""The scheduling cycle: a pod and the cluster in, a decision out.

`Engine.place` does all that kube-scheduler does in one attempt, from PreFilter to Permit, and
leaves the pod assumed if it found a node; binding is up to the caller, with
`bayplan.framework.runtime.binding`. The engine reads no clock and keeps no secrets: `now` is an
argument, all state is in the cache. Every node is looked at and scored unless
`percentageOfNodesToScore` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from bayplan.api import Pod
from bayplan.config import DEFAULT_GATES, FeatureGates, KubeSchedulerConfiguration
from bayplan.engine.answers.classes import AttemptFailed, PodClass
from bayplan.engine.cache import Cache
from bayplan.engine.cycle.choice import ListOrder
from bayplan.engine.cycle.decisions import Decision, GroupDecision
from bayplan.engine.cycle.records import AttemptRecord, RecordRing
from bayplan.engine.cycle.search import Search, SearchSettings
from bayplan.errors import ConfigError
from bayplan.framework import (
    CLEAR_NOMINATION,
    Code,
    CycleState,
    Diagnosis,
    Extender,
    FitError,
    Handle,
    IntArray,
    Outcomes,
    PodInfo,
    Profile,
    Status,
)
from bayplan.framework.contract.registry import Factory
from bayplan.framework.runtime.binding import run_permit, run_reserve, run_unreserve
from bayplan.framework.runtime.filtering import run_post_filters

NO_NODES = "no nodes available to schedule pods"

_CLASS_BYTES = 128 << 20
"""How much memory kept answers may take, roughly."""


class Engine:
    """Decides for pods, one at a time; owns the kept classes and the moving start of the search."""

    def __init__(
        self,
        cache: Cache,
        profiles: Mapping[str, Profile],
        handles: Iterable[Handle] = (),
        *,
        extenders: Sequence[Extender] = (),
        percentage_of_nodes_to_score: int = 0,
        records: RecordRing | None = None,
    ) -> None:
        self.cache = cache
        self.profiles = dict(profiles)
        self.records = records
        self.outcomes = Outcomes()
        self._handles = list(handles)
        self._shared = SearchSettings(cache, self.outcomes, extenders, percentage_of_nodes_to_score)
        self._order = ListOrder()
        self._classes: dict[tuple[str, bytes, str, int], PodClass] = {}

    @classmethod
    def build(
        cls,
        config: KubeSchedulerConfiguration,
        registry: Mapping[str, Factory],
        cache: Cache | None = None,
        *,
        gates: FeatureGates = DEFAULT_GATES,
        extenders: Sequence[Extender] = (),
        activate: Callable[[Iterable[Pod]], None] | None = None,
        records: RecordRing | None = None,
    ) -> Engine:
        """Make the profiles of a complete configuration; raises ConfigError."""
        cache = cache or Cache()
        shared = Handle(
            table=cache.table,
            objects=cache.objects,
            nominator=cache.nominator,
            waiting=cache.waiting,
            infos=cache.infos,
            gates=gates,
            extenders=extenders,
            parallelism=config.parallelism,
            activate=activate,
        )
        handles: list[Handle] = []
        profiles: dict[str, Profile] = {}
        for item in config.profiles:
            if item.scheduler_name in profiles:
                raise ConfigError(f'profile "{item.scheduler_name}" is configured twice')
            handles.append(shared.for_profile())
            profiles[item.scheduler_name] = Profile.build(item, registry, handles[-1])
        return cls(
            cache,
            profiles,
            handles,
            extenders=extenders,
            percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
            records=records,
        )

    @property
    def handles(self) -> list[Handle]:
        """The handle of each profile."""
        return self._handles

    def profile_for(self, pod: Pod) -> Profile | None:
        return self.profiles.get(pod.spec.scheduler_name)

    # -- one attempt --------------------------------------------------------------------------

    def place(self, pod: Pod | PodInfo, now: float) -> Decision:
        """Try to place a pod; if it works the pod is assumed, reserved and permitted.

        A decision with `waits` set must be registered as waiting by the caller. If binding fails
        later, `undo` takes everything back.
        """
        decision = self.schedule(pod, now)
        if not decision.node_name:
            return decision
        info, profile, state = decision.info, decision.profile, decision.state
        self.cache.assume(info, decision.node_name)
        if len(self.cache.nominator):
            self.cache.nominator.delete(info.uid)
        if profile.reserve:
            status = run_reserve(profile, state, info.pod, decision.node_name)
            if status is not None:
                return self._refused(decision, status)
        if profile.permit:
            outcome = run_permit(profile, state, info.pod, decision.node_name)
            if outcome.status is not None and outcome.status.code is not Code.WAIT:
                return self._refused(decision, outcome.status)
            decision.status, decision.timeouts = outcome.status, outcome.timeouts
        return decision

    def undo(self, decision: Decision) -> None:
        """Take a placed pod back: unreserve and forget."""
        pod = decision.info.pod
        run_unreserve(decision.profile, decision.state, pod, decision.node_name)
        self.cache.forget(pod)

    def place_all(
        self, pods: Iterable[Pod | PodInfo], now: float, needed: int | None = None
    ) -> GroupDecision:
        """Place several pods together, each seeing those before it, or none of them.

        `needed` is how many must find a node, all by default. Nobody is preempted.
        """
        wanted = list(pods)
        decisions = [self._place_in_group(pod, now) for pod in wanted]
        placed = sum(decision.placed for decision in decisions)
        enough = placed >= (len(wanted) if needed is None else needed)
        if not enough:
            for decision in reversed(decisions):
                if decision.placed:
                    self.undo(decision)
        return GroupDecision(decisions, enough)

    def trial(
        self, pods: Iterable[Pod | PodInfo], now: float, needed: int | None = None
    ) -> GroupDecision:
        """Like `place_all`, but nothing stays changed either way."""
        result = self.place_all(pods, now, needed)
        if result.placed:
            for decision in reversed(result.decisions):
                if decision.placed:
                    self.undo(decision)
        return result

    def _place_in_group(self, pod: Pod | PodInfo, now: float) -> Decision:
        decision = self.schedule(pod, now, post_filter=False)
        if decision.node_name:
            self.cache.assume(decision.info, decision.node_name)
            status = run_reserve(
                decision.profile, decision.state, decision.info.pod, decision.node_name
            )
            if status is not None:
                return self._refused(decision, status)
        return decision

    def _refused(self, decision: Decision, status: Status) -> Decision:
        """Reserve or Permit said no: undo, and tell it as a failure on one node."""
        self.undo(decision)
        name = decision.node_name
        if status.rejected:
            diagnosis = Diagnosis((name,), {name: 0}, self.outcomes, own={0: status})
            plugins = {status.plugin} if status.plugin else set()
            pending = plugins if status.code is Code.PENDING else set()
            decision.fit_error = FitError(
                1, diagnosis, unschedulable_plugins=plugins - pending, pending_plugins=pending
            )
        decision.node_name, decision.status = "", status
        decision.nominating = CLEAR_NOMINATION
        if decision.record is not None:
            decision.record.node_name, decision.record.message = "", decision.message
        return decision

    def schedule(self, pod: Pod | PodInfo, now: float, *, post_filter: bool = True) -> Decision:
        """Find a node for a pod without changing anything; with `post_filter`, propose victims."""
        info = pod if isinstance(pod, PodInfo) else self.cache.infos.make(pod)
        profile = self.profiles.get(info.pod.spec.scheduler_name)
        if profile is None:
            raise ConfigError(
                f'pod "{info.pod.key}" asks for scheduler "{info.pod.spec.scheduler_name}"; '
                f"profiles: {', '.join(sorted(self.profiles))}"
            )
        for handle in self._handles:
            handle.now = now
        table = self.cache.table
        if not table.count:
            decision = Decision(info, profile, CycleState(info))
            decision.status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NO_NODES)
            decision.nominating = CLEAR_NOMINATION
            return decision
        try:
            return self._attempt(info, profile, now, post_filter)
        except AttemptFailed as problem:
            decision = Decision(info, profile, CycleState(info))
            decision.status, decision.nominating = problem.status, CLEAR_NOMINATION
            return decision

    def _attempt(self, info: PodInfo, profile: Profile, now: float, post_filter: bool) -> Decision:
        if self.outcomes.crowded:
            # Records keep the old numbers' meaning; classes start anew.
            self.outcomes = self._shared.outcomes = Outcomes()
            self._classes.clear()
        order = self._order.sync(self.cache.table)
        kept = self._class_for(info, profile)
        state = kept.refresh(info)
        if kept.rejection is not None:
            return self._rejected_early(info, profile, kept, now, post_filter)
        search = Search(self._shared, info, profile, kept, state, order)
        decision = Decision(info, profile, state)
        row = search.run()
        decision.feasible_nodes, decision.evaluated_nodes = search.feasible, search.evaluated
        if row >= 0:
            decision.node_name = order.names[row]
        else:
            decision.fit_error = search.fit_error()
            self._fail(decision, post_filter)
        if self.records is not None:
            self._record(decision, kept, order, now, search.own, search.scored)
        return decision

    def _rejected_early(
        self, info: PodInfo, profile: Profile, kept: PodClass, now: float, post_filter: bool
    ) -> Decision:
        """PreFilter ended the attempt; PostFilter must see the state as far as it got."""
        state, outcome = kept.run_pre_filters_anew(info)
        status = outcome.status
        decision = Decision(info, profile, state)
        if status is None:
            status = Status(Code.ERROR, "a PreFilter plugin changed its mind within one attempt")
        if not status.rejected:
            decision.status, decision.nominating = status, CLEAR_NOMINATION
            return decision
        order = self._order
        diagnosis = Diagnosis(order.names, order.row_of, self.outcomes, absent=status)
        plugins = {status.plugin} if status.plugin else set()
        decision.fit_error = FitError(
            len(order.names),
            diagnosis,
            pre_filter_message=status.message,
            unschedulable_plugins=plugins | set(outcome.narrowed_by),
        )
        self._fail(decision, post_filter)
        if self.records is not None:
            self._record(decision, kept, order, now, {}, False)
        return decision

    def _fail(self, decision: Decision, post_filter: bool) -> None:
        error = decision.fit_error
        assert error is not None
        decision.status = Status(Code.UNSCHEDULABLE)
        profile = decision.profile
        if not post_filter:
            return
        if not profile.post_filter:
            decision.nominating = CLEAR_NOMINATION
            return
        result, status = run_post_filters(
            profile, decision.state, decision.info.pod, error.diagnosis
        )
        error.post_filter_message = status.message
        decision.post_filter, decision.post_filter_status = result, status
        decision.nominating = None if result is None else result.nominating_info

    def _record(
        self,
        decision: Decision,
        kept: PodClass,
        order: ListOrder,
        now: float,
        own: Mapping[int, Status],
        scored: bool,
    ) -> None:
        shared, history, parts, size = kept.for_record(scored)
        record = AttemptRecord(
            decision.info.pod,
            decision.profile.name,
            now,
            self.outcomes,
            order.names,
            decision.feasible_nodes,
            decision.node_name,
            shared,
            history,
            len(history.changes),
            scored,
            parts,
            bytes=size,
        )
        if own:
            record.own = own
        if not decision.node_name:
            record.message = decision.message
            record.victims = decision.victims
            if decision.nominating is not None:
                record.nominated_node_name = decision.nominating.nominated_node_name
        decision.record = record
        assert self.records is not None
        self.records.add(record)

    def _class_for(self, info: PodInfo, profile: Profile) -> PodClass:
        devices = self.cache.objects.device_classes.revision
        key = (profile.name, info.signature, info.pod.spec.node_name, devices)
        kept = self._classes.pop(key, None)
        if kept is None:
            table = self.cache.table
            limit = max(8, _CLASS_BYTES // (48 * table.count + 1))
            while len(self._classes) >= limit:
                del self._classes[next(iter(self._classes))]
            kept = PodClass(profile, table, self.outcomes, info)
        self._classes[key] = kept  # last used last
        return kept

    # -- looking closer ---------------------------------------------------------------------------

    def node_statuses(self, decision: Decision) -> dict[str, Status | None]:
        """Every node in list order with why it was rejected, None if it fits; for explaining."""
        order = self._order.sync(self.cache.table)
        kept = self._class_for(decision.info, decision.profile)
        search = Search(self._shared, decision.info, decision.profile, kept, decision.state, order)
        kept.refresh(decision.info)
        start = self._shared.next_start
        search.run()
        self._shared.next_start = start
        diagnosis = search.fit_error().diagnosis
        found: dict[str, Status | None] = {}
        for row in order.rows.tolist():
            name = order.names[row]
            fits = bool(kept.candidates[row])
            status = diagnosis.status_of_row(row)
            narrowed = kept.narrowed
            if not fits and narrowed is not None and status is diagnosis.absent:
                status = status.with_plugin("PreFilterResult")
            found[name] = None if fits else status
        return found

    def all_scores(self, decision: Decision) -> tuple[list[str], dict[str, IntArray], IntArray]:
        """Names, weighted scores by plugin, and totals of the nodes that fit, in list order."""
        order = self._order.sync(self.cache.table)
        kept = self._class_for(decision.info, decision.profile)
        state = kept.refresh(decision.info)
        Search(self._shared, decision.info, decision.profile, kept, state, order).run()
        kept.score(state, decision.info)
        rows = order.rows[kept.candidates[order.rows]]
        scores: dict[str, IntArray] = {}
        totals = np.zeros(len(rows), dtype=np.int64)
        for item in kept.scores:
            if item.normalized is not None and not item.skips_score:
                column = item.normalized[rows].astype(np.int64) * item.weight
                scores[item.name] = column
                totals += column
        return [order.names[row] for row in rows.tolist()], scores, totals

    def forget_classes(self) -> None:
        """Drop everything kept, for tests that compare with and without."""
        self._classes.clear()

    @property
    def next_start(self) -> int:
        """Where in the list of nodes the next search starts."""
        return self._shared.next_start

    @next_start.setter
    def next_start(self, place: int) -> None:
        self._shared.next_start = place

    @property
    def extenders(self) -> Sequence[Extender]:
        return self._shared.extenders

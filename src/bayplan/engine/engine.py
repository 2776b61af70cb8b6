"""The scheduling cycle: a pod and the cluster in, a decision out.

`Engine.place` does all that kube-scheduler does in one attempt, from PreFilter to Permit, and
leaves the pod assumed if it found a node; binding is up to the caller, with
`bayplan.framework.runtime.binding`. The engine reads no clock and keeps no secrets: `now` is an
argument, all state is in the cache. Every node is looked at and scored unless
`percentageOfNodesToScore` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from bayplan.api import Pod
from bayplan.config import DEFAULT_GATES, FeatureGates, KubeSchedulerConfiguration
from bayplan.engine.answers import Judgement
from bayplan.engine.answers.share import array
from bayplan.engine.cache import Cache
from bayplan.engine.cycle.ahead import Ahead, Upcoming
from bayplan.engine.cycle.attempt import Cycle
from bayplan.engine.cycle.decisions import Decision, GroupDecision
from bayplan.engine.cycle.records import RecordRing
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
from bayplan.framework.contract.handle import never
from bayplan.framework.contract.registry import Factory
from bayplan.framework.runtime.binding import run_permit, run_reserve, run_unreserve
from bayplan.framework.runtime.filtering import run_filters_with_nominated
from bayplan.framework.runtime.profile import Wrap


class AllScores(NamedTuple):
    """The scores of an attempt by plugin, a number for each name."""

    names: list[str]
    weighted: dict[str, IntArray]
    totals: IntArray
    raw: dict[str, IntArray]
    """As plugins say them, before they are normalised."""


class UnknownNodeError(LookupError):
    """A placement names a node that is not there; the text is the node's name."""


class Engine:
    """Decides for pods, one at a time; owns the kept answers and the moving start of the search."""

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
        self.next_start = 0
        """Where in the list of nodes the next search starts; shared by all profiles."""
        self._handles = list(handles)
        settings = SearchSettings(cache, Outcomes(), extenders, percentage_of_nodes_to_score)
        self._cycle = Cycle(settings, self.profiles)
        self.ahead = Ahead(settings, self._cycle.answers_of) if extenders else None
        """Asks extenders about the pods behind the one that is placed."""
        self.upcoming: Upcoming = lambda count: ()
        """The plain pods that will probably be placed next, first come first."""

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
        wrap: Wrap | None = None,
    ) -> Engine:
        """Make the profiles of a complete configuration; raises ConfigError."""
        cache = cache or Cache(gates=gates)
        shared = Handle(
            table=cache.table,
            objects=cache.objects,
            nominator=cache.nominator,
            waiting=cache.waiting,
            infos=cache.infos,
            limits=cache.limits,
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
            profiles[item.scheduler_name] = Profile.build(item, registry, handles[-1], wrap)
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

    @property
    def moment(self) -> tuple[int, int, int]:
        """Changes whenever nodes, placed pods, nominations or other objects do."""
        cache = self.cache
        return cache.revision, cache.nominator.revision, cache.objects.revision

    def revisions(self, decision: Decision) -> tuple[Hashable, ...] | None:
        """What the plugins' answers behind a decision hang on beside the nodes and the pods there.

        None if some answer must not be kept, an extender is asked, or a PostFilter plugin does
        not promise that it `repeats` itself.
        """
        plugins = decision.profile.post_filter
        if self.extenders or not all(getattr(plugin, "repeats", False) for plugin in plugins):
            return None
        return self._cycle.answers_of(decision.profile).revisions(decision.info)

    def profile_for(self, pod: Pod) -> Profile | None:
        return self.profiles.get(pod.spec.scheduler_name)

    # -- one attempt --------------------------------------------------------------------------

    def place(self, pod: Pod | PodInfo, now: float, late: Callable[[], bool] = never) -> Decision:
        """Try to place a pod; if it works the pod is assumed, reserved and permitted.

        A decision with `waits` set must be registered as waiting by the caller. If binding fails
        later, `undo` takes everything back. Raises Unfinished if `late` said so in the midst of
        preemption: nothing is changed then, and another call goes on.
        """
        decision = self.schedule(pod, now, late=late, ahead=self.ahead)
        self.next_start = decision.next_start
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
        return self.permit(decision)

    def permit(self, decision: Decision) -> Decision:
        """Ask Permit plugins about a pod that was placed; undone if one says no."""
        profile = decision.profile
        if profile.permit:
            pod = decision.info.pod
            outcome = run_permit(profile, decision.state, pod, decision.node_name)
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

        `needed` is how many must find a node, all by default. Nobody is preempted, and Permit is
        not asked: see `permit`.
        """
        wanted = list(pods)
        decisions = [self.place_in_group(pod, now) for pod in wanted]
        placed = sum(decision.placed for decision in decisions)
        enough = placed >= (len(wanted) if needed is None else needed)
        if not enough:
            for decision in reversed(decisions):
                if decision.placed:
                    self.undo(decision)
            arranged = self._arranged(wanted, now, len(wanted) if needed is None else needed)
            if arranged is not None:
                return GroupDecision(arranged, True)
        return GroupDecision(decisions, enough)

    def _arranged(
        self, wanted: Sequence[Pod | PodInfo], now: float, needed: int
    ) -> list[Decision] | None:
        """Let a plugin with `arrange_group` say where all pods of a group go; filters judge it."""
        infos = [p if isinstance(p, PodInfo) else self.cache.infos.make(p) for p in wanted]
        profile = self.profiles.get(infos[0].pod.spec.scheduler_name) if infos else None
        for plugin in () if profile is None else profile.post_filter:
            arrange = getattr(plugin, "arrange_group", None)
            nodes = None if arrange is None else arrange([info.pod for info in infos], needed)
            if nodes:
                return self._place_as(infos, dict(nodes), now, needed)
        return None

    def _place_as(
        self, infos: Sequence[PodInfo], nodes: dict[str, str], now: float, needed: int
    ) -> list[Decision] | None:
        """Place pods where somebody says, in any order that the filters let; or none."""
        left = [info for info in infos if info.uid in nodes]
        placed: dict[str, Decision] = {}
        before = -1
        while left and len(left) != before:
            before = len(left)
            for info in list(left):
                decision = self.place_in_group(info, now, nodes[info.uid])
                if decision.placed:
                    placed[info.uid] = decision
                    left.remove(info)
        if len(placed) < needed:
            for decision in reversed(placed.values()):
                self.undo(decision)
            return None
        return [placed.get(info.uid) or self.place_in_group(info, now) for info in infos]

    def trial(
        self, pods: Iterable[Pod | PodInfo], now: float, needed: int | None = None
    ) -> GroupDecision:
        """Like `place_all`, but nothing stays changed either way."""
        start = self.next_start
        result = self.place_all(pods, now, needed)
        if result.placed:
            for decision in reversed(result.decisions):
                if decision.placed:
                    self.undo(decision)
        self.next_start = start
        return result

    def searched(self) -> list[str]:
        """The nodes that are searched now, in list order."""
        table, some = self.cache.table, self._cycle.settings.within
        return [table.name_of(row) for row in (table.order if some is None else some).tolist()]

    @contextmanager
    def within(self, node_names: Sequence[str]) -> Iterator[None]:
        """Place pods on some nodes only until the block ends; raises UnknownNodeError.

        Plugins see the whole cluster all the same, as kube-scheduler's do.
        """
        table, settings = self.cache.table, self._cycle.settings
        rows = [table.row_of(name) for name in node_names]
        if None in rows:
            raise UnknownNodeError(node_names[rows.index(None)])
        before = settings.within
        everywhere = len(rows) == table.count
        settings.within = None if everywhere else np.array(rows, dtype=np.int64)
        try:
            yield
        finally:
            settings.within = before

    def place_in_group(
        self, pod: Pod | PodInfo, now: float, node: str = "", *, post_filter: bool = False
    ) -> Decision:
        """Place one pod of a group, on a certain node if one is named; Permit is not asked."""
        decision = self.schedule(pod, now, post_filter=post_filter)
        if node and decision.node_name != node:
            fits = decision.placed and self.node_statuses(decision).get(node, decision) is None
            decision.node_name = node if fits else ""
        self.next_start = decision.next_start
        return self.hold(decision) if decision.node_name else decision

    def hold(self, decision: Decision) -> Decision:
        """Assume and reserve a pod on the node of its decision."""
        self.cache.assume(decision.info, decision.node_name)
        if len(self.cache.nominator):
            self.cache.nominator.delete(decision.info.uid)
        status = run_reserve(
            decision.profile, decision.state, decision.info.pod, decision.node_name
        )
        return decision if status is None else self._refused(decision, status)

    def pre_filtered(self, decision: Decision) -> CycleState:
        """What PreFilter finds for a pod now, to be told who comes and goes from here on."""
        state, _ = self._cycle.answers_of(decision.profile).run_pre_filters(decision.info)
        return state.clone()  # what it counted may be the table's own

    def fits_on(self, decision: Decision, node_name: str, state: CycleState) -> bool:
        """Whether filters let a pod on a node as it is now, with what PreFilter found before."""
        node = self.cache.table.info_of(node_name)
        if node is None:
            return False
        nominated = self.cache.nominator.pods_for(node_name)
        pod, profile = decision.info.pod, decision.profile
        return run_filters_with_nominated(profile, state, pod, node, nominated) is None

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

    def schedule(
        self,
        pod: Pod | PodInfo,
        now: float,
        *,
        post_filter: bool = True,
        late: Callable[[], bool] = never,
        ahead: Ahead | None = None,
    ) -> Decision:
        """Find a node for a pod without changing anything; with `post_filter`, propose victims.

        With `ahead` extenders may be asked about the pods that come next as well.
        """
        info = pod if isinstance(pod, PodInfo) else self.cache.infos.make(pod)
        profile = self.profiles.get(info.pod.spec.scheduler_name)
        if profile is None:
            raise ConfigError(
                f'pod "{info.pod.key}" asks for scheduler "{info.pod.spec.scheduler_name}"; '
                f"profiles: {', '.join(sorted(self.profiles))}"
            )
        for handle in self._handles:
            handle.now, handle.late = now, late
        if ahead is not None:
            ahead.prepare(info, self.next_start, now, self.profiles, self.upcoming)
        return self._cycle.run(
            info,
            profile,
            now,
            self.next_start,
            post_filter=post_filter,
            records=self.records,
            ahead=ahead,
        )

    # -- looking closer ---------------------------------------------------------------------------

    def node_statuses(self, decision: Decision) -> dict[str, Status | None]:
        """Every node in list order with why it was rejected, None if it fits; for explaining."""
        search, judgement = self._search_again(decision)
        diagnosis = search.fit_error().diagnosis
        found: dict[str, Status | None] = {}
        table = self.cache.table
        for row in table.order.tolist():
            fits = bool(search.mask[row])
            status = diagnosis.status_of_row(row)
            if not fits and judgement.narrowed is not None and status is diagnosis.absent:
                status = status.with_plugin("PreFilterResult")
            found[table.name_of(row)] = None if fits else status
        return found

    def all_scores(self, decision: Decision) -> AllScores:
        """What every plugin gives the nodes that fit, in list order."""
        search, judgement = self._search_again(decision)
        table = self.cache.table
        rows = table.order[search.mask[table.order]]
        raw: dict[str, IntArray] = {}
        scores: dict[str, IntArray] = {}
        totals = np.zeros(len(rows), dtype=np.int64)
        _, shares = judgement.totals_among(search.mask)
        for share in shares:
            values = array(share.values)
            assert values is not None
            column = values[rows].astype(np.int64) * share.weight
            scores[share.plugin] = column
            said = values if share.raw is None else array(share.raw)
            assert said is not None
            raw[share.plugin] = said[rows].astype(np.int64)
            totals += column
        return AllScores([table.name_of(row) for row in rows.tolist()], scores, totals, raw)

    def _search_again(self, decision: Decision) -> tuple[Search, Judgement]:
        """The search of a decision, without its consequences."""
        answers = self._cycle.answers_of(decision.profile)
        judgement = answers.judge(decision.info)
        search = Search(self._cycle.settings, decision.profile, judgement, decision.start)
        search.run()
        return search, judgement

    def forget_answers(self) -> None:
        """Drop everything kept, for tests that compare with and without."""
        self._cycle.forget()

    def validate(self, *, use: bool = False) -> None:
        """Raise unless all that is kept is right; asks everything anew, so it is for tests.

        With `use` a pod of each kind is tried again as well, which brings all up to date.
        """
        self.cache.validate()
        for profile in self.profiles.values():
            self._cycle.answers_of(profile).validate()
        if use and not self.extenders:  # who need not say the same again
            self._cycle.validate(self.next_start)

    def answers_kept(self) -> int:
        """How many plugins' answers are kept, each for one facet."""
        return sum(self._cycle.answers_of(profile).count for profile in self.profiles.values())

    @property
    def outcomes(self) -> Outcomes:
        """What the numbers in records stand for."""
        return self._cycle.settings.outcomes

    @property
    def extenders(self) -> Sequence[Extender]:
        return self._cycle.settings.extenders

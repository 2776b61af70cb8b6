"""One attempt after the other: a pod from the queue to a binding cycle, or back with a reason.

An attempt ends with a decision of the engine, with the verdict on a pod alike, or, for a pod of a
group, with that of the whole group. One that time was up for is gone on with before another begins.
An exception fails the pod that was tried; others go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import structlog

from bayplan.api import Pod
from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.loop.actions import CallApi
from bayplan.engine.loop.binding_cycles import BindingCycles
from bayplan.engine.loop.failure import Failures
from bayplan.engine.loop.gangs import Branch, Gang, Gangs
from bayplan.engine.loop.preemption import Preemptions
from bayplan.engine.loop.shared import Failure, Shared
from bayplan.engine.loop.verdicts import Verdicts
from bayplan.engine.queue import QueuedPod
from bayplan.errors import RAISED, not_ours
from bayplan.framework.contract.handle import never
from bayplan.framework.contract.permits import WaitingPod
from bayplan.framework.contract.results import CLEAR_NOMINATION, Unfinished
from bayplan.framework.contract.state import PODS_TO_ACTIVATE, CycleState
from bayplan.framework.contract.status import Status
from bayplan.framework.runtime.profile import Profile

if TYPE_CHECKING:
    from bayplan.engine.loop.group_attempts import GroupAttempts
    from bayplan.engine.loop.refusals import Refusals

_LOG = structlog.get_logger(__name__)

Late = Callable[[], bool]

MOST_SLICES = 100
"""An attempt that was cut so often, because the cluster changes all the time, is finished."""


class Attempt(NamedTuple):
    """A pod that is being tried."""

    item: QueuedPod
    begun: float
    """By the clock of metrics."""
    slices: int = 0
    """How often time was up before it was decided."""


class PodAttempts:
    """One per scheduler."""

    def __init__(
        self,
        shared: Shared,
        failures: Failures,
        bindings: BindingCycles,
        preemptions: Preemptions,
        gangs: Gangs | None,
    ) -> None:
        self.verdicts = Verdicts(shared.engine)
        self.problems: Counter[str] = Counter()
        """Unexpected exceptions by type."""
        self._shared = shared
        self._failures = failures
        self._bindings = bindings
        self._preemptions = preemptions
        self._gangs = gangs
        self._groups: GroupAttempts | None = None
        self._refusals: Refusals | None = None
        self._unfinished: Attempt | None = None
        """The attempt that time was up for."""

    @property
    def ready(self) -> bool:
        """Whether `next` would try a pod."""
        return self._unfinished is not None or self._shared.queue.ready

    def next(self, late: Late) -> bool:
        """Try the next pod, or go on with the one that time was up for; whether there was one."""
        attempt, self._unfinished = self._unfinished, None
        if attempt is None:
            if (item := self._shared.queue.pop()) is None:
                return False
            attempt = Attempt(item, self._shared.timing.clock())
        self.verdicts.sure = None
        self._try(attempt, late)
        return True

    def refuse_alike(self, most: int) -> int:
        """If a verdict was just passed on, pass it on to those who come next; to how many."""
        if self.verdicts.sure is None:
            return 0
        if self._refusals is None:
            from bayplan.engine.loop.refusals import Refusals  # many clusters never need it

            self._refusals = Refusals(self._shared, self._failures, self.verdicts)
        return self._refusals.go_on(most)

    def _try(self, attempt: Attempt, late: Late) -> None:
        """Begin an attempt, or go on with one that time was up for."""
        shared, pod = self._shared, attempt.item.pod
        uid = pod.metadata.uid
        profile = shared.engine.profiles.get(pod.spec.scheduler_name)
        if profile is None:
            shared.queue.done(uid)
            return
        if pod.metadata.deletion_timestamp:
            shared.queue.done(uid)
            note = f"skip schedule deleting pod: {pod.key}"
            shared.record(pod, "Warning", "FailedScheduling", "Scheduling", note, profile.name)
            return
        if shared.cache.is_assumed(uid) or (attempt.slices and pod.key not in shared.unassigned):
            shared.queue.done(uid)
            return
        shared.timing.begin(attempt.begun)
        try:
            self._decide(attempt, profile, never if attempt.slices >= MOST_SLICES else late)
        finally:
            shared.timing.end(profile.name)

    def _decide(self, attempt: Attempt, profile: Profile, late: Late) -> None:
        shared, item = self._shared, attempt.item
        try:
            gang = None if self._gangs is None else self._gangs.gather(item)
            if gang is not None:
                self._decide_gang(gang)
                return
            known = self.verdicts.of(item, shared.wall)
            if known is not None:
                self._failures.fail(item, profile, known)
                return
            decision = shared.engine.place(item.pod, shared.wall, late)
            shared.timing.decided()
        except Unfinished:
            self._unfinished = attempt._replace(slices=attempt.slices + 1)
            return
        except RAISED as problem:
            self._broken(item, profile, problem)
            return
        self._go_on(item, profile, decision)

    def _decide_gang(self, gang: Gang | Branch) -> None:
        shared = self._shared
        if self._groups is None:
            from bayplan.engine.loop.group_attempts import GroupAttempts  # as few have groups

            self._groups = GroupAttempts(shared, self._failures, self._preemptions, self._go_on)
        try:
            if isinstance(gang, Branch):
                self._groups.attempt_tree(gang)
            else:
                self._groups.attempt(gang)
        except RAISED as problem:
            for item in gang.items:
                if shared.queue.in_flight(item.pod.metadata.uid):
                    profile = shared.engine.profiles[item.pod.spec.scheduler_name]
                    self._broken(item, profile, problem)

    def _go_on(self, item: QueuedPod, profile: Profile, decision: Decision) -> None:
        """From a decision to a binding cycle, or back to the queue."""
        shared, pod = self._shared, item.pod
        item.signature = decision.info.signature
        node_name = decision.node_name
        if not node_name:
            self._not_placed(item, profile, decision)
            return
        if decision.timeouts:
            waiting = WaitingPod(pod, node_name, decision.timeouts, shared.now)
            shared.waiting.add(waiting)
        if profile.permit or profile.reserve:
            self._activate_wanted(decision.state)
        self._bindings.start(item, node_name, profile, decision.state)

    def _broken(self, item: QueuedPod, profile: Profile, problem: BaseException) -> None:
        """A bug or an object that the engine cannot take: this pod fails, others go on."""
        not_ours(problem)
        kind = type(problem).__name__
        self.problems[kind] += 1
        _LOG.error("attempt failed", pod=item.key, error=str(problem), exc_info=problem)
        status = Status.from_error(problem)
        message = status.message or kind
        self._failures.fail(item, profile, Failure(status, message, nominating=CLEAR_NOMINATION))

    def _not_placed(self, item: QueuedPod, profile: Profile, decision: Decision) -> None:
        status = decision.status
        assert status is not None
        self._preemptions.start(decision)
        effects = decision.effects
        if effects is not None and effects.calls:
            self._shared.actions.append(CallApi(0, item.pod, "", effects.calls))
        failure = Failure(
            status,
            decision.message,
            frozenset(decision.unschedulable_plugins),
            frozenset(decision.pending_plugins),
            decision.post_filter_status is not None,
            decision.nominating,
        )
        self.verdicts.keep(item, decision, failure)
        self._failures.fail(item, profile, failure)

    def _activate_wanted(self, state: CycleState) -> None:
        wanted: dict[str, Pod] | None = state.get(PODS_TO_ACTIVATE)
        if wanted:
            self._shared.queue.activate(list(wanted.values()), self._shared.now)
            state.delete(PODS_TO_ACTIVATE)

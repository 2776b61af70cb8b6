"""Binding cycles: from a chosen node to a bound pod, many at a time.

Each pod goes through: wait on Permit, PreBind (groups of plugins, one group after the other),
Bind. Nothing blocks: what must be written becomes an action, and the cycle goes on when its
result is reported. A failure at any point undoes the reservation and the assumption, wakes pods
that wait for the room, and sends the pod back. The usual pod, without Permit and with nothing to
prepare, is one Bind action.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from msgspec.structs import replace

from bayplan.api import Pod
from bayplan.engine.loop.actions import Bind, CallApi, ExtenderBind, Observe, PatchPod
from bayplan.engine.loop.failure import Failures, one_node_message
from bayplan.engine.loop.shared import Failure, Shared
from bayplan.engine.queue import QueuedPod
from bayplan.engine.queue.changes import ASSIGNED_POD_DELETE
from bayplan.errors import RAISED, not_ours
from bayplan.framework.contract.permits import WaitingPod
from bayplan.framework.contract.results import CLEAR_NOMINATION, Effects
from bayplan.framework.contract.state import PODS_TO_ACTIVATE, CycleState
from bayplan.framework.contract.status import Code, Status
from bayplan.framework.runtime.binding import (
    pre_bind_groups,
    run_bind,
    run_post_bind,
    run_pre_bind,
    run_pre_bind_pre_flight,
    run_unreserve,
)
from bayplan.framework.runtime.filtering import wrap
from bayplan.framework.runtime.profile import Profile

POLL_SECONDS = 1.0
_BIND = "Bind"
_PRE_BIND = "PreBind"


class Phase(IntEnum):
    """How far a binding cycle is."""

    WAITING = 0
    PRE_BIND = 1
    BINDING = 2


class Work:
    """Effects of one plugin under way: calls to be made, then a condition to wait for."""

    __slots__ = ("called", "deadline", "effects", "plugin", "point", "since")

    def __init__(self, plugin: str, point: str, effects: Effects, now: float) -> None:
        self.plugin = plugin
        self.point = point
        self.effects = effects
        self.called = not effects.calls
        self.since = now
        self.deadline = now + effects.timeout_seconds if effects.timeout_seconds else 0.0


class Binding:
    """One pod on its way to its node."""

    __slots__ = (
        "begun",
        "cancelled",
        "extender",
        "groups",
        "item",
        "node_name",
        "phase",
        "pod",
        "prepares",
        "profile",
        "since",
        "state",
        "work",
    )

    def __init__(
        self,
        item: QueuedPod,
        node_name: str,
        profile: Profile,
        state: CycleState,
        begun: float,
        now: float,
    ) -> None:
        self.begun = begun
        """When the attempt began, by the clock of metrics."""
        self.since = now
        """When the phase began, by the scheduler's own time."""
        self.item = item
        self.pod: Pod = item.pod
        """The pod as it was decided on."""
        self.node_name = node_name
        self.profile = profile
        self.state = state
        self.phase = Phase.WAITING
        self.prepares = False
        """Whether some PreBind plugin has work to do."""
        self.groups: list[list[Any]] = []
        self.work: dict[int, Work] = {}
        self.extender = 0
        self.cancelled = ""
        """Why a preemptor ended this cycle, if one did."""


class BindingCycles:
    """All binding cycles, by the pod's uid."""

    def __init__(self, shared: Shared, failures: Failures) -> None:
        self._shared = shared
        self._failures = failures
        self._bindings: dict[str, Binding] = {}
        self._work_of: dict[int, str] = {}
        self._next_work = 0
        self._expects = shared.gates["NominatedNodeNameForExpectation"]
        self._polling: set[str] = set()

    def __len__(self) -> int:
        return len(self._bindings)

    def __contains__(self, uid: str) -> bool:
        return uid in self._bindings

    def get(self, uid: str) -> Binding | None:
        return self._bindings.get(uid)

    def start(self, item: QueuedPod, node: str, profile: Profile, state: CycleState) -> None:
        """Begin the cycle of a pod that was assumed, reserved and permitted (or told to wait)."""
        shared = self._shared
        binding = Binding(item, node, profile, state, shared.timing.begun, shared.now)
        uid = binding.pod.metadata.uid
        self._bindings[uid] = binding
        waits = shared.waiting.get(uid) is not None
        binding.prepares = bool(profile.pre_bind)
        if self._expects and profile.pre_bind:
            status = run_pre_bind_pre_flight(profile, state, binding.pod, node)
            if status is not None and status.code is not Code.SKIP:
                self._fail(binding, status)
                return
            binding.prepares = status is None
        if self._expects and (binding.prepares or waits):
            self._publish_node(binding)
        if waits:
            self._shared.note(binding.pod, "waits on permit", node)
            return
        self._permitted(binding)

    def _publish_node(self, binding: Binding) -> None:
        """Tell others, such as an autoscaler, where the pod is about to go."""
        if binding.pod.status.nominated_node_name != binding.node_name:
            patch = PatchPod(binding.pod, None, binding.node_name, self._shared.wall)
            self._shared.actions.append(patch)

    def decided(self, waiting: WaitingPod) -> None:
        """A pod's wait for Permit plugins is over."""
        binding = self._bindings.get(waiting.pod.metadata.uid)
        outcome = waiting.outcome
        if binding is None or outcome is None:
            return
        waited = self._shared.now - binding.since
        self._shared.timing.observe("permit", (outcome.code.text,), waited)
        if outcome.success:
            self._permitted(binding)
        elif outcome.rejected:
            message = one_node_message(outcome)
            rejectors = frozenset((outcome.plugin,))
            self._fail(binding, outcome, message, rejectors)
        else:
            self._fail(binding, wrap("waiting on permit for pod", outcome, outcome.plugin))

    def _permitted(self, binding: Binding) -> None:
        # From here on no plugin can reject the pod, so events need not be kept for it.
        self._shared.queue.done(binding.pod.metadata.uid)
        binding.phase, binding.since = Phase.PRE_BIND, self._shared.now
        if binding.prepares:
            binding.groups = pre_bind_groups(binding.profile, binding.state)
            self._next_group(binding)
        else:
            self._bind(binding)

    # --- PreBind ---

    def _next_group(self, binding: Binding) -> None:
        while binding.groups and not binding.work:
            for plugin in binding.groups.pop(0):
                answer = run_pre_bind(
                    binding.profile, plugin, binding.state, binding.pod, binding.node_name
                )
                if isinstance(answer, Status) and not answer.success:
                    self._fail(binding, answer)
                    return
                if isinstance(answer, Effects):
                    self._carry_out(binding, plugin.name, _PRE_BIND, answer)
            self._poll(binding)
            if binding.pod.metadata.uid not in self._bindings:
                return
            if not binding.work:  # what was done at once is not asked about while Bind is under way
                self._polling.discard(binding.pod.metadata.uid)
        if not binding.work:
            self._bind(binding)

    def _carry_out(self, binding: Binding, plugin: str, point: str, effects: Effects) -> None:
        self._next_work += 1
        number = self._next_work
        uid = binding.pod.metadata.uid
        binding.work[number] = Work(plugin, point, effects, self._shared.now)
        self._work_of[number] = uid
        if effects.calls:
            self._shared.actions.append(CallApi(number, binding.pod, plugin, effects.calls))
        else:
            self._polling.add(uid)

    def calls_done(self, number: int, error: str) -> None:
        """The calls of a plugin were made, or one failed."""
        uid = self._work_of.get(number)
        binding = self._bindings.get(uid) if uid is not None else None
        if binding is None or uid is None:
            return
        work = binding.work[number]
        if error:
            self._fail(binding, _wrapped(work, Status(Code.ERROR, error)))
            return
        work.called = True
        self._polling.add(uid)
        self._poll(binding)
        self._resume(binding)

    def poll(self) -> None:
        """Ask what binding cycles wait for; called after objects changed and every second."""
        for uid in list(self._polling):
            binding = self._bindings.get(uid)
            if binding is not None:  # the end of one may end another
                self._poll(binding)
                self._resume(binding)

    @property
    def polls(self) -> bool:
        return bool(self._polling)

    def _poll(self, binding: Binding) -> None:
        for number, work in list(binding.work.items()):
            if not work.called:
                continue
            status = self._ask_done(work)
            if status is None:
                if work.deadline and self._shared.now >= work.deadline:
                    limit = work.effects.timeout_seconds
                    status = Status(Code.ERROR, f"timed out after {limit:g}s")
                else:
                    continue
            took = self._shared.now - work.since
            labels = (work.plugin, work.point, status.code.text)
            self._shared.timing.observe("plugin", labels, took)
            if not status.success:
                self._fail(binding, _wrapped(work, status))
                return
            del binding.work[number]
            del self._work_of[number]

    @staticmethod
    def _ask_done(work: Work) -> Status | None:
        if work.effects.done is None:
            return Status(Code.SUCCESS)
        try:
            return work.effects.done()
        except RAISED as problem:  # a plugin's own code: the pod fails, others go on
            not_ours(problem)
            return Status.from_error(problem, work.plugin)

    def _resume(self, binding: Binding) -> None:
        uid = binding.pod.metadata.uid
        if binding.work or self._bindings.get(uid) is not binding:
            return
        self._polling.discard(uid)
        if binding.phase is Phase.BINDING:
            self._bound(binding)
        else:
            self._next_group(binding)

    def cancel(self, uid: str, reason: str) -> bool:
        """End a cycle that still prepares; False if it is too late for that."""
        binding = self._bindings.get(uid)
        if binding is None or binding.phase is not Phase.PRE_BIND or not binding.prepares:
            return False
        self._fail(binding, Status(Code.ERROR, reason))
        return True

    # --- Bind ---

    def _bind(self, binding: Binding) -> None:
        self._prepared(binding, Code.SUCCESS)
        binding.phase = Phase.BINDING
        shared, pod = self._shared, binding.pod
        extenders = shared.engine.extenders
        while binding.extender < len(extenders):
            extender = extenders[binding.extender]
            if extender.is_binder and extender.interested(pod):
                shared.actions.append(ExtenderBind(pod, binding.node_name, extender))
                return
            binding.extender += 1
        profile = binding.profile
        target = getattr(profile.bind[0], "bind_target", None)
        node_name = "" if target is None else target(pod, binding.node_name)
        if node_name:
            shared.actions.append(Bind(pod, node_name))
            return
        answer = run_bind(profile, binding.state, pod, binding.node_name)
        if isinstance(answer, Effects):
            self._carry_out(binding, profile.bind[0].name, _BIND, answer)
            self._poll(binding)
            self._resume(binding)
        elif answer.success:
            self._bound(binding)
        else:
            self._fail(binding, answer)

    def _prepared(self, binding: Binding, code: Code) -> None:
        """PreBind is over; what it took includes waiting for the API server and for volumes."""
        if binding.prepares and binding.phase is Phase.PRE_BIND:
            took = self._shared.now - binding.since
            labels = (_PRE_BIND, code.text, binding.profile.name)
            self._shared.timing.observe("point", labels, took)

    def bind_done(self, uid: str, error: str) -> None:
        """A Bind or ExtenderBind was carried out."""
        binding = self._bindings.get(uid)
        if binding is None or binding.phase is not Phase.BINDING:
            return
        if not error:
            self._bound(binding)
            return
        extenders = self._shared.engine.extenders
        if binding.extender < len(extenders):
            if extenders[binding.extender].ignorable:
                binding.extender += 1
                self._bind(binding)
            else:
                self._fail(binding, Status(Code.ERROR, error))
            return
        name = binding.profile.bind[0].name
        self._fail(binding, Status(Code.ERROR, f'running Bind plugin "{name}": {error}'))

    def _bound(self, binding: Binding) -> None:
        shared, pod = self._shared, binding.pod
        self._drop(binding)
        if shared.tells_events:
            note = f"Successfully assigned {pod.key} to {binding.node_name}"
            shared.record(pod, "Normal", "Scheduled", "Binding", note, binding.profile.name)
        if shared.tells_metrics:
            shared.actions.append(self._observed(binding))
        shared.note(pod, "bound", binding.node_name)
        if binding.profile.post_bind:
            run_post_bind(binding.profile, binding.state, pod, binding.node_name)
        wanted: dict[str, Pod] | None = binding.state.get(PODS_TO_ACTIVATE)
        if wanted:
            shared.queue.activate(wanted.values(), shared.now)

    def _observed(self, binding: Binding) -> Observe:
        shared, item = self._shared, binding.item
        first = item.initial_attempt_timestamp
        return Observe(
            binding.pod,
            binding.profile.name,
            "scheduled",
            item.attempts,
            0.0 if first is None else shared.now - first,
            item.was_flushed,
            seconds=shared.timing.clock() - binding.begun,
        )

    # --- failure ---

    def _drop(self, binding: Binding) -> None:
        uid = binding.pod.metadata.uid
        self._bindings.pop(uid, None)
        self._polling.discard(uid)
        for number in binding.work:
            self._work_of.pop(number, None)

    def _fail(
        self,
        binding: Binding,
        status: Status,
        message: str = "",
        unschedulable: frozenset[str] = frozenset(),
    ) -> None:
        """Undo everything and send the pod back."""
        shared, pod = self._shared, binding.pod
        uid = pod.metadata.uid
        self._prepared(binding, status.code)
        self._drop(binding)
        shared.waiting.remove(uid)
        run_unreserve(binding.profile, binding.state, pod, binding.node_name)
        freed = self._forget(binding)
        failure = Failure(
            status,
            message or status.message,
            unschedulable,
            nominating=CLEAR_NOMINATION,
            begun=binding.begun,
        )
        # The freed room wakes others. A pod that was rejected must not be woken by its own leaving.
        if freed is not None and not status.rejected:
            shared.queue.move_all(ASSIGNED_POD_DELETE, freed, None, shared.now)
        self._failures.fail(binding.item, binding.profile, failure)
        if freed is not None and status.rejected:
            shared.queue.move_all(
                ASSIGNED_POD_DELETE,
                freed,
                None,
                shared.now,
                lambda other: other.metadata.uid != uid,
            )

    def _forget(self, binding: Binding) -> Pod | None:
        """Take back the assumption; None if the pod turned out to be bound after all."""
        cache, uid = self._shared.cache, binding.pod.metadata.uid
        if cache.is_assumed(uid):
            cache.forget(binding.pod)
        elif cache.pod(uid) is not None:
            return None
        return assigned(binding.pod, binding.node_name)

    def validate(self) -> None:
        """Raise AssertionError unless every cycle is consistent."""
        for uid, binding in self._bindings.items():
            assert uid == binding.pod.metadata.uid
            waits = self._shared.waiting.get(uid) is not None
            assert waits == (binding.phase is Phase.WAITING), (
                f"{binding.pod.key}: {binding.phase!r}"
            )
            for number in binding.work:
                assert self._work_of.get(number) == uid
        for number, uid in self._work_of.items():
            assert number in self._bindings[uid].work
        for uid in self._polling:
            assert self._bindings[uid].work, f"{uid} is asked about, and nothing is under way"


def assigned(pod: Pod, node_name: str) -> Pod:
    """The pod as it looks on its node."""
    return replace(pod, spec=replace(pod.spec, node_name=node_name))


def _wrapped(work: Work, status: Status) -> Status:
    if status.rejected:
        return status.with_plugin(work.plugin)
    return wrap(f'running {work.point} plugin "{work.plugin}"', status, work.plugin)

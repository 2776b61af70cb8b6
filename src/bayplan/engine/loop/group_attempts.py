"""Tries a pod group as a whole and tells what came of it.

Its pods are bound or fail, victims go, and the group gets a condition of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.loop.actions import SCHEDULER_ERROR, UNSCHEDULABLE, CallApi, rfc3339
from bayplan.engine.loop.failure import Failures
from bayplan.engine.loop.gangs import Gang
from bayplan.engine.loop.group_cycle import Cycle
from bayplan.engine.loop.group_preemption import make_room
from bayplan.engine.loop.preemption import Preemptions
from bayplan.engine.loop.shared import Failure, Shared
from bayplan.engine.queue import QueuedPod
from bayplan.framework import CLEAR_NOMINATION, Status
from bayplan.framework.contract.results import ApiCall
from bayplan.framework.contract.status import Code
from bayplan.framework.runtime.profile import Profile
from bayplan.plugins.gang_scheduling import NAME

RESOURCE = "podgroups.v1beta1.scheduling.k8s.io"
RESOURCE_1_36 = "podgroups.v1alpha2.scheduling.k8s.io"
GoOn = Callable[[QueuedPod, Profile, Decision], None]


class GroupAttempts:
    """One per scheduler."""

    def __init__(
        self, shared: Shared, failures: Failures, preemptions: Preemptions, go_on: GoOn
    ) -> None:
        """`go_on` takes a pod from its decision to a binding cycle, or back to the queue."""
        self._shared = shared
        self._failures = failures
        self._preemptions = preemptions
        self._go_on = go_on
        self._modern = shared.gates.since("1.37")

    def attempt(self, gang: Gang) -> None:
        """Try a group."""
        shared = self._shared
        profile = shared.engine.profiles[gang.items[0].pod.spec.scheduler_name]
        mismatch = gang.mismatch(modern=self._modern)
        if mismatch:
            self._fail_all(gang, profile, mismatch)
            return
        cycle = Cycle(shared.engine, gang, shared.wall)
        if self._modern:
            cycle.run()
        else:
            cycle.run_each(lambda decision: self._preempt(decision, profile))
        shared.timing.decided()
        if self._modern and not cycle.placed and cycle.error is None:
            self._make_room(cycle, profile)
        if cycle.error is not None:
            self._fail_all(gang, profile, cycle.message, cycle)
        elif cycle.placed:
            self._place(cycle, profile)
        else:
            self._refuse(cycle, profile)

    def _place(self, cycle: Cycle, profile: Profile) -> None:
        shared, gang = self._shared, cycle.gang
        begun = min(item.timestamp for item in gang.items)
        for item, found in zip(gang.items, cycle.decisions, strict=True):
            decision = shared.engine.permit(found) if found.placed else found
            self._go_on(item, profile, decision)
        if self._modern:
            # the rest of the group comes next, so that it can preempt
            for item in gang.items:
                shared.queue.retry(item, begun, shared.now)
        self._tell_group(gang, "True", "Scheduled", "")

    def _preempt(self, decision: Decision, profile: Profile) -> None:
        nominating, victims = decision.nominating, decision.victims
        assert nominating is not None
        assert victims is not None
        node_name = nominating.nominated_node_name
        self._preemptions.start(decision.info.pod, node_name, victims.pods, profile)

    def _make_room(self, cycle: Cycle, profile: Profile) -> None:
        victims = make_room(cycle, self._shared.engine, profile, self._shared.wall)
        if victims:
            pods = [item.pod for item in cycle.gang.items]
            self._preemptions.start_for_group(cycle.gang.group, pods, victims, profile)

    def _refuse(self, cycle: Cycle, profile: Profile) -> None:
        gang = cycle.gang
        plugins = {NAME}.union(*(found.unschedulable_plugins for found in cycle.decisions))
        pending = set[str]().union(*(found.pending_plugins for found in cycle.decisions))
        for number, item in enumerate(gang.items):
            text, nominating = cycle.told(number)
            status = Status(Code.UNSCHEDULABLE, text, plugin=NAME)
            failure = Failure(
                status, text, frozenset(plugins), frozenset(pending), nominating=nominating
            )
            self._failures.fail(item, profile, failure)
        self._tell_group(gang, "False", UNSCHEDULABLE, cycle.told_group)

    def _fail_all(
        self, gang: Gang, profile: Profile, text: str, cycle: Cycle | None = None
    ) -> None:
        """An error: every pod fails with it, but the one that met it with its own."""
        last = -1 if cycle is None else len(cycle.decisions) - 1
        for number, item in enumerate(gang.items):
            own = cycle.decisions[last].message if cycle is not None and number == last else text
            status = Status(Code.ERROR, own)
            self._failures.fail(item, profile, Failure(status, own, nominating=CLEAR_NOMINATION))
        self._tell_group(gang, "False", SCHEDULER_ERROR, text)

    def _tell_group(self, gang: Gang, status: str, reason: str, message: str) -> None:
        """Set the group's condition; one that was scheduled stays so."""
        shared, group = self._shared, gang.group
        kind = "PodGroupInitiallyScheduled" if self._modern else "PodGroupScheduled"
        before = next((item for item in group.status.conditions if item.type == kind), None)
        if before is not None:
            regress = before.status == "True" and status != "True"
            if regress or (before.status, before.reason, before.message) == (
                status,
                reason,
                message,
            ):
                return
        entry: dict[str, Any] = {"type": kind, "status": status, "reason": reason}
        entry["message"] = message
        if before is None or before.status != status:
            entry["lastTransitionTime"] = rfc3339(shared.wall)
        if group.metadata.generation:
            entry["observedGeneration"] = group.metadata.generation
        body = {"status": {"conditions": [entry]}}
        meta = group.metadata
        resource = RESOURCE if self._modern else RESOURCE_1_36
        call = ApiCall("patch", resource, meta.namespace, meta.name, body, "status")
        shared.actions.append(CallApi(0, gang.items[0].pod, "", (call,)))

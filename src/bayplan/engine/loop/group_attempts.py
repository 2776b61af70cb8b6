"""Tries a pod group as a whole and tells what came of it.

Its pods are bound or fail, victims go, and the group gets a condition of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bayplan.api import Pod
from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.loop.actions import SCHEDULER_ERROR, UNSCHEDULABLE, CallApi, rfc3339
from bayplan.engine.loop.composite_cycle import CompositeCycle
from bayplan.engine.loop.failure import Failures
from bayplan.engine.loop.gangs import Branch, Gang
from bayplan.engine.loop.group_cycle import Cycle
from bayplan.engine.loop.group_room import Room, make_room, make_room_for_tree
from bayplan.engine.loop.placement_cycle import run_cycle
from bayplan.engine.loop.preemption import Preemptions
from bayplan.engine.loop.shared import Failure, Shared
from bayplan.engine.queue import QueuedPod
from bayplan.framework import CLEAR_NOMINATION, Status
from bayplan.framework.contract.results import ApiCall
from bayplan.framework.contract.status import Code
from bayplan.framework.runtime.profile import Profile

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
            self._fail_all(gang, profile, mismatch, about=gang.items[0].pod)
            return
        engine, now = shared.engine, shared.wall
        cycle = run_cycle(engine, gang, now, self._preemptions.start)
        shared.timing.decided()
        if not cycle.placed and cycle.error is None:
            room = make_room(cycle, engine, profile, now)
            self._act(room, gang, profile)
        begun = min(item.timestamp for item in gang.items)
        self._tell(cycle, profile, gang.items[0].pod)
        if self._modern and cycle.placed:
            self._try_rest(gang.items, begun)

    def attempt_tree(self, tree: Branch) -> None:
        """Try a composite group with all pod groups below it."""
        shared = self._shared
        profile = shared.engine.profiles[tree.items[0].pod.spec.scheduler_name]
        mismatch = tree.mismatch()
        if mismatch:
            for gang in tree.leaves:
                self._fail_all(gang, profile, mismatch, about=tree.items[0].pod)
            return
        whole = CompositeCycle(shared.engine, tree, shared.wall)
        whole.run()
        shared.timing.decided()
        begun = min(item.timestamp for item in tree.items)
        whole.complete()
        if not whole.placed and whole.root.error is None:
            room = make_room_for_tree(whole, tree, shared.engine, profile, shared.wall)
            self._act(room, tree, profile)
        for gang in tree.leaves:
            cycle = whole.results[f"{gang.group.KIND} {gang.group.key}"]
            assert isinstance(cycle, Cycle)
            cycle.size = len(tree.items)
            self._tell(cycle, profile, tree.items[0].pod)
        if whole.placed:
            self._try_rest(tree.items, begun)

    def _try_rest(self, items: Sequence[QueuedPod], begun: float) -> None:
        """The pods of a placed group that found no node come next, so that they can preempt."""
        for item in items:
            self._shared.queue.retry(item, begun, self._shared.now)

    def _act(self, room: Room, gang: Gang | Branch, profile: Profile) -> None:
        """Do what plugins proposed for a group."""
        pods = [item.pod for item in gang.items]
        if room.calls:
            self._shared.actions.append(CallApi(0, pods[0], "", room.calls))
        if room.victims:
            by = room.plugin
            self._preemptions.start_for_group(gang.group, pods, room.victims, profile, by)

    def _tell(self, cycle: Cycle, profile: Profile, about: Pod) -> None:
        if cycle.error is not None:
            self._fail_all(cycle.gang, profile, cycle.message, cycle, about=about)
        elif cycle.placed:
            self._place(cycle, profile, about)
        else:
            self._refuse(cycle, profile, about)

    def _place(self, cycle: Cycle, profile: Profile, about: Pod) -> None:
        shared, gang = self._shared, cycle.gang
        for item, found in zip(gang.items, cycle.decisions, strict=True):
            decision = shared.engine.permit(found) if found.placed else found
            self._go_on(item, profile, decision)
        self._tell_group(gang, about, "True", "Scheduled", "")

    def _refuse(self, cycle: Cycle, profile: Profile, about: Pod) -> None:
        gang = cycle.gang
        members = profile.plugins.values()
        own = {plugin.name for plugin in members if getattr(plugin, "rejects_groups", False)}
        plugins = own | cycle.rejectors
        pending = set[str]().union(*(found.pending_plugins for found in cycle.decisions))
        for number, item in enumerate(gang.items):
            text, nominating = cycle.told(number)
            status = Status(Code.UNSCHEDULABLE, text, plugin=min(own, default=""))
            failure = Failure(
                status,
                text,
                frozenset(plugins),
                frozenset(pending),
                nominating=nominating,
                group_size=cycle.size if self._modern else 0,
            )
            self._failures.fail(item, profile, failure)
        self._tell_group(gang, about, "False", UNSCHEDULABLE, cycle.told_group)

    def _fail_all(
        self, gang: Gang, profile: Profile, text: str, cycle: Cycle | None = None, *, about: Pod
    ) -> None:
        """An error: every pod fails with it, but the one that met it with its own."""
        met = {} if cycle is None else cycle.errors()
        for number, item in enumerate(gang.items):
            own = met.get(number, text)
            status = Status(Code.ERROR, own)
            self._failures.fail(item, profile, Failure(status, own, nominating=CLEAR_NOMINATION))
        self._tell_group(gang, about, "False", SCHEDULER_ERROR, text)

    def _tell_group(self, gang: Gang, about: Pod, status: str, reason: str, message: str) -> None:
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
        shared.actions.append(CallApi(0, about, "", (call,)))

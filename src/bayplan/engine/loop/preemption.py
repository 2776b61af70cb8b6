"""Carries out preemptions that a PostFilter decided: takes the victims away, the last one last.

All victims but the last go at once; the last goes when the others are gone, so that the preemptor
can be told from its state whether the preemption still runs. Meanwhile plugins see that it does
(`Handle.preempting`), and one with PreEnqueue keeps the preemptor out of the queue. A victim that
only waits on Permit or prepares to be bound is sent back in memory. If a call fails the preemptor
is tried again at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api import CompositePodGroup, Pod, PodGroup
from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.loop.actions import Evict, Observe, PatchPod
from bayplan.engine.loop.binding_cycles import BindingCycles
from bayplan.engine.loop.shared import Shared
from bayplan.framework.runtime.profile import Profile

WHOLE_CLUSTER = "cluster"
"""Stands for the node where a group preempts."""


class Preemption:
    """The victims of one preemptor that are not gone yet."""

    __slots__ = (
        "kind",
        "last",
        "members",
        "node_name",
        "open",
        "plugin",
        "preemptor",
        "scheduler_name",
        "uid",
        "victims",
    )

    def __init__(
        self,
        members: Sequence[Pod],
        group: PodGroup | CompositePodGroup | None,
        node_name: str,
        scheduler_name: str,
        victims: Sequence[Pod],
        plugin: str,
    ) -> None:
        self.preemptor = members[0]
        self.members = list(members)
        """The pods that wait for the room: the preemptor, or all of a group."""
        self.kind = "pod" if group is None else group.KIND.lower()
        self.uid = self.preemptor.metadata.uid if group is None else group.metadata.uid
        """What events call the preemptor."""
        self.node_name = node_name
        self.scheduler_name = scheduler_name
        self.plugin = plugin
        """Who chose the victims."""
        self.victims = {victim.metadata.uid: victim for victim in victims}
        self.open: set[str] = set()
        """Victims whose eviction was asked for and not reported."""
        self.last: Pod | None = None
        """The last victim, once it is its turn."""

    @property
    def waiting(self) -> tuple[str, ...]:
        """The uids of the pods that wait for the room, the preemptor's first."""
        return tuple(pod.uid for pod in self.members)


class Preemptions:
    """All preemptions under way, by the preemptor's uid; shared with plugins as `preempting`."""

    def __init__(self, shared: Shared, bindings: BindingCycles) -> None:
        self._shared = shared
        self._bindings = bindings
        self._running: dict[str, Preemption] = {}

    def __len__(self) -> int:
        return len(self._running)

    def start(self, decision: Decision) -> None:
        """Begin to make room for a pod, if a PostFilter plugin has said who must go."""
        found, nominating = decision.post_filter, decision.nominating
        if found is None or found.victims is None or nominating is None:
            return
        node_name, pods = nominating.nominated_node_name, [decision.info.pod]
        self._start(pods, None, node_name, found.victims.pods, decision.profile, found.plugin)

    def start_for_group(
        self,
        group: PodGroup | CompositePodGroup,
        pods: Sequence[Pod],
        victims: Sequence[Pod],
        profile: Profile,
        by: str,
    ) -> None:
        """Begin to make room in the cluster for the pods of a group, as a plugin has said."""
        self._start(pods, group, WHOLE_CLUSTER, victims, profile, by)

    def _start(
        self,
        pods: Sequence[Pod],
        group: PodGroup | CompositePodGroup | None,
        node_name: str,
        victims: Sequence[Pod],
        profile: Profile,
        by: str,
    ) -> None:
        shared, pod = self._shared, pods[0]
        targets = [victim for victim in victims if not victim.terminating]
        if not targets:
            return
        self._clear_nominations(pod, node_name)
        names = ", ".join(victim.key for victim in targets)
        shared.note(pod, "preempts", f"{names} on {node_name}")
        if shared.tells_metrics:
            shared.actions.append(Observe(pod, profile.name, "preempted", victims=len(victims)))
        running = Preemption(pods, group, node_name, profile.name, targets, by)
        self._running[pod.metadata.uid] = running
        at_once = targets
        if shared.gates["SchedulerAsyncPreemption"]:
            shared.preempting.update(dict.fromkeys(running.waiting, running))
            at_once = targets[:-1]
        for victim in at_once:
            self._evict(running, victim)
        self._advance(running)

    def _clear_nominations(self, pod: Pod, node_name: str) -> None:
        """Less important pods nominated to the node may no longer fit there."""
        shared = self._shared
        for info in shared.nominations.nominator.pods_for(node_name):
            other = info.pod
            if info.priority < pod.priority and other.status.nominated_node_name:
                shared.actions.append(PatchPod(other, None, "", shared.wall))

    def _evict(self, running: Preemption, victim: Pod) -> None:
        shared, uid = self._shared, victim.metadata.uid
        waiting = shared.waiting.get(uid)
        in_memory = (waiting is not None and waiting.preempt(running.plugin, "preempted")) or (
            self._bindings.cancel(uid, f"preempted by {running.plugin}")
        )
        if in_memory:
            del running.victims[uid]
            self._tell(running, victim, " (in kube-scheduler memory).")
            return
        running.open.add(uid)
        shared.actions.append(
            Evict(
                victim,
                running.preemptor,
                running.node_name,
                running.scheduler_name,
                shared.wall,
                running.kind,
            )
        )

    def _tell(self, running: Preemption, victim: Pod, tail: str = "") -> None:
        preemptor = running.preemptor
        by = f"{running.kind} {running.uid}"
        note = f"Preempted by {by} on node {running.node_name}{tail}"
        self._shared.record(
            victim, "Normal", "Preempted", "Preempting", note, running.scheduler_name, preemptor
        )
        self._shared.note(victim, "preempted", f"by {preemptor.key}")

    def evicted(self, preemptor_uid: str, victim_uid: str, error: str) -> None:
        """An eviction was carried out, or failed."""
        running = self._running.get(preemptor_uid)
        if running is None or victim_uid not in running.open:
            return
        running.open.discard(victim_uid)
        victim = running.victims.pop(victim_uid)
        if error:
            self._end(running)
            self._shared.note(running.preemptor, "preemption failed", error)
            self._shared.queue.activate(running.members, self._shared.now)
            return
        self._tell(running, victim)
        self._advance(running)

    def _advance(self, running: Preemption) -> None:
        if running.open:
            return
        if running.victims and running.last is None:
            (running.last,) = running.victims.values()
            self._shared.last_victims[running.last.metadata.uid] = running.waiting
            self._evict(running, running.last)
        if not running.open:
            self._end(running)

    def _end(self, running: Preemption) -> None:
        uid = running.preemptor.metadata.uid
        if self._running.get(uid) is running:
            del self._running[uid]
            self._shared.no_longer_preempting(running.waiting)
            if running.last is not None:
                self._shared.last_victims.pop(running.last.metadata.uid, None)

    def validate(self) -> None:
        """Raise AssertionError unless what plugins see is what runs."""
        waiting = {uid for running in self._running.values() for uid in running.waiting}
        assert set(self._shared.preempting) <= waiting
        assert {uids[0] for uids in self._shared.last_victims.values()} <= set(self._running)
        for uid, running in self._running.items():
            assert uid == running.preemptor.metadata.uid
            assert running.open, f"preemption of {running.preemptor.key} waits for nothing"
            assert running.open <= set(running.victims)

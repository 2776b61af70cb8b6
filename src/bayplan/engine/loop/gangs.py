"""The pod groups that wait: which pods are tried together, and what their group demands.

When a pod of a group is popped, all pods of the group that wait are popped with it and tried in one
cycle (`group_cycle`): either the group's demand is met and all that found a node go on, or none
does. So a gang never holds nodes that it cannot use, and is tried once per change of the cluster.
"""

from __future__ import annotations

from typing import NamedTuple

from bayplan.api import Pod, PodGroup
from bayplan.engine.loop.shared import Shared
from bayplan.engine.queue import QueuedPod
from bayplan.plugins.gang_scheduling import group_key, members_of, min_count


class Gang(NamedTuple):
    """Pods that are tried together."""

    group: PodGroup
    items: list[QueuedPod]
    scheduled: list[Pod]
    """Pods of the group that have a node already."""
    needed: int
    """How many pods of the group must have a node for any to go on."""

    @property
    def priority(self) -> int:
        return self.group.spec.priority or 0

    def mismatch(self, *, modern: bool) -> str:
        """What its pods contradict each other in, or the group; empty if nothing."""
        pods = [item.pod for item in self.items]
        name = pods[0].spec.scheduler_name
        for pod in pods + (self.scheduled if modern else []):
            if pod.spec.scheduler_name != name:
                return (
                    "all pods in a single pod group should have the same .spec.schedulerName set, "
                    f'got: "{pod.spec.scheduler_name}" and "{name}"'
                )
            if modern and pod.priority != self.priority:
                return (
                    "all pods in a single pod group should have the same priority as the pod "
                    f"group's priority, got {pod.priority} and {self.priority}"
                )
            if modern and policy_of(pod) != policy_of(pods[0]):
                return (
                    "all pods in a single pod group should have the same preemption policy, "
                    f"got {policy_of(pod)} and {policy_of(pods[0])}"
                )
        return ""


def policy_of(pod: Pod) -> str:
    """Whether a pod may preempt."""
    return pod.spec.preemption_policy or "PreemptLowerPriority"


class Gangs:
    """The group side of the queue."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._members = members_of(shared.cache.objects)

    def changed(self, pod: Pod) -> None:
        """A pod appeared or changed."""
        self._members.put(pod)

    def deleted(self, pod: Pod) -> None:
        """A pod is gone or has finished."""
        self._members.delete(pod)

    def gather(self, item: QueuedPod) -> Gang | None:
        """Take the rest of a popped pod's group out of the queue; None if it has no group."""
        shared, pod = self._shared, item.pod
        key = group_key(pod)
        group = shared.cache.objects.pod_groups.get(key) if key else None
        if group is None:
            return None
        items: list[QueuedPod] = []
        for member in self._members.unscheduled(key):
            if member.uid == pod.uid:
                items.append(item)
            elif shared.responsible_for(member):
                other = shared.queue.pop_specific(member, shared.now)
                if other is not None:
                    items.append(other)
        items = items if item in items else [item, *items]
        wanted = min_count(shared.cache.objects, key)
        return Gang(group, items, self._members.placed(key), 1 if wanted is None else wanted)

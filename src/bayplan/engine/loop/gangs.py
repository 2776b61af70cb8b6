"""The pod groups that wait: which pods are tried together, and what their group demands.

When a pod of a group is popped, all pods of the group that wait are popped with it and tried in one
cycle (`group_cycle`): either the group's demand is met and all that found a node go on, or none
does. So a gang never holds nodes that it cannot use. 1.37 tries it again when its backoff is over,
1.36 when something changes that may help one of its pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bayplan.api import CompositePodGroup, Pod, PodGroup
from bayplan.cluster.pod_groups import (
    Group,
    GroupForest,
    are_composite,
    group_key,
    members_of,
    needed,
)
from bayplan.engine.loop.shared import Shared
from bayplan.engine.queue import Place, QueuedPod


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
        scheduled = self.scheduled if modern else []
        return mismatch(pods, scheduled, self.priority if modern else None)


class Branch:
    """A composite group with those below it, or a pod group that is part of one."""

    def __init__(self, group: Group, gang: Gang | None, children: Sequence[Branch]) -> None:
        self.group = group
        self.gang = gang
        self.children = children
        self.name = f"{group.KIND} {group.key}"

    @property
    def leaves(self) -> list[Gang]:
        own = [] if self.gang is None else [self.gang]
        return own + [leaf for child in self.children for leaf in child.leaves]

    @property
    def items(self) -> list[QueuedPod]:
        return [item for leaf in self.leaves for item in leaf.items]

    @property
    def scheduled(self) -> list[Pod]:
        return [pod for leaf in self.leaves for pod in leaf.scheduled]

    @property
    def priority(self) -> int:
        return self.group.spec.priority or 0

    def mismatch(self) -> str:
        """What its pods contradict each other in, or the group; empty if nothing."""
        return mismatch([item.pod for item in self.items], self.scheduled, self.priority)


def mismatch(pods: Sequence[Pod], scheduled: Sequence[Pod], priority: int | None) -> str:
    """What pods that are tried together contradict each other in.

    1.37 also looks at `scheduled` ones, at the `priority` of their group, and at policies.
    """
    name = pods[0].spec.scheduler_name
    for pod in (*pods, *scheduled):
        if pod.spec.scheduler_name != name:
            return (
                "all pods in a single pod group should have the same .spec.schedulerName set, "
                f'got: "{pod.spec.scheduler_name}" and "{name}"'
            )
        if priority is not None and pod.priority != priority:
            return (
                "all pods in a single pod group should have the same priority as the pod "
                f"group's priority, got {pod.priority} and {priority}"
            )
        if priority is not None and policy_of(pod) != policy_of(pods[0]):
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
        self._forest = GroupForest(shared.cache.objects, composite=are_composite(shared.gates))

    def changed(self, pod: Pod) -> None:
        """A pod appeared or changed."""
        self._members.put(pod)

    def deleted(self, pod: Pod) -> None:
        """A pod is gone or has finished."""
        self._members.delete(pod)

    def backing_off(self, pod: Pod) -> QueuedPod | None:
        """One with which a pod is to be tried that waits for its group's backoff to end."""
        key = group_key(pod)
        group = self._shared.cache.objects.pod_groups.get(key) if key else None
        root = None if group is None else self._forest.root(group)
        leaves = () if root is None else self._forest.leaves(root)
        for member in (one for leaf in leaves for one in self._members.all_of(leaf.key)):
            item = self._shared.queue.get(member.key)
            if item is not None and item.place is Place.ACTIVE:
                return None
            if item is not None and item.group_size and item.place is Place.ERROR_BACKOFF:
                return item
        return None

    def gather(self, item: QueuedPod) -> Gang | Branch | None:
        """Take the rest of a popped pod's group out of the queue; None if it has no group."""
        key = group_key(item.pod)
        group = self._shared.cache.objects.pod_groups.get(key) if key else None
        if group is None:
            return None
        root = self._forest.root(group)
        if isinstance(root, CompositePodGroup):
            return self._branch(root, item)
        return self._gang(group, item)

    def _branch(self, group: Group, item: QueuedPod) -> Branch:
        if isinstance(group, PodGroup):
            return Branch(group, self._gang(group, item), ())
        children = [self._branch(child, item) for child in self._forest.children(group)]
        return Branch(group, None, children)

    def _gang(self, group: PodGroup, item: QueuedPod) -> Gang:
        shared, key = self._shared, group.key
        items: list[QueuedPod] = []
        for member in self._members.unscheduled(key):
            if member.uid == item.pod.uid:
                items.append(item)
            elif shared.responsible_for(member):
                other = shared.queue.pop_specific(member, shared.now)
                if other is not None:
                    items.append(other)
        if group_key(item.pod) == key and item not in items:
            items = [item, *items]
        return Gang(group, items, self._members.placed(key), needed(group))

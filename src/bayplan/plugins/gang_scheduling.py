"""Places the pods of a gang together or not at all.

A pod with `spec.schedulingGroup` waits outside the queue until its PodGroup exists and at least
`minCount` of its pods are known. Pods that have a node wait in Permit until `minCount` of the group
have one, then all are let go; after five minutes they give their nodes back. Trying a whole group
in one go, so that a gang that cannot fit never holds nodes, is the engine's work.
Off by default, as upstream: the gates are GangScheduling and GenericWorkload.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bayplan.api import CompositePodGroup, Object, Pod, PodGroup
from bayplan.cluster.pod_groups import (
    REASON_WAIT,
    Group,
    GroupForest,
    are_composite,
    group_key,
    members_of,
    min_count,
    needed,
)
from bayplan.framework import (
    PODS_TO_ACTIVATE,
    ActionType,
    ClusterEventWithHint,
    CycleState,
    Handle,
    QueueingHint,
    Resource,
    Status,
    on,
    unresolvable,
)
from bayplan.framework.contract.status import Code
from bayplan.plugins.hints import hint

NAME = "GangScheduling"
PERMIT_SECONDS = 300.0
REASON_MEMBERS = "waiting for minCount pods from a gang to appear in scheduling queue"


class GangScheduling:
    """PreEnqueue, Reserve and Permit: all or nothing."""

    name = NAME
    rejects_groups = True

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._objects = handle.objects
        self._members = members_of(handle.objects)
        self._composite = are_composite(handle.gates)
        self._forest = GroupForest(handle.objects, composite=self._composite)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        key = group_key(pod)
        if not key:
            return None
        self._members.put(pod)
        group = self._objects.pod_groups.get(key)
        if group is None:
            name = key.partition("/")[2]
            return unresolvable(
                f'waiting for pods\'s pod group "{name}" to appear in scheduling queue'
            )
        root = self._forest.root(group)
        if root is None:
            return unresolvable(
                "failed to build hierarchy snapshot: a composite pod group is missing"
            )
        if isinstance(root, CompositePodGroup):
            ready = self._ready(root, self._members.known)
            return None if ready else unresolvable(_waits_for(root))
        wanted = min_count(self._objects, key)
        if wanted is not None and self._members.known(key) < wanted:
            return unresolvable(REASON_MEMBERS)
        return None

    def _ready(self, group: Group, count: Callable[[str], int]) -> bool:
        """Whether enough pods of a group, or of enough of its groups, are counted."""
        if isinstance(group, PodGroup):
            return count(group.key) >= needed(group)
        below = self._forest.children(group)
        return sum(self._ready(child, count) for child in below) >= needed(group)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if group_key(pod):
            self._members.reserve(pod)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._members.unreserve(pod)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        key = group_key(pod)
        if self._composite and key:
            root = self._root_of(key)
            if isinstance(root, CompositePodGroup):
                return self._permit_below(state, root)
        wanted = min_count(self._objects, key)
        if wanted is None:
            return None, 0.0
        if self._members.scheduled(key) < wanted:
            others = {other.key: other for other in self._members.unscheduled(key)}
            if others:
                state.write(PODS_TO_ACTIVATE, others)
            return Status(Code.WAIT, REASON_WAIT), PERMIT_SECONDS
        for waiting in self._handle.waiting:
            if group_key(waiting.pod) == key:
                waiting.allow(NAME)
        return None, 0.0

    def _permit_below(
        self, state: CycleState, root: CompositePodGroup
    ) -> tuple[Status | None, float]:
        keys = {leaf.key for leaf in self._forest.leaves(root)}
        if not self._ready(root, self._members.scheduled):
            others = {pod.key: pod for key in keys for pod in self._members.unscheduled(key)}
            if others:
                state.write(PODS_TO_ACTIVATE, others)
            return Status(Code.WAIT, _waits_for(root)), PERMIT_SECONDS
        for waiting in self._handle.waiting:
            if group_key(waiting.pod) in keys:
                waiting.allow(NAME)
        return None, 0.0

    def _root_of(self, key: str) -> Group | None:
        group = self._objects.pod_groups.get(key)
        return None if group is None else self._forest.root(group)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        events = [
            on(Resource.POD, ActionType.ADD, self._member_added),
            on(Resource.POD_GROUP, ActionType.ADD, self._group_added),
            on(Resource.POD_GROUP, ActionType.UPDATE, self._group_changed),
        ]
        if self._composite:
            events.append(on(Resource.COMPOSITE_POD_GROUP, ActionType.ADD, self._group_added))
        return events

    def _together(self, pod: Pod, key: str, group: Group | None) -> bool:
        """Whether a pod is tried together with the pods of a group."""
        own = group_key(pod)
        if not own or not self._composite:
            return own == key != "" and not isinstance(group, CompositePodGroup)
        root, other = self._root_of(own), None if group is None else self._forest.root(group)
        return root is not None and root == other

    def _member_added(self, pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
        key = group_key(new) if isinstance(new, Pod) else ""
        same = bool(key) and self._together(pod, key, self._objects.pod_groups.get(key))
        return hint(same)

    def _group_added(self, pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
        same = isinstance(new, PodGroup | CompositePodGroup) and self._together(pod, new.key, new)
        return hint(same)

    def _group_changed(self, pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
        """Whether the pod's group needs fewer pods than before, which only 1.37 allows."""
        if not isinstance(old, PodGroup) or not isinstance(new, PodGroup):
            return QueueingHint.QUEUE
        before, after = old.spec.scheduling_policy.gang, new.spec.scheduling_policy.gang
        fewer = before is not None and after is not None and after.min_count < before.min_count
        same = fewer and self._together(pod, new.key, new)
        return hint(same)


def _waits_for(root: CompositePodGroup) -> str:
    return f'waiting for composite pod group "{root.metadata.name}" tree to meet quorum'


def new(args: None, handle: Handle) -> GangScheduling:
    return GangScheduling(handle)

"""Places the pods of a gang together or not at all.

A pod with `spec.schedulingGroup` waits outside the queue until its PodGroup exists and at least
`minCount` of its pods are known. Pods that have a node wait in Permit until `minCount` of the group
have one, then all are let go; after five minutes they give their nodes back. `GroupMembers` keeps
the pods of every group; whoever sees pods come and go feeds it. Trying a whole group in one go, so
that a gang that cannot fit never holds nodes, is the engine's work (`Engine.place_all`).
Off by default, as upstream: the gates are GangScheduling and GenericWorkload.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bayplan.api import Object, Pod, PodGroup
from bayplan.framework import (
    PODS_TO_ACTIVATE,
    ActionType,
    ClusterEventWithHint,
    ClusterObjects,
    CycleState,
    Handle,
    QueueingHint,
    Resource,
    Status,
    on,
    unresolvable,
)
from bayplan.framework.contract.status import Code

NAME = "GangScheduling"
PERMIT_SECONDS = 300.0
REASON_MEMBERS = "waiting for minCount pods from a gang to appear in scheduling queue"
REASON_WAIT = "waiting for minCount pods from a gang to be scheduled"


def group_key(pod: Pod) -> str:
    """Key of the pod's group, or an empty text."""
    group = pod.spec.scheduling_group
    if group is None or not group.pod_group_name:
        return ""
    return f"{pod.namespace}/{group.pod_group_name}"


class GroupMembers:
    """The pods of all groups, and which of them have a node; one per cluster."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Pod]] = {}
        self._reserved: dict[str, str] = {}

    def put(self, pod: Pod) -> None:
        """A pod appeared or changed; pods without a group are ignored."""
        if key := group_key(pod):
            self._pods.setdefault(key, {})[pod.uid] = pod

    def delete(self, pod: Pod) -> None:
        """A pod is gone or has finished."""
        key = group_key(pod)
        members = self._pods.get(key)
        if members is not None and members.pop(pod.uid, None) is not None and not members:
            del self._pods[key]
        self._reserved.pop(pod.uid, None)

    def reserve(self, pod: Pod, node_name: str) -> None:
        self.put(pod)
        self._reserved[pod.uid] = node_name

    def unreserve(self, pod: Pod) -> None:
        self._reserved.pop(pod.uid, None)

    def known(self, key: str) -> int:
        """How many pods of a group there are."""
        return len(self._pods.get(key, ()))

    def scheduled(self, key: str) -> int:
        """How many pods of a group have a node, assumed or real."""
        members = self._pods.get(key, {}).values()
        return sum(bool(pod.node_name) or pod.uid in self._reserved for pod in members)

    def placed(self, key: str) -> list[Pod]:
        """The pods of a group that have a node, assumed or real."""
        members = self._pods.get(key, {}).values()
        return [pod for pod in members if pod.node_name or pod.uid in self._reserved]

    def unscheduled(self, key: str) -> list[Pod]:
        """The pods of a group without a node, in the order in which they are to be tried."""
        members = self._pods.get(key, {}).values()
        found = [pod for pod in members if not pod.node_name and pod.uid not in self._reserved]
        return sorted(found, key=lambda pod: (-pod.priority, pod.metadata.creation_timestamp))

    def validate(self, pods: Iterable[Pod]) -> None:
        """Raise unless exactly these pods (of those with a group) are known; for tests."""
        wanted = {pod.uid for pod in pods if group_key(pod)}
        found = {uid for members in self._pods.values() for uid in members}
        assert wanted == found, f"members: {wanted ^ found} differ"
        assert set(self._reserved) <= found, "a pod is reserved that is not known"


def members_of(objects: ClusterObjects) -> GroupMembers:
    """The group members of a cluster."""
    return objects.shared(NAME, GroupMembers)


def min_count(objects: ClusterObjects, key: str) -> int | None:
    """How many pods a gang needs at once; None if the group is no gang or unknown."""
    group = objects.pod_groups.get(key) if key else None
    gang = group.spec.scheduling_policy.gang if group is not None else None
    return None if gang is None else gang.min_count


class GangScheduling:
    """PreEnqueue, Reserve and Permit: all or nothing."""

    name = NAME

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._objects = handle.objects
        self._members = members_of(handle.objects)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        key = group_key(pod)
        if not key:
            return None
        self._members.put(pod)
        if self._objects.pod_groups.get(key) is None:
            name = key.partition("/")[2]
            return unresolvable(
                f'waiting for pods\'s pod group "{name}" to appear in scheduling queue'
            )
        wanted = min_count(self._objects, key)
        if wanted is not None and self._members.known(key) < wanted:
            return unresolvable(REASON_MEMBERS)
        return None

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if group_key(pod):
            self._members.reserve(pod, node_name)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._members.unreserve(pod)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        key = group_key(pod)
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

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            on(Resource.POD, ActionType.ADD, _member_added),
            on(Resource.POD_GROUP, ActionType.ADD, _group_added),
        )


def _member_added(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    same = isinstance(new, Pod) and group_key(new) == group_key(pod) != ""
    return QueueingHint.QUEUE if same else QueueingHint.SKIP


def _group_added(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    same = isinstance(new, PodGroup) and new.key == group_key(pod)
    return QueueingHint.QUEUE if same else QueueingHint.SKIP


def new(args: None, handle: Handle) -> GangScheduling:
    return GangScheduling(handle)

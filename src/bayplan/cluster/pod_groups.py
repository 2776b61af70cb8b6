"""The pod groups of a cluster: their pods, and the composite groups that they are part of.

`GroupMembers` keeps the pods of every group; whoever sees pods come and go feeds it. 1.37 has
composite groups behind the gate CompositePodGroup; without it every pod group stands alone.
Children come by creation, then by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bayplan.api import CompositePodGroup, Pod, PodGroup
from bayplan.cluster.objects import ClusterObjects
from bayplan.config import FeatureGates

Group = PodGroup | CompositePodGroup
DEEPEST = 4
"""So many groups may stand one above the other."""
REASON_WAIT = "waiting for minCount pods from a gang to be scheduled"


def are_composite(gates: FeatureGates) -> bool:
    return gates.since("1.37") and gates["CompositePodGroup"]


class GroupForest:
    """The groups of a cluster as trees."""

    def __init__(self, objects: ClusterObjects, *, composite: bool) -> None:
        self._objects = objects
        self._composite = composite
        self._children: dict[str, list[Group]] = {}
        self._revisions = (-1, -1)

    def above(self, group: Group) -> Iterator[Group]:
        """The group and those that it is part of, as far as they are known."""
        seen: set[tuple[str, str]] = set()
        found: Group | None = group
        while found is not None and (found.KIND, found.key) not in seen and len(seen) < DEEPEST:
            seen.add((found.KIND, found.key))
            yield found
            parent = found.spec.parent_composite_pod_group_name if self._composite else None
            key = f"{group.metadata.namespace}/{parent}"
            found = self._objects.composite_pod_groups.get(key) if parent is not None else None

    def root(self, group: Group) -> Group | None:
        """The group at the top; None if one in between is not there."""
        last = list(self.above(group))[-1]
        return last if last.spec.parent_composite_pod_group_name is None else self._alone(last)

    def _alone(self, group: Group) -> Group | None:
        return None if self._composite else group

    def children(self, group: Group) -> list[Group]:
        objects = self._objects
        now = objects.pod_groups.revision, objects.composite_pod_groups.revision
        if self._revisions != now:
            self._revisions, self._children = now, {}
            for each in (*objects.pod_groups, *objects.composite_pod_groups):
                parent = each.spec.parent_composite_pod_group_name
                if parent is not None:
                    key = f"{each.metadata.namespace}/{parent}"
                    self._children.setdefault(key, []).append(each)
            for found in self._children.values():
                found.sort(key=lambda each: (each.metadata.creation_timestamp, each.metadata.name))
        return self._children.get(group.key, []) if isinstance(group, CompositePodGroup) else []

    def leaves(self, group: Group) -> Iterator[PodGroup]:
        """The pod groups below a group, or the group itself."""
        if isinstance(group, PodGroup):
            yield group
        for child in self.children(group):
            yield from self.leaves(child)


def needed(group: Group) -> int:
    """How many pods, or groups, of a group must have their place for any to go on."""
    if isinstance(group, PodGroup):
        pods = group.spec.scheduling_policy.gang
        return 1 if pods is None else pods.min_count
    groups = group.spec.scheduling_policy.gang
    return 1 if groups is None else groups.min_group_count


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
        self._reserved: set[str] = set()
        self._scheduled: dict[str, set[str]] = {}
        """By group the uids of pods that have a node: a gang asks how many for each of its pods."""

    def put(self, pod: Pod) -> None:
        """A pod appeared or changed; pods without a group are ignored."""
        if key := group_key(pod):
            self._pods.setdefault(key, {})[pod.uid] = pod
            self._look_at(key, pod)

    def delete(self, pod: Pod) -> None:
        """A pod is gone or has finished."""
        key = group_key(pod)
        members = self._pods.get(key)
        if members is not None and members.pop(pod.uid, None) is not None and not members:
            del self._pods[key]
        self._reserved.discard(pod.uid)
        self._scheduled.get(key, set()).discard(pod.uid)
        if key not in self._pods:
            self._scheduled.pop(key, None)

    def reserve(self, pod: Pod) -> None:
        self._reserved.add(pod.uid)
        self.put(pod)

    def unreserve(self, pod: Pod) -> None:
        self._reserved.discard(pod.uid)
        known = self._pods.get(group_key(pod), {}).get(pod.uid)
        if known is not None:
            self._look_at(group_key(pod), known)

    def _look_at(self, key: str, pod: Pod) -> None:
        found = self._scheduled.setdefault(key, set())
        if self._has_node(pod):
            found.add(pod.uid)
        else:
            found.discard(pod.uid)

    def _has_node(self, pod: Pod) -> bool:
        return bool(pod.node_name) or pod.uid in self._reserved

    def known(self, key: str) -> int:
        """How many pods of a group there are."""
        return len(self._pods.get(key, ()))

    def scheduled(self, key: str) -> int:
        """How many pods of a group have a node, assumed or real."""
        return len(self._scheduled.get(key, ()))

    def placed(self, key: str) -> list[Pod]:
        """The pods of a group that have a node, assumed or real."""
        return [pod for pod in self._pods.get(key, {}).values() if self._has_node(pod)]

    def all_of(self, key: str) -> Iterable[Pod]:
        """The pods of a group."""
        return self._pods.get(key, {}).values()

    def unscheduled(self, key: str) -> list[Pod]:
        """The pods of a group without a node, in the order in which they are to be tried."""
        found = [pod for pod in self._pods.get(key, {}).values() if not self._has_node(pod)]
        return sorted(found, key=lambda pod: (-pod.priority, pod.metadata.creation_timestamp))

    def validate(self, pods: Iterable[Pod]) -> None:
        """Raise unless exactly these pods (of those with a group) are known; for tests."""
        wanted = {pod.uid for pod in pods if group_key(pod)}
        found = {uid for members in self._pods.values() for uid in members}
        assert wanted == found, f"members: {wanted ^ found} differ"
        assert self._reserved <= found, "a pod is reserved that is not known"
        for key in {*self._pods, *self._scheduled}:
            counted = {pod.uid for pod in self.placed(key)}
            assert counted == self._scheduled.get(key, set()), f"scheduled pods of {key} differ"


def members_of(objects: ClusterObjects) -> GroupMembers:
    """The group members of a cluster."""
    return objects.shared("pod-group-members", GroupMembers)


def min_count(objects: ClusterObjects, key: str) -> int | None:
    """How many pods a gang needs at once; None if the group is no gang or unknown."""
    group = objects.pod_groups.get(key) if key else None
    gang = group.spec.scheduling_policy.gang if group is not None else None
    return None if gang is None else gang.min_count

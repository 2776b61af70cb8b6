"""What the controllers of pods share: making them from a template, claiming, choosing victims."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import NamedTuple

import msgspec

from bayplan.api.labels import Selector
from bayplan.client import AlreadyExists, ApiError, Change, Conflict, NotFound, Resource
from bayplan.client.resources import PODS
from bayplan.controllers.objects import (
    Json,
    Meta,
    Object,
    is_active,
    is_ready,
    owner_reference,
    seconds_of,
)
from bayplan.controllers.runtime import (
    Cache,
    Kit,
    WorkQueue,
    namespace_index,
    owner_index,
)

BURST = 500  # pods of one owner that are made or deleted before looking again
# What events name as their source, where it is not the kind.
COMPONENTS = {
    "ReplicationController": "replication-controller",
    "Job": "job-controller",
}


class Words(NamedTuple):
    """What events say of a pod {0} of an owner {1}, and of an error {2}."""

    created: str = "Created pod: {0}"
    not_created: str = "Error creating: {2}"
    deleted: str = "Deleted pod: {0}"


WORDS = {
    "StatefulSet": Words(
        created="create Pod {0} in StatefulSet {1} successful",
        not_created="create Pod {0} in StatefulSet {1} failed error: {2}",
        deleted="delete Pod {0} in StatefulSet {1} successful",
    )
}
# No vowels and no look-alikes, so that a hash is never a word.
LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: Json, salt: str = "") -> str:
    """Return a short name for a pod template, equal for equal templates."""
    data = msgspec.json.encode(template, order="deterministic") + salt.encode()
    number = int.from_bytes(hashlib.sha256(data).digest()[:8], "big")
    letters = []
    for _ in range(10):
        number, digit = divmod(number, len(LETTERS))
        letters.append(LETTERS[digit])
    return "".join(letters)


def pod_from(template: Json, resource: Resource, owner: Meta, *, name: str = "") -> Json:
    """Return the body of a new pod of a controller."""
    given: Json = template.get("metadata") or {}
    metadata: Json = {"ownerReferences": [owner_reference(resource, owner)]}
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = f"{owner.name}-"
    for field in ("labels", "annotations", "finalizers"):
        if given.get(field):
            metadata[field] = given[field]
    metadata.setdefault("labels", {})
    return {"metadata": metadata, "spec": dict(template.get("spec") or {})}


class PodControl:
    """The pods of one kind of controller."""

    def __init__(self, kit: Kit, resource: Resource, queue: WorkQueue) -> None:
        self._kit = kit
        self._resource = resource
        self._component = COMPONENTS.get(resource.kind, f"{resource.kind.lower()}-controller")
        self._words = WORDS.get(resource.kind, Words())
        self._wake = queue.add_soon
        self.owners = kit.cache(resource)
        self.pods = kit.cache(PODS)
        self.pods.add_index("owner", owner_index)
        self.pods.add_index("orphan", _orphan_index)
        self.owners.add_index("namespace", namespace_index)
        self.owners.listen(lambda change: queue.add(change.new.key))
        self.pods.listen(self._pod_changed)

    @property
    def caches(self) -> tuple[Cache[Object], ...]:
        return (self.owners, self.pods)

    def _pod_changed(self, change: Change[Object]) -> None:
        new, old = change.new.metadata, change.old and change.old.metadata
        owned = new.owner_references or (old and old.owner_references)
        if not owned and not self.owners.informer.store:
            return  # nobody has it, nobody is there to want it
        self._concerns(new, change.type == "DELETED")
        if old and (old.labels != new.labels or old.owner_references != new.owner_references):
            self._concerns(old, change.type == "DELETED")

    def _concerns(self, pod: Meta, deleted: bool) -> None:
        """Wake whoever has a pod, or may want it."""
        owner = pod.controller
        if owner is not None:
            if owner.kind == self._resource.kind:
                self._wake(f"{pod.namespace}/{owner.name}")
        elif not deleted and pod.labels and self.owners.informer.store:
            self._wake_matching(pod)

    def _wake_matching(self, pod: Meta) -> None:
        """An orphan: whoever selects it may want to adopt it."""
        for owner in self.owners.by("namespace", pod.namespace):
            labels: Json = (owner.spec.get("selector") or {}).get("matchLabels") or {}
            if labels and all(pod.labels.get(k) == v for k, v in labels.items()):
                self._wake(owner.key)

    async def claim(self, owner: Object, selector: Selector) -> list[Object]:
        """Return the owner's pods, after adopting those that match and releasing those that do not.

        An adopted or released pod is seen as such when its cache has caught up.
        """
        mine: list[Object] = []
        for pod in self.pods.by("owner", owner.metadata.uid):
            if selector.matches(pod.metadata.labels):
                mine.append(pod)
            elif not pod.deleted and not owner.deleted:
                await self._release(pod, owner)
        if owner.deleted or not selector.requirements:
            return mine
        for pod in self.pods.by("orphan", owner.metadata.namespace):
            if is_active(pod) and selector.matches(pod.metadata.labels):
                await self._adopt(pod, owner)
                mine.append(pod)
        return mine

    async def _adopt(self, pod: Object, owner: Object) -> None:
        reference = owner_reference(self._resource, owner.metadata)
        metadata = {"ownerReferences": [reference], "uid": pod.metadata.uid}
        await self._kit.patch(PODS, pod.key, {"metadata": metadata}, kind="strategic")

    async def _release(self, pod: Object, owner: Object) -> None:
        reference = {"$patch": "delete", "uid": owner.metadata.uid}
        metadata = {"ownerReferences": [reference], "uid": pod.metadata.uid}
        # it is gone or another by now: nothing to release
        with suppress(NotFound, Conflict):
            await self._kit.patch(PODS, pod.key, {"metadata": metadata}, kind="strategic")

    async def create(self, body: Json, owner: Object) -> Json:
        """Create a pod of `owner` and tell about it. Raises what the server answers."""
        about, component = owner.metadata, self._component
        try:
            made = await self._kit.create(PODS, body, owner.metadata.namespace)
        except AlreadyExists:
            raise
        except ApiError as error:
            name = body["metadata"].get("name", "")
            text = self._words.not_created.format(name, about.name, error.message)
            self._kit.events.record(
                self._resource, about, "FailedCreate", text, component, warning=True
            )
            raise
        text = self._words.created.format(made["metadata"]["name"], about.name)
        self._kit.events.record(self._resource, about, "SuccessfulCreate", text, component)
        return made

    async def delete(self, pod: Object, owner: Object | None = None) -> None:
        """Delete a pod and, with its owner given, tell about it."""
        await self._kit.delete(PODS, pod.key, uid=pod.metadata.uid)
        if owner is not None:
            text = self._words.deleted.format(pod.metadata.name, owner.metadata.name)
            self._kit.events.record(
                self._resource, owner.metadata, "SuccessfulDelete", text, self._component
            )


def _orphan_index(pod: Object) -> tuple[str, ...]:
    """Index by namespace the pods that nobody controls."""
    return () if pod.metadata.controller is not None else (pod.metadata.namespace,)


def victims(pods: list[Object], count: int) -> list[Object]:
    """Choose pods to delete as upstream does: those that would be missed least come first."""

    def rank(pod: Object) -> tuple[object, ...]:
        phase = {"Pending": 0, "Unknown": 1}.get(pod.status.get("phase", "Pending"), 2)
        cost = pod.metadata.annotations.get("controller.kubernetes.io/pod-deletion-cost", "0")
        try:
            price = int(cost)
        except ValueError:
            price = 0
        restarts = max(
            (c.get("restartCount", 0) for c in pod.status.get("containerStatuses") or []),
            default=0,
        )
        return (
            bool(pod.spec.get("nodeName")),
            phase,
            is_ready(pod),
            price,
            -restarts,
            -seconds_of(pod.metadata.creation_timestamp),
            pod.metadata.name,
        )

    return sorted(pods, key=rank)[:count]


def is_available(pod: Object, min_ready: int, now: float) -> bool:
    """A pod that has been ready for long enough."""
    if not is_ready(pod):
        return False
    if not min_ready:
        return True
    for item in pod.status.get("conditions") or []:
        if item.get("type") == "Ready":
            return seconds_of(item.get("lastTransitionTime")) + min_ready <= now
    return False

"""Rolls a Deployment's pods from one template to the next through ReplicaSets.

One ReplicaSet a template, named after the template's hash. A rolling update grows the new one as
far as `maxSurge` allows and shrinks the old ones as far as `maxUnavailable` allows, again whenever
pods have become available. `Recreate` empties the old ones first. A paused Deployment is only
scaled. A Deployment that is scaled in the middle of a rollout shares the difference out among its
sets. ReplicaSets without an owner that its selector matches are taken over, those that it matches
no longer are let go. Old empty ReplicaSets beyond `revisionHistoryLimit` are deleted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from bayplan.api.labels import parse_int64
from bayplan.client import AlreadyExists, Change
from bayplan.client.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from bayplan.controllers.deployment_status import conditions, seconds_left
from bayplan.controllers.objects import Json, Object, owner_reference, selector_of
from bayplan.controllers.pods import template_hash
from bayplan.controllers.proportions import DESIRED, MAXIMUM, shares
from bayplan.controllers.runtime import Kit, OneWorker, Worker, namespace_index, owner_index

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
HISTORY_LENGTH = 2000  # characters
OWN_ANNOTATIONS = (
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAXIMUM,
    "deprecated.deployment.rollback.to",
)


class DeploymentController(OneWorker):
    """Makes, grows, shrinks and deletes the ReplicaSets of Deployments."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._deployments = kit.cache(DEPLOYMENTS)
        self._sets = kit.cache(REPLICA_SETS)
        self._pods = kit.cache(PODS)
        self._sets.add_index("owner", owner_index)
        self._sets.add_index("namespace", namespace_index)
        self._deployments.add_index("namespace", namespace_index)
        self._pods.add_index("owner", owner_index)
        self._worker = Worker(kit, "deployment", self._sync, (self._deployments, self._sets))
        self._deployments.listen(lambda change: self._worker.queue.add(change.new.key))
        self._sets.listen(self._set_changed)
        self._pods.listen(self._pod_changed)

    def _set_changed(self, change: Change[Object]) -> None:
        owner = change.new.metadata.controller
        namespace = change.new.metadata.namespace
        if owner is not None and owner.kind == "Deployment":
            self._worker.queue.add(f"{namespace}/{owner.name}")
        elif owner is None and change.type != "DELETED":
            for deployment in self._deployments.by("namespace", namespace):
                if selector_of(deployment.spec.get("selector")).matches(change.new.metadata.labels):
                    self._worker.queue.add(deployment.key)

    async def _sync(self, key: str) -> float | None:
        deployment = self._deployments.get(key)
        if deployment is None or deployment.deleted:
            return None
        sets = await self._claim(deployment)
        new = _find_new(deployment, sets)
        old = [s for s in sets if s is not new]
        if deployment.spec.get("paused") or _was_scaled(deployment, sets):
            await self._scale_all(deployment, new, old)
        elif new is None:
            if not _recreate(deployment) or not self._still_there(old):
                await self._create_set(deployment, old)
            else:
                await self._empty(deployment, old)
        else:
            await self._set_revision(deployment, new, old)
            if _recreate(deployment):
                await self._recreate(deployment, new, old)
            else:
                await self._roll(deployment, new, old)
            await self._clean_up(deployment, new, old)
        return await self._write_status(deployment, new, sets)

    async def _claim(self, deployment: Object) -> list[Object]:
        """Return the deployment's sets; take those that fit and let go those that do not."""
        meta, selector = deployment.metadata, selector_of(deployment.spec.get("selector"))
        mine: list[Object] = []
        for s in self._sets.by("owner", meta.uid):
            if s.deleted or selector.matches(s.metadata.labels):
                mine += [] if s.deleted else [s]
            else:
                rest = [{"$patch": "delete", "uid": meta.uid}]
                body = {"metadata": {"uid": s.metadata.uid, "ownerReferences": rest}}
                await self._kit.patch(REPLICA_SETS, s.key, body, kind="strategic")
        for s in self._sets.by("namespace", meta.namespace):
            free = s.metadata.controller is None and not s.deleted
            if free and selector.matches(s.metadata.labels):
                owner = owner_reference(DEPLOYMENTS, meta)
                body = {"metadata": {"uid": s.metadata.uid, "ownerReferences": [owner]}}
                await self._kit.patch(REPLICA_SETS, s.key, body, kind="strategic")
                mine.append(s)
        return mine

    async def _create_set(self, deployment: Object, old: list[Object]) -> None:
        template: Json = deployment.spec.get("template") or {}
        hash_ = template_hash(template, str(deployment.status.get("collisionCount", "")))
        spec = deployment.spec
        metadata: Json = template.get("metadata") or {}
        labels = {**(metadata.get("labels") or {}), HASH_LABEL: hash_}
        selector: Json = dict(spec.get("selector") or {})
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: hash_}
        surge, _ = _limits(deployment)
        total = sum(s.spec.get("replicas", 0) for s in old)
        wanted = spec.get("replicas", 1)
        first = (
            wanted if _recreate(deployment) or not total else min(wanted, wanted + surge - total)
        )
        body: Json = {
            "metadata": {
                "name": f"{deployment.metadata.name}-{hash_}",
                "labels": labels,
                "annotations": {
                    **_copied(deployment),
                    REVISION: str(_next_revision(old)),
                    **_sizes(deployment),
                },
                "ownerReferences": [owner_reference(DEPLOYMENTS, deployment.metadata)],
            },
            "spec": {
                "replicas": max(first, 0),
                "selector": selector,
                "template": {**template, "metadata": {**metadata, "labels": labels}},
                "minReadySeconds": spec.get("minReadySeconds", 0),
            },
        }
        try:
            await self._kit.create(REPLICA_SETS, body, deployment.metadata.namespace)
            if first > 0:
                self._tell_scaled(deployment, body["metadata"]["name"], 0, first)
        except AlreadyExists:
            # A set of that name that is not ours or has another template: take another name.
            count = deployment.status.get("collisionCount", 0) + 1
            await self._kit.set_status(DEPLOYMENTS, deployment, {"collisionCount": count})
            self._worker.queue.add(deployment.key)

    async def _set_revision(self, deployment: Object, new: Object, old: list[Object]) -> None:
        """Give the newest set the highest number, also when it is an old one rolled back to."""
        known = new.metadata.annotations
        revision = known.get(REVISION, "")
        wanted = _copied(deployment)
        if not revision or int(revision) < _next_revision(old):
            revision = str(_next_revision(old))
            wanted |= {REVISION: revision, **_history(known)}
        changed = {key: value for key, value in wanted.items() if known.get(key) != value}
        if changed:
            await self._kit.patch(REPLICA_SETS, new.key, {"metadata": {"annotations": changed}})
        if deployment.metadata.annotations.get(REVISION) != revision:
            annotations = {"metadata": {"annotations": {REVISION: revision}}}
            await self._kit.patch(DEPLOYMENTS, deployment.key, annotations)

    async def _roll(self, deployment: Object, new: Object, old: list[Object]) -> None:
        wanted = deployment.spec.get("replicas", 1)
        surge, unavailable = _limits(deployment)
        size = new.spec.get("replicas", 0)
        total = size + sum(s.spec.get("replicas", 0) for s in old)
        if size > wanted:
            await self._scale(deployment, new, wanted)
        elif size < wanted and total < wanted + surge:
            await self._scale(deployment, new, size + min(wanted - size, wanted + surge - total))
            return
        await self._shrink_old(deployment, new, old, max(wanted - unavailable, 0))

    async def _shrink_old(
        self, deployment: Object, new: Object, old: list[Object], floor: int
    ) -> None:
        """Take pods from old sets: first those that do not work, then as many as can be spared."""
        size = new.spec.get("replicas", 0)
        total = size + sum(s.spec.get("replicas", 0) for s in old)
        missing_in_new = size - new.status.get("availableReplicas", 0)
        spare = total - floor - missing_in_new
        if spare <= 0:  # what the sets say of available pods may lag behind their sizes
            return
        sizes = {s.key: s.spec.get("replicas", 0) for s in old}
        for s in old:
            dead = min(sizes[s.key] - s.status.get("availableReplicas", 0), spare)
            if dead > 0:
                sizes[s.key] -= dead
                spare -= dead
        available = sum(s.status.get("availableReplicas", 0) for s in (*old, new))
        free = available - floor
        for s in old:
            take = min(sizes[s.key], free)
            if take > 0:
                sizes[s.key] -= take
                free -= take
        for s in old:
            await self._scale(deployment, s, sizes[s.key])

    async def _recreate(self, deployment: Object, new: Object, old: list[Object]) -> None:
        if self._still_there(old):
            await self._empty(deployment, old)
        else:
            await self._scale(deployment, new, deployment.spec.get("replicas", 1))

    def _still_there(self, old: list[Object]) -> bool:
        return any(s.spec.get("replicas", 0) or self._pods.by("owner", s.metadata.uid) for s in old)

    async def _empty(self, deployment: Object, old: list[Object]) -> None:
        for s in old:
            await self._scale(deployment, s, 0)

    def _pod_changed(self, change: Change[Object]) -> None:
        """Recreate waits for the last old pod to go, which no set tells of."""
        owner = change.new.metadata.controller
        if change.type == "DELETED" and owner is not None and owner.kind == "ReplicaSet":
            found = self._sets.get(f"{change.new.metadata.namespace}/{owner.name}")
            if found is not None and found.metadata.uid == owner.uid:
                self._set_changed(Change("MODIFIED", found, None))

    async def _scale_all(self, deployment: Object, new: Object | None, old: list[Object]) -> None:
        """Bring the sets to a new total without going on with the rollout."""
        wanted = deployment.spec.get("replicas", 1)
        active = [s for s in (new, *old) if s is not None and s.spec.get("replicas", 0)]
        latest = new or max(old, key=_age, default=None)
        if len(active) <= 1:
            only = active[0] if active else latest
            if only is not None:
                await self._scale(deployment, only, wanted)
        elif new is not None and _is_saturated(deployment, new):
            await self._empty(deployment, old)
        elif not _recreate(deployment):
            surge, _ = _limits(deployment)
            for s, size in shares(deployment, sorted(active, key=_age), wanted, surge):
                await self._scale(deployment, s, size)

    async def _scale(self, deployment: Object, replica_set: Object, replicas: int) -> None:
        before = replica_set.spec.get("replicas", 0)
        sizes = _sizes(deployment)
        known = replica_set.metadata.annotations
        if before != replicas or any(known.get(k) != v for k, v in sizes.items() if replicas):
            body = {"metadata": {"annotations": sizes}, "spec": {"replicas": replicas}}
            await self._kit.patch(REPLICA_SETS, replica_set.key, body)
        if before != replicas:
            self._tell_scaled(deployment, replica_set.metadata.name, before, replicas)

    def _tell_scaled(self, owner: Object, name: str, before: int, after: int) -> None:
        way = "up" if after > before else "down"
        text = f"Scaled {way} replica set {name} from {before} to {after}"
        self._kit.events.record(
            DEPLOYMENTS, owner.metadata, "ScalingReplicaSet", text, "deployment-controller"
        )

    async def _clean_up(self, deployment: Object, new: Object, old: list[Object]) -> None:
        limit = deployment.spec.get("revisionHistoryLimit", 10)
        done = [s for s in old if not s.spec.get("replicas", 0) and not s.status.get("replicas", 0)]
        done.sort(key=_revision_of)
        for s in done[: max(len(done) - limit, 0)]:
            await self._kit.delete(REPLICA_SETS, s.key, uid=s.metadata.uid)

    async def _write_status(
        self, deployment: Object, new: Object | None, sets: list[Object]
    ) -> float | None:
        wanted = deployment.spec.get("replicas", 1)

        def total(field: str) -> int:
            return sum(s.status.get(field, 0) for s in sets)

        available = total("availableReplicas")
        status: Json = {
            "observedGeneration": deployment.metadata.generation,
            "replicas": total("replicas"),
            "updatedReplicas": new.status.get("replicas", 0) if new else 0,
            "readyReplicas": total("readyReplicas"),
            "availableReplicas": available,
            "unavailableReplicas": max(total("replicas") - available, wanted - available, 0),
        }
        enough = available >= wanted - _limits(deployment)[1]
        status["conditions"] = conditions(deployment, new, sets, status, enough, self._kit.clock())
        await self._kit.set_status(DEPLOYMENTS, deployment, status)
        return seconds_left(deployment, status["conditions"], self._kit.clock())


def _recreate(deployment: Object) -> bool:
    return bool((deployment.spec.get("strategy") or {}).get("type") == "Recreate")


def _find_new(deployment: Object, sets: list[Object]) -> Object | None:
    """Return the set whose template is the deployment's, the oldest if there are several."""
    wanted = deployment.spec.get("template") or {}
    found = [s for s in sets if _without_hash(s.spec.get("template") or {}) == _plain(wanted)]
    return min(found, key=lambda s: s.metadata.creation_timestamp, default=None)


def _plain(template: Json) -> Json:
    metadata = {k: v for k, v in (template.get("metadata") or {}).items() if v is not None}
    return {**template, "metadata": metadata}


def _without_hash(template: Json) -> Json:
    plain = _plain(template)
    labels = {k: v for k, v in (plain["metadata"].get("labels") or {}).items() if k != HASH_LABEL}
    plain["metadata"] = {**plain["metadata"], "labels": labels}
    return plain


def _copied(deployment: Object) -> dict[str, str]:
    """Return the annotations that a deployment shares with its newest set."""
    return {k: v for k, v in deployment.metadata.annotations.items() if k not in OWN_ANNOTATIONS}


def _history(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the numbers that a set had before, with the one that it loses now."""
    last, known = annotations.get(REVISION, ""), annotations.get(HISTORY, "")
    if not last:
        return {}
    kept = [*(known.split(",") if known else ()), last]
    while len(",".join(kept)) > HISTORY_LENGTH:
        kept.pop(0)
    return {HISTORY: ",".join(kept)}


def _sizes(deployment: Object) -> dict[str, str]:
    """Return the annotations that tell a set for which size of the deployment it was scaled."""
    wanted = deployment.spec.get("replicas", 1)
    return {DESIRED: str(wanted), MAXIMUM: str(wanted + _limits(deployment)[0])}


def _was_scaled(deployment: Object, sets: list[Object]) -> bool:
    wanted = str(deployment.spec.get("replicas", 1))
    return any(
        s.metadata.annotations.get(DESIRED, wanted) != wanted
        for s in sets
        if s.spec.get("replicas", 0)
    )


def _is_saturated(deployment: Object, new: Object) -> bool:
    wanted = deployment.spec.get("replicas", 1)
    desired = new.metadata.annotations.get(DESIRED)
    return bool(
        str(wanted) == desired
        and new.spec.get("replicas", 0) == wanted == new.status.get("availableReplicas", 0)
    )


def _age(replica_set: Object) -> tuple[str, str]:
    return replica_set.metadata.creation_timestamp, replica_set.metadata.name


def _revision_of(replica_set: Object) -> int:
    text = replica_set.metadata.annotations.get(REVISION, "0")
    return parse_int64(text) or 0


def _next_revision(old: list[Object]) -> int:
    return max(map(_revision_of, old), default=0) + 1


def _limits(deployment: Object) -> tuple[int, int]:
    """Return maxSurge (rounded up) and maxUnavailable (rounded down); not both are zero."""
    if _recreate(deployment):
        return 0, deployment.spec.get("replicas", 1)
    rolling: Json = (deployment.spec.get("strategy") or {}).get("rollingUpdate") or {}
    replicas = deployment.spec.get("replicas", 1)
    surge = scaled(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = min(scaled(rolling.get("maxUnavailable", "25%"), replicas, up=False), replicas)
    return (surge, unavailable) if surge or unavailable else (0, 1)


def scaled(value: int | str, total: int, *, up: bool) -> int:
    """Read a number or a percentage of `total`."""
    if isinstance(value, int):
        return value
    share = int(value.rstrip("%")) * total / 100
    return math.ceil(share) if up else math.floor(share)

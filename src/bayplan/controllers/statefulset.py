"""Keeps a StatefulSet's pods: named by ordinal, with claims of their own, in order.

OrderedReady waits for each pod to be ready before it makes the next, and deletes from the end, one
at a time; Parallel does not wait. A rolling update replaces pods from the end down to `partition`.
Claims from `volumeClaimTemplates` are made with their pod and stay, unless the retention policy
says Delete. A pod below `partition` that has to be made again gets the template it had, from its
ControllerRevision.
"""

from __future__ import annotations

from contextlib import suppress

from bayplan.client import AlreadyExists
from bayplan.client.resources import PERSISTENT_VOLUME_CLAIMS, STATEFUL_SETS
from bayplan.controllers.objects import (
    Json,
    Object,
    is_finished,
    is_ready,
    owner_reference,
    selector_of,
)
from bayplan.controllers.pods import BURST, PodControl, is_available, pod_from
from bayplan.controllers.revisions import HASH_LABEL as REVISION_LABEL
from bayplan.controllers.revisions import Revisions
from bayplan.controllers.runtime import Kit, Worker

COMPONENT = "statefulset-controller"
NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"


class StatefulSetController:
    """Makes, replaces and deletes pods by ordinal."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._worker = Worker(kit, "statefulset", self._sync)
        self._control = PodControl(kit, STATEFUL_SETS, self._worker.queue)
        self._revisions = Revisions(kit, STATEFUL_SETS)
        self._worker.use(self._control.caches)

    async def run(self) -> None:
        await self._revisions.cache.informer.wait_synced()
        await self._worker.run()

    async def _sync(self, key: str) -> float | None:
        owner = self._control.owners.get(key)
        if owner is None:
            return None
        claimed = await self._control.claim(owner, selector_of(owner.spec.get("selector")))
        pods: dict[int, Object] = {}
        for pod in claimed:
            ordinal = _ordinal(owner, pod)
            if ordinal is not None:
                pods[ordinal] = pod
        if owner.deleted:
            await self._write_status(owner, pods, owner.status.get("updateRevision", ""))
            return None
        update = (await self._revisions.update(owner)).metadata.name
        await self._step(owner, pods, update)
        await self._write_status(owner, pods, update)
        labels = {pod.metadata.labels.get(REVISION_LABEL, "") for pod in pods.values()}
        live = {update, owner.status.get("currentRevision", ""), *labels}
        await self._revisions.trim(owner, live)
        return None

    async def _step(self, owner: Object, pods: dict[int, Object], update: str) -> None:
        """Do what can be done now; a change of a pod brings the next step."""
        first = (owner.spec.get("ordinals") or {}).get("start", 0)
        wanted = range(first, first + owner.spec.get("replicas", 1))
        parallel = owner.spec.get("podManagementPolicy") == "Parallel"
        made = 0
        for ordinal in wanted:
            pod = pods.get(ordinal)
            if pod is None:
                await self._create(owner, ordinal, update)
                made += 1
                if made == BURST:  # how many are wanted may be another number by now
                    return
            elif is_finished(pod) and not pod.deleted:
                await self._control.delete(pod, owner)
            if not parallel and (pod is None or pod.deleted or not is_ready(pod)):
                return
        surplus = sorted((n for n in pods if n not in wanted), reverse=True)
        if surplus and not parallel and self._waits_for_another(owner, pods, surplus):
            return
        for ordinal in surplus:
            if not pods[ordinal].deleted:
                await self._control.delete(pods[ordinal], owner)
            if not parallel:
                return
        await self._roll(owner, pods, wanted, update)

    def _waits_for_another(
        self, owner: Object, pods: dict[int, Object], surplus: list[int]
    ) -> bool:
        """Tell whether the highest pod stays, for it and one before it do not work."""
        least, now = owner.spec.get("minReadySeconds", 0), self._kit.clock()
        sick = [n for n in surplus if pods[n].deleted or not is_ready(pods[n])]
        works = is_available(pods[surplus[0]], least, now)
        return not works and bool(sick) and surplus[0] != min(sick)

    async def _roll(
        self, owner: Object, pods: dict[int, Object], wanted: range, update: str
    ) -> None:
        """Replace the highest pod of an old template; the next when that one is ready."""
        strategy: Json = owner.spec.get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        for ordinal in reversed(wanted):
            if ordinal < partition:
                return
            pod = pods.get(ordinal)
            if pod is None or pod.deleted:
                return
            if pod.metadata.labels.get(REVISION_LABEL) != update:
                await self._control.delete(pod, owner)
                return
            if not is_ready(pod):
                return

    async def _create(self, owner: Object, ordinal: int, revision: str) -> None:
        name = f"{owner.metadata.name}-{ordinal}"
        await self._create_claims(owner, ordinal)
        template: Json = owner.spec.get("template") or {}
        current = owner.status.get("currentRevision", "")
        if current not in ("", revision) and _keeps_current(owner, ordinal):
            old = self._revisions.named(owner, current)
            if old is not None:
                template, revision = old.template, current
        body = pod_from(template, STATEFUL_SETS, owner.metadata, name=name)
        extra = {REVISION_LABEL: revision, NAME_LABEL: name, INDEX_LABEL: str(ordinal)}
        body["metadata"]["labels"] = {**body["metadata"]["labels"], **extra}
        spec = body["spec"]
        spec["hostname"] = name
        if owner.spec.get("serviceName"):
            spec["subdomain"] = owner.spec["serviceName"]
        volumes = {volume["name"]: volume for volume in spec.get("volumes") or []}
        for given in owner.spec.get("volumeClaimTemplates") or []:
            volume = given["metadata"]["name"]
            claim = {"claimName": _claim_name(owner, given, ordinal)}
            volumes[volume] = {"name": volume, "persistentVolumeClaim": claim}
        if volumes:
            spec["volumes"] = list(volumes.values())
        try:
            await self._control.create(body, owner)
        except AlreadyExists:
            # An old pod of that name is still going, or is somebody else's: look again.
            self._worker.queue.add_after(owner.key, 1.0)

    async def _create_claims(self, owner: Object, ordinal: int) -> None:
        retention: Json = owner.spec.get("persistentVolumeClaimRetentionPolicy") or {}
        for template in owner.spec.get("volumeClaimTemplates") or []:
            metadata: Json = {"name": _claim_name(owner, template, ordinal)}
            labels = (owner.spec.get("selector") or {}).get("matchLabels") or {}
            metadata["labels"] = {**(template["metadata"].get("labels") or {}), **labels}
            if template["metadata"].get("annotations"):
                metadata["annotations"] = template["metadata"]["annotations"]
            if retention.get("whenDeleted") == "Delete":
                metadata["ownerReferences"] = [owner_reference(STATEFUL_SETS, owner.metadata)]
            body = {"metadata": metadata, "spec": template.get("spec") or {}}
            # it outlived an earlier pod of this ordinal
            with suppress(AlreadyExists):
                await self._kit.create(PERSISTENT_VOLUME_CLAIMS, body, owner.metadata.namespace)
                place = f"Pod {owner.metadata.name}-{ordinal} in StatefulSet {owner.metadata.name}"
                text = f"create Claim {metadata['name']} {place} success"
                self._kit.events.record(
                    STATEFUL_SETS, owner.metadata, "SuccessfulCreate", text, COMPONENT
                )

    async def _write_status(self, owner: Object, pods: dict[int, Object], update: str) -> None:
        live = [pod for pod in pods.values() if not is_finished(pod)]
        now, min_ready = self._kit.clock(), owner.spec.get("minReadySeconds", 0)
        updated = [pod for pod in live if pod.metadata.labels.get(REVISION_LABEL) == update]
        replicas = owner.spec.get("replicas", 1)
        done = len(updated) == replicas and all(map(is_ready, updated))
        current = update if done else owner.status.get("currentRevision") or update
        status: Json = {
            "observedGeneration": owner.metadata.generation,
            "replicas": len(live),
            "readyReplicas": sum(map(is_ready, live)),
            "availableReplicas": sum(is_available(pod, min_ready, now) for pod in live),
            "currentReplicas": sum(
                pod.metadata.labels.get(REVISION_LABEL) == current for pod in live
            ),
            "updatedReplicas": len(updated),
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": owner.status.get("collisionCount", 0),
        }
        await self._kit.set_status(STATEFUL_SETS, owner, status)


def _keeps_current(owner: Object, ordinal: int) -> bool:
    """Say whether a pod made again in the middle of an update gets the old template."""
    strategy: Json = owner.spec.get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return False
    first: int = (owner.spec.get("ordinals") or {}).get("start", 0)
    partition: int = (strategy.get("rollingUpdate") or {}).get("partition") or 0
    return ordinal < first + partition


def _ordinal(owner: Object, pod: Object) -> int | None:
    prefix, _, number = pod.metadata.name.rpartition("-")
    if prefix != owner.metadata.name or not number.isdigit():
        return None
    return int(number)


def _claim_name(owner: Object, template: Json, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{owner.metadata.name}-{ordinal}"

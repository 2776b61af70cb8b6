"""Keeps as many pods as a ReplicaSet, or a ReplicationController, asks for."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from bayplan.api.labels import Selector, from_map
from bayplan.client import ApiError, ClientError, NotFound, Resource
from bayplan.client.resources import REPLICA_SETS, REPLICATION_CONTROLLERS
from bayplan.controllers.objects import (
    Json,
    Object,
    is_active,
    is_ready,
    selector_of,
    with_condition,
)
from bayplan.controllers.pods import BURST, PodControl, is_available, pod_from, victims
from bayplan.controllers.runtime import Kit, OneWorker, Worker, together


class ReplicaSetController(OneWorker):
    """Creates and deletes pods until the number is right, then writes the status."""

    resource: Resource = REPLICA_SETS
    name = "replicaset"

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._worker = Worker(kit, self.name, self._sync)
        self._control = PodControl(kit, self.resource, self._worker.queue)
        self._worker.use(self._control.caches)

    def _selector(self, owner: Object) -> Selector:
        return selector_of(owner.spec.get("selector"))

    async def _sync(self, key: str) -> float | None:
        owner = self._control.owners.get(key)
        if owner is None:
            return None
        pods = await self._control.claim(owner, self._selector(owner))
        active = [pod for pod in pods if is_active(pod)]
        problem: ClientError | None = None
        if not owner.deleted:
            try:
                await self._scale(owner, active)
            except ClientError as error:
                problem = error
        await self._write_status(owner, active, problem)
        if problem is not None:
            raise problem
        return self._look_again(owner, active)

    async def _scale(self, owner: Object, active: list[Object]) -> None:
        missing = owner.spec.get("replicas", 1) - len(active)
        template: Json = owner.spec.get("template") or {}
        body = pod_from(template, self.resource, owner.metadata)
        create = partial(self._control.create, body, owner)
        await together([create] * min(missing, BURST))
        if missing < 0:
            gone = victims(active, min(-missing, BURST))
            await together([partial(self._control.delete, pod, owner) for pod in gone])

    async def _write_status(
        self, owner: Object, active: list[Object], problem: ClientError | None
    ) -> None:
        labels: Json = ((owner.spec.get("template") or {}).get("metadata") or {}).get("labels", {})
        now, min_ready = self._kit.clock(), owner.spec.get("minReadySeconds", 0)
        status: Json = {
            "replicas": len(active),
            "fullyLabeledReplicas": sum(
                all(pod.metadata.labels.get(k) == v for k, v in labels.items()) for pod in active
            ),
            "readyReplicas": sum(is_ready(pod) for pod in active),
            "availableReplicas": sum(is_available(pod, min_ready, now) for pod in active),
            "observedGeneration": owner.metadata.generation,
        }
        conditions = owner.status.get("conditions") or []
        failing = any(item.get("type") == "ReplicaFailure" for item in conditions)
        if isinstance(problem, ApiError):
            # Messages name pods that were never made: writing each would wake the controller again.
            if not failing:
                status["conditions"] = with_condition(
                    owner.status,
                    "ReplicaFailure",
                    "True",
                    "FailedCreate",
                    problem.message,
                    self._kit.now(),
                )
        elif failing:
            status["conditions"] = [c for c in conditions if c.get("type") != "ReplicaFailure"]
        with suppress(NotFound):
            await self._kit.set_status(self.resource, owner, status)

    def _look_again(self, owner: Object, active: list[Object]) -> float | None:
        min_ready = owner.spec.get("minReadySeconds", 0)
        now = self._kit.clock()
        waiting = any(is_ready(p) and not is_available(p, min_ready, now) for p in active)
        missing = abs(owner.spec.get("replicas", 1) - len(active))
        if missing > BURST and not owner.deleted:
            return 0.0
        return float(min_ready) if waiting else None


class ReplicationControllerController(ReplicaSetController):
    """The same for the older kind, whose selector is a plain map."""

    resource = REPLICATION_CONTROLLERS
    name = "replicationcontroller"

    def _selector(self, owner: Object) -> Selector:
        return from_map(owner.spec.get("selector"))

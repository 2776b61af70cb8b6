"""Writes how many pods each PodDisruptionBudget allows to be evicted.

The number of pods to expect is that of their controllers when the budget speaks of shares or of
`maxUnavailable`, and the number of pods that exist otherwise, as upstream counts.
"""

from __future__ import annotations

from bayplan.client import Change
from bayplan.client.resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from bayplan.controllers.deployment import scaled
from bayplan.controllers.objects import (
    Json,
    Object,
    is_active,
    is_ready,
    seconds_of,
    selector_of,
    with_condition,
)
from bayplan.controllers.runtime import Kit, OneWorker, Worker, namespace_index

# How long an eviction that was allowed may take before the pod counts again.
EVICTION_SECONDS = 120.0


class DisruptionController(OneWorker):
    """Keeps the status of budgets true."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._budgets = kit.cache(POD_DISRUPTION_BUDGETS)
        self._pods = kit.cache(PODS)
        self._owners = {
            resource.kind: kit.cache(resource)
            for resource in (REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS, DEPLOYMENTS)
        }
        self._pods.add_index("namespace", namespace_index)
        self._budgets.add_index("namespace", namespace_index)
        caches = (self._budgets, self._pods, *self._owners.values())
        self._worker = Worker(kit, "disruption", self._sync, caches)
        self._budgets.listen(lambda change: self._worker.queue.add(change.new.key))
        self._pods.listen(self._pod_changed)
        for cache in self._owners.values():
            cache.listen(self._owner_changed)

    def _pod_changed(self, change: Change[Object]) -> None:
        pod = change.new
        for budget in self._budgets.by("namespace", pod.metadata.namespace):
            if selector_of(budget.spec.get("selector")).matches(pod.metadata.labels):
                self._worker.queue.add_soon(budget.key)

    def _owner_changed(self, change: Change[Object]) -> None:
        old = change.old
        if old is not None and old.spec.get("replicas") == change.new.spec.get("replicas"):
            return
        for budget in self._budgets.by("namespace", change.new.metadata.namespace):
            self._worker.queue.add_soon(budget.key)

    async def _sync(self, key: str) -> float | None:
        budget = self._budgets.get(key)
        if budget is None:
            return None
        selector = selector_of(budget.spec.get("selector"))
        namespace = budget.metadata.namespace
        pods = [
            pod
            for pod in self._pods.by("namespace", namespace)
            if selector.matches(pod.metadata.labels) and is_active(pod)
        ]
        disrupted = self._disrupted(budget)
        healthy = sum(is_ready(pod) and pod.metadata.name not in disrupted for pod in pods)
        expected, desired = self._wanted(budget, pods)
        allowed = max(healthy - desired, 0) if expected > 0 else 0
        await self._write(budget, expected, desired, healthy, allowed, disrupted)
        return EVICTION_SECONDS if disrupted else None

    def _disrupted(self, budget: Object) -> Json:
        """Return the evictions under way: the pod is there still and its time is not over."""
        found: Json = {}
        for name, moment in (budget.status.get("disruptedPods") or {}).items():
            pod = self._pods.get(f"{budget.metadata.namespace}/{name}")
            recent = seconds_of(moment) + EVICTION_SECONDS > self._kit.clock()
            if pod is not None and not pod.deleted and recent:
                found[name] = moment
        return found

    def _wanted(self, budget: Object, pods: list[Object]) -> tuple[int, int]:
        """Return how many pods there should be, and how many must stay healthy."""
        spec = budget.spec
        unavailable, available = spec.get("maxUnavailable"), spec.get("minAvailable")
        if unavailable is not None:
            expected = self._expected(pods)
            return expected, max(expected - scaled(unavailable, expected, up=True), 0)
        if isinstance(available, str):
            expected = self._expected(pods)
            return expected, scaled(available, expected, up=True)
        return len(pods), available or 0

    def _expected(self, pods: list[Object]) -> int:
        """Add up the sizes of the controllers; a pod without one counts as itself."""
        sizes: dict[str, int] = {}
        alone = 0
        for pod in pods:
            owner = pod.metadata.controller
            cache = self._owners.get(owner.kind) if owner is not None else None
            if owner is None or cache is None:
                alone += 1
                continue
            found = cache.get(f"{pod.metadata.namespace}/{owner.name}")
            if found is None or found.metadata.uid != owner.uid:
                alone += 1
                continue
            found = self._top(found)
            sizes[found.metadata.uid] = found.spec.get("replicas", 1)
        return alone + sum(sizes.values())

    def _top(self, replica_set: Object) -> Object:
        owner = replica_set.metadata.controller
        if owner is None or owner.kind != "Deployment":
            return replica_set
        deployments = self._owners["Deployment"]
        found = deployments.get(f"{replica_set.metadata.namespace}/{owner.name}")
        return found if found is not None else replica_set

    async def _write(
        self,
        budget: Object,
        expected: int,
        desired: int,
        healthy: int,
        allowed: int,
        disrupted: Json,
    ) -> None:
        value = "True" if allowed > 0 else "False"
        reason = "SufficientPods" if allowed > 0 else "InsufficientPods"
        conditions = with_condition(
            budget.status, "DisruptionAllowed", value, reason, "", self._kit.now()
        )
        conditions[-1]["observedGeneration"] = budget.metadata.generation
        status: Json = {
            "expectedPods": expected,
            "desiredHealthy": desired,
            "currentHealthy": healthy,
            "disruptionsAllowed": allowed,
            "observedGeneration": budget.metadata.generation,
            "conditions": conditions,
        }
        if disrupted or budget.status.get("disruptedPods"):
            gone = dict.fromkeys(budget.status.get("disruptedPods") or {})
            status["disruptedPods"] = {**gone, **disrupted}
        # The eviction handler writes the same status: never overwrite what it has just done.
        if any((budget.status.get(k) or None) != (v or None) for k, v in status.items()):
            version = budget.metadata.resource_version
            body = {"metadata": {"resourceVersion": version}, "status": status}
            await self._kit.patch(POD_DISRUPTION_BUDGETS, budget.key, body, subresource="status")

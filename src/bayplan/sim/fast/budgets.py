"""Whether a disruption budget lets a pod go: what the eviction subresource asks, for pods that the
API server does not have. The budget itself is the server's."""

from __future__ import annotations

import msgspec

from bayplan.client import ApiError, Client
from bayplan.client.errors import TooManyRequests
from bayplan.client.resources import POD_DISRUPTION_BUDGETS, PODS
from bayplan.controllers.objects import selector_of
from bayplan.sim.fast.cluster import FastCluster, Json

VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."


async def allow_eviction(client: Client, cluster: FastCluster, key: str) -> None:
    """Take one disruption from the pod's budget; raises TooManyRequests if it has none."""
    pod = cluster.get(PODS, key).body
    meta, status = pod["metadata"], pod["status"]
    if status.get("phase") in ("Succeeded", "Failed", "Pending") or meta.get("deletionTimestamp"):
        return
    raw = await client.list(POD_DISRUPTION_BUDGETS, meta["namespace"])
    labels = meta.get("labels") or {}
    budgets: list[Json] = [
        item
        for item in msgspec.json.decode(raw).get("items") or ()
        if item["spec"].get("selector") is not None
        and selector_of(item["spec"]["selector"]).matches(labels)
    ]
    if len(budgets) > 1:
        text = "This pod has more than one PodDisruptionBudget, "
        raise ApiError(500, "", text + "which the eviction subresource does not support.")
    if budgets and not _may_go_unready(pod, budgets[0]):
        await _take_one(client, budgets[0], meta["name"], cluster.stamp())


def _may_go_unready(pod: Json, budget: Json) -> bool:
    conditions = pod["status"].get("conditions") or ()
    if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    return bool(status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0)


async def _take_one(client: Client, budget: Json, pod: str, now: str) -> None:
    meta, status = budget["metadata"], budget.get("status") or {}
    current = status.get("observedGeneration", 0) >= meta.get("generation", 0)
    if not current or status.get("disruptionsAllowed", 0) <= 0:
        raise TooManyRequests(429, "TooManyRequests", VIOLATES, details={}, retry_after=None)
    patch = {
        "status": {
            "disruptionsAllowed": status["disruptionsAllowed"] - 1,
            "disruptedPods": {pod: now},
        }
    }
    await client.patch(
        POD_DISRUPTION_BUDGETS, meta["name"], patch, meta["namespace"], subresource="status"
    )

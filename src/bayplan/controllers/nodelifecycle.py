"""Taints nodes by their state, and evicts pods that do not tolerate it.

A node whose lease, or whose Ready condition's heartbeat, has not moved for `grace-seconds` is
marked Unknown. Ready=False and Unknown, pressure conditions and `spec.unschedulable` become taints
and go again. The pods of a silent node are no longer ready. Pods under a NoExecute taint are
deleted when their tolerations are used up. A node
that has no Ready condition `startup-seconds` after it was made gets Unknown ones. A node made by
hand that says that it is ready, with neither lease nor heartbeat, is left as its conditions say.
Options, by key `nodelifecycle`: grace-seconds 50, startup-seconds 60. Zones are not evicted more
slowly in a disaster.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from bayplan.api.node import Taint
from bayplan.api.pod import Toleration
from bayplan.api.taints import tolerates
from bayplan.client import Change, NotFound
from bayplan.client.resources import LEASES, NODES, PODS
from bayplan.controllers.objects import (
    Json,
    Object,
    condition,
    is_finished,
    is_ready,
    seconds_of,
    with_condition,
)
from bayplan.controllers.runtime import Kit, Worker, node_index

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
PRESSURE = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
OURS = {NOT_READY, UNREACHABLE, UNSCHEDULABLE, *PRESSURE.values()}
COMPONENT = "node-controller"
REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
NEVER = ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
STOPPED = ("NodeStatusUnknown", "Kubelet stopped posting node status.")


class NodeLifecycleController:
    """Watches over nodes and over the pods that must leave them."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        options: Json = kit.options.get("nodelifecycle", {})
        self._grace = float(options.get("grace-seconds", 50.0))
        self._startup = float(options.get("startup-seconds", 60.0))
        self._nodes = kit.cache(NODES)
        self._pods = kit.cache(PODS)
        self._leases = kit.cache(LEASES)
        self._pods.add_index("node", node_index)
        self._since: dict[str, dict[tuple[str, str], float]] = {}
        """When a pod was first seen under a taint that has no time of its own, by its uid."""
        caches = (self._nodes, self._leases)
        self._worker = Worker(kit, "nodelifecycle", self._sync, caches)
        self._evictor = Worker(kit, "nodelifecycle", self._evict, (self._nodes, self._pods))
        self._nodes.listen(self._node_changed)
        self._pods.listen(self._pod_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._worker.run())
            group.create_task(self._evictor.run())

    def _node_changed(self, change: Change[Object]) -> None:
        self._worker.queue.add(change.new.metadata.name)
        if change.old is not None and is_ready(change.old) and not is_ready(change.new):
            text = f"Node {change.new.metadata.name} status is now: NodeNotReady"
            self._kit.events.record(NODES, change.new.metadata, "NodeNotReady", text, COMPONENT)
        if change.old is not None and _evicting(change.old) and not _evicting(change.new):
            for pod in self._pods.by("node", change.new.metadata.name):
                self._since.pop(pod.metadata.uid, None)
        if change.type != "DELETED" and _evicting(change.new):
            for pod in self._pods.by("node", change.new.metadata.name):
                self._evictor.queue.add(pod.key)

    def _pod_changed(self, change: Change[Object]) -> None:
        if change.type == "DELETED":
            self._since.pop(change.new.metadata.uid, None)
        node = self._nodes.get(change.new.spec.get("nodeName", ""))
        if node is not None and change.type != "DELETED" and _evicting(node):
            self._evictor.queue.add(change.new.key)

    async def _sync(self, name: str) -> float | None:
        node = self._nodes.get(name)
        if node is None or node.deleted:
            return None
        left = self._seconds_left(node)
        if left is not None and left <= 0:
            if condition(node.status, "Ready").get("status") != "Unknown":
                await self._mark_unknown(node)
                return None  # its taints follow when the change arrives
            await self._mark_pods(node)
            left = None
        await self._set_taints(node)
        return left

    async def _mark_pods(self, node: Object) -> None:
        """Say of the pods of a node from which nothing is heard that they are not ready."""
        for pod in self._pods.by("node", node.metadata.name):
            if is_ready(pod):
                said = {"type": "Ready", "status": "False", "lastTransitionTime": self._kit.now()}
                body = {"status": {"conditions": [said]}}
                with suppress(NotFound):
                    await self._kit.patch(
                        PODS, pod.key, body, kind="strategic", subresource="status"
                    )
                text = "Node is not ready"
                self._kit.events.record(
                    PODS, pod.metadata, "NodeNotReady", text, COMPONENT, warning=True
                )

    def _seconds_left(self, node: Object) -> float | None:
        """Return how long the node may stay silent; None if it was made ready by hand."""
        lease = self._leases.get(f"kube-node-lease/{node.metadata.name}")
        renewed = seconds_of(lease.spec.get("renewTime")) if lease else 0.0
        ready = condition(node.status, "Ready")
        beat = seconds_of(ready.get("lastHeartbeatTime"))
        if not ready:
            born = seconds_of(node.metadata.creation_timestamp)
            return max(born + self._startup, renewed + self._grace) - self._kit.clock()
        if lease is None and not beat:
            return None
        return max(renewed, beat) + self._grace - self._kit.clock()

    async def _mark_unknown(self, node: Object) -> None:
        conditions = list(node.status.get("conditions") or [])
        for type_ in REPORTED:
            present = condition({"conditions": conditions}, type_)
            reason, text = STOPPED if present else NEVER
            if not present:
                born = node.metadata.creation_timestamp
                conditions.append({"type": type_, "lastHeartbeatTime": born})
            if present.get("status") != "Unknown":
                conditions = with_condition(
                    {"conditions": conditions}, type_, "Unknown", reason, text, self._kit.now()
                )
        body = {"status": {"conditions": conditions}}
        await self._kit.patch(NODES, node.key, body, subresource="status")

    async def _set_taints(self, node: Object) -> None:
        present: list[Json] = node.spec.get("taints") or []
        wanted = _wanted(node)
        now = self._kit.now()
        taints = [t for t in present if t["key"] not in OURS or (t["key"], t["effect"]) in wanted]
        there = {(t["key"], t["effect"]) for t in taints}
        for key, effect in wanted:
            if (key, effect) not in there:
                # A human's cordon has no time; what is evicted by counts from one.
                timed = {} if key == UNSCHEDULABLE else {"timeAdded": now}
                taints.append({"key": key, "effect": effect, **timed})
        if taints != present:
            version = node.metadata.resource_version
            body = {"metadata": {"resourceVersion": version}, "spec": {"taints": taints or None}}
            await self._kit.patch(NODES, node.key, body)

    async def _evict(self, key: str) -> float | None:
        pod = self._pods.get(key)
        if pod is None or pod.deleted or is_finished(pod):
            return None
        node = self._nodes.get(pod.spec.get("nodeName", ""))
        if node is None:
            return None
        left = self._tolerated_for(pod, node)
        if left is None or left > 0:
            return left
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": self._kit.now(),
        }
        text = f"Marking for deletion Pod {key}"
        eviction = "taint-eviction-controller"
        self._kit.events.record(PODS, pod.metadata, "TaintManagerEviction", text, eviction)
        body = {"status": {"conditions": [target]}}
        await self._kit.patch(PODS, key, body, kind="strategic", subresource="status")
        await self._kit.delete(PODS, key, uid=pod.metadata.uid)
        return None

    def _tolerated_for(self, pod: Object, node: Object) -> float | None:
        """Return for how long a pod may stay; None if as long as it likes."""
        tolerations = msgspec.convert(pod.spec.get("tolerations") or [], tuple[Toleration, ...])
        left: float | None = None
        for given in _evicting(node):
            taint = msgspec.convert(given, Taint)
            used = [item for item in tolerations if tolerates(item, taint)]
            if not used:
                return 0.0
            limits = [t.toleration_seconds for t in used if t.toleration_seconds is not None]
            if limits:
                since = seconds_of(given.get("timeAdded")) or self._first_seen(pod, given)
                # One that came when the node had it already has all of its time.
                since = max(since, seconds_of(pod.metadata.creation_timestamp))
                until = since + max(min(limits), 0) - self._kit.clock()
                left = until if left is None else min(left, until)
        return left

    def _first_seen(self, pod: Object, taint: Json) -> float:
        """Return when a pod came under a taint set by hand, which does not say since when."""
        seen = self._since.setdefault(pod.metadata.uid, {})
        return seen.setdefault((taint["key"], taint["effect"]), self._kit.clock())


def _evicting(node: Object) -> list[Json]:
    return [t for t in node.spec.get("taints") or [] if t.get("effect") == "NoExecute"]


def _wanted(node: Object) -> list[tuple[str, str]]:
    """Return the taints of ours that a node should have."""
    found: list[tuple[str, str]] = []
    trouble = {"False": NOT_READY, "Unknown": UNREACHABLE}
    key = trouble.get(condition(node.status, "Ready").get("status", ""))
    if key is not None:
        found += [(key, "NoSchedule"), (key, "NoExecute")]
    for type_, taint in PRESSURE.items():
        if condition(node.status, type_).get("status") == "True":
            found.append((taint, "NoSchedule"))
    if node.spec.get("unschedulable"):
        found.append((UNSCHEDULABLE, "NoSchedule"))
    return found

"""Deletes the pods of nodes that no longer exist, and those that wait on no node to be gone.

The deletion of a pod that is on no node is two writes, a mark and the removal. If the second fails,
no kubelet is there to finish it; this controller is.

A missing node is given `quarantine-seconds` (options, by key `podgc`; 40) and looked up at the
server once more before its pods are failed and removed, so their controllers make new ones. Pods
with `spec.virtualMachine` are on sites, which are no nodes: they go when they are deleted.
"""

from __future__ import annotations

from contextlib import suppress

from bayplan.client import Change, NotFound
from bayplan.client.resources import NODES, PODS
from bayplan.controllers.objects import Json, Object, is_finished
from bayplan.controllers.runtime import Kit, OneWorker, Worker, node_index

UNBOUND_SECONDS = 20.0  # as long as kube-controller-manager takes between two looks


class PodGarbageCollector(OneWorker):
    """Looks at nodes by name: those that pods mention but that are not there."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        options: Json = kit.options.get("podgc", {})
        self._quarantine = float(options.get("quarantine-seconds", 40.0))
        self._pods = kit.cache(PODS)
        self._nodes = kit.cache(NODES)
        self._pods.add_index("node", node_index)
        self._missing: dict[str, float] = {}
        self._worker = Worker(kit, "podgc", self._sync, (self._pods, self._nodes))
        self._pods.listen(self._pod_changed)
        self._nodes.listen(self._node_changed)

    def _pod_changed(self, change: Change[Object]) -> None:
        node = change.new.spec.get("nodeName")
        if not node and change.type != "DELETED" and change.new.metadata.deletion_timestamp:
            self._worker.queue.add(change.new.key)  # has a slash, which no node's name has
        if node and change.type != "DELETED" and self._nodes.get(node) is None:
            self._worker.queue.add(node)

    def _node_changed(self, change: Change[Object]) -> None:
        if change.type == "DELETED":
            self._worker.queue.add(change.new.metadata.name)
        else:
            self._missing.pop(change.new.metadata.name, None)

    async def _sync(self, name: str) -> float | None:
        if "/" in name:
            return await self._sync_unbound(name)
        pods = self._pods.by("node", name)
        if self._nodes.get(name) is not None or not pods:
            self._missing.pop(name, None)
            return None
        now = self._kit.clock()
        wait = self._missing.setdefault(name, now) + self._quarantine - now
        if wait > 0:
            return wait
        with suppress(NotFound):
            await self._kit.client.get(NODES, name)
            return self._quarantine  # the cache is late
        for pod in pods:
            if "virtualMachine" not in pod.spec:
                await self._remove(pod, [self._target()])
            elif pod.metadata.deletion_timestamp:
                await self._remove(pod, [])
        return None

    async def _sync_unbound(self, key: str) -> float | None:
        """Remove a pod on no node that should have been gone for a while."""
        pod = self._pods.get(key)
        if pod is None or not pod.metadata.deletion_timestamp or pod.spec.get("nodeName"):
            self._missing.pop(key, None)
            return None
        now = self._kit.clock()
        wait = self._missing.setdefault(key, now) + UNBOUND_SECONDS - now
        if wait > 0:
            return wait
        await self._remove(pod, [])
        return UNBOUND_SECONDS

    def _target(self) -> Json:
        return {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": self._kit.now(),
        }

    async def _remove(self, pod: Object, conditions: list[Json]) -> None:
        if not is_finished(pod):
            body = {"status": {"phase": "Failed", "conditions": conditions}}
            try:
                await self._kit.patch(PODS, pod.key, body, kind="strategic", subresource="status")
            except NotFound:
                return
        await self._kit.delete(PODS, pod.key, uid=pod.metadata.uid, grace_period=0)

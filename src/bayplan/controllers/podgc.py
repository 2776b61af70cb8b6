"""Deletes the pods of nodes that no longer exist.

A missing node is given `quarantine-seconds` (options, by key `podgc`; 40) and looked up at the
server once more before its pods are failed and removed, so their controllers make new ones.
"""

from __future__ import annotations

from contextlib import suppress

from bayplan.client import Change, NotFound
from bayplan.client.resources import NODES, PODS
from bayplan.controllers.objects import Json, Object, is_finished
from bayplan.controllers.runtime import Kit, Worker, node_index


class PodGarbageCollector:
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

    async def run(self) -> None:
        await self._worker.run()

    def _pod_changed(self, change: Change[Object]) -> None:
        node = change.new.spec.get("nodeName")
        if node and change.type != "DELETED" and self._nodes.get(node) is None:
            self._worker.queue.add(node)

    def _node_changed(self, change: Change[Object]) -> None:
        if change.type == "DELETED":
            self._worker.queue.add(change.new.metadata.name)
        else:
            self._missing.pop(change.new.metadata.name, None)

    async def _sync(self, name: str) -> float | None:
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
            await self._remove(pod)
        return None

    async def _remove(self, pod: Object) -> None:
        if not is_finished(pod):
            target = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists",
                "lastTransitionTime": self._kit.now(),
            }
            body = {"status": {"phase": "Failed", "conditions": [target]}}
            try:
                await self._kit.patch(PODS, pod.key, body, kind="strategic", subresource="status")
            except NotFound:
                return
        await self._kit.delete(PODS, pod.key, uid=pod.metadata.uid, grace=0)

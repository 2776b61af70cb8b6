"""Keeps one pod of a DaemonSet on every node that it fits.

A pod is tied to its node by a required node affinity on the node's name and placed by the
scheduler, as upstream does. Taints that the cluster puts on nodes in trouble are tolerated. A node
that stops matching, or gets a NoExecute taint the pods do not tolerate, loses its pod. A rolling
update deletes at most `maxUnavailable` working pods at a time. `maxSurge` is not used.
"""

from __future__ import annotations

from functools import partial

import msgspec

from bayplan.api.meta import NodeSelector
from bayplan.api.node import Taint
from bayplan.api.node_selectors import compile_node_selector
from bayplan.api.pod import Toleration
from bayplan.api.taints import first_untolerated
from bayplan.client import Change
from bayplan.client.resources import DAEMON_SETS, NODES
from bayplan.controllers.deployment import scaled
from bayplan.controllers.objects import (
    Json,
    Object,
    is_finished,
    is_ready,
    selector_of,
)
from bayplan.controllers.pods import PodControl, is_available, pod_from
from bayplan.controllers.revisions import HASH_LABEL as REVISION_LABEL
from bayplan.controllers.revisions import Revisions
from bayplan.controllers.runtime import Kit, Worker, together

EVICTING = frozenset(("NoExecute",))
_IN_TROUBLE = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


class DaemonSetController:
    """Makes and deletes pods node by node."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._worker = Worker(kit, "daemonset", self._sync)
        self._control = PodControl(kit, DAEMON_SETS, self._worker.queue)
        self._nodes = kit.cache(NODES)
        self._revisions = Revisions(kit, DAEMON_SETS)
        self._worker.use((*self._control.caches, self._nodes))
        self._nodes.listen(self._node_changed)

    async def run(self) -> None:
        await self._revisions.cache.informer.wait_synced()
        await self._worker.run()

    def _node_changed(self, change: Change[Object]) -> None:
        """Look at all sets, but not for a heartbeat."""
        new, old = change.new, change.old
        if change.type == "MODIFIED" and old is not None:
            same = old.spec == new.spec and old.metadata.labels == new.metadata.labels
            if same:
                return
        for owner in self._control.owners.all():
            self._worker.queue.add_soon(owner.key)

    async def _sync(self, key: str) -> float | None:
        owner = self._control.owners.get(key)
        if owner is None or owner.deleted:
            return None
        pods: dict[str, list[Object]] = {}
        for pod in await self._control.claim(owner, selector_of(owner.spec.get("selector"))):
            pods.setdefault(_node_of(pod), []).append(pod)
        template: Json = owner.spec.get("template") or {}
        kept = await self._revisions.update(owner)
        revision = kept.metadata.labels[REVISION_LABEL]
        wanted, stays = self._fitting(template)
        for node in wanted:
            alive = [pod for pod in pods.get(node, []) if not pod.deleted]
            for pod in alive:
                if is_finished(pod) or pod is not alive[0]:
                    await self._control.delete(pod, owner)
        await together(
            partial(
                self._control.create,
                _pod(owner, template, node, revision),
                owner,
            )
            for node in wanted
            if not pods.get(node)
        )
        for node, there in pods.items():
            if node not in wanted and node not in stays:
                for pod in there:
                    if not pod.deleted:
                        await self._control.delete(pod, owner)
        await self._roll(owner, pods, wanted, revision)
        await self._write_status(owner, pods, wanted, revision)
        labels = (pod.metadata.labels for there in pods.values() for pod in there)
        await self._revisions.trim(owner, {revision, *(x.get(REVISION_LABEL, "") for x in labels)})
        return None

    def _fitting(self, template: Json) -> tuple[list[str], set[str]]:
        """Return the nodes that should have a pod, and those that may keep one."""
        spec: Json = template.get("spec") or {}
        labels: Json = spec.get("nodeSelector") or {}
        affinity: Json = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        terms = compile_node_selector(msgspec.convert(required, NodeSelector)) if required else None
        tolerations = msgspec.convert(
            [*(spec.get("tolerations") or []), *_tolerations(spec)], tuple[Toleration, ...]
        )
        wanted: list[str] = []
        stays: set[str] = set()
        for node in self._nodes.all():
            name, found = node.metadata.name, node.metadata.labels
            if any(found.get(key) != value for key, value in labels.items()):
                continue
            if terms is not None and not terms.matches(found, name):
                continue
            taints = msgspec.convert(node.spec.get("taints") or [], tuple[Taint, ...])
            if first_untolerated(taints, tolerations, EVICTING) is not None:
                continue
            stays.add(name)
            if first_untolerated(taints, tolerations) is None:
                wanted.append(name)
        return wanted, stays

    async def _roll(
        self, owner: Object, pods: dict[str, list[Object]], wanted: list[str], revision: str
    ) -> None:
        strategy: Json = owner.spec.get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        limit = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
        allowed = max(scaled(limit, len(wanted), up=True), 1)
        old: list[Object] = []
        for node in wanted:
            there = [pod for pod in pods.get(node, []) if not pod.deleted]
            if not there or not is_ready(there[0]):
                allowed -= 1
            if there and there[0].metadata.labels.get(REVISION_LABEL) != revision:
                old.append(there[0])
        broken = [pod for pod in old if not is_ready(pod)]
        working = [pod for pod in old if is_ready(pod)]
        for pod in (*broken, *working[: max(allowed, 0)]):
            await self._control.delete(pod, owner)

    async def _write_status(
        self, owner: Object, pods: dict[str, list[Object]], wanted: list[str], revision: str
    ) -> None:
        there = [pods[node][0] for node in wanted if pods.get(node)]
        now, min_ready = self._kit.clock(), owner.spec.get("minReadySeconds", 0)
        available = sum(is_available(pod, min_ready, now) for pod in there)
        updated = sum(pod.metadata.labels.get(REVISION_LABEL) == revision for pod in there)
        misplaced = sum(1 for node in pods if node and node not in wanted)
        status: Json = {
            "observedGeneration": owner.metadata.generation,
            "desiredNumberScheduled": len(wanted),
            "currentNumberScheduled": len(there),
            "numberMisscheduled": misplaced,
            "numberReady": sum(map(is_ready, there)),
            "updatedNumberScheduled": updated,
            "numberAvailable": available,
            "numberUnavailable": len(wanted) - available,
        }
        await self._kit.set_status(DAEMON_SETS, owner, status)


def _node_of(pod: Object) -> str:
    """Return the node that a pod is on or meant for."""
    if pod.spec.get("nodeName"):
        return str(pod.spec["nodeName"])
    affinity: Json = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    required: Json = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or []:
        for field in term.get("matchFields") or []:
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""


def _tolerations(spec: Json) -> list[Json]:
    found = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in _IN_TROUBLE]
    if spec.get("hostNetwork"):
        key = "node.kubernetes.io/network-unavailable"
        found.append({"key": key, "operator": "Exists", "effect": "NoSchedule"})
    return found


def _pod(owner: Object, template: Json, node: str, revision: str) -> Json:
    body = pod_from(template, DAEMON_SETS, owner.metadata)  # shares all that is not replaced here
    body["metadata"]["labels"] = {**body["metadata"]["labels"], REVISION_LABEL: revision}
    spec = body["spec"]
    spec["tolerations"] = [*(spec.get("tolerations") or []), *_tolerations(spec)]
    name = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = spec.get("affinity") or {}
    # The node's name replaces the required terms: they were checked when the node was chosen.
    required = {"nodeSelectorTerms": [{"matchFields": [name]}]}
    nodes = {
        **(affinity.get("nodeAffinity") or {}),
        "requiredDuringSchedulingIgnoredDuringExecution": required,
    }
    spec["affinity"] = {**affinity, "nodeAffinity": nodes}
    return body

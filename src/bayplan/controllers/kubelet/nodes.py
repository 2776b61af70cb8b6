"""The node's side of a simulated kubelet: conditions, addresses, the lease.

A node that was told to fail (`bayplan.dev/failed`, or a ConfigMap for a whole zone) is silent: no
lease, no heartbeat, so that the cluster finds out by itself.

Beside an API server of the same process (`Kit.signs`) leases and heartbeats that are due are
written together once a second; elsewhere by a request each.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from zlib import crc32

from bayplan.apiserver.signs import LEASE_NAMESPACE, SignsOfLife
from bayplan.client import AlreadyExists, NotFound
from bayplan.client.resources import LEASES, NODES
from bayplan.config import DEFAULT_GATES
from bayplan.controllers.kubelet.behaviour import Told
from bayplan.controllers.objects import (
    Json,
    Object,
    condition,
    micro_timestamp,
    seconds_of,
    with_condition,
)
from bayplan.controllers.runtime import Kit

LEASE_DURATION = 40
TICK = 1.0  # seconds between signs of life that are written together
RENEWALS_PER_SECOND = 100
SLOWEST_RENEWAL = 30.0
HEARTBEAT_SECONDS = 300.0  # of the node's status, as a kubelet does without changes
_PRESSURES = (
    ("MemoryPressure", "memory", "KubeletHasSufficientMemory", "KubeletHasInsufficientMemory"),
    ("DiskPressure", "disk", "KubeletHasNoDiskPressure", "KubeletHasDiskPressure"),
    ("PIDPressure", "pid", "KubeletHasSufficientPID", "KubeletHasInsufficientPID"),
)
_SAYS = {
    "KubeletHasSufficientMemory": "has sufficient memory",
    "KubeletHasNoDiskPressure": "has no disk pressure",
    "KubeletHasSufficientPID": "has sufficient PID available",
}


class Nodes:
    """Posts the status of simulated nodes and renews their leases."""

    def __init__(self, kit: Kit, lease: float, told: Callable[[Object], Told]) -> None:
        self._kit = kit
        self._lease = lease
        self._release = str(kit.options.get("release", DEFAULT_GATES.release))
        self._told = told
        self._leases: dict[str, str] = {}  # node name to the uid for which a lease was made
        self._turns: dict[str, None] = {}  # nodes for which `run` speaks, the longest silent first

    async def run(self, find: Callable[[str], Object | None], wake: Callable[[str], None]) -> None:
        """Give signs of life, each time for the nodes whose turn it is, where that is possible.

        `find` returns a node; `wake` has `sync` called for one of which more is to be said.
        """
        share = 0.0
        while self._kit.signs is not None and self._lease:
            await asyncio.sleep(TICK)
            share = min(share + len(self._turns) * TICK / self._period(), len(self._turns))
            due = [*itertools.islice(self._turns, int(share))]
            share -= len(due)
            if due:
                spoke = await self._speak(self._kit.signs, due, find)
                for name in due:
                    if name in self._turns:  # else it was told to be silent meanwhile
                        del self._turns[name]
                        if name in spoke:
                            self._turns[name] = None
                        else:
                            wake(name)

    async def _speak(
        self, signs: SignsOfLife, names: list[str], find: Callable[[str], Object | None]
    ) -> set[str]:
        """Return those for whom all was said that there is to say."""
        now = self._kit.clock()
        quiet = [name for name in names if _stale(find(name), now)]
        beating = await signs.beat(quiet, self._kit.now()) if quiet else set()
        renewed = await signs.renew(names, micro_timestamp(now))
        return renewed - (set(quiet) - beating)

    def _period(self) -> float:
        # Many nodes renew less often, but well within the time after which they count as lost.
        return max(self._lease, min(len(self._leases) / RENEWALS_PER_SECOND, SLOWEST_RENEWAL))

    async def forget(self, name: str, *, gone: bool) -> None:
        """Stop speaking for a node; of one that is gone the lease goes as well."""
        self._turns.pop(name, None)
        if self._leases.pop(name, None) and gone:
            await self._kit.delete(LEASES, f"{LEASE_NAMESPACE}/{name}")

    async def sync(self, node: Object) -> float | None:
        """Say that a node is there; return after how many seconds to say it again."""
        told = self._told(node)
        if told.text("failed") == "true":
            self._turns.pop(node.metadata.name, None)
            return None
        ready = condition(node.status, "Ready")
        wrong = ready.get("status") != "True" or self._pressure_differs(node, told)
        if told.text("ready") == "false":
            wrong = ready.get("status") != "False"
        wrong = wrong or bool(_new_resources(node))
        if not self._lease:  # says once that it is there, and then only if somebody denies it
            if wrong or not node.status.get("addresses"):
                await self._post_status(node, told)
            return None
        # One that was made ready by hand has no heartbeat, so it gets the rest here as well.
        if wrong or _stale(node, self._kit.clock()):
            await self._post_status(node, told)
        name = node.metadata.name
        if name in self._turns and self._leases.get(name) == node.metadata.uid:
            return None
        await self._renew(node)
        if self._kit.signs is None:
            return self._period()
        self._turns[name] = None
        return None

    def _pressure_differs(self, node: Object, told: Told) -> bool:
        pressures = told.text("pressure").split(",")
        return any(
            (condition(node.status, type_).get("status") == "True") != (word in pressures)
            for type_, word, _, _ in _PRESSURES
        )

    async def _post_status(self, node: Object, told: Told) -> None:
        now = self._kit.now()
        conditions = list(node.status.get("conditions") or [])
        ready = told.text("ready") != "false"
        rows = [
            (type_, "True", bad, "is under pressure")
            if word in told.text("pressure").split(",")
            else (type_, "False", good, _SAYS[good])
            for type_, word, good, bad in _PRESSURES
        ]
        if ready:
            text = "simulated kubelet is posting ready status"
            rows.append(("Ready", "True", "KubeletReady", text))
        else:
            rows.append(("Ready", "False", "KubeletNotReady", "the node was told not to be ready"))
        if ready and condition(node.status, "Ready").get("status") in ("False", "Unknown"):
            said = f"Node {node.metadata.name} status is now: NodeReady"
            self._kit.events.record(NODES, node.metadata, "NodeReady", said, "kubelet")
        for type_, value, reason, message in rows:
            status = {"conditions": conditions}
            conditions = with_condition(status, type_, value, reason, message, now)
            if self._lease:
                conditions[-1]["lastHeartbeatTime"] = now
        body: Json = {"conditions": conditions}
        if found := _new_resources(node):
            body["allocatable"] = found
        if not (node.status.get("nodeInfo") or {}).get("kubeletVersion"):
            body["nodeInfo"] = _node_info(node, self._release)
        if not node.status.get("addresses"):
            body["addresses"] = [
                {"type": "InternalIP", "address": host_address(node)},
                {"type": "Hostname", "address": node.metadata.name},
            ]
        await self._kit.patch(NODES, node.key, {"status": body}, subresource="status")

    async def _renew(self, node: Object) -> None:
        """Renew the node's lease, or make it."""
        name, uid = node.metadata.name, node.metadata.uid
        now = micro_timestamp(self._kit.clock())
        if self._leases.get(name) == uid:
            with suppress(NotFound):
                spec = {"spec": {"renewTime": now, "holderIdentity": name}}
                await self._kit.patch(LEASES, f"{LEASE_NAMESPACE}/{name}", spec)
                return
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
        lease: Json = {
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": LEASE_DURATION,
                "renewTime": now,
            },
        }
        try:
            await self._kit.create(LEASES, lease, LEASE_NAMESPACE)
        except AlreadyExists:
            await self._kit.patch(LEASES, f"{LEASE_NAMESPACE}/{name}", lease)
        self._leases[name] = uid


def _stale(node: Object | None, now: float) -> bool:
    """Tell whether a node's heartbeat is so old that a kubelet would post its status again."""
    beat = condition(node.status, "Ready").get("lastHeartbeatTime") if node else None
    return now - seconds_of(beat) >= HEARTBEAT_SECONDS


def _new_resources(node: Object) -> Json:
    """Return the extended resources of the capacity that are not yet offered to pods."""
    offered = node.status.get("allocatable") or {}
    capacity = node.status.get("capacity") or {}
    return {name: value for name, value in capacity.items() if "/" in name and name not in offered}


def host_address(node: Object) -> str:
    for address in node.status.get("addresses") or []:
        if address.get("type") == "InternalIP":
            return str(address.get("address"))
    n = crc32(node.metadata.name.encode()) & 0xFFFF
    return f"192.168.{n >> 8}.{n & 255}"


def _node_info(node: Object, release: str) -> Json:
    labels = node.metadata.labels
    identity = f"simulated-{crc32(node.metadata.name.encode()):08x}"
    return {
        "architecture": labels.get("kubernetes.io/arch", "amd64"),
        "bootID": identity,
        "containerRuntimeVersion": "simulated://1",
        "kernelVersion": "simulated",
        "kubeProxyVersion": "",
        "kubeletVersion": release,
        "machineID": identity,
        "operatingSystem": labels.get("kubernetes.io/os", "linux"),
        "osImage": "simulated",
        "systemUUID": identity,
    }

"""What must hold after every step; each is a small class that sees changes or looks at the world.

`truth` has those of the store itself. Each of them can fail: tests/dst/test_planted.py plants one
bug for each.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from bayplan.api import quantity
from bayplan.apiserver.capacity import requests_of
from bayplan.dst.network import Host
from bayplan.dst.truth import LOST, Broken, Truth
from bayplan.global_scheduler.ledger import COMMITTED, RECORDS, Record
from bayplan.global_scheduler.table import SiteTable
from bayplan.store.protocol import Event

BOUND = "no pod is bound twice"
ROOM = "no node holds more than it has"
STOCK = "stock is never sold twice"
SOMEWHERE = "every pod is somewhere"
LEASE = "a lease is held by one"
ENDS = "every request ends"
UNSEEN = "no part ends unseen"
CONVERGE = "controllers bring about what was asked"
ROGUE = "rogue"  # a scheduler that gives up at once
PODS, NODES = "core/pods/", "core/nodes/"
PATIENCE = 90.0  # seconds that a host may take for a request


class Pods:
    """Follows pods: where each is bound, and what each node holds."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._node_of: dict[str, str] = {}
        self._held: dict[str, dict[str, dict[str, int]]] = {}
        truth.check(self._see)

    def _see(self, event: Event) -> None:
        if event.kv.key.startswith(PODS):
            self._see_pod(event)

    def _see_pod(self, event: Event) -> None:
        pod = json.loads(event.kv.value)
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        before = self._node_of.get(uid, "")
        if before and node != before:
            raise Broken(BOUND, f"{event.kv.key} went from {before} to {node or 'nowhere'}")
        if node:
            self._node_of[uid] = node
            self._weigh(uid, node, pod, event.deleted)

    def _weigh(self, uid: str, node: str, pod: dict[str, Any], gone: bool) -> None:
        held = self._held.setdefault(node, {})
        if gone or _ended(pod):
            held.pop(uid, None)
            return
        if uid in held:
            return
        held[uid] = requests_of(pod)
        found = self._truth.now.get(NODES + node)
        if found is None:
            return
        for name, limit in json.loads(found.value)["status"]["allocatable"].items():
            used = sum(amounts.get(name, 0) for amounts in held.values())
            if used > quantity.milli_value(limit):
                raise Broken(ROOM, f"{node} has {limit} {name}, {used / 1000:g} are taken")

    def unbound(self) -> list[str]:
        """Return the keys of pods that are on no node and should be."""
        return [
            key
            for key, (pod, _) in self._stored().items()
            if pod["metadata"]["uid"] not in self._node_of and pod["spec"]["schedulerName"] != ROGUE
        ]

    def running(self) -> dict[str, str]:
        """Return the versions of all pods that have not ended, by key."""
        return {key: version for key, (pod, version) in self._stored().items() if not _ended(pod)}

    def _stored(self) -> dict[str, tuple[dict[str, Any], str]]:
        self._truth.drain()
        return {
            key.removeprefix(PODS): (json.loads(kv.value), str(kv.mod_revision))
            for key, kv in self._truth.now.items()
            if key.startswith(PODS)
        }


class Stock:
    """Follows the ledger of the global schedulers."""

    def __init__(self, truth: Truth, table: SiteTable) -> None:
        self._truth = truth
        self.given_back: set[str] = set()  # what somebody asked to release
        self._limits = {source: table.free(source) for source in table.sources}
        self._taken: dict[str, dict[str, tuple[int, ...]]] = {}
        truth.check(self._see)

    def _see(self, event: Event) -> None:
        if not event.kv.key.startswith(RECORDS):
            return
        record = msgspec.json.decode(event.kv.value, type=Record)
        for taken in self._taken.values():
            taken.pop(record.id, None)
        if event.deleted:
            if record.state == COMMITTED and record.id not in self.given_back:
                raise Broken(LOST, f"allocation {record.id} was committed, and nobody released it")
            return
        for source, amounts in _charges(record).items():
            self._taken.setdefault(source, {})[record.id] = amounts
            self._check(source)

    def settled(self, identity: str, *, keep: bool) -> None:
        """A client was told that an allocation is kept for good, or given back."""
        self._truth.drain()
        found = self._truth.now.get(RECORDS + identity)
        if found is None:
            if keep and identity not in self.given_back:
                raise Broken(LOST, f"allocation {identity} was committed and is gone")
        elif not keep:
            raise Broken(LOST, f"allocation {identity} was released and is there")
        elif msgspec.json.decode(found.value, type=Record).state != COMMITTED:
            raise Broken(LOST, f"allocation {identity} was committed and is only reserved")

    def _check(self, source: str) -> None:
        totals = [sum(column) for column in zip(*self._taken[source].values(), strict=True)]
        for total, limit in zip(totals, self._limits.get(source, ()), strict=False):
            if total > limit:
                raise Broken(STOCK, f"{source} has {limit}, {total} are promised")


def _charges(record: Record) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for group in record.groups:
        for source, amounts in group.charges.takes.items():
            old = found.get(source, (0,) * len(amounts))
            found[source] = tuple(a + b for a, b in zip(old, amounts, strict=True))
    return found


def check_leaders(leaders: Iterable[str]) -> None:
    """At most one scheduler believes that it leads."""
    found = list(leaders)
    if len(found) > 1:
        raise Broken(LEASE, f"{' and '.join(found)} lead at once")


def check_requests(host: Host, now: float) -> None:
    """No request stays at a host for longer than anybody waits."""
    for since, what in host.asked.values():
        if now - since > PATIENCE:
            raise Broken(ENDS, f"{what} has not been answered for {now - since:.0f} s")


def unfinished(truth: Truth) -> list[str]:
    """Say which ReplicaSets do not have their pods, and which objects do not go."""
    objects = {key: json.loads(kv.value) for key, kv in truth.now.items()}
    left = [
        f"{key} should be gone"
        for key, obj in objects.items()
        if isinstance(obj, dict) and (obj.get("metadata") or {}).get("deletionTimestamp")
    ]
    pods: Counter[str] = Counter()
    for key, obj in objects.items():
        if key.startswith(PODS) and not _ended(obj):
            pods.update(owner["uid"] for owner in obj["metadata"].get("ownerReferences") or ())
    for key, obj in objects.items():
        if key.startswith("apps/replicasets/"):
            wanted, there = obj["spec"]["replicas"], pods[obj["metadata"]["uid"]]
            if wanted != there:
                left.append(f"{key} wants {wanted} pods and has {there}")
    return left


def _ended(pod: dict[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")

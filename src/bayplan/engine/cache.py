"""The cluster as the engine knows it: nodes, placed pods (assumed or confirmed), other objects.

A pod is *assumed* when the engine placed it and *confirmed* when the API server says so. An
assumed pod leaves only by being confirmed, by `forget` (its binding failed) or by being deleted.
Keys are uids. There is no separate snapshot: the engine is single-threaded and reads the live
table between changes; what it keeps per row follows the table's journal, so a change costs what
changed, not what exists.
"""

from __future__ import annotations

from collections import Counter

from bayplan.api import Node, Object, Pod
from bayplan.api.requests import Counting, has_own_status
from bayplan.cluster.limits import Limits
from bayplan.config import DEFAULT_GATES, FeatureGates
from bayplan.errors import BayplanError
from bayplan.framework import ClusterObjects, NodeTable, Nominator, PodInfo, PodInfos, WaitingPods


class CacheError(BayplanError):
    """An event contradicts what the cache knows."""


class Cache:
    """Nodes, pods and other objects; feed it events, read its table."""

    def __init__(
        self, limits: Limits | None = None, *, gates: FeatureGates = DEFAULT_GATES
    ) -> None:
        self.limits = limits or Limits()
        """How much is remembered, here and by the engine."""
        self.table = NodeTable(self.limits)
        self.objects = ClusterObjects()
        counting = Counting(
            by_container=not gates.since("1.37"),
            pod_level=gates["PodLevelResources"],
            pod_resize=gates["InPlacePodLevelResourcesVerticalScaling"],
        )
        self.infos = PodInfos(self.limits.signatures, counting)
        self.nominator = Nominator()
        self.waiting = WaitingPods()
        self.revision = 0
        """Grows with every change of a node or a placed pod, even one that no column shows."""
        self._pods: dict[str, PodInfo] = {}
        self._assumed: set[str] = set()

    # -- nodes and other objects --------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        """Add or replace a node."""
        if not node.metadata.name:
            raise CacheError("adding a node: metadata.name is empty")
        self.revision += 1
        self.table.add_node(node)

    def update_node(self, node: Node) -> bool:
        """Replace a node; False if nothing that scheduling reads changed."""
        if self.table.row_of(node.metadata.name) is None:
            self.add_node(node)
            return True
        self.revision += 1
        return self.table.update_node(node)

    def remove_node(self, name: str) -> None:
        """Remove a node; pods that the API server still shows on it wait aside."""
        self.revision += 1
        self.table.remove_node(name)

    def put(self, item: Object) -> None:
        """Add or replace an object of any kind that scheduling reads."""
        if isinstance(item, Node):
            self.update_node(item)
        elif isinstance(item, Pod):
            self.put_pod(item)
        else:
            self.objects.put(item)

    def delete(self, item: Object) -> None:
        """Remove an object of any kind."""
        if isinstance(item, Node):
            self.remove_node(item.metadata.name)
        elif isinstance(item, Pod):
            self.remove_pod(item)
        else:
            self.objects.delete(item)

    # -- pods -----------------------------------------------------------------------------------

    def put_pod(self, pod: Pod) -> None:
        """Add or update a pod as the API server shows it; only placed, unfinished ones count."""
        known = self._pods.get(self._key(pod))
        if pod.finished or not pod.spec.node_name:
            if known is not None and (pod.finished or pod.metadata.uid not in self._assumed):
                self.remove_pod(pod)
        elif known is None:
            self.add_pod(pod)
        else:
            self._replace(known, pod)

    def add_pod(self, pod: Pod) -> None:
        """A placed pod appeared: confirm it if it was assumed."""
        uid = self._key(pod)
        known = self._pods.get(uid)
        if known is not None:
            if uid not in self._assumed:
                raise CacheError(f"adding pod {uid}({pod.key}): it was already added")
            self._replace(known, pod)
            return
        self._insert(self.infos.make(pod))

    def update_pod(self, pod: Pod) -> bool:
        """A placed pod changed; False if a kubelet's report is all that did."""
        uid = self._key(pod)
        known = self._pods.get(uid)
        if known is None or uid in self._assumed:
            raise CacheError(f"updating pod {uid}({pod.key}): it was not added before")
        return self._replace(known, pod)

    def remove_pod(self, pod: Pod) -> None:
        """A placed pod is gone; unknown pods are no error."""
        info = self._pods.pop(self._key(pod), None)
        if info is not None:
            self.revision += 1
            self._assumed.discard(info.uid)
            self.table.remove_pod(info)

    def assume(self, info: PodInfo, node_name: str) -> PodInfo:
        """Place a pod before the API server confirms it; returns what was placed."""
        uid = self._key(info.pod)
        if uid in self._pods:
            raise CacheError(f"pod {uid}({info.pod.key}) is in the cache, so can't be assumed")
        self.revision += 1
        info.node_name = node_name
        self._assumed.add(uid)
        self._pods[uid] = info
        self.table.add_pod(info)
        return info

    def forget(self, pod: Pod) -> None:
        """Take an assumed pod back."""
        uid = self._key(pod)
        info = self._pods.get(uid)
        if info is None:
            return
        if uid not in self._assumed:
            raise CacheError(f"pod {uid}({pod.key}) wasn't assumed so cannot be forgotten")
        self.revision += 1
        self._assumed.discard(uid)
        del self._pods[uid]
        self.table.remove_pod(info)
        info.node_name = info.pod.spec.node_name

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def pod(self, uid: str) -> PodInfo | None:
        """A placed pod."""
        return self._pods.get(uid)

    @property
    def pod_count(self) -> int:
        return len(self._pods)

    @property
    def assumed_count(self) -> int:
        return len(self._assumed)

    def _insert(self, info: PodInfo) -> None:
        self.revision += 1
        self._pods[info.uid] = info
        self.table.add_pod(info)

    def _replace(self, known: PodInfo, pod: Pod) -> bool:
        """Take a newer object of a pod; rows change only if something that counts did.

        Whatever changed, the pod is the last one of its node from then on, as upstream.
        False if a kubelet's report is all that did.
        """
        self.revision += 1
        self._assumed.discard(known.uid)
        if _only_reported(known, pod) and pod.spec.node_name == known.node_name:
            self.table.renew_pod(known, pod)
            return False
        fresh = self.infos.renewed(known, pod)
        there = fresh.node_name == known.node_name and fresh.terminating == known.terminating
        if there and fresh.signature == known.signature:
            self.table.renew_pod(known, pod)
        elif there and fresh.traits is known.traits:
            # API servers label pods with their node's zone when they are bound.
            self.table.relabel_pod(known, fresh)
            self._pods[known.uid] = fresh
        else:
            self.table.remove_pod(known)
            self._insert(fresh)
        return True

    @staticmethod
    def _key(pod: Pod) -> str:
        uid = pod.metadata.uid
        if not uid:
            raise CacheError(f'cannot get cache key for pod "{pod.key}" with empty UID')
        return uid

    # -- invariants -----------------------------------------------------------------------------

    def validate(self) -> None:
        """Check every invariant by counting anew; raises CacheError. For tests and debugging."""
        problems = list(self._problems())
        if problems:
            raise CacheError("cache is inconsistent: " + "; ".join(problems))

    def _problems(self) -> list[str]:
        table = self.table
        problems = [f"assumed pod {uid} is not placed" for uid in self._assumed - set(self._pods)]
        placed = [info.uid for info in table.all_pods()]
        aside = [info.uid for info in table.pods_aside()]
        problems += [f"pod {u} is placed {n} times" for u, n in Counter(placed).items() if n > 1]
        if set(placed) | set(aside) != set(self._pods) or set(placed) & set(aside):
            problems.append("placed and waiting pods differ from known pods")
        fresh = NodeTable()
        for row in table.order.tolist():
            fresh.add_node(table.nodes[row])
        for info in table.all_pods():
            fresh.add_pod(PodInfo(info.pod, info.traits, info.signature, info.node_name))
        return problems + compare_tables(table, fresh)


def _only_reported(known: PodInfo, new: Pod) -> bool:
    """Whether a kubelet's report is all that changed, seen by what two objects of a pod share."""
    before, after = known.pod.metadata, new.metadata
    return (
        new.spec is known.pod.spec
        and after.labels is before.labels
        and after.owner_references is before.owner_references
        and after.deletion_timestamp == before.deletion_timestamp
        and not known.traits.own_status
        and not has_own_status(new)
    )


def compare_tables(table: NodeTable, fresh: NodeTable) -> list[str]:
    """What differs between an incrementally kept table and one built from the same objects."""
    if sorted(table.names()) != sorted(fresh.names()):
        return ["names of rows differ"]
    problems: list[str] = []
    for row, name in enumerate(table.names()):
        other = fresh.row_of(name)
        assert other is not None
        mine, theirs = _describe(table, row), _describe(fresh, other)
        problems += [
            f"{what} of {name} is {mine[what]}, not {theirs[what]}"
            for what in mine
            if mine[what] != theirs[what]
        ]
    return problems + _compare_shared(table, fresh)


def _describe(table: NodeTable, row: int) -> dict[str, object]:
    info = table.info(row)
    return {
        "allocatable": _trim(info.allocatable),
        "requested": _trim(info.requested),
        "allowed_pods": info.allowed_pods,
        "nonzero_cpu": info.nonzero_cpu,
        "nonzero_memory": info.nonzero_memory,
        "used_ports": info.used_ports,
        "pod_count": int(table.pod_count[row]),
        "min_priority": int(table.min_priority[row]),
        "unschedulable": bool(table.unschedulable[row]),
        "taints": table.taints[table.taint_sets[row]],
    }


def _compare_shared(table: NodeTable, fresh: NodeTable) -> list[str]:
    problems: list[str] = []
    if table.claim_users != fresh.claim_users:
        problems.append("users of claims differ")
    if _named_ports(table) != _named_ports(fresh):
        problems.append("ports in use differ")
    images = {n: {table.name_of(r) for r in i.rows} for n, i in table.images.items()}
    others = {n: {fresh.name_of(r) for r in i.rows} for n, i in fresh.images.items()}
    if images != others:
        problems.append("images differ")
    for query, column in table.counts.queries().items():
        mine = {table.name_of(row): count for row, count in column.rows.items()}
        expected = fresh.counts.matching(query)
        theirs = {fresh.name_of(row): count for row, count in expected.rows.items()}
        if mine != theirs:
            problems.append(f"count of {query} differs: {mine} is not {theirs}")
        per_node = {table.name_of(r): int(n) for r, n in enumerate(column.per_node()) if n}
        if per_node != theirs:
            problems.append(f"count per node of {query} differs")
    for kind in ("required", "required-anti", "preferred"):
        a = {(t.term, t.weight): _by_name(table, t.rows) for t in table.counts.owned(kind)}
        b = {(t.term, t.weight): _by_name(fresh, t.rows) for t in fresh.counts.owned(kind)}
        if a != b:
            problems.append(f"{kind} terms differ")
    return problems


def _by_name(table: NodeTable, rows: dict[int, int]) -> dict[str, int]:
    return {table.name_of(row): count for row, count in rows.items()}


def _named_ports(table: NodeTable) -> dict[tuple[str, int], dict[str, dict[str, int]]]:
    return {
        port: {table.name_of(row): used for row, used in rows.items()}
        for port, rows in table.ports_in_use.items()
    }


def _trim(amounts: list[int]) -> list[int]:
    end = len(amounts)
    while end and not amounts[end - 1]:
        end -= 1
    return amounts[:end]

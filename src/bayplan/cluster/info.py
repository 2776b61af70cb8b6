"""What scheduling knows about one pod and about one node, worked out once.

Pods made from one template agree in nearly everything. Their *signature* is a short byte string of
all that scheduling reads of a pod but its name, times, annotations and status; pods that differ in
labels and owners alone share one `PodTraits`. `NodeInfo` is a row of the node table as plain
numbers: what the scalar form of a plugin sees, and what dry runs copy and change. Writing to a
NodeInfo never changes the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from bayplan.api import Node, Pod, PodAffinityTerm, PodSpec, Volume, WeightedPodAffinityTerm
from bayplan.api.labels import NOTHING, Selector, SelectorError, compile_selector
from bayplan.api.requests import (
    AS_DEFAULT,
    Counting,
    PodResources,
    has_own_status,
    pod_resources,
)
from bayplan.cluster.resources import CPU_ID, EPHEMERAL_ID, MEMORY_ID, resource_id

if TYPE_CHECKING:
    from bayplan.cluster.table import NodeTable

Port = tuple[str, str, int]
"""A host port: ip (`0.0.0.0` for any), protocol, number."""

ANY_IP = "0.0.0.0"


class AffinityTerm(msgspec.Struct, frozen=True, gc=False):
    """A compiled pod affinity term; equal terms of different pods compare and hash equal."""

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector

    def matches(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        """Whether a pod with these labels in this namespace is meant."""
        inside = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return inside and self.selector.matches(labels)


Weighted = tuple[int, AffinityTerm]


class PodTraits:
    """What all pods of one signature have in common. Shared: do not change."""

    __slots__ = (
        "affinity",
        "affinity_problem",
        "claims",
        "fit",
        "has_affinity",
        "key",
        "own_status",
        "ports",
        "preferred_affinity",
        "preferred_anti_affinity",
        "priority",
        "required_affinity",
        "required_anti_affinity",
        "resources",
        "used",
    )

    def __init__(self, pod: Pod, counting: Counting = AS_DEFAULT, key: bytes = b"") -> None:
        self.key = key
        """The part of a signature that these traits hang on."""
        self.own_status = has_own_status(pod)
        """Whether what these pods use hangs on their status too."""
        self.resources: PodResources = pod_resources(pod, counting)
        self.fit: tuple[tuple[int, int], ...] = _vector(self.resources.fit)
        """What the pod needs to be placed, as (resource id, amount), in id order."""
        self.used: tuple[tuple[int, int], ...] = _vector(self.resources.used)
        """What the pod takes once placed."""
        self.ports: tuple[Port, ...] = host_ports(pod)
        self.claims: tuple[str, ...] = claim_keys(pod)
        """Keys of the persistent volume claims that the pod names directly."""
        self.priority: int = pod.priority
        self.affinity_problem = ""
        """Why terms could not be compiled; the terms of that list are then missing."""
        self.required_affinity: tuple[AffinityTerm, ...] = ()
        self.required_anti_affinity: tuple[AffinityTerm, ...] = ()
        self.preferred_affinity: tuple[Weighted, ...] = ()
        self.preferred_anti_affinity: tuple[Weighted, ...] = ()
        self.has_affinity = False
        """Whether the pod has a podAffinity or podAntiAffinity stanza."""
        self._compile_affinity(pod)
        self.affinity = (
            self.required_affinity,
            self.required_anti_affinity,
            self.preferred_affinity,
            self.preferred_anti_affinity,
            self.affinity_problem,
        )
        """All terms together, to compare pods by."""

    def _compile_affinity(self, pod: Pod) -> None:
        affinity = pod.spec.affinity
        if affinity is None:
            return
        namespace = pod.metadata.namespace
        if affinity.pod_affinity is not None:
            self.has_affinity = True
            self.required_affinity = self._terms(affinity.pod_affinity.required, namespace)
            self.preferred_affinity = self._weighted(affinity.pod_affinity.preferred, namespace)
        if affinity.pod_anti_affinity is not None:
            self.has_affinity = True
            anti = affinity.pod_anti_affinity
            self.required_anti_affinity = self._terms(anti.required, namespace)
            self.preferred_anti_affinity = self._weighted(anti.preferred, namespace)

    def _terms(self, terms: Iterable[PodAffinityTerm], namespace: str) -> tuple[AffinityTerm, ...]:
        try:
            return tuple(compile_affinity_term(term, namespace) for term in terms)
        except SelectorError as problem:
            self.affinity_problem = self.affinity_problem or str(problem)
            return ()

    def _weighted(
        self, terms: Iterable[WeightedPodAffinityTerm], namespace: str
    ) -> tuple[Weighted, ...]:
        try:
            return tuple(
                (item.weight, compile_affinity_term(item.pod_affinity_term, namespace))
                for item in terms
            )
        except SelectorError as problem:
            self.affinity_problem = self.affinity_problem or str(problem)
            return ()


def compile_affinity_term(term: PodAffinityTerm, namespace: str) -> AffinityTerm:
    """Compile a term of a pod in `namespace`; raises SelectorError."""
    names = frozenset(term.namespaces)
    if not names and term.namespace_selector is None:
        names = frozenset((namespace,))
    ns_selector = term.namespace_selector
    return AffinityTerm(
        term.topology_key,
        compile_selector(term.label_selector),
        names,
        NOTHING if ns_selector is None else compile_selector(ns_selector),
    )


def host_ports(pod: Pod) -> tuple[Port, ...]:
    """The distinct host ports that a pod takes; ordinary init containers' do not count."""
    found: dict[Port, None] = {}
    spec = pod.spec
    sidecars = tuple(c for c in spec.init_containers if c.restartable)
    for container in spec.containers + sidecars:
        for port in container.ports:
            if port.host_port > 0:
                found[(port.host_ip or ANY_IP, port.protocol or "TCP", port.host_port)] = None
    return tuple(found)


def ports_conflict(wanted: Port, used: Port) -> bool:
    """Whether two host ports cannot be had on one node; addresses are compared as text."""
    same = wanted[1] == used[1] and wanted[2] == used[2]
    return same and (wanted[0] == used[0] or ANY_IP in (wanted[0], used[0]))


def claim_keys(pod: Pod) -> tuple[str, ...]:
    """Keys of the claims named by `persistentVolumeClaim` volumes (not of ephemeral ones)."""
    return tuple(
        f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    )


def _vector(requests: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((resource_id(name), amount) for name, amount in requests.items()))


class PodInfo:
    """A pod with its traits, and the node that it was placed on, if any."""

    __slots__ = ("group", "node_name", "owned", "pod", "signature", "traits")

    def __init__(self, pod: Pod, traits: PodTraits, signature: bytes, node_name: str = "") -> None:
        self.pod = pod
        self.traits = traits
        self.signature = signature
        self.node_name = node_name
        self.group: object = None
        """Where the table counts this pod; set while it is on a node."""
        self.owned: tuple[object, ...] = ()
        """Where the table counts this pod's own affinity terms; set while it is on a node."""

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def priority(self) -> int:
        return self.traits.priority

    @property
    def terminating(self) -> bool:
        return self.pod.metadata.deletion_timestamp != ""

    def __repr__(self) -> str:
        return f"PodInfo({self.pod.key}, node={self.node_name!r})"


_ENCODER = msgspec.msgpack.Encoder(order="deterministic")

_SPECS = 256
"""So many specs are known by their identity."""


def _own_key(pod: Pod) -> bytes:
    """The part of a signature in which the pods of one template may differ."""
    return _ENCODER.encode((pod.metadata.labels, pod.metadata.owner_references))


def _spec_key(pod: Pod) -> bytes:
    """The part of a signature that traits hang on."""
    spec = pod.spec
    if spec.node_name:
        spec = msgspec.structs.replace(spec, node_name="")
    if spec.volumes:
        kept = tuple(v for v in spec.volumes if v != Volume(v.name, v.empty_dir))
        spec = msgspec.structs.replace(spec, volumes=kept)
    return _ENCODER.encode((pod.metadata.namespace, spec))


class PodInfos:
    """Makes PodInfo for pods, sharing traits between pods that differ in labels and owners only.

    Keeps at most `limit` signatures and as many traits, forgetting the oldest half when full;
    traits live on as long as a pod uses them.
    """

    def __init__(self, limit: int = 65536, counting: Counting = AS_DEFAULT) -> None:
        self._counting = counting
        self._signatures: dict[bytes, tuple[bytes, PodTraits]] = {}
        self._traits: dict[bytes, PodTraits] = {}
        self._limit = limit
        self._known: dict[str, PodInfo] = {}
        """Pods by uid that were asked for again and again, such as those that wait."""
        self._specs: dict[int, tuple[PodSpec, str, bytes]] = {}
        """By id: specs that pods of one template may share, their namespace and their key."""
        self._last: PodInfo | None = None
        """What was made last: within one attempt plugins ask for the same pod."""

    def known(self, pod: Pod) -> PodInfo:
        """Like `make`, but worked out once for one object; do not place the result."""
        uid = pod.metadata.uid
        info = self._known.get(uid)
        if info is None or info.pod is not pod:
            last = self._last
            if last is not None and last.pod is pod:
                return PodInfo(pod, last.traits, last.signature, pod.spec.node_name)
            info = self.make(pod)
            if len(self._known) >= min(self._limit, 8192):
                self._known.clear()
            self._known[uid] = info
        return info

    def make(self, pod: Pod, node_name: str = "") -> PodInfo:
        """Work out a pod; `node_name` overrides `spec.nodeName` for assumed pods."""
        spec = self._key_of(pod)
        if has_own_status(pod):
            status = pod.status
            own = (status.resources, status.allocated_resources, status.container_statuses)
            spec += _ENCODER.encode((*own, status.init_container_statuses, status.conditions))
        self._last = self._signed(pod, spec, node_name or pod.spec.node_name)
        return self._last

    def renewed(self, known: PodInfo, pod: Pod) -> PodInfo:
        """Like `make` for a newer object of a pod, of which mostly node and labels are new."""
        spec, before, traits = pod.spec, known.pod.spec, known.traits
        if spec is not before and spec.node_name != before.node_name:
            spec = msgspec.structs.replace(spec, node_name=before.node_name)
        same = (spec is before or spec == before) and traits.key
        if not same or traits.own_status or has_own_status(pod):
            return self.make(pod)
        return self._signed(pod, traits.key, pod.spec.node_name)

    def _signed(self, pod: Pod, spec: bytes, node_name: str) -> PodInfo:
        key = spec + _own_key(pod)
        known = self._signatures.get(key)
        if known is None:
            _make_room(self._signatures, self._limit)
            known = self._signatures[key] = (key, self._traits_of(pod, spec))
        # The first key is shared, so that 500,000 equal pods do not hold 500,000 equal strings.
        return PodInfo(pod, known[1], known[0], node_name)

    def _key_of(self, pod: Pod) -> bytes:
        spec, namespace = pod.spec, pod.metadata.namespace
        known = self._specs.get(id(spec))
        if known is None or known[0] is not spec or known[1] != namespace:
            if len(self._specs) >= _SPECS:
                self._specs.clear()
            known = self._specs[id(spec)] = (spec, namespace, _spec_key(pod))
        return known[2]

    def _traits_of(self, pod: Pod, spec: bytes) -> PodTraits:
        traits = self._traits.get(spec)
        if traits is None:
            _make_room(self._traits, self._limit)
            traits = self._traits[spec] = PodTraits(pod, self._counting, spec)
        return traits


def _make_room(kept: dict[bytes, Any], limit: int) -> None:
    """Forget the oldest half if there is no room for one more."""
    if len(kept) >= limit:
        for old in list(kept)[: max(1, limit // 2)]:
            del kept[old]


class NodeInfo:
    """One node: its object, its pods and its sums, as plain Python numbers.

    `requested` and `allocatable` are lists by resource id (`bayplan.cluster.resources`); use
    `free`, `allocatable_of` and `requested_of` for access by name.
    """

    __slots__ = (
        "_ports",
        "allocatable",
        "allowed_pods",
        "node",
        "nonzero_cpu",
        "nonzero_memory",
        "pods",
        "requested",
        "row",
        "table",
    )

    def __init__(
        self,
        table: NodeTable,
        row: int,
        node: Node,
        pods: list[PodInfo],
        sums: tuple[list[int], list[int], int, int, int],
    ) -> None:
        self.table = table
        self.row = row
        """The node's row in the full table."""
        self.node = node
        self.pods = pods
        """Pods in the order that kube-scheduler keeps. Shared with the table unless cloned."""
        self.allocatable, self.requested, self.allowed_pods, cpu, memory = sums
        self.nonzero_cpu: int = cpu
        self.nonzero_memory: int = memory
        self._ports: set[Port] | None = None

    @property
    def name(self) -> str:
        return self.node.metadata.name

    @property
    def labels(self) -> dict[str, str]:
        return self.node.metadata.labels

    @property
    def used_ports(self) -> set[Port]:
        """The host ports in use; as upstream, who leaves frees a port that others hold, too."""
        if self._ports is None:
            self._ports = {port for info in self.pods for port in info.traits.ports}
        return self._ports

    def allocatable_of(self, name: str) -> int:
        return _at(self.allocatable, resource_id(name))

    def requested_of(self, name: str) -> int:
        return _at(self.requested, resource_id(name))

    def free(self, name: str) -> int:
        return self.allocatable_of(name) - self.requested_of(name)

    def clone(self) -> NodeInfo:
        """Copy for a what-if; the copy may be changed with `add_pod` and `remove_pod`."""
        sums = (
            self.allocatable,
            self.requested.copy(),
            self.allowed_pods,
            self.nonzero_cpu,
            self.nonzero_memory,
        )
        copy = NodeInfo(self.table, self.row, self.node, self.pods.copy(), sums)
        copy._ports = None if self._ports is None else self._ports.copy()
        return copy

    def add_pod(self, info: PodInfo) -> None:
        if info.traits.ports:
            self.used_ports.update(info.traits.ports)
        self.pods.append(info)
        self._change(info, 1)

    def remove_pod(self, info: PodInfo) -> None:
        """Take a pod off; as upstream, the last pod of the list moves into the hole."""
        if info.traits.ports:
            self.used_ports.difference_update(info.traits.ports)
        remove_swapping(self.pods, info)
        self._change(info, -1)

    def _change(self, info: PodInfo, sign: int) -> None:
        requested, traits = self.requested, info.traits
        for number, amount in traits.used:
            if number >= len(requested):
                requested.extend([0] * (number + 1 - len(requested)))
            requested[number] += sign * amount
        cpu, memory = traits.resources.nonzero
        self.nonzero_cpu += sign * cpu
        self.nonzero_memory += sign * memory


def remove_swapping(pods: list[PodInfo], info: PodInfo) -> None:
    """Remove by uid; the last element takes the freed place."""
    uid = info.pod.metadata.uid
    for place, other in enumerate(pods):
        if other.pod.metadata.uid == uid:
            last = pods.pop()
            if place < len(pods):
                pods[place] = last
            return
    raise KeyError(uid)


def _at(amounts: list[int], number: int) -> int:
    return amounts[number] if number < len(amounts) else 0


__all__ = [
    "ANY_IP",
    "CPU_ID",
    "EPHEMERAL_ID",
    "MEMORY_ID",
    "AffinityTerm",
    "NodeInfo",
    "PodInfo",
    "PodInfos",
    "PodTraits",
    "Port",
    "Weighted",
    "claim_keys",
    "compile_affinity_term",
    "host_ports",
    "ports_conflict",
    "remove_swapping",
]

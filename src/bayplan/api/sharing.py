"""Lets pods that are alike share what they have in common, so that many of them fit in memory.

Pods of one Deployment differ in name, uid, node and times; specs, labels, owners and conditions are
equal, but decoding makes each anew. `PodSharing` replaces them by the ones seen first. Container
statuses that say nothing about resources are left out: scheduling does not read them, and they are
the largest part of a running pod. What is shared must not be changed, like all structs here.
"""

from __future__ import annotations

from sys import intern
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from bayplan.api.meta import ObjectMeta
from bayplan.api.pod import ContainerStatus, Pod, PodSpec, PodStatus

_ENCODER = msgspec.msgpack.Encoder()
K = TypeVar("K")
V = TypeVar("V")


class PodSharing:
    """Remembers what was seen; call it with each pod that is to be kept.

    Each memory is emptied when it holds `limit` entries: pods seen later then share among
    themselves. Costs about ten microseconds a pod.
    """

    def __init__(self, limit: int = 65536) -> None:
        self._limit = limit
        self._specs: dict[bytes, PodSpec] = {}
        self._maps: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        self._values: dict[object, object] = {}

    def __call__(self, pod: Pod) -> Pod:
        return Pod(
            metadata=self._metadata(pod.metadata),
            spec=self._spec(pod.spec),
            status=self._status(pod.status),
        )

    def _metadata(self, meta: ObjectMeta) -> ObjectMeta:
        return replace(
            meta,
            namespace=intern(meta.namespace),
            labels=self._map(meta.labels),
            annotations=self._map(meta.annotations),
            owner_references=self._value(meta.owner_references),
        )

    def _spec(self, spec: PodSpec) -> PodSpec:
        node = spec.node_name
        bare = replace(spec, node_name="") if node else spec
        shared = self._keep(self._specs, _ENCODER.encode(bare), bare)
        return replace(shared, node_name=intern(node)) if node else shared

    def _status(self, status: PodStatus) -> PodStatus:
        return replace(
            status,
            phase=intern(status.phase),
            conditions=self._value(status.conditions),
            container_statuses=_with_resources(status.container_statuses),
            init_container_statuses=_with_resources(status.init_container_statuses),
        )

    def _map(self, found: dict[str, str]) -> dict[str, str]:
        return self._keep(self._maps, tuple(found.items()), found)

    def _value(self, value: V) -> V:
        """Share a value that can be hashed."""
        if len(self._values) >= self._limit:
            self._values.clear()
        return self._values.setdefault(value, value)  # type: ignore[return-value]

    def _keep(self, memory: dict[K, V], key: K, value: V) -> V:
        if len(memory) >= self._limit:
            memory.clear()
        return memory.setdefault(key, value)


def _with_resources(statuses: tuple[ContainerStatus, ...]) -> tuple[ContainerStatus, ...]:
    for status in statuses:
        if status.resources is not None or status.allocated_resources:
            return statuses
    return ()

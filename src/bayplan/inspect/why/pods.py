"""Placed pods by what selectors look at, so that 100,000 pods are matched as a few groups.

Pods of one template have the same namespace and labels; each such group is matched once. Made on
first use and kept with the cluster; trials do not change it.
"""

from __future__ import annotations

from collections import Counter
from weakref import WeakKeyDictionary

from bayplan.api import Namespace, Pod
from bayplan.cluster.info import AffinityTerm
from bayplan.inspect.cluster import Cluster

_KNOWN: WeakKeyDictionary[Cluster, PodIndex] = WeakKeyDictionary()


class PodIndex:
    """Placed pods grouped by namespace and labels."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._groups: dict[tuple[str, int], tuple[Pod, list[Pod]]] = {}
        seen: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[Pod, list[Pod]]] = {}
        for pod in cluster.pods.values():
            if not pod.spec.node_name or pod.finished:
                continue
            # labels are shared between pods of one template, so their identity is a quick key
            quick = (pod.namespace, id(pod.labels))
            group = self._groups.get(quick)
            if group is None:
                slow = (pod.namespace, tuple(sorted(pod.labels.items())))
                group = self._groups[quick] = seen.setdefault(slow, (pod, []))
            group[1].append(pod)
        self._distinct = list(seen.values())

    @classmethod
    def of(cls, cluster: Cluster) -> PodIndex:
        found = _KNOWN.get(cluster)
        if found is None:
            found = _KNOWN[cluster] = cls(cluster)
        return found

    def meant(self, term: AffinityTerm) -> list[Pod]:
        """Placed pods that an affinity term means."""
        return [
            pod
            for first, pods in self._distinct
            if term.matches(first.namespace, first.labels, self._labels_of(first.namespace))
            for pod in pods
        ]

    def label_values(self, key: str, namespace: str) -> Counter[str]:
        """The values of a label on placed pods of a namespace."""
        found: Counter[str] = Counter()
        for first, pods in self._distinct:
            if first.namespace == namespace and key in first.labels:
                found[first.labels[key]] += len(pods)
        return found

    def label_keys(self, namespace: str) -> set[str]:
        return {key for first, _ in self._distinct if first.namespace == namespace
                for key in first.labels}  # fmt: skip

    def _labels_of(self, namespace: str) -> dict[str, str]:
        found = self._cluster.of(Namespace).get(namespace)
        return {} if found is None else found.labels

"""Replaces names consistently, so that a snapshot can be given to others and still says the same.

Names of objects, namespaces, nodes, images, label values and keys become short words with numbers;
the same name becomes the same word everywhere, also inside lists and references. What decisions
hang on beyond equality stays: amounts, times, priorities, effects, operators, ports, numbers, and
the keys and values of Kubernetes' own labels, taints and resources.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from bayplan.api import Object, Pod, convert, plain
from bayplan.inspect.cluster import Cluster, Objects
from bayplan.inspect.objects import Event
from bayplan.inspect.sources.bare import KEPT_ANNOTATIONS

_KEPT_DOMAINS = ("kubernetes.io", "k8s.io")
# fmt: off
_KEPT_FIELDS = frozenset((
    "kind", "apiVersion", "phase", "status", "type", "reason", "operator", "effect",
    "protocol", "hostIP", "restartPolicy", "whenUnsatisfiable", "nodeAffinityPolicy",
    "nodeTaintsPolicy", "preemptionPolicy", "accessModes", "volumeMode", "volumeBindingMode",
    "creationTimestamp", "deletionTimestamp", "startTime", "lastTimestamp", "eventTime",
    "lastObservedTime", "allocationMode", "resourceVersion", "requests", "limits", "capacity",
    "allocatable", "hard", "used", "overhead", "storage", "expression", "declaredFeatures",
    "minAvailable", "maxUnavailable", "maxSurge", "scopes", "scopeName", "finalizers", "cpu",
    "memory", "pods", "podManagementPolicy", "unhealthyPodEvictionPolicy",
))
# fmt: on
_NUMBER = re.compile(r"-?\d+(\.\d+)?([a-zA-Z]{0,2})")
_MESSAGE = ("message", "note")
_KEPT_WORDS = frozenset(("default", "default-scheduler", "yes", "true", "false"))


class _Words:
    """The word of each name."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        if not name or _NUMBER.fullmatch(name) or name in _KEPT_WORDS:
            return name
        if any(domain in name.split("/", 1)[0] for domain in _KEPT_DOMAINS):
            return name
        return self._known.setdefault(name, f"n{len(self._known)}")

    def compose(self, name: str, *parts: str) -> None:
        """A name is made of others, and its word is made of theirs."""
        self._known.setdefault(name, "-".join(map(self.of, parts)))

    def domain(self, key: str) -> str:
        """A label key or resource name; Kubernetes' own stay."""
        prefix, slash, rest = key.rpartition("/")
        if any(prefix.endswith(domain) for domain in _KEPT_DOMAINS):
            return key
        return f"{self.of(prefix)}.example/{self.of(rest)}" if slash else self.of(key)


def scrubbed(cluster: Cluster) -> Cluster:
    """The same cluster with names replaced; events are left out, they quote everything."""
    words = _Words()
    for pod in cluster.pods.values():
        _compose(pod, words)
    objects: Objects = {}
    for kind, items in cluster.objects.items():
        if kind is Event:
            continue
        for item in items.values():
            changed = _object(item, words)
            objects.setdefault(kind, {})[changed.key] = changed
    old = cluster.origin
    origin = replace(old, name="scrubbed", namespace=words.of(old.namespace))
    return Cluster(objects, origin=origin, settings=cluster.settings)


def _compose(pod: Pod, words: _Words) -> None:
    """Names that are made of others stay so: a stateful set's pods and claims, a pod's claims."""
    ref = pod.controller
    if ref is not None and ref.kind == "StatefulSet":
        words.compose(pod.name, ref.name, pod.name.removeprefix(f"{ref.name}-"))
    for volume in pod.spec.volumes:
        claim = volume.persistent_volume_claim
        if volume.ephemeral is not None:
            words.compose(f"{pod.name}-{volume.name}", pod.name, volume.name)
        elif claim is not None and claim.claim_name == f"{volume.name}-{pod.name}":
            words.compose(claim.claim_name, volume.name, pod.name)


def _object(item: Object, words: _Words) -> Object:
    body = _value(plain(item), words, "")
    return convert(type(item), body)


def _value(value: Any, words: _Words, field: str) -> Any:
    if isinstance(value, dict):
        return {
            _key(key, words, field): _value(inner, words, key)
            for key, inner in value.items()
            if key not in _MESSAGE and (field != "annotations" or key in KEPT_ANNOTATIONS)
        }
    if isinstance(value, list):
        return [_value(inner, words, field) for inner in value]
    if not isinstance(value, str) or field in _KEPT_FIELDS:
        return value
    if field in ("key", "topologyKey", "resourceName"):
        return words.domain(value)
    return words.of(value)


def _key(key: str, words: _Words, field: str) -> str:
    """Keys of maps from users are names too; keys of structs are not."""
    if field in ("labels", "matchLabels", "nodeSelector", "selector") and key not in (
        "matchLabels",
        "matchExpressions",
    ):
        return words.domain(key)
    if field in ("requests", "limits", "capacity", "allocatable", "hard", "used"):
        return words.domain(key) if "/" in key else key
    return key

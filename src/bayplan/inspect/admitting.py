"""A pod as the API server would keep it, as far as scheduling reads it.

Fields that are left out get their defaults, limits become requests, limit ranges fill in what is
not asked for, a priority class becomes a number, and every pod tolerates an unreachable node for
five minutes. Webhooks are not asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from bayplan.api import Container, Pod, PodSpec, PriorityClass, Toleration, convert, plain
from bayplan.api.defaults import apply_defaults
from bayplan.api.limit_ranges import fill_in
from bayplan.api.requests import limits_to_requests
from bayplan.errors import DecodeError
from bayplan.inspect.kinds import BY_KIND
from bayplan.inspect.objects import LimitRange

SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SECONDS = 300


def completed(document: dict[str, Any]) -> dict[str, Any]:
    """A manifest of a known kind with the API server's defaults; raises DecodeError."""
    kind = BY_KIND[document["kind"]]
    for struct in kind.structs:
        convert(struct, document)
    resource = kind.resource
    try:
        apply_defaults(resource.group, resource.plural, document)
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        # defaults also touch fields that scheduling does not read, so that nothing checked them
        title = f"{document['kind']} {document['metadata'].get('name', '')!r}"
        raise DecodeError(f"{title} has a field of the wrong type ({problem})") from problem
    return document


def admitted(pod: Pod, classes: Iterable[PriorityClass], ranges: Iterable[LimitRange] = ()) -> Pod:
    """The pod with what admission adds; a class that does not exist means priority 0."""
    spec = replace(
        pod.spec,
        containers=tuple(map(_with_requests, pod.spec.containers)),
        init_containers=tuple(map(_with_requests, pod.spec.init_containers)),
        tolerations=pod.spec.tolerations + _tolerations(pod.spec),
    )
    for item in ranges:
        if item.namespace == pod.namespace:
            body = plain(spec)
            if fill_in(body, plain(item.spec).get("limits", ())):
                spec = msgspec.convert(body, type(spec))
    return replace(pod, spec=_with_priority(spec, list(classes)))


def _with_requests(container: Container) -> Container:
    resources = container.resources
    if not resources.limits:
        return container
    return replace(container, resources=replace(resources, requests=limits_to_requests(resources)))


def _tolerations(spec: PodSpec) -> tuple[Toleration, ...]:
    known = {item.key for item in spec.tolerations if item.effect in ("", "NoExecute")}
    return tuple(
        Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=_SECONDS)
        for key in _TAINTS
        if key not in known and "" not in known
    )


def _with_priority(spec: PodSpec, classes: list[PriorityClass]) -> PodSpec:
    name = spec.priority_class_name
    if name:
        found = next((item for item in classes if item.name == name), None)
    else:
        defaults = [item for item in classes if item.global_default]
        found = min(defaults, key=lambda item: item.value, default=None)
    if spec.priority is None:
        value = SYSTEM.get(name, 0) if found is None else found.value
        spec = replace(spec, priority=value)
    if found is None or spec.preemption_policy:
        return spec
    return replace(spec, preemption_policy=found.preemption_policy)

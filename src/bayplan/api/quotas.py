"""What a pod uses of a ResourceQuota, and which quotas it falls under; on plain data.

The API server's admission and questions about clusters count with the same functions. What is used
already, and what to do about a pod that is too much, is theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayplan.api import quantity
from bayplan.api.defaults.pods import aggregate

_COMPUTE = ("cpu", "memory")
Usage = dict[str, int]
"""Amounts in nanos by the name that a quota bounds them with."""


def pod_usage(pod: dict[str, Any]) -> Usage:
    """Requests and limits of a pod by the names that quotas use."""
    spec = pod.get("spec") or {}
    usage: Usage = {}
    own = spec.get("resources") or {}
    requests = {**aggregate(spec, "requests"), **(own.get("requests") or {})}
    limits = {**aggregate(spec, "limits"), **(own.get("limits") or {})}
    for name, value in requests.items():
        nanos = quantity.nanos(value)
        usage[f"requests.{name}"] = nanos
        if name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-"):
            usage[name] = nanos
    for name, value in limits.items():
        usage[f"limits.{name}"] = quantity.nanos(value)
    return usage


def undeclared(hard: Iterable[str], pod: dict[str, Any]) -> list[str]:
    """A quota on cpu or memory demands that each container says how much it needs."""
    missing: list[str] = []
    for name in sorted(hard):
        part, _, resource = name.rpartition(".")
        if part == "" and name in ("cpu", "memory"):
            part, resource = "requests", name
        if part not in ("requests", "limits") or resource not in ("cpu", "memory"):
            continue
        spec: Any = pod["spec"]
        if ((spec.get("resources") or {}).get(part) or {}).get(resource) is not None:
            continue
        for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
            if resource not in ((container.get("resources") or {}).get(part) or {}):
                missing.append(f"{name} for: {container.get('name', '')}")
                break
    return missing


def in_scope(spec: Any, pod: dict[str, Any]) -> bool:
    """Whether a quota counts a pod."""
    scopes: list[dict[str, Any]] = [
        {"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()
    ]
    scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    return all(_matches(scope, pod) for scope in scopes)


def _is_best_effort(pod: dict[str, Any]) -> bool:
    """As its quality of service: what it asks of cpu and memory, if it is more than none."""
    usage = pod_usage(pod)
    names = [*_COMPUTE, *(f"limits.{name}" for name in _COMPUTE)]
    return not any(usage.get(name) for name in names)


def _matches(scope: dict[str, Any], pod: dict[str, Any]) -> bool:
    name, spec = scope.get("scopeName"), pod.get("spec") or {}
    terminating: bool = spec.get("activeDeadlineSeconds") is not None
    if name in ("Terminating", "NotTerminating"):
        return terminating is (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        return _is_best_effort(pod) is (name == "BestEffort")
    if name == "PriorityClass":
        wanted, values = spec.get("priorityClassName") or "", scope.get("values") or ()
        operator = scope.get("operator")
        if operator == "In":
            return wanted in values
        if operator == "NotIn":
            return wanted not in values
        return bool(wanted) == (operator == "Exists")
    return True

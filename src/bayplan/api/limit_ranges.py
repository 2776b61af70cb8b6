"""What a LimitRange fills into a pod, and what it does not allow; on plain data.

The API server's admission and questions about clusters use the same functions; the texts are those
of upstream's LimitRanger.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayplan.api import quantity
from bayplan.api.defaults.pods import aggregate

Resources = dict[str, str]


def fill_in(spec: dict[str, Any], items: Iterable[dict[str, Any]]) -> list[str]:
    """Write the defaults of a LimitRange's `limits` into the containers; tells what was written."""
    requests: Resources = {}
    limits: Resources = {}
    for item in items:
        if item.get("type") == "Container":
            requests.update(item.get("defaultRequest") or {})
            limits.update(item.get("default") or {})
    notes: list[str] = []
    for kind, word in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(kind) or ():
            resources = container.setdefault("resources", {})
            for part, values in (("requests", requests), ("limits", limits)):
                have = resources.get(part) or {}
                added = sorted(name for name in values if name not in have)
                if added:
                    resources[part] = {**have, **{name: values[name] for name in added}}
                    word_of = "request" if part == "requests" else "limit"
                    listed = ", ".join(added)
                    notes.append(f"{listed} {word_of} for {word} {container.get('name', '')}")
    return notes


def pod_problems(pod: dict[str, Any], item: dict[str, Any]) -> list[str]:
    """What one of the `limits` of a LimitRange does not allow about a pod."""
    spec, kind = pod["spec"], item.get("type")
    problems: list[str] = []
    if kind == "Container":
        for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
            resources = container.get("resources") or {}
            requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
            problems += _problems("Container", item, requests, limits)
    elif kind == "Pod":
        own = spec.get("resources") or {}
        requests = {**aggregate(spec, "requests"), **(own.get("requests") or {})}
        limits = {**aggregate(spec, "limits"), **(own.get("limits") or {})}
        problems += _problems("Pod", item, requests, limits)
    return problems


def _problems(kind: str, item: dict[str, Any], requests: Resources, limits: Resources) -> list[str]:
    problems = min_problems(kind, item, requests, limits)
    for name, bound in (item.get("max") or {}).items():
        text = f"maximum {name} usage per {kind} is {bound}"
        limit, request = limits.get(name), requests.get(name)
        if limit is None:
            problems.append(f"{text}.  No limit is specified")
        elif quantity.compare(limit, bound) > 0:
            problems.append(f"{text}, but limit is {limit}")
        elif request is not None and quantity.compare(request, bound) > 0:
            problems.append(f"{text}, but request is {request}")
    for name, bound in (item.get("maxLimitRequestRatio") or {}).items():
        problems += _ratio_problem(kind, name, bound, requests.get(name), limits.get(name))
    return problems


def min_problems(
    kind: str, item: dict[str, Any], requests: Resources, limits: Resources
) -> list[str]:
    """What is less than the least that is allowed."""
    problems: list[str] = []
    for name, bound in (item.get("min") or {}).items():
        text = f"minimum {name} usage per {kind} is {bound}"
        request, limit = requests.get(name), limits.get(name)
        if request is None:
            problems.append(f"{text}.  No request is specified")
        elif quantity.compare(request, bound) < 0:
            problems.append(f"{text}, but request is {request}")
        elif limit is not None and quantity.compare(limit, bound) < 0:
            problems.append(f"{text}, but limit is {limit}")
    return problems


def _ratio_problem(
    kind: str, name: str, bound: str, request: str | None, limit: str | None
) -> list[str]:
    text = f"{name} max limit to request ratio per {kind} is {bound}, but"
    if request is None or quantity.nanos(request) == 0:
        return [f"{text} no request is specified or request is 0"]
    if limit is None or quantity.nanos(limit) == 0:
        return [f"{text} no limit is specified or limit is 0"]
    ratio = quantity.nanos(limit) / quantity.nanos(request)
    if ratio > quantity.nanos(bound) / quantity.NANO:
        return [f"{text} provided ratio is {ratio:f}"]
    return []

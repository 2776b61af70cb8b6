"""LimitRanger: defaults and bounds of a namespace's LimitRanges."""

from __future__ import annotations

from typing import Any

from bayplan.api import quantity
from bayplan.api.defaults.pods import aggregate
from bayplan.apiserver.admission.types import CREATE, UPDATE, Attributes, Reader, forbidden

_ANNOTATION = "kubernetes.io/limit-ranger"
Resources = dict[str, str]


def apply_limits(attrs: Attributes, reader: Reader) -> None:
    """Write default requests and limits into the containers of a new pod."""
    if attrs.resource != "pods" or attrs.group or attrs.subresource or attrs.operation != CREATE:
        return
    for limit_range in _ranges(attrs, reader):
        requests: Resources = {}
        limits: Resources = {}
        for item in _items(limit_range):
            if item.get("type") == "Container":
                requests.update(item.get("defaultRequest") or {})
                limits.update(item.get("default") or {})
        if requests or limits:
            _merge(attrs.obj, requests, limits)


def _ranges(attrs: Attributes, reader: Reader) -> list[dict[str, Any]]:
    return list(reader.list("", "limitranges", attrs.namespace))


def _items(limit_range: dict[str, Any]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (limit_range.get("spec") or {}).get("limits") or []
    return items


def _merge(pod: dict[str, Any], requests: Resources, limits: Resources) -> None:
    notes: list[str] = []
    spec = pod["spec"]
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
    if notes:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def check_limits(attrs: Attributes, reader: Reader) -> None:
    """Refuse pods and claims outside of the bounds of their namespace."""
    if attrs.group or attrs.subresource:
        return
    is_pod = attrs.resource == "pods" and attrs.operation == CREATE
    is_claim = attrs.resource == "persistentvolumeclaims" and attrs.operation in (CREATE, UPDATE)
    if not is_pod and not is_claim:
        return
    problems: list[str] = []
    for limit_range in _ranges(attrs, reader):
        for item in _items(limit_range):
            if is_pod:
                problems += _pod_problems(attrs.obj, item)
            elif item.get("type") == "PersistentVolumeClaim":
                problems += _claim_problems(attrs.obj, item)
    if problems:
        why = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise forbidden(attrs, why)


def _pod_problems(pod: dict[str, Any], item: dict[str, Any]) -> list[str]:
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


def _claim_problems(claim: dict[str, Any], item: dict[str, Any]) -> list[str]:
    resources = (claim.get("spec") or {}).get("resources") or {}
    requests = resources.get("requests") or {}
    problems: list[str] = []
    for name, bound in (item.get("max") or {}).items():
        value = requests.get(name)
        text = f"maximum {name} usage per PersistentVolumeClaim is {bound}"
        if value is None:
            problems.append(f"{text}.  No request is specified")
        elif quantity.compare(value, bound) > 0:
            problems.append(f"{text}, but request is {value}")
    return problems + _min_problems("PersistentVolumeClaim", item, requests, {})


def _problems(kind: str, item: dict[str, Any], requests: Resources, limits: Resources) -> list[str]:
    problems = _min_problems(kind, item, requests, limits)
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


def _min_problems(
    kind: str, item: dict[str, Any], requests: Resources, limits: Resources
) -> list[str]:
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

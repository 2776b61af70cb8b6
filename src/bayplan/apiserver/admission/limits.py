"""LimitRanger: defaults and bounds of a namespace's LimitRanges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayplan.api import quantity
from bayplan.api.limit_ranges import fill_in, min_problems, pod_problems
from bayplan.apiserver.admission.types import CREATE, UPDATE, Attributes, Reader, forbidden

_ANNOTATION = "kubernetes.io/limit-ranger"


def apply_limits(attrs: Attributes, reader: Reader) -> None:
    """Write default requests and limits into the containers of a new pod."""
    if attrs.resource != "pods" or attrs.group or attrs.subresource or attrs.operation != CREATE:
        return
    for limit_range in _ranges(attrs, reader):
        notes = fill_in(attrs.obj["spec"], _items(limit_range))
        if notes:
            annotations = attrs.obj["metadata"].setdefault("annotations", {})
            annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _ranges(attrs: Attributes, reader: Reader) -> Iterable[dict[str, Any]]:
    return reader.list("", "limitranges", attrs.namespace)


def _items(limit_range: dict[str, Any]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (limit_range.get("spec") or {}).get("limits") or []
    return items


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
                problems += pod_problems(attrs.obj, item)
            elif item.get("type") == "PersistentVolumeClaim":
                problems += _claim_problems(attrs.obj, item)
    if problems:
        why = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise forbidden(attrs, why)


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
    return problems + min_problems("PersistentVolumeClaim", item, requests, {})

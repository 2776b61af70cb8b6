"""The table of HorizontalPodAutoscalers: what is measured beside what is wanted, as upstream."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bayplan.apiserver.tables.text import NONE, age

Object = Mapping[str, Any]
SHOWN = 2  # metrics
UNKNOWN = "<unknown>"
# Where a metric of a type stands in the spec and the status.
_PLACES = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def horizontal_pod_autoscaler(obj: Object, now: datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    target = spec.get("scaleTargetRef") or {}
    least = spec.get("minReplicas")
    return [
        obj["metadata"]["name"],
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics(*_measured(spec, status)),
        "<unset>" if least is None else str(least),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        age(obj, now),
    ]


def _measured(spec: Object, status: Object) -> tuple[list[Object], list[Object]]:
    """Return metrics and what they are now; autoscaling/v1 knows one of cpu."""
    wanted = spec.get("targetCPUUtilizationPercentage")
    if wanted is None:
        return spec.get("metrics") or [], status.get("currentMetrics") or []
    found = status.get("currentCPUUtilizationPercentage")
    current = {} if found is None else {"averageUtilization": found}
    cpu = {"name": "cpu", "target": {"averageUtilization": wanted}}
    now = {"type": "Resource", "resource": {"current": current}}
    return [{"type": "Resource", "resource": cpu}], [now]


def _metrics(specs: list[Object], statuses: list[Object]) -> str:
    if not specs:
        return NONE
    texts = [
        _metric(spec, statuses[number] if number < len(statuses) else {})
        for number, spec in enumerate(specs)
    ]
    shown = ", ".join(texts[:SHOWN])
    return f"{shown} + {len(texts) - SHOWN} more..." if len(texts) > SHOWN else shown


def _metric(spec: Object, status: Object) -> str:
    type_ = spec.get("type", "")
    place = _PLACES.get(type_)
    if place is None:
        return "<unknown type>"
    wanted = (spec.get(place) or {}).get("target") or {}
    current = (status.get(place) or {}).get("current") or {}
    average = wanted.get("averageValue")
    if type_.endswith("Resource"):
        name = spec[place].get("name", "")
        if average is not None:
            return f"{name}: {current.get('averageValue', UNKNOWN)}/{average}"
        now = _percent(current.get("averageUtilization"), UNKNOWN)
        return f"{name}: {now}/{_percent(wanted.get('averageUtilization'), '<auto>')}"
    if average is not None:
        mark = "" if type_ == "Pods" else " (avg)"
        return f"{current.get('averageValue', UNKNOWN)}/{average}{mark}"
    return f"{current.get('value', UNKNOWN)}/{wanted.get('value', UNKNOWN)}"


def _percent(number: int | None, absent: str) -> str:
    return absent if number is None else f"{number}%"

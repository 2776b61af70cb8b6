"""autoscaling/v1: the older form of HorizontalPodAutoscalers, which are stored as v2.

The older form knows only a target for the average use of cpu. Everything else that a v2 autoscaler
says is carried in annotations, so that whoever reads and writes the older form loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

Object = dict[str, Any]
_PREFIX = "autoscaling.alpha.kubernetes.io/"
METRICS, STATUSES = f"{_PREFIX}metrics", f"{_PREFIX}current-metrics"
CONDITIONS, BEHAVIOUR = f"{_PREFIX}conditions", f"{_PREFIX}behavior"
CPU_PERCENT = 80  # the target where none is given
_SOURCES = ("resource", "containerResource", "external", "pods", "object")
_KINDS_OF_TARGET = {"averageUtilization": "Utilization", "averageValue": "AverageValue"}


def to_v1(obj: Object) -> Object:
    """Return a v2 autoscaler in the older form."""
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    notes = {
        METRICS: [_old_metric(m) for m in spec.pop("metrics", None) or () if not _is_cpu(m)],
        STATUSES: [_old_metric(m) for m in status.get("currentMetrics") or ()],
        CONDITIONS: status.pop("conditions", None) or [],
        BEHAVIOUR: _renamed(spec.pop("behavior", None) or {}, str.upper),
    }
    cpu = [m for m in (obj.get("spec") or {}).get("metrics") or () if _is_cpu(m)]
    if cpu:
        spec["targetCPUUtilizationPercentage"] = cpu[0]["resource"]["target"]["averageUtilization"]
    current = [m for m in status.pop("currentMetrics", None) or () if _is_cpu(m, "current")]
    if current:
        used = current[0]["resource"]["current"]["averageUtilization"]
        status["currentCPUUtilizationPercentage"] = used
    metadata = dict(obj["metadata"])
    annotations = _without_notes(metadata)
    annotations |= {k: msgspec.json.encode(v).decode() for k, v in notes.items() if v}
    if annotations:
        metadata["annotations"] = annotations
    out = {**obj, "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec}
    return {**out, "status": status} if "status" in obj else out


def to_v2(obj: Object) -> Object:
    """Return an autoscaler of the older form as v2."""
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    metadata = dict(obj["metadata"])
    notes = {key: _read(metadata, key) for key in (METRICS, STATUSES, CONDITIONS, BEHAVIOUR)}
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = [_new_metric(m, "target") for m in notes[METRICS] or ()]
    if percent is not None or not metrics:
        metrics.append(_cpu("target", CPU_PERCENT if percent is None else percent))
    spec["metrics"] = metrics
    if notes[BEHAVIOUR]:
        spec["behavior"] = _renamed(notes[BEHAVIOUR], str.lower)
    used = status.pop("currentCPUUtilizationPercentage", None)
    if notes[STATUSES]:
        status["currentMetrics"] = [_new_metric(m, "current") for m in notes[STATUSES]]
    elif used is not None:
        status["currentMetrics"] = [_cpu("current", used)]
    if notes[CONDITIONS]:
        status["conditions"] = notes[CONDITIONS]
    annotations = _without_notes(metadata)
    if annotations:
        metadata["annotations"] = annotations
    out = {**obj, "apiVersion": "autoscaling/v2", "metadata": metadata, "spec": spec}
    return {**out, "status": status} if "status" in obj else out


def _without_notes(metadata: Object) -> dict[str, str]:
    given = metadata.pop("annotations", None) or {}
    return {k: v for k, v in given.items() if k not in (METRICS, STATUSES, CONDITIONS, BEHAVIOUR)}


def _read(metadata: Object, key: str) -> Any:
    try:
        return msgspec.json.decode((metadata.get("annotations") or {}).get(key) or "null")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # upstream leaves out what it cannot read


def _is_cpu(metric: Object, part: str = "target") -> bool:
    resource = metric.get("resource") or {}
    used = (resource.get(part) or {}).get("averageUtilization")
    return metric.get("type") == "Resource" and resource.get("name") == "cpu" and used is not None


def _cpu(part: str, percent: int) -> Object:
    value: Object = {"averageUtilization": percent}
    if part == "target":
        value["type"] = "Utilization"
    return {"type": "Resource", "resource": {"name": "cpu", part: value}}


def _source(metric: Object) -> str:
    return next((name for name in _SOURCES if name in metric), _SOURCES[0])


def _old_metric(metric: Object) -> Object:
    """Return a metric with its target or current value spread over fields of its own."""
    source = _source(metric)
    found = dict(metric.get(source) or {})
    part = "target" if "target" in found else "current"
    for name, value in (found.pop(part, None) or {}).items():
        if name != "type":
            found[part + name[0].upper() + name[1:]] = value
    if (named := found.pop("metric", None)) is not None:
        found["metricName"] = named.get("name", "")
        if "selector" in named:
            found["metricSelector" if source == "external" else "selector"] = named["selector"]
    if (described := found.pop("describedObject", None)) is not None:
        found["target"] = described
    return {"type": metric["type"], source: found}


def _new_metric(metric: Object, part: str) -> Object:
    source = _source(metric)
    found: Object = dict(metric.get(source) or {})
    value: Object = {}
    for name in ("averageUtilization", "averageValue", "value"):
        given = found.pop(part + name[0].upper() + name[1:], None)
        if given is not None:
            value[name] = given
    if part == "target":
        kinds = (_KINDS_OF_TARGET[name] for name in _KINDS_OF_TARGET if name in value)
        value["type"] = next(kinds, "Value")
    if "target" in found:
        found["describedObject"] = found.pop("target")
    if "metricName" in found:
        found["metric"] = {"name": found.pop("metricName")}
        selector = found.pop("metricSelector", found.pop("selector", None))
        if selector is not None:
            found["metric"]["selector"] = selector
    return {"type": metric.get("type", ""), source: {**found, part: value}}


def _renamed(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value with the first letters of all names changed: Go's own names are capital."""
    if isinstance(value, dict):
        return {change(k[:1]) + k[1:]: _renamed(v, change) for k, v in value.items()}
    return [_renamed(v, change) for v in value] if isinstance(value, list) else value

"""Probes and lifecycle handlers of containers."""

from __future__ import annotations

from bayplan.api.defaults.json_types import Object
from bayplan.apiserver.validation.causes import (
    Causes,
    forbidden,
    invalid,
    known,
    missing,
    non_negative,
    required,
)
from bayplan.apiserver.validation.formats import check, http_header_name, port_or_name

_COUNTS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)
_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_LIFECYCLE_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")


def validate_probe(field: str, kind: str, probe: Object) -> Causes:
    """Validate a probe; `kind` is `livenessProbe`, `readinessProbe` or `startupProbe`."""
    causes = _validate_handlers(field, probe, _PROBE_HANDLERS, None)
    for name in _COUNTS:
        causes += non_negative(f"{field}.{name}", probe.get(name))
    grace = probe.get("terminationGracePeriodSeconds")
    path = f"{field}.terminationGracePeriodSeconds"
    if grace is not None and grace <= 0:
        causes.append(invalid(path, grace, "must be greater than 0"))
    if kind == "readinessProbe":
        if grace is not None:
            causes.append(invalid(path, grace, "must not be set for readinessProbes"))
    elif probe.get("successThreshold", 1) != 1:
        threshold = probe["successThreshold"]
        causes.append(invalid(f"{field}.successThreshold", threshold, "must be 1"))
    return causes


def validate_lifecycle(field: str, lifecycle: Object, grace: int | None) -> Causes:
    causes: Causes = []
    for moment in ("postStart", "preStop"):
        handler = lifecycle.get(moment)
        if handler is not None:
            path = f"{field}.{moment}"
            causes += _validate_handlers(path, handler, _LIFECYCLE_HANDLERS, grace)
    return causes


def _validate_handlers(
    field: str, holder: Object, kinds: tuple[str, ...], grace: int | None
) -> Causes:
    given = [kind for kind in kinds if holder.get(kind) is not None]
    if not given:
        return [required(field, "must specify a handler type")]
    causes = _validate_action(f"{field}.{given[0]}", given[0], holder[given[0]], grace)
    for kind in given[1:]:
        causes.append(forbidden(f"{field}.{kind}", "may not specify more than 1 handler type"))
    return causes


def _validate_action(field: str, kind: str, action: Object, grace: int | None) -> Causes:
    if kind == "exec":
        return [] if action.get("command") else [required(f"{field}.command")]
    if kind == "httpGet":
        return _validate_http_get(field, action)
    if kind == "sleep":
        seconds = action.get("seconds", 0)
        if grace is None or 0 <= seconds <= grace:
            return []
        text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        return [invalid(field, seconds, text)]
    return port_or_name(f"{field}.port", action.get("port", 0))


def _validate_http_get(field: str, action: Object) -> Causes:
    causes = missing(field, action, "path")
    causes += port_or_name(f"{field}.port", action.get("port", 0))
    causes += known(f"{field}.scheme", action.get("scheme"), ("HTTP", "HTTPS"))
    for header in action.get("httpHeaders") or ():
        causes += check(f"{field}.httpHeaders", header.get("name", ""), http_header_name)
    return causes

"""ConfigMap, Secret, Namespace, Event and Lease."""

from __future__ import annotations

import base64
import json

from bayplan.api.defaults.json_types import Object
from bayplan.api.names import dns1123_subdomain, qualified_name
from bayplan.apiserver.event_views import to_core
from bayplan.apiserver.validation.causes import (
    Causes,
    forbidden,
    immutable,
    invalid,
    non_negative,
    required,
    too_long,
)
from bayplan.apiserver.validation.formats import check, config_key
from bayplan.apiserver.validation.meta import standard_finalizer

_MAX_BYTES = 1024 * 1024
_FROZEN = "field is immutable when `immutable` is set"
_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_DOCKER_TYPES = ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson")
_TOKEN = "kubernetes.io/service-account-token"
_ACCOUNT = "kubernetes.io/service-account.name"


def validate_config_map(obj: Object) -> Causes:
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    causes: Causes = []
    size = 0
    for key, value in data.items():
        causes += check(f"data[{key}]", key, config_key)
        if key in binary:
            text = "duplicate of key present in binaryData"
            causes.append(invalid(f"data[{key}]", key, text))
        size += len(value.encode())
    for key, value in binary.items():
        causes += check(f"binaryData[{key}]", key, config_key)
        size += _decoded_size(value)
    if size > _MAX_BYTES:
        causes.append(too_long("", _MAX_BYTES))
    return causes


def _decoded_size(text: str | None) -> int:
    if not text:
        return 0
    return len(text) * 3 // 4 - text[-2:].count("=")


def validate_config_map_update(obj: Object, old: Object) -> Causes:
    return _validate_frozen(obj, old, ("data", "binaryData"))


def _validate_frozen(obj: Object, old: Object, parts: tuple[str, ...]) -> Causes:
    if not old.get("immutable"):
        return []
    causes: Causes = [] if obj.get("immutable") else [forbidden("immutable", _FROZEN)]
    for part in parts:
        if (obj.get(part) or {}) != (old.get(part) or {}):
            causes.append(forbidden(part, _FROZEN))
    return causes


def validate_secret(obj: Object) -> Causes:
    data, kind = obj.get("data") or {}, obj.get("type", "")
    causes: Causes = []
    for key in data:
        causes += check(f"data[{key}]", key, config_key)
    if sum(map(_decoded_size, data.values())) > _MAX_BYTES:
        causes.append(too_long("data", _MAX_BYTES))
    if kind == _TOKEN:
        if not (obj["metadata"].get("annotations") or {}).get(_ACCOUNT):
            causes.append(required(f"metadata.annotations[{_ACCOUNT}]"))
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            causes += [required("data[username]"), required("data[password]")]
    else:
        causes += [required(f"data[{k}]") for k in _SECRET_KEYS.get(kind, ()) if k not in data]
        if kind in _DOCKER_TYPES and _SECRET_KEYS[kind][0] in data:
            causes += _validate_json(_SECRET_KEYS[kind][0], data)
    return causes


_GO_KINDS = {bool: "bool", str: "string", list: "array", int: "number", float: "number"}


def _validate_json(key: str, data: dict[str, str]) -> Causes:
    text = base64.b64decode(data[key]).decode(errors="replace")
    try:
        content = json.loads(text)
    except ValueError as error:
        at = error.pos if isinstance(error, json.JSONDecodeError) else 0
        problem = "unexpected end of JSON input"
        if at < len(text):
            problem = f"invalid character '{text[at]}' looking for beginning of value"
    else:
        if content is None or isinstance(content, dict):
            return []
        kind = _GO_KINDS[type(content)]
        problem = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
    return [invalid(f"data[{key}]", "<secret contents redacted>", problem)]


def validate_secret_update(obj: Object, old: Object) -> Causes:
    causes = immutable("type", obj.get("type"), old.get("type"))
    return causes + _validate_frozen(obj, old, ("data",))


def validate_namespace(obj: Object) -> Causes:
    causes: Causes = []
    for finalizer in (obj.get("spec") or {}).get("finalizers") or ():
        causes += check("spec.finalizers", finalizer, qualified_name)
        causes += standard_finalizer("spec.finalizers", finalizer)
    return causes


def validate_namespace_status(obj: Object, old: Object) -> Causes:
    phase = (obj.get("status") or {}).get("phase")
    deleted = obj["metadata"].get("deletionTimestamp")
    expected = "Terminating" if deleted else "Active"
    if phase == expected:
        return []
    state = "is not empty" if deleted else "is empty"
    text = f"may only be '{expected}' if `deletionTimestamp` {state}"
    return [invalid("status.Phase", phase, text)]


def validate_namespace_finalize(obj: Object, old: Object) -> Causes:
    causes: Causes = []
    for i, finalizer in enumerate((obj.get("spec") or {}).get("finalizers") or ()):
        path = f"spec.finalizers[{i}]"
        causes += check(path, finalizer, qualified_name) + standard_finalizer(path, finalizer)
    return causes


def validate_core_event(obj: Object) -> Causes:
    """Validate an event of the core group, which may lack what the new group demands."""
    return _validate_event(obj, "reportingComponent")


def validate_event(obj: Object) -> Causes:
    """Validate an event of events.k8s.io; causes name the fields of the core group."""
    obj = to_core(obj)
    causes = _validate_event(obj, "reportingController")
    causes += _validate_series(obj)
    if not obj.get("eventTime"):
        causes.append(required("eventTime"))
    kind = obj.get("type", "")
    if kind not in ("Normal", "Warning"):
        causes.append(invalid("type", "", f"has invalid value: {kind}"))
    for name in ("firstTimestamp", "lastTimestamp", "count"):
        if obj.get(name):
            causes.append(invalid(name, "", "needs to be unset"))
    source = obj.get("source") or {}
    if source.get("component") or source.get("host"):
        causes.append(invalid("source", "", "needs to be unset"))
    return causes


def _validate_series(obj: Object) -> Causes:
    series = obj.get("series")
    causes: Causes = []
    if series is not None:
        if series.get("count", 0) < 2:
            causes.append(invalid("series.count", "", "should be at least 2"))
        if not series.get("lastObservedTime"):
            causes.append(required("series.lastObservedTime"))
    return causes


def _validate_event(obj: Object, controller_field: str) -> Causes:
    causes: Causes = []
    namespace = obj["metadata"].get("namespace", "")
    involved = (obj.get("involvedObject") or {}).get("namespace", "")
    text = "does not match event.namespace"
    if not obj.get("eventTime"):
        mismatch = involved != namespace if involved else namespace not in ("", "default")
    else:
        mismatch = not involved and namespace not in ("default", "kube-system")
    if mismatch:
        causes.append(invalid("involvedObject.namespace", involved, text))
    if obj.get("eventTime"):
        causes += _validate_new_fields(obj, controller_field)
    return causes + check("namespace", namespace, dns1123_subdomain)


def _validate_new_fields(obj: Object, controller_field: str) -> Causes:
    causes: Causes = []
    controller = obj.get("reportingComponent", "")
    if not controller:
        causes.append(required(controller_field))
    causes += check(controller_field, controller, qualified_name)
    for name in ("reportingInstance", "action", "reason"):
        value = obj.get(name, "")
        if not value:
            causes.append(required(name))
        elif len(value) > 128:
            causes.append(invalid(name, "", "can have at most 128 characters"))
    if len(obj.get("message", "")) > 1024:
        causes.append(invalid("message", "", "can have at most 1024 characters"))
    return causes


def validate_event_update(obj: Object, old: Object) -> Causes:
    obj, old = to_core(obj), to_core(old)
    causes = _validate_event(obj, "reportingController")
    if obj.get("series") != old.get("series"):
        causes += _validate_series(obj)
    for name in (
        "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count",
        "reason", "type", "eventTime", "action", "related",
    ):  # fmt: skip
        causes += immutable(name, obj.get(name), old.get(name))
    new, was = obj.get("reportingComponent"), old.get("reportingComponent")
    causes += immutable("reportingController", new, was)
    name = "reportingInstance"
    return causes + immutable(name, obj.get(name), old.get(name))


def validate_lease(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    causes: Causes = []
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        causes.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    return causes + non_negative("spec.leaseTransitions", spec.get("leaseTransitions"))

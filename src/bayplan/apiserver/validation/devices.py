"""The kinds of resource.k8s.io: claims, templates, classes and slices of devices.

CEL expressions are only checked to be there and not too long; whether they compile is decided
where they are evaluated.
"""

from __future__ import annotations

import re

from bayplan.api.defaults.json_types import Object
from bayplan.api.defaults.other_groups import now_text
from bayplan.api.names import dns1123_label, dns1123_subdomain, label_value
from bayplan.apiserver.validation.causes import (
    Causes,
    allowed,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    once,
    one_of,
    repeated,
    required,
    too_long,
    too_many,
)
from bayplan.apiserver.validation.claims import validate_template_meta
from bayplan.apiserver.validation.formats import c_identifier, check, named
from bayplan.apiserver.validation.labels import validate_label_name
from bayplan.apiserver.validation.scheduling import validate_node_selector
from bayplan.apiserver.validation.volumes import csi_driver_name

_MAX_EXPRESSION = 10 * 1024
_MAX_REQUESTS = 32
_MAX_DEVICES = 128
_MAX_IDENTIFIER = 32
_MAX_ATTRIBUTE = 64
_SEMANTIC_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-((0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(\+([0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*))?",
    re.ASCII,
)
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_NODE_CHOICES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_NAME_TEXT = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)


def validate_claim(obj: Object) -> Causes:
    return _validate_devices("spec.devices", (obj.get("spec") or {}).get("devices") or {})


def validate_claim_template(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    causes = validate_template_meta("spec.metadata", spec.get("metadata") or {})
    inner = spec.get("spec") or {}
    return causes + _validate_devices("spec.spec.devices", inner.get("devices") or {})


def _validate_devices(field: str, devices: Object) -> Causes:
    requests = devices.get("requests") or []
    causes: Causes = []
    if len(requests) > _MAX_REQUESTS:
        causes.append(too_many(f"{field}.requests", len(requests), _MAX_REQUESTS))
    names: dict[str, set[str]] = {}
    for i, request in enumerate(requests):
        path, name = f"{field}.requests[{i}]", request.get("name", "")
        causes += _validate_request(path, request)
        if name in names:
            causes.append(duplicate(path, name))
        names[name] = {sub.get("name", "") for sub in request.get("firstAvailable") or ()}
    for i, constraint in enumerate(devices.get("constraints") or ()):
        path = f"{field}.constraints[{i}]"
        causes += _validate_names(f"{path}.requests", constraint.get("requests") or [], names)
        kinds = [k for k in ("matchAttribute", "distinctAttribute") if constraint.get(k)]
        if not kinds:
            text = 'exactly one of "matchAttribute" or "distinctAttribute" is required, '
            causes.append(required(path, f"{text}but multiple fields are set"))
        for kind in kinds:
            causes += _validate_attribute_name(f"{path}.{kind}", constraint[kind])
    for i, config in enumerate(devices.get("config") or ()):
        path = f"{field}.config[{i}]"
        causes += _validate_names(f"{path}.requests", config.get("requests") or [], names)
        causes += _validate_config(path, config)
    return causes


def _validate_names(field: str, used: list[str], names: dict[str, set[str]]) -> Causes:
    causes: Causes = []
    again = repeated(used)
    for i, name in enumerate(used):
        path = f"{field}[{i}]"
        main, slash, sub = name.partition("/")
        for part in (main, sub) if slash else (main,):
            causes += check(path, part, dns1123_label)
        if main not in names or (slash and sub not in names[main]):
            causes.append(invalid(path, name, _NAME_TEXT))
        if i in again:
            causes.append(duplicate(path, name))
    return causes


def _validate_attribute_name(field: str, name: str) -> Causes:
    causes = _validate_qualified(field, name)
    if "/" not in name:
        text = "a fully qualified name must be a domain and a name separated by a slash"
        causes.append(invalid(field, name, text))
    return causes


def _validate_qualified(field: str, name: str) -> Causes:
    """Validate `[domain/]identifier`; more than one slash is let pass, as upstream does."""
    parts = name.split("/")
    causes: Causes = []
    if len(parts) == 2:
        domain = parts[0]
        text = "the domain must not be empty"
        causes += csi_driver_name(field, domain) if domain else [invalid(field, "", text)]
        if not parts[1]:
            causes.append(invalid(field, "", "the name must not be empty"))
    if len(parts) <= 2 and (parts[-1] or len(parts) == 1):
        if len(parts[-1]) > _MAX_IDENTIFIER:
            causes.append(too_long(field, _MAX_IDENTIFIER))
        causes += check(field, parts[-1], c_identifier)
    return causes


def _validate_config(field: str, config: Object) -> Causes:
    opaque = config.get("opaque")
    if opaque is None:
        return [required(f"{field}.opaque")]
    causes = csi_driver_name(f"{field}.opaque.driver", opaque.get("driver", ""))
    if opaque.get("parameters") is None:
        causes.append(required(f"{field}.opaque.parameters"))
    return causes


def _validate_request(field: str, request: Object) -> Causes:
    causes = check(f"{field}.name", request.get("name", ""), dns1123_label)
    exactly, options = request.get("exactly"), request.get("firstAvailable") or []
    text = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is None and not options:
        causes.append(required(field, text))
    elif exactly is not None and options:
        causes.append(invalid(field, None, f"{text}, but multiple fields are set"))
    elif exactly is not None:
        causes += _validate_exact(f"{field}.exactly", exactly)
    else:
        seen: set[str] = set()
        for i, option in enumerate(options):
            path, name = f"{field}.firstAvailable[{i}]", option.get("name", "")
            causes += check(f"{path}.name", name, dns1123_label)
            causes += _validate_exact(path, option)
            causes += once(path, name, seen)
    return causes


def _validate_exact(field: str, request: Object) -> Causes:
    causes: Causes = []
    name = request.get("deviceClassName")
    causes += named(f"{field}.deviceClassName", name, dns1123_subdomain)
    causes += _validate_selectors(f"{field}.selectors", request.get("selectors") or [])
    mode, count = request.get("allocationMode"), request.get("count", 0)
    if mode == "All":
        if count:
            text = "must not be specified when allocationMode is 'All'"
            causes.append(invalid(f"{field}.count", count, text))
    elif mode == "ExactCount":
        if count <= 0:
            causes.append(invalid(f"{field}.count", count, "must be greater than zero"))
    else:
        causes.append(not_supported(f"{field}.allocationMode", mode, ("All", "ExactCount")))
    for i, toleration in enumerate(request.get("tolerations") or ()):
        causes += _validate_toleration(f"{field}.tolerations[{i}]", toleration)
    return causes


def _validate_selectors(field: str, selectors: list[Object]) -> Causes:
    causes: Causes = []
    for i, selector in enumerate(selectors):
        cel = selector.get("cel")
        if cel is None:
            causes.append(required(f"{field}[{i}].cel"))
            continue
        path, text = f"{field}[{i}].cel.expression", cel.get("expression", "")
        if len(text) > _MAX_EXPRESSION:
            causes.append(too_long(path, _MAX_EXPRESSION))
        else:
            causes += _validate_expression(path, text)
    return causes


def _validate_expression(path: str, text: str) -> Causes:
    from bayplan.cel.devices import MAX_COST, compile_selector, selector_cost
    from bayplan.cel.errors import CompileError

    try:
        cost = selector_cost(compile_selector(text))
    except CompileError as problem:
        return [invalid(path, text, str(problem))]
    if cost > MAX_COST:
        return [forbidden(path, "too complex, exceeds cost limit")]
    return []


def _validate_toleration(field: str, toleration: Object) -> Causes:
    causes: Causes = []
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    if key:
        causes += validate_label_name(f"{field}.key", key)
    if operator == "Exists":
        if value:
            text = "must be empty for operator `Exists`"
            causes.append(invalid(f"{field}.value", value, text))
    elif operator == "Equal":
        causes += check(f"{field}.value", value, label_value)
    else:
        causes.append(not_supported(f"{field}.operator", operator, ("Equal", "Exists")))
    causes += allowed(f"{field}.effect", effect or None, _EFFECTS)
    return causes


def validate_class(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    causes = _validate_selectors("spec.selectors", spec.get("selectors") or [])
    for i, config in enumerate(spec.get("config") or ()):
        causes += _validate_config(f"spec.config[{i}]", config)
    return causes


def validate_slice(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    causes = csi_driver_name("spec.driver", spec.get("driver", ""))
    causes += _validate_pool(spec.get("pool") or {})
    if spec.get("nodeName") is not None:
        if not spec["nodeName"]:
            text = "must be either unset or set to a non-empty string"
            causes.append(invalid("spec.nodeName", "", text))
        else:
            causes += check("spec.nodeName", spec["nodeName"], dns1123_subdomain)
    selector = spec.get("nodeSelector")
    if selector is not None:
        causes += validate_node_selector("spec.nodeSelector", selector)
        terms = selector.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            path, text = (
                "spec.nodeSelector.nodeSelectorTerms",
                "must have exactly one node selector term",
            )
            causes.append(invalid(path, terms, text))
    for name in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(name) is False:
            causes.append(invalid(f"spec.{name}", False, "must be either unset or set to true"))
    given = [f"`{name}`" for name in _NODE_CHOICES if spec.get(name)]
    text = f"exactly one of {', '.join(f'`{n}`' for n in _NODE_CHOICES)} is required"
    if not given:
        causes.append(required("spec", text))
    elif len(given) > 1:
        listed = f"{{{', '.join(given)}}}"
        causes.append(invalid("spec", listed, f"{text}, but multiple fields are set"))
    return causes + _validate_slice_devices(spec.get("devices") or [])


def _validate_pool_name(path: str, name: str) -> Causes:
    if not name:
        return [required(path)]
    causes: Causes = [too_long(path, 253)] if len(name) > 253 else []
    for part in name.split("/"):
        causes += check(path, part, dns1123_subdomain)
    return causes


def _validate_pool(pool: Object) -> Causes:
    causes: Causes = []
    causes += _validate_pool_name("spec.pool.name", pool.get("name", ""))
    if pool.get("resourceSliceCount", 0) <= 0:
        path, count = "spec.pool.resourceSliceCount", pool.get("resourceSliceCount", 0)
        causes.append(invalid(path, count, "must be greater than zero"))
    generation = pool.get("generation", 0)
    if generation < 0:
        text = "must be greater than or equal to zero"
        causes.append(invalid("spec.pool.generation", generation, text))
    return causes


def _validate_slice_devices(devices: list[Object]) -> Causes:
    causes: Causes = []
    if len(devices) > _MAX_DEVICES:
        causes.append(too_many("spec.devices", len(devices), _MAX_DEVICES))
    seen: set[str] = set()
    for i, device in enumerate(devices):
        path, name = f"spec.devices[{i}]", device.get("name", "")
        causes += check(f"{path}.name", name, dns1123_label)
        causes += once(path, name, seen)
        causes += _validate_attributes(f"{path}.attributes", device.get("attributes") or {})
        for key in device.get("capacity") or ():
            causes += _validate_qualified(f"{path}.capacity", key)
        for j, taint in enumerate(device.get("taints") or ()):
            causes += _validate_taint(f"{path}.taints[{j}]", taint)
    return causes


def _validate_taint(where: str, taint: Object) -> Causes:
    causes = validate_label_name(f"{where}.key", taint.get("key", ""))
    causes += check(f"{where}.value", taint.get("value", ""), label_value)
    return causes + one_of(f"{where}.effect", taint.get("effect", ""), _EFFECTS)


def validate_taint_rule(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    selector, path = spec.get("deviceSelector") or {}, "spec.deviceSelector"
    causes: Causes = []
    if selector.get("driver") is not None:
        causes += csi_driver_name(f"{path}.driver", selector["driver"])
    if selector.get("pool") is not None:
        causes += _validate_pool_name(f"{path}.pool", selector["pool"])
    if selector.get("device") is not None:
        causes += check(f"{path}.device", selector["device"], dns1123_label)
    return causes + _validate_taint("spec.taint", spec.get("taint") or {})


def prepare_taint_rule_update(obj: Object, old: Object) -> None:
    """A changed effect counts from now on, unless the client says since when."""
    taint, before = (each.get("spec", {}).get("taint") or {} for each in (obj, old))
    if taint.get("effect") != before.get("effect") and taint.get("timeAdded") == before.get(
        "timeAdded"
    ):
        taint["timeAdded"] = now_text()


def _validate_attributes(field: str, attributes: Object) -> Causes:
    causes: Causes = []
    for key, attribute in attributes.items():
        where = f"{field}[{key}]"
        causes += _validate_qualified(field, key)
        given = [value for value in attribute.values() if value is not None]
        if len(given) != 1:
            shown: object = attribute if given else ""
            causes.append(invalid(where, shown, "exactly one value must be specified"))
        for kind in ("string", "version"):
            value = attribute.get(kind)
            if value is not None and len(value.encode()) > _MAX_ATTRIBUTE:
                causes.append(too_long(f"{where}.{kind}", _MAX_ATTRIBUTE))
        version = attribute.get("version")
        if version is not None and not _SEMANTIC_VERSION.fullmatch(version):
            text = "must be a string compatible with semver.org spec 2.0.0"
            causes.append(invalid(f"{where}.version", version, text))
    return causes

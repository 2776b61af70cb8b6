"""Kinds that steer the control plane: autoscalers, certificates, addresses, flow and policies."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from ipaddress import ip_address as parse_ip
from ipaddress import ip_network
from typing import Any

from bayplan.api.defaults.json_types import Object
from bayplan.apiserver.validation.callers import validate_client_config
from bayplan.apiserver.validation.causes import (
    Causes,
    allowed,
    forbidden,
    invalid,
    known,
    missing,
    not_supported,
    required,
    unchanged,
)
from bayplan.apiserver.validation.expressions import (
    validate_conditions,
    validate_policy_expressions,
)
from bayplan.apiserver.validation.strategy import Strategy, keep_metadata

METRIC_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")


def validate_autoscaler(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    least, most = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    causes: Causes = []
    if least < 1:
        causes.append(invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
    if most < 1:
        causes.append(invalid("spec.maxReplicas", most, "must be greater than 0"))
    if most < least:
        detail = "must be greater than or equal to `minReplicas`"
        causes.append(invalid("spec.maxReplicas", most, detail))
    causes += missing("spec.scaleTargetRef", spec.get("scaleTargetRef") or {}, "kind", "name")
    for i, metric in enumerate(spec.get("metrics") or []):
        causes += known(f"spec.metrics[{i}].type", metric.get("type", ""), METRIC_TYPES)
    return causes


def validate_service_cidr(obj: Object) -> Causes:
    cidrs = (obj.get("spec") or {}).get("cidrs") or []
    if not cidrs:
        return [required("spec.cidrs", "at least one CIDR required")]
    causes: Causes = []
    if len(cidrs) > 2:
        causes.append(invalid("spec.cidrs", cidrs, "may only hold up to 2 values"))
    for i, cidr in enumerate(cidrs):
        try:
            ip_network(cidr)
        except ValueError:
            detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            causes.append(invalid(f"spec.cidrs[{i}]", cidr, detail))
    return causes


def ip_name(value: str) -> list[str]:
    """An IPAddress is named by its address, in canonical form."""
    try:
        canonical = str(parse_ip(value)) == value
    except ValueError:
        canonical = False
    return [] if canonical else ["must be a valid IP address in canonical form"]


def validate_ip_address(obj: Object) -> Causes:
    parent = (obj.get("spec") or {}).get("parentRef")
    if not parent:
        return [required("spec.parentRef")]
    return missing("spec.parentRef", parent, "resource", "name")


def validate_flow_schema(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    causes: Causes = []
    precedence = spec.get("matchingPrecedence", 1000)
    if not 1 <= precedence <= 10_000:
        detail = f"must be {'positive' if precedence < 1 else 'no greater than 10000'}"
        causes.append(invalid("spec.matchingPrecedence", precedence, detail))
    if not (spec.get("priorityLevelConfiguration") or {}).get("name"):
        causes.append(
            required("spec.priorityLevelConfiguration.name", "must reference a priority level")
        )
    return causes


def validate_priority_level(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    kind = spec.get("type", "")
    if kind not in ("Exempt", "Limited"):
        return [not_supported("spec.type", kind, ("Exempt", "Limited"))]
    if kind == "Exempt" and spec.get("limited"):
        return [forbidden("spec.limited", "must be nil if the type is not Limited")]
    if kind == "Limited" and not spec.get("limited"):
        return [required("spec.limited", "must not be empty when type is Limited")]
    return []


_EFFECTS = ("None", "NoneOnDryRun")


def validate_webhooks(obj: Object) -> Causes:
    causes: Causes = []
    for i, hook in enumerate(obj.get("webhooks") or []):
        path = f"webhooks[{i}]"
        if len(str(hook.get("name", "")).split(".")) < 3:
            detail = "should be a domain with at least three segments separated by dots"
            causes.append(invalid(f"{path}.name", hook.get("name", ""), detail))
        causes += missing(path, hook, "sideEffects", "admissionReviewVersions")
        effects, seconds = hook.get("sideEffects"), hook.get("timeoutSeconds", 10)
        causes += allowed(f"{path}.sideEffects", effects or None, _EFFECTS)
        if not 1 <= seconds <= 30:
            detail = "the timeout value must be between 1 and 30 seconds"
            causes.append(invalid(f"{path}.timeoutSeconds", seconds, detail))
        config = hook.get("clientConfig") or {}
        causes += validate_client_config(f"{path}.clientConfig", config, authority=False)
        causes += validate_conditions(f"{path}.matchConditions", hook.get("matchConditions") or [])
    return causes


def validate_policy(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    causes = missing("spec", spec, "matchConstraints")
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        detail = "validations or auditAnnotations must be non-empty"
        causes.append(required("spec.validations", detail))
    return causes or validate_policy_expressions(spec, mutating=False)


def validate_mutating_policy(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    causes = missing("spec", spec, "matchConstraints", "mutations")
    return causes or validate_policy_expressions(spec, mutating=True)


def validate_policy_binding(obj: Object) -> Causes:
    return missing("spec", obj.get("spec") or {}, "policyName", "validationActions")


def validate_mutating_binding(obj: Object) -> Causes:
    return missing("spec", obj.get("spec") or {}, "policyName")


def _later(module: str, name: str) -> Callable[..., Any]:
    """A check of a kind that few clusters have: its module is loaded when it is first needed."""

    def check(*given: Object) -> Any:
        found = import_module(f"bayplan.apiserver.validation.{module}")
        return getattr(found, name)(*given)

    return check


_ADMISSION, _FLOW = "admissionregistration.k8s.io", "flowcontrol.apiserver.k8s.io"
_NETWORK = "networking.k8s.io"

STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("autoscaling", "horizontalpodautoscalers"): Strategy(
        validate=validate_autoscaler, new_status={"desiredReplicas": 0, "currentMetrics": None}
    ),
    ("certificates.k8s.io", "certificatesigningrequests"): Strategy(
        namespaced=False,
        validate=_later("certificates", "validate_certificate_request"),
        update=_later("certificates", "request_is_immutable"),
        revalidate=False,
        new_status={},
        prepare_update=_later("certificates", "keep_request"),
        prepare_approval=_later("certificates", "keep_certificate"),
        status=_later("certificates", "validate_signing"),
    ),
    ("certificates.k8s.io", "clustertrustbundles"): Strategy(
        name=None,
        namespaced=False,
        validate=_later("trust", "validate_new_bundle"),
        update=_later("trust", "validate_changed_bundle"),
        revalidate=False,
        unconditional=False,
    ),
    ("certificates.k8s.io", "podcertificaterequests"): Strategy(
        validate=_later("trust", "validate_pod_certificate_request"),
        update=unchanged("spec"),
        revalidate=False,
        new_status={},
        prepare_status=keep_metadata,
        status=_later("trust", "validate_ended"),
        unconditional=False,
    ),
    ("storagemigration.k8s.io", "storageversionmigrations"): Strategy(
        namespaced=False,
        validate=_later("migrations", "validate_migration"),
        update=unchanged("spec"),
        new_status={},
        prepare_status=keep_metadata,
        status=_later("migrations", "validate_progress"),
        unconditional=False,
    ),
    (_NETWORK, "servicecidrs"): Strategy(
        namespaced=False,
        validate=validate_service_cidr,
        update=unchanged("spec.cidrs"),
        new_status={},
    ),
    (_NETWORK, "ipaddresses"): Strategy(
        name=ip_name,
        namespaced=False,
        validate=validate_ip_address,
        update=unchanged("spec.parentRef"),
    ),
    (_FLOW, "flowschemas"): Strategy(
        namespaced=False, validate=validate_flow_schema, new_status={}, generation=True
    ),
    (_FLOW, "prioritylevelconfigurations"): Strategy(
        namespaced=False, validate=validate_priority_level, new_status={}, generation=True
    ),
    (_ADMISSION, "validatingwebhookconfigurations"): Strategy(
        namespaced=False, validate=validate_webhooks, generation=True
    ),
    (_ADMISSION, "mutatingwebhookconfigurations"): Strategy(
        namespaced=False, validate=validate_webhooks, generation=True
    ),
    (_ADMISSION, "validatingadmissionpolicies"): Strategy(
        namespaced=False, validate=validate_policy, new_status={}, generation=True
    ),
    (_ADMISSION, "validatingadmissionpolicybindings"): Strategy(
        namespaced=False, validate=validate_policy_binding, generation=True
    ),
    (_ADMISSION, "mutatingadmissionpolicies"): Strategy(
        namespaced=False, validate=validate_mutating_policy, generation=True
    ),
    (_ADMISSION, "mutatingadmissionpolicybindings"): Strategy(
        namespaced=False, validate=validate_mutating_binding, generation=True
    ),
}

"""Defaults of kinds that steer the control plane: autoscalers, flow, webhooks and policies."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.api.defaults.json_types import Object

_ADMISSION, _FLOW = "admissionregistration.k8s.io", "flowcontrol.apiserver.k8s.io"


def default_autoscaler(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("minReplicas") is None:
        spec["minReplicas"] = 1
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def default_flow_schema(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = 1000


def default_priority_level(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("type") == "Exempt":
        exempt = spec.setdefault("exempt", {})
        exempt.setdefault("nominalConcurrencyShares", 0)
        exempt.setdefault("lendablePercent", 0)
        return
    limited = spec.get("limited")
    if limited is None:
        return
    limited.setdefault("nominalConcurrencyShares", 30)
    limited.setdefault("lendablePercent", 0)
    answer = limited.setdefault("limitResponse", {})
    if answer.get("type") == "Queue":
        queuing = answer.setdefault("queuing", {})
        for key, value in (("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)):
            if not queuing.get(key):
                queuing[key] = value


def _match(rules: Object) -> None:
    """Fill in what a webhook or a policy matches."""
    rules.setdefault("matchPolicy", "Equivalent")
    rules.setdefault("namespaceSelector", {})
    rules.setdefault("objectSelector", {})
    for field in ("rules", "resourceRules", "excludeResourceRules"):
        for rule in rules.get(field) or []:
            rule.setdefault("scope", "*")


def default_webhooks(obj: Object) -> None:
    for hook in obj.get("webhooks") or []:
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("timeoutSeconds", 10)
        _match(hook)
        service = (hook.get("clientConfig") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)


def default_api_service(obj: Object) -> None:
    service = (obj.get("spec") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


def default_mutating_webhooks(obj: Object) -> None:
    default_webhooks(obj)
    for hook in obj.get("webhooks") or []:
        hook.setdefault("reinvocationPolicy", "Never")


def default_policy(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    if spec.get("matchConstraints") is not None:
        _match(spec["matchConstraints"])


def default_policy_binding(obj: Object) -> None:
    matched = (obj.get("spec") or {}).get("matchResources")
    if matched is not None:
        _match(matched)


DEFAULTS: dict[tuple[str, str], Callable[[Object], None]] = {
    ("autoscaling", "horizontalpodautoscalers"): default_autoscaler,
    (_FLOW, "flowschemas"): default_flow_schema,
    (_FLOW, "prioritylevelconfigurations"): default_priority_level,
    ("apiregistration.k8s.io", "apiservices"): default_api_service,
    (_ADMISSION, "validatingwebhookconfigurations"): default_webhooks,
    (_ADMISSION, "mutatingwebhookconfigurations"): default_mutating_webhooks,
    (_ADMISSION, "validatingadmissionpolicies"): default_policy,
    (_ADMISSION, "mutatingadmissionpolicies"): default_policy,
    (_ADMISSION, "validatingadmissionpolicybindings"): default_policy_binding,
    (_ADMISSION, "mutatingadmissionpolicybindings"): default_policy_binding,
}

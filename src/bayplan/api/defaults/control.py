"""Defaults of kinds that steer the control plane: autoscalers, flow, webhooks and policies."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.api.defaults.json_types import Object, absent, empty

_ADMISSION, _FLOW = "admissionregistration.k8s.io", "flowcontrol.apiserver.k8s.io"


def default_autoscaler(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    absent(spec, minReplicas=1)
    target = {"type": "Utilization", "averageUtilization": 80}
    empty(spec, metrics=[{"type": "Resource", "resource": {"name": "cpu", "target": target}}])


def default_flow_schema(obj: Object) -> None:
    empty(obj.setdefault("spec", {}), matchingPrecedence=1000)


def default_priority_level(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("type") == "Exempt":
        absent(spec.setdefault("exempt", {}), nominalConcurrencyShares=0, lendablePercent=0)
        return
    limited = spec.get("limited")
    if limited is None:
        return
    absent(limited, nominalConcurrencyShares=30, lendablePercent=0)
    answer = limited.setdefault("limitResponse", {})
    if answer.get("type") == "Queue":
        empty(answer.setdefault("queuing", {}), queues=64, handSize=8, queueLengthLimit=50)


def _match(rules: Object) -> None:
    """Fill in what a webhook or a policy matches."""
    absent(rules, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
    for field in ("rules", "resourceRules", "excludeResourceRules"):
        for rule in rules.get(field) or []:
            absent(rule, scope="*")


def default_webhooks(obj: Object) -> None:
    for hook in obj.get("webhooks") or []:
        absent(hook, failurePolicy="Fail", timeoutSeconds=10)
        _match(hook)
        _default_port(hook.get("clientConfig"))


def default_api_service(obj: Object) -> None:
    _default_port(obj.get("spec"))


def _default_port(holder: Object | None) -> None:
    service = (holder or {}).get("service")
    if service is not None:
        absent(service, port=443)


def default_mutating_webhooks(obj: Object) -> None:
    default_webhooks(obj)
    for hook in obj.get("webhooks") or []:
        absent(hook, reinvocationPolicy="Never")


def default_policy(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    absent(spec, failurePolicy="Fail")
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

"""The status of a pod, as kubelets and schedulers write it."""

from __future__ import annotations

from bayplan.api.defaults.json_types import Object
from bayplan.api.names import dns1123_subdomain, qualified_name
from bayplan.apiserver.validation.causes import (
    Causes,
    forbidden,
    immutable,
    internal,
    invalid,
    once,
)
from bayplan.apiserver.validation.formats import check, ip_address

_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_COUNT = "must be a non-negative integer"


def validate_pod_status(pod: Object, old: Object) -> Causes:
    """Return the problems of a new status; the spec is the old one."""
    status, before = pod.get("status") or {}, old.get("status") or {}
    causes = _validate_conditions(status.get("conditions") or ())
    causes += _validate_nomination(status, before, old["spec"])
    if (status.get("observedGeneration") or 0) < 0:
        generation = status["observedGeneration"]
        causes.append(invalid("status.observedGeneration", generation, _COUNT))
    causes += immutable("status.qosClass", status.get("qosClass"), before.get("qosClass"))
    for kind, containers in (
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
    ):
        if before.get(kind):
            field = f"status.{kind}"
            specs = old["spec"].get(containers) or []
            now = status.get(kind) or []
            causes += _validate_transitions(field, now, before[kind], specs, old)
    if status.get("resourceClaimStatuses"):
        causes += _validate_claims(status["resourceClaimStatuses"], old["spec"])
    return causes + _validate_ips(status)


def _validate_conditions(conditions: list[Object] | tuple[()]) -> Causes:
    causes: Causes = []
    for i, condition in enumerate(conditions):
        generation = condition.get("observedGeneration") or 0
        if generation < 0:
            path = f"status.conditions[{i}].observedGeneration"
            causes.append(invalid(path, generation, _COUNT))
        kind = condition.get("type", "")
        if kind not in _SYSTEM_CONDITIONS:
            causes += check(f"status.conditions[{i}].Type", kind, qualified_name)
    return causes


def _validate_nomination(status: Object, before: Object, spec: Object) -> Causes:
    node = status.get("nominatedNodeName")
    if not node or node == before.get("nominatedNodeName"):
        return []
    causes = check("status.nominatedNodeName", node, dns1123_subdomain)
    if spec.get("nodeName"):
        text = "may not be set on pods that are already bound to a node"
        causes.append(forbidden("status.nominatedNodeName", text))
    return causes


def _validate_transitions(
    field: str, new: list[Object], old: list[Object], specs: list[Object], pod: Object
) -> Causes:
    """A container that ended for good may not come back to life."""
    causes: Causes = []
    by_name = {status.get("name"): status for status in new}
    policies = {spec.get("name"): spec for spec in specs}
    for i, status in enumerate(old):
        ended = (status.get("state") or {}).get("terminated")
        now = by_name.get(status.get("name"))
        if ended is None or now is None or (now.get("state") or {}).get("terminated") is not None:
            continue
        container = policies.get(status.get("name"), {})
        if not _may_restart(container, pod["spec"], ended.get("exitCode", 0)):
            text = "may not be transitioned to non-terminated state"
            causes.append(forbidden(f"{field}[{i}].state", text))
    return causes


def _may_restart(container: Object, spec: Object, exit_code: int) -> bool:
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        listed = exit_code in (codes.get("values") or ())
        if listed == (codes.get("operator") == "In"):
            return True
    policy = container.get("restartPolicy") or spec.get("restartPolicy", "Always")
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _validate_claims(statuses: list[Object], spec: Object) -> Causes:
    causes: Causes = []
    known = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    seen: set[str] = set()
    for i, status in enumerate(statuses):
        path, name = f"status.resourceClaimStatuses[{i}]", status.get("name", "")
        if name not in known:
            text = "must match the name of an entry in `spec.resourceClaims`"
            causes.append(invalid(f"{path}.name", name, text))
        causes += once(f"{path}.name", name, seen)
        claim = status.get("resourceClaimName")
        if claim is not None:
            causes += check(f"{path}.resourceClaimName", claim, dns1123_subdomain)
    return causes


def _validate_ips(status: Object) -> Causes:
    causes: Causes = []
    for kind in ("podIPs", "hostIPs"):
        addresses = [entry.get("ip", "") for entry in status.get(kind) or ()]
        for i, address in enumerate(addresses):
            causes += check(f"status.{kind}[{i}]", address, ip_address)
        if len(addresses) > 1:
            wrong = [address for address in addresses if ip_address(address)]
            if wrong:
                text = f"failed to check for dual stack with error:invalid IP[0]: {wrong[0]}"
                causes.append(internal(f"status.{kind}", text))
            families = {":" in address for address in addresses}
            if wrong or len(addresses) > 2 or len(families) < 2:
                text = "may specify no more than one IP for each IP family"
                causes.append(invalid(f"status.{kind}", status[kind], text))
    hosts = status.get("hostIPs")
    if hosts and hosts[0].get("ip") != status.get("hostIP"):
        text = "must be equal to `hostIP`"
        causes.append(invalid("status.hostIPs[0].ip", hosts[0].get("ip", ""), text))
    return causes

"""Defaults of the small groups: storage, scheduling, RBAC, resource (DRA), networking."""

from __future__ import annotations

import datetime

from bayplan.api.defaults.json_types import Object
from bayplan.api.defaults.quantities import round_resources

_RBAC = "rbac.authorization.k8s.io"
_CSI_DRIVER: dict[str, object] = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}


def default_priority_class(obj: Object) -> None:
    if obj.get("preemptionPolicy") is None:
        obj["preemptionPolicy"] = "PreemptLowerPriority"


def default_storage_class(obj: Object) -> None:
    if obj.get("reclaimPolicy") is None:
        obj["reclaimPolicy"] = "Delete"
    if obj.get("volumeBindingMode") is None:
        obj["volumeBindingMode"] = "Immediate"


def default_csi_driver(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    for field, value in _CSI_DRIVER.items():
        if spec.get(field) is None:
            spec[field] = value
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def default_role_binding(obj: Object) -> None:
    """Write the API group of the role and of users and groups (Role- and ClusterRoleBinding)."""
    role = obj.setdefault("roleRef", {})
    if not role.get("apiGroup"):
        role["apiGroup"] = _RBAC
    for subject in obj.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = _RBAC


def default_resource_claim(obj: Object) -> None:
    _default_claim_devices(obj.setdefault("spec", {}))


def default_resource_claim_template(obj: Object) -> None:
    _default_claim_devices(obj.setdefault("spec", {}).setdefault("spec", {}))


def _default_claim_devices(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        if request.get("exactly") is not None:
            _default_device_request(request["exactly"])
        for sub_request in request.get("firstAvailable") or ():
            _default_device_request(sub_request)


def _default_device_request(request: Object) -> None:
    if not request.get("allocationMode"):
        request["allocationMode"] = "ExactCount"
    if request["allocationMode"] == "ExactCount" and not request.get("count"):
        request["count"] = 1
    for toleration in request.get("tolerations") or ():
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"


def default_resource_slice(obj: Object) -> None:
    for device in obj.setdefault("spec", {}).get("devices") or ():
        for taint in device.get("taints") or ():
            _default_taint(taint)


def default_device_taint_rule(obj: Object) -> None:
    taint = obj.setdefault("spec", {}).get("taint")
    if taint is not None:
        _default_taint(taint)


def default_certificate_request(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("maxExpirationSeconds") is None:
        spec["maxExpirationSeconds"] = 24 * 3600


def _default_taint(taint: Object) -> None:
    if taint.get("timeAdded") is None:
        taint["timeAdded"] = now_text()


def now_text() -> str:
    """The present second as Kubernetes writes it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def default_pod_group(obj: Object) -> None:
    """How its pods may be disrupted, and, in 1.37, whether it may preempt."""
    modern = obj.get("apiVersion") != "scheduling.k8s.io/v1alpha2"
    spec = obj.setdefault("spec", {})
    if spec.get("disruptionMode") is None:
        spec["disruptionMode"] = {"single": {}} if modern else "Pod"
    if modern and spec.get("preemptionPolicy") is None:
        spec["preemptionPolicy"] = "PreemptLowerPriority"


def default_network_policy(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                if port.get("protocol") is None:
                    port["protocol"] = "TCP"


def default_ingress_class(obj: Object) -> None:
    parameters = obj.setdefault("spec", {}).get("parameters")
    if parameters is not None and parameters.get("scope") is None:
        parameters["scope"] = "Cluster"


def default_runtime_class(obj: Object) -> None:
    overhead = (obj.get("overhead") or {}).get("podFixed")
    if overhead:
        round_resources(overhead)


def default_endpoint_slice(obj: Object) -> None:
    for port in obj.get("ports") or ():
        if port.get("name") is None:
            port["name"] = ""
        if port.get("protocol") is None:
            port["protocol"] = "TCP"

"""Defaults of the small groups: storage, scheduling, RBAC, resource (DRA), networking."""

from __future__ import annotations

import datetime

from bayplan.api.defaults.json_types import Object, absent, empty
from bayplan.api.defaults.quantities import round_lists

_RBAC = "rbac.authorization.k8s.io"


def default_priority_class(obj: Object) -> None:
    absent(obj, preemptionPolicy="PreemptLowerPriority")


def default_storage_class(obj: Object) -> None:
    absent(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def default_csi_driver(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    absent(spec, attachRequired=True, podInfoOnMount=False, storageCapacity=False)
    absent(spec, fsGroupPolicy="ReadWriteOnceWithFSType")
    absent(spec, requiresRepublish=False, seLinuxMount=False)
    absent(spec, preventPodSchedulingIfMissing=False)
    empty(spec, volumeLifecycleModes=["Persistent"])


def default_role_binding(obj: Object) -> None:
    """Write the API group of the role and of users and groups (Role- and ClusterRoleBinding)."""
    empty(obj.setdefault("roleRef", {}), apiGroup=_RBAC)
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            empty(subject, apiGroup=_RBAC)


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
    empty(request, allocationMode="ExactCount")
    if request["allocationMode"] == "ExactCount":
        empty(request, count=1)
    for toleration in request.get("tolerations") or ():
        empty(toleration, operator="Equal")


def default_resource_slice(obj: Object) -> None:
    for device in obj.setdefault("spec", {}).get("devices") or ():
        for taint in device.get("taints") or ():
            absent(taint, timeAdded=now_text())


def default_device_taint_rule(obj: Object) -> None:
    taint = obj.setdefault("spec", {}).get("taint")
    if taint is not None:
        absent(taint, timeAdded=now_text())


def default_certificate_request(obj: Object) -> None:
    absent(obj.setdefault("spec", {}), maxExpirationSeconds=24 * 3600)


def now_text() -> str:
    """The present second as Kubernetes writes it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def default_pod_group(obj: Object) -> None:
    """How its pods may be disrupted, and, in 1.37, whether it may preempt."""
    modern = obj.get("apiVersion") != "scheduling.k8s.io/v1alpha2"
    spec = obj.setdefault("spec", {})
    absent(spec, disruptionMode={"single": {}} if modern else "Pod")
    if modern:
        absent(spec, preemptionPolicy="PreemptLowerPriority")


def default_network_policy(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    empty(spec, policyTypes=["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                absent(port, protocol="TCP")


def default_ingress_class(obj: Object) -> None:
    parameters = obj.setdefault("spec", {}).get("parameters")
    if parameters is not None:
        absent(parameters, scope="Cluster")


def default_runtime_class(obj: Object) -> None:
    round_lists(obj.get("overhead") or {}, "podFixed")


def default_endpoint_slice(obj: Object) -> None:
    for port in obj.get("ports") or ():
        absent(port, name="", protocol="TCP")

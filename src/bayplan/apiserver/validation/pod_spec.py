"""The spec of a pod, in a Pod or in a template.

Validates a spec that has its defaults. `validate_pod_spec` is the hot path of a create: parts that
are absent cost one look-up.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.api import quantity
from bayplan.api.defaults.json_types import Object
from bayplan.api.defaults.pods import aggregate
from bayplan.api.names import dns1123_label, dns1123_subdomain, qualified_name
from bayplan.apiserver.validation.causes import (
    Causes,
    duplicate,
    forbidden,
    invalid,
    known,
    not_found,
    one_of,
    required,
    too_long,
)
from bayplan.apiserver.validation.containers import (
    PodContext,
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
)
from bayplan.apiserver.validation.formats import (
    between,
    check,
    dns1123_subdomain_with_underscore,
    ip_address,
)
from bayplan.apiserver.validation.labels import validate_labels
from bayplan.apiserver.validation.resources import (
    is_hugepages,
    validate_requirements,
)
from bayplan.apiserver.validation.scheduling import (
    validate_affinity,
    validate_gates,
    validate_spread,
    validate_tolerations,
)
from bayplan.apiserver.validation.security import validate_host_users, validate_pod_security
from bayplan.apiserver.validation.volumes import validate_volumes

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION = ("PreemptLowerPriority", "Never")
_MAX_INT32 = 2**31 - 1
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


def validate_pod_spec(
    field: str, spec: Object, pod_name: str = "", *, is_pod: bool, mirror: bool = False
) -> Causes:
    """Validate a pod spec; `is_pod` is false for the spec of a template."""
    grace = spec.get("terminationGracePeriodSeconds")
    volumes: dict[str, Object] = {}
    causes: Causes = []
    if spec.get("volumes"):
        volumes, causes = validate_volumes(f"{field}.volumes", spec["volumes"], pod_name)
    claims = spec.get("resourceClaims") or ()
    if claims:
        causes += _validate_claims(f"{field}.resourceClaims", spec["resourceClaims"], mirror)
    pod = PodContext(
        volumes,
        {claim["name"] for claim in claims if claim.get("name")},
        grace,
        spec.get("restartPolicy", ""),
        spec.get("hostUsers") is not False,
    )
    containers = spec.get("containers") or []
    if containers or not spec.get("virtualMachine"):
        causes += validate_containers(f"{field}.containers", containers, pod)
    if spec.get("initContainers"):
        path = f"{field}.initContainers"
        causes += validate_init_containers(path, spec["initContainers"], containers, pod)
    if spec.get("ephemeralContainers"):
        causes += validate_ephemeral_containers(f"{field}.ephemeralContainers", spec, pod)
    if spec.get("resources") is not None:
        causes += _validate_pod_resources(f"{field}.resources", spec, pod)
    if spec.get("hostNetwork"):
        causes += _validate_host_ports(f"{field}.containers", containers, is_pod)
    dns = spec.get("dnsPolicy")
    if pod.restart_policy not in _RESTART:
        causes += one_of(f"{field}.restartPolicy", pod.restart_policy, _RESTART)
    if dns not in _DNS:
        causes += one_of(f"{field}.dnsPolicy", dns, _DNS)
    causes += _validate_dns_config(f"{field}.dnsConfig", spec.get("dnsConfig"), dns)
    for name, validate in _PARTS.items():
        if spec.get(name):
            causes += validate(f"{field}.{name}", spec[name])
    return causes + _validate_host_access(field, spec) + _validate_cross_fields(field, spec)


def _validate_host_access(field: str, spec: Object) -> Causes:
    causes: Causes = []
    if spec.get("securityContext"):
        causes += validate_pod_security(f"{field}.securityContext", spec["securityContext"], spec)
    if spec.get("hostPID") and spec.get("shareProcessNamespace"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        path = f"{field}.securityContext.shareProcessNamespace"
        causes.append(invalid(path, True, text))
    if spec.get("hostUsers") is False:
        causes += validate_host_users(field, spec)
    return causes


def _validate_cross_fields(field: str, spec: Object) -> Causes:
    causes: Causes = []
    if spec.get("hostnameOverride") is not None:
        causes += _validate_hostname_override(field, spec)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        causes += between(f"{field}.activeDeadlineSeconds", deadline, 1, _MAX_INT32)
    if spec.get("runtimeClassName") is not None:
        name = spec["runtimeClassName"]
        causes += check(f"{field}.runtimeClassName", name, dns1123_subdomain)
    policy = spec.get("preemptionPolicy")
    if policy is not None and policy not in _PREEMPTION:
        causes += one_of(f"{field}.preemptionPolicy", policy, _PREEMPTION)
    if spec.get("os") is not None:
        causes += _validate_os(field, spec)
    for kind in _CONTAINER_LISTS:
        for i, container in enumerate(spec.get(kind) or ()):
            if container.get("env"):
                causes += _validate_file_refs(f"{field}.{kind}[{i}].env", container["env"], spec)
    return causes


def _subdomain(field: str, value: str) -> Causes:
    return check(field, value, dns1123_subdomain)


def _label(field: str, value: str) -> Causes:
    return check(field, value, dns1123_label)


def _overhead(field: str, overhead: Object) -> Causes:
    return validate_requirements(field, {"limits": overhead}, ())


def _readiness_gates(field: str, gates: list[Object]) -> Causes:
    causes: Causes = []
    for i, gate in enumerate(gates):
        kind = gate.get("conditionType", "")
        causes += check(f"{field}[{i}].conditionType", kind, qualified_name)
    return causes


def _host_aliases(field: str, aliases: list[Object]) -> Causes:
    causes: Causes = []
    for i, alias in enumerate(aliases):
        causes += check(f"{field}[{i}].ip", alias.get("ip", ""), ip_address)
        for j, name in enumerate(alias.get("hostnames") or ()):
            causes += check(f"{field}[{i}].hostnames[{j}]", name, dns1123_subdomain)
    return causes


_PARTS: dict[str, Callable[..., Causes]] = {
    "nodeSelector": validate_labels,
    "affinity": validate_affinity,
    "readinessGates": _readiness_gates,
    "schedulingGates": validate_gates,
    "topologySpreadConstraints": validate_spread,
    "serviceAccountName": _subdomain,
    "nodeName": _subdomain,
    "hostname": _label,
    "subdomain": _label,
    "tolerations": validate_tolerations,
    "hostAliases": _host_aliases,
    "priorityClassName": _subdomain,
    "overhead": _overhead,
}


def _validate_claims(field: str, claims: list[Object], mirror: bool) -> Causes:
    if mirror:
        return [forbidden("", "static pods do not support resource claims")]
    causes: Causes = []
    names: set[str] = set()
    for i, claim in enumerate(claims):
        path, name = f"{field}[{i}]", claim.get("name")
        if not name:
            causes.append(required(f"{path}.name"))
        elif name in names:
            causes.append(duplicate(f"{path}.name", name))
        else:
            causes += check(f"{path}.name", name, dns1123_label)
            names.add(name)
        kinds = ("resourceClaimName", "resourceClaimTemplateName")
        given = [kind for kind in kinds if claim.get(kind) is not None]
        if len(given) > 1:
            text = (
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            )
            causes.append(invalid(path, claim, text))
        elif not given:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            causes.append(invalid(path, claim, text))
        for kind in given:
            causes += check(f"{path}.{kind}", claim[kind], dns1123_subdomain)
    return causes


def _validate_pod_resources(field: str, spec: Object, pod: PodContext) -> Causes:
    """Validate resources of the pod as a whole against those of its containers."""
    if (spec.get("os") or {}).get("name") == "windows":
        return [forbidden(field, "may not be set for a windows pod")]
    resources = spec["resources"]
    causes: Causes = []
    if resources.get("claims"):
        text = "claims may not be set for Resources at pod-level"
        causes.append(forbidden(f"{field}.claims", text))
    causes += validate_requirements(field, resources, pod.claims, pod_level=True)
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, total in aggregate(spec, "requests").items():
        if name in requests and quantity.compare(total, requests[name]) > 0:
            text = f"must be greater than or equal to aggregate container requests of {total}"
            causes.append(invalid(f"{field}.requests[{name}]", requests[name], text))
    for name, total in aggregate(spec, "limits").items():
        if is_hugepages(name) and name in limits and quantity.compare(total, limits[name]) > 0:
            text = f"must be greater than or equal to aggregate container limits of {total}"
            causes.append(invalid(f"{field}.limits[{name}]", limits[name], text))
    for i, container in enumerate(spec.get("containers") or ()):
        for name, value in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and quantity.compare(value, limits[name]) > 0:
                text = f"must be less than or equal to pod limits of {limits[name]}"
                causes.append(invalid(f"{field}.containers[{i}][{name}].limits", value, text))
    return causes


def _validate_host_ports(field: str, containers: list[Object], is_pod: bool) -> Causes:
    causes: Causes = []
    for i, container in enumerate(containers):
        for j, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort", 0)
            if (is_pod or host) and host != port.get("containerPort", 0):
                text = "must match `containerPort` when `hostNetwork` is true"
                causes.append(invalid(f"{field}[{i}].ports[{j}].hostPort", host, text))
    return causes


def _validate_dns_config(field: str, config: Object | None, policy: str | None) -> Causes:
    if policy == "None":
        if config is None:
            text = "must provide `dnsConfig` when `dnsPolicy` is None"
            return [required(field, text)]
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{field}.nameservers", text)]
    if config is None:
        return []
    causes: Causes = []
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > 3:
        path = f"{field}.nameservers"
        causes.append(invalid(path, servers, "must not have more than 3 nameservers"))
    for i, server in enumerate(servers):
        causes += check(f"{field}.nameservers[{i}]", server, ip_address)
    if len(searches) > 32:
        path = f"{field}.searches"
        causes.append(invalid(path, searches, "must not have more than 32 search paths"))
    if len(" ".join(searches)) > 2048:
        text = "must not have more than 2048 characters (including spaces) in the search list"
        causes.append(invalid(f"{field}.searches", searches, text))
    for i, search in enumerate(searches):
        if search != ".":
            name = search.removesuffix(".")
            path = f"{field}.searches[{i}]"
            causes += check(path, name, dns1123_subdomain_with_underscore)
    for i, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            causes.append(required(f"{field}.options[{i}]", "must not be empty"))
    return causes


def _validate_hostname_override(field: str, spec: Object) -> Causes:
    path, name = f"{field}.hostnameOverride", spec["hostnameOverride"]
    causes: Causes = []
    if spec.get("setHostnameAsFQDN"):
        causes.append(forbidden(path, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        causes.append(forbidden(path, "may not be specified when hostNetwork is true"))
    if len(name) > 64:
        causes.append(too_long(path, 64))
    return causes + check(path, name, dns1123_subdomain)


def _validate_os(field: str, spec: Object) -> Causes:
    name = spec["os"].get("name")
    if not name:
        return [required(f"{field}.os.name")]
    return known(f"{field}.os", name, ("linux", "windows"))


def _validate_file_refs(field: str, variables: list[Object], spec: Object) -> Causes:
    causes: Causes = []
    for i, variable in enumerate(variables):
        reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
        if reference is None:
            continue
        name = reference.get("volumeName", "")
        path = f"{field}[{i}].valueFrom.fileKeyRef.volumeName"
        volumes = {volume.get("name"): volume for volume in spec.get("volumes") or ()}
        if name not in volumes:
            causes.append(not_found(path, name))
        elif volumes[name].get("emptyDir") is None:
            causes.append(invalid(path, name, "referenced volume must be of type emptyDir"))
    return causes

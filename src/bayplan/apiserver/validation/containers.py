"""Containers of a pod spec: ordinary, init, sidecar and ephemeral ones."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from bayplan.api.defaults.json_types import Object
from bayplan.api.names import dns1123_label
from bayplan.apiserver.validation.causes import (
    Causes,
    duplicate,
    forbidden,
    invalid,
    known,
    not_found,
    once,
    one_of,
    required,
    too_many,
)
from bayplan.apiserver.validation.env import validate_env, validate_env_from
from bayplan.apiserver.validation.formats import check, port_name, port_number
from bayplan.apiserver.validation.mounts import validate_devices, validate_mounts
from bayplan.apiserver.validation.probes import validate_lifecycle, validate_probe
from bayplan.apiserver.validation.resources import validate_requirements
from bayplan.apiserver.validation.security import validate_container_security
from bayplan.apiserver.validation.volumes import PULL_POLICIES

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_NOT_EPHEMERAL = ("ports", "lifecycle", *_PROBES, "resizePolicy", "restartPolicy")


class PodContext(msgspec.Struct):
    """What a container's validation needs to know of its pod."""

    volumes: dict[str, Object]
    claims: Collection[str]
    grace: int | None
    restart_policy: str
    host_users: bool


def validate_containers(field: str, containers: list[Object], pod: PodContext) -> Causes:
    if not containers:
        return [required(field)]
    causes: Causes = []
    names: set[str] = set()
    for i, container in enumerate(containers):
        path = f"{field}[{i}]"
        found = _validate_common(path, container, pod)
        name = container.get("name", "")
        found += once(f"{path}.name", name, names)
        found += _validate_long_running(path, container, pod)
        if container.get("restartPolicy") is not None or container.get("restartPolicyRules"):
            found += _validate_restart_policy(path, container)
        if found:
            causes += found
    return causes + _host_port_conflicts(field, containers)


def validate_init_containers(
    field: str, containers: list[Object], regular: list[Object], pod: PodContext
) -> Causes:
    causes: Causes = []
    names = {container.get("name", "") for container in regular}
    for i, container in enumerate(containers):
        path = f"{field}[{i}]"
        causes += _validate_common(path, container, pod)
        causes += _validate_restart_policy(path, container)
        name = container.get("name", "")
        if name in names:
            causes.append(duplicate(f"{path}.name", name))
        elif name:
            names.add(name)
        causes += _host_port_conflicts(field, [container])
        if container.get("restartPolicy") == "Always":
            causes += _validate_long_running(path, container, pod)
            continue
        text = "may not be set for init containers without restartPolicy=Always"
        for part in ("lifecycle", *_PROBES):
            if container.get(part) is not None:
                causes.append(forbidden(f"{path}.{part}", text))
        for j, policy in enumerate(container.get("resizePolicy") or ()):
            if policy.get("restartPolicy") == "RestartContainer":
                text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                where = f"{path}.resizePolicy[{j}].restartPolicy"
                causes.append(invalid(where, "RestartContainer", text))
    return causes


def validate_ephemeral_containers(field: str, spec: Object, pod: PodContext) -> Causes:
    causes: Causes = []
    others = {
        container.get("name", "")
        for kind in ("containers", "initContainers")
        for container in spec.get(kind) or ()
    }
    names = set(others)
    text = "cannot be set for an Ephemeral Container"
    for i, container in enumerate(spec.get("ephemeralContainers") or ()):
        path = f"{field}[{i}]"
        causes += _validate_common(path, container, pod)
        causes += validate_image_spaces(path, container)
        name, target = container.get("name", ""), container.get("targetContainerName")
        causes += once(f"{path}.name", name, names)
        if target and target not in others:
            causes.append(not_found(f"{path}.targetContainerName", target))
        for part in (*_NOT_EPHEMERAL, "resources"):
            if container.get(part):
                causes.append(forbidden(f"{path}.{part}", text))
        for j, mount in enumerate(container.get("volumeMounts") or ()):
            for part in ("subPath", "subPathExpr"):
                if mount.get(part):
                    causes.append(forbidden(f"{path}.volumeMounts[{j}].{part}", text))
    return causes


def validate_image_spaces(field: str, container: Object) -> Causes:
    """A pod's image has no spaces around it (templates may, for compatibility)."""
    image = container.get("image", "")
    if image == image.strip():
        return []
    return [invalid(f"{field}.image", image, "must not have leading or trailing whitespace")]


def _validate_common(field: str, container: Object, pod: PodContext) -> Causes:
    """Validate what all kinds of containers share."""
    causes: Causes = []
    get = container.get
    name = get("name")
    if not name:
        causes.append(required(f"{field}.name"))
    elif dns1123_label(name):
        causes += check(f"{field}.name", name, dns1123_label)
    if not get("image"):
        causes.append(required(f"{field}.image"))
    policy = get("terminationMessagePolicy")
    if policy not in _MESSAGE_POLICIES:
        causes += one_of(f"{field}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    if get("ports"):
        causes += _validate_ports(f"{field}.ports", container["ports"])
    if get("env"):
        causes += validate_env(f"{field}.env", container["env"])
    if get("envFrom"):
        causes += validate_env_from(f"{field}.envFrom", container["envFrom"])
    if get("volumeMounts"):
        causes += validate_mounts(f"{field}.volumeMounts", container, pod.volumes)
    if get("volumeDevices"):
        causes += validate_devices(f"{field}.volumeDevices", container, pod.volumes)
    policy = get("imagePullPolicy")
    if policy not in PULL_POLICIES:
        causes += one_of(f"{field}.imagePullPolicy", policy, PULL_POLICIES)
    if get("resources"):
        resources = container["resources"]
        causes += validate_requirements(f"{field}.resources", resources, pod.claims)
    if get("resizePolicy"):
        path = f"{field}.resizePolicy"
        causes += _validate_resize(path, container["resizePolicy"], pod.restart_policy)
    if get("securityContext"):
        path = f"{field}.securityContext"
        causes += validate_container_security(path, container["securityContext"], pod.host_users)
    return causes


def _validate_long_running(field: str, container: Object, pod: PodContext) -> Causes:
    """Validate probes and lifecycle, which containers that keep running may have."""
    causes: Causes = []
    if container.get("lifecycle"):
        causes += validate_lifecycle(f"{field}.lifecycle", container["lifecycle"], pod.grace)
    for kind in _PROBES:
        probe = container.get(kind)
        if probe is not None:
            causes += validate_probe(f"{field}.{kind}", kind, probe)
    return causes


def _validate_ports(field: str, ports: list[Object]) -> Causes:
    causes: Causes = []
    names: set[str] = set()
    for i, port in enumerate(ports):
        path, name = f"{field}[{i}]", port.get("name")
        if name:
            where = f"{path}.name"
            causes += check(where, name, port_name) or once(where, name, names)
        number = port.get("containerPort", 0)
        if not number:
            causes.append(required(f"{path}.containerPort"))
        else:
            for problem in port_number(number):
                causes.append(invalid(f"{path}.containerPort", number, problem))
        host = port.get("hostPort", 0)
        if host:
            for problem in port_number(host):
                causes.append(invalid(f"{path}.hostPort", host, problem))
        causes += one_of(f"{path}.protocol", port.get("protocol"), _PROTOCOLS)
    return causes


def _host_port_conflicts(field: str, containers: list[Object]) -> Causes:
    causes: Causes = []
    taken: set[str] = set()
    for i, container in enumerate(containers):
        for j, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            causes += once(f"{field}[{i}].ports[{j}].hostPort", key, taken)
    return causes


def _validate_resize(field: str, policies: list[Object], restart_policy: str) -> Causes:
    causes: Causes = []
    seen: set[str] = set()
    for i, policy in enumerate(policies):
        name, action = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        causes += once(f"{field}[{i}]", name, seen)
        causes += one_of(field, name, ("cpu", "memory"))
        causes += one_of(field, action, ("NotRequired", "RestartContainer"))
        if restart_policy == "Never" and action != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            causes.append(invalid(field, action, text))
    return causes


def _validate_restart_policy(field: str, container: Object) -> Causes:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    causes: Causes = []
    path = f"{field}.restartPolicy"
    if policy is None:
        if rules:
            text = "must specify restartPolicy when restart rules are used"
            causes.append(required(path, text))
    else:
        causes += known(path, policy, _RESTART_POLICIES)
    if len(rules) > 20:
        causes.append(too_many(f"{field}.restartPolicyRules", len(rules), 20))
    for i, rule in enumerate(rules):
        where = f"{field}.restartPolicyRules[{i}]"
        actions = ("Restart", "RestartAllContainers")
        causes += known(f"{where}.action", rule.get("action", ""), actions)
        codes = rule.get("exitCodes")
        if codes is None:
            causes.append(required(f"{where}.exitCodes", "must be specified"))
        else:
            path = f"{where}.exitCodes.operator"
            causes += known(path, codes.get("operator", ""), ("In", "NotIn"))
    return causes

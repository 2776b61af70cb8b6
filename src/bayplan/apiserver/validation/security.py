"""Security contexts of pods and containers."""

from __future__ import annotations

import re

from bayplan.api.defaults.json_types import Object
from bayplan.apiserver.validation.causes import (
    Causes,
    allowed,
    duplicate,
    forbidden,
    invalid,
    known,
    not_supported,
    required,
)
from bayplan.apiserver.validation.formats import between, descending

_MAX_ID = 2**31 - 1
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL_FMT = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_sysctl = re.compile(_SYSCTL_FMT).fullmatch
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "fs.mqueue.")
_POD_CHOICES = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    "seLinuxChangePolicy": ("MountOption", "Recursive"),
}


def validate_pod_security(field: str, context: Object, spec: Object) -> Causes:
    causes: Causes = []
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        if context.get(name) is not None:
            causes += between(f"{field}.{name}", context[name], 0, _MAX_ID)
    for i, group in enumerate(context.get("supplementalGroups") or ()):
        causes += between(f"{field}.supplementalGroups[{i}]", group, 0, _MAX_ID)
    if context.get("sysctls"):
        causes += _validate_sysctls(f"{field}.sysctls", context["sysctls"], spec)
    for name, supported in _POD_CHOICES.items():
        value = context.get(name)
        causes += allowed(f"{field}.{name}", value, supported)
    causes += _validate_seccomp(f"{field}.seccompProfile", context.get("seccompProfile"))
    return causes + _validate_app_armor(f"{field}.appArmorProfile", context.get("appArmorProfile"))


def _validate_sysctls(field: str, sysctls: list[Object], spec: Object) -> Causes:
    causes: Causes = []
    seen: set[str] = set()
    for i, sysctl in enumerate(sysctls):
        path, name = f"{field}[{i}].name", sysctl.get("name", "")
        if not name:
            causes.append(required(path))
        elif len(name) > 253 or not _sysctl(name):
            text = f"must have at most 253 characters and match regex ^{_SYSCTL_FMT}$"
            causes.append(invalid(path, name, text))
        elif name in seen:
            causes.append(duplicate(path, name))
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            causes.append(invalid(path, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and (dotted.startswith(_IPC_SYSCTLS) or dotted == "kernel.sem"):
            causes.append(invalid(path, name, "may not be specified when 'hostIPC' is true"))
        seen.add(name)
    return causes


def validate_container_security(field: str, context: Object, host_users: bool) -> Causes:
    causes: Causes = []
    for name in ("runAsUser", "runAsGroup"):
        if context.get(name) is not None:
            causes += between(f"{field}.{name}", context[name], 0, _MAX_ID)
    mount = context.get("procMount")
    if mount is not None:
        causes += known(f"{field}.procMount", mount, ("Default", "Unmasked"))
        if host_users and mount == "Unmasked":
            text = "`hostUsers` must be false to use `Unmasked`"
            causes.append(invalid(f"{field}.procMount", mount, text))
    causes += _validate_seccomp(f"{field}.seccompProfile", context.get("seccompProfile"))
    if context.get("allowPrivilegeEscalation") is False:
        prefix = "cannot set `allowPrivilegeEscalation` to false and"
        if context.get("privileged"):
            causes.append(invalid(field, context, f"{prefix} `privileged` to true"))
        added = (context.get("capabilities") or {}).get("add") or ()
        if "CAP_SYS_ADMIN" in added:
            causes.append(invalid(field, context, f"{prefix} `capabilities.Add` CAP_SYS_ADMIN"))
    return causes + _validate_app_armor(f"{field}.appArmorProfile", context.get("appArmorProfile"))


def _validate_seccomp(field: str, profile: Object | None) -> Causes:
    if profile is None:
        return []
    causes: Causes = []
    kind, local = profile.get("type"), profile.get("localhostProfile")
    if not kind:
        causes.append(required(f"{field}.type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILES:
        causes.append(not_supported(f"{field}.type", kind, _PROFILES))
    path = f"{field}.localhostProfile"
    if kind == "Localhost":
        if local is None:
            causes.append(required(path, "must be set when seccomp type is Localhost"))
        else:
            causes += descending(path, local)
    elif local is not None:
        causes.append(invalid(path, profile, "can only be set when seccomp type is Localhost"))
    return causes


def _validate_app_armor(field: str, profile: Object | None) -> Causes:
    if profile is None:
        return []
    kind, local = profile.get("type"), profile.get("localhostProfile")
    path = f"{field}.localhostProfile"
    if kind == "Localhost":
        if not local:
            return [required(path, "must be set when AppArmor type is Localhost")]
        if local != local.strip():
            return [invalid(path, local, "must not be padded with whitespace")]
        return []
    if kind in _PROFILES:
        if local is None:
            return []
        return [invalid(path, local, "can only be set when AppArmor type is Localhost")]
    if not kind:
        return [required(f"{field}.type", "type is required when appArmorProfile is set")]
    return [not_supported(f"{field}.type", kind, _PROFILES)]


def validate_host_users(field: str, spec: Object) -> Causes:
    """A pod with its own user namespace may not share others with the host."""
    if spec.get("hostUsers") is not False:
        return []
    text = "when `hostUsers` is false"
    causes: Causes = []
    if spec.get("hostNetwork"):
        causes.append(forbidden(f"{field}.hostNetwork", text))
    if spec.get("hostPID"):
        causes.append(forbidden(f"{field}.HostPID", text))
    if spec.get("hostIPC"):
        causes.append(forbidden(f"{field}.HostIPC", text))
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(kind) or ()):
            if container.get("volumeDevices"):
                causes.append(forbidden(f"{field}.{kind}[{i}].volumeDevices", text))
    return causes

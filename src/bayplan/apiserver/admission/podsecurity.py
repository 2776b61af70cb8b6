"""Pod Security: what a namespace's labels allow its pods (`enforce`, `warn`; audit goes nowhere).

The checks are those of the newest version; a pinned `…-version` label is shown and not followed.
Every check returns its reason and detail in upstream's words, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bayplan.apiserver.admission.types import CREATE, UPDATE, Attributes, Object, Reader, forbidden

PREFIX = "pod-security.kubernetes.io/"
LEVELS = ("privileged", "baseline", "restricted")
Found = tuple[str, str] | None
Check = Callable[[Object, Object], Found]
_CAPABILITIES = frozenset(
    (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    )
)
_SYSCTLS = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    )
)
_SELINUX = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_VOLUMES = frozenset(
    (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)


def check_pod_security(attrs: Attributes, reader: Reader) -> None:
    """Refuse pods that their namespace does not allow; warn of those and of templates."""
    found = _pod_of(attrs)
    if found is None or attrs.operation not in (CREATE, UPDATE):
        return
    namespace = reader.get("", "namespaces", "", attrs.namespace)
    labels = ((namespace or {}).get("metadata") or {}).get("labels") or {}
    if not any(key.startswith(PREFIX) for key in labels):
        return
    metadata, spec, is_pod = found
    level, shown = _level(labels, "enforce")
    if is_pod:
        detail = _violations(level, metadata, spec)
        if detail:
            raise forbidden(attrs, f'violates PodSecurity "{shown}": {detail}')
    level, shown = _level(labels, "warn")
    detail = _violations(level, metadata, spec)
    if detail:
        attrs.warnings.append(f'would violate PodSecurity "{shown}": {detail}')


def _level(labels: Object, mode: str) -> tuple[str, str]:
    level = labels.get(f"{PREFIX}{mode}", "privileged")
    version = labels.get(f"{PREFIX}{mode}-version", "latest")
    return level, f"{level}:{version}"


_TEMPLATES = {
    ("apps", "deployments"),
    ("apps", "daemonsets"),
    ("apps", "statefulsets"),
    ("apps", "replicasets"),
    ("", "replicationcontrollers"),
    ("batch", "jobs"),
}


def _pod_of(attrs: Attributes) -> tuple[Object, Object, bool] | None:
    """The pod or template in a write, and whether it is a pod itself."""
    obj, name = attrs.obj, (attrs.group, attrs.resource)
    if name == ("", "pods") and attrs.subresource in ("", "ephemeralcontainers"):
        if attrs.operation == UPDATE and not attrs.subresource and not _changed(attrs):
            return None
        return obj.get("metadata") or {}, obj.get("spec") or {}, True
    if attrs.subresource:
        return None
    template: Object | None = None
    if name in _TEMPLATES:
        template = (obj.get("spec") or {}).get("template")
    elif name == ("", "podtemplates"):
        template = obj.get("template")
    elif name == ("batch", "cronjobs"):
        job = ((obj.get("spec") or {}).get("jobTemplate") or {}).get("spec") or {}
        template = job.get("template")
    if not template:
        return None
    return template.get("metadata") or {}, template.get("spec") or {}, False


def _changed(attrs: Attributes) -> bool:
    """Whether an update changes what is checked; most do not."""
    old = (attrs.old or {}).get("spec") or {}
    return bool((attrs.obj.get("spec") or {}) != old)


def _violations(level: str, metadata: Object, spec: Object) -> str:
    if level not in ("baseline", "restricted"):
        return ""
    restricted = level == "restricted"
    checks = [c for name, c in BASELINE.items() if not restricted or name not in _OVERRIDDEN]
    if restricted:
        checks += RESTRICTED.values()
    found = [each for each in (check(metadata, spec) for check in checks) if each is not None]
    return ", ".join(f"{reason} ({detail})" if detail else reason for reason, detail in found)


def _containers(spec: Object) -> Iterator[Object]:
    for key in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(key) or ()


def _security(holder: Object) -> Object:
    return holder.get("securityContext") or {}


def _quoted(names: Iterable[Any]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _named(names: list[str], one: str = "container") -> str:
    return f"{one}{'s' if len(names) > 1 else ''} {_quoted(names)}"


def _setters(pod: bool, names: list[str]) -> str:
    return " and ".join([*(["pod"] if pod else []), *([_named(names)] if names else [])])


def _using(reason: str, names: list[str], what: str, values: Iterable[str], one: str) -> Found:
    listed = sorted(values)
    use = "use" if len(names) > 1 else "uses"
    plural = "s" if len(listed) > 1 else ""
    shown = ", ".join(listed) if what == "hostPort" else _quoted(listed)
    return reason, f"{_named(names, one)} {use} {what}{plural} {shown}"


def _app_armor(metadata: Object, spec: Object) -> Found:
    allowed = ("RuntimeDefault", "Localhost")
    pod, names, values = _profiles(spec, "appArmorProfile", allowed)
    noted = sorted(
        f'{key}="{value}"'
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith("container.apparmor.security.beta.kubernetes.io/")
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    )
    setters = _setters(pod, names)
    if noted:
        word = "annotations" if len(noted) > 1 else "annotation"
        setters = f"{setters} and {word}" if setters else word
    if not setters:
        return None
    listed = [*sorted(values), *noted]
    reason = f"forbidden AppArmor profile{'s' if len(listed) > 1 else ''}"
    return reason, f"{setters} must not set AppArmor profile type to {_quoted(listed)}"


def _profiles(
    spec: Object, field: str, allowed: tuple[str, ...]
) -> tuple[bool, list[str], set[str]]:
    """Who sets a profile that is not allowed: the pod, which containers, and which profiles."""
    values: set[str] = set()

    def bad(holder: Object) -> bool:
        profile = _security(holder).get(field)
        if profile is None or profile.get("type") in allowed:
            return False
        values.add(profile.get("type", ""))
        return True

    pod = bad(spec)
    return pod, [each["name"] for each in _containers(spec) if bad(each)], values


def _capabilities(metadata: Object, spec: Object) -> Found:
    names, values = _adding(spec, _CAPABILITIES)
    if not names:
        return None
    what = f"must not include {_quoted(sorted(values))} in securityContext.capabilities.add"
    return "non-default capabilities", f"{_named(names)} {what}"


def _adding(spec: Object, allowed: frozenset[str]) -> tuple[list[str], set[str]]:
    names, values = [], set()
    for each in _containers(spec):
        added = (_security(each).get("capabilities") or {}).get("add") or ()
        wrong = [name for name in added if name not in allowed]
        if wrong:
            names.append(each["name"])
            values.update(wrong)
    return names, values


def _host_namespaces(metadata: Object, spec: Object) -> Found:
    used = [f"{key}=true" for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]
    return ("host namespaces", ", ".join(used)) if used else None


def _host_paths(metadata: Object, spec: Object) -> Found:
    names = [each["name"] for each in spec.get("volumes") or () if each.get("hostPath")]
    return ("hostPath volumes", _named(names, "volume")) if names else None


def _host_ports(metadata: Object, spec: Object) -> Found:
    names, ports = [], set()
    for each in _containers(spec):
        used = [str(port["hostPort"]) for port in each.get("ports") or () if port.get("hostPort")]
        if used:
            names.append(each["name"])
            ports.update(used)
    return _using("hostPort", names, "hostPort", ports, "container") if names else None


def _host_probes(metadata: Object, spec: Object) -> Found:
    names: set[str] = set()
    hosts: set[str] = set()
    for each in _containers(spec):
        lifecycle = each.get("lifecycle") or {}
        probes = [each.get(f"{kind}Probe") for kind in ("liveness", "readiness", "startup")]
        for probe in (*probes, lifecycle.get("postStart"), lifecycle.get("preStop")):
            for key in ("httpGet", "tcpSocket"):
                host = ((probe or {}).get(key) or {}).get("host")
                if host:
                    names.add(each["name"])
                    hosts.add(host)
    what = "probe or lifecycle host"
    return _using(what, sorted(names), what, hosts, "container") if names else None


def _privileged(metadata: Object, spec: Object) -> Found:
    names = [each["name"] for each in _containers(spec) if _security(each).get("privileged")]
    words = "must not set securityContext.privileged=true"
    return ("privileged", f"{_named(names)} {words}") if names else None


def _proc_mount(metadata: Object, spec: Object) -> Found:
    if spec.get("hostUsers") is False:
        return None
    return _proc_mount_restricted(metadata, spec)


def _proc_mount_restricted(metadata: Object, spec: Object) -> Found:
    names, values = [], set()
    for each in _containers(spec):
        kind = _security(each).get("procMount")
        if kind not in (None, "Default"):
            names.append(each["name"])
            values.add(kind)
    words = f"must not set securityContext.procMount to {_quoted(sorted(values))}"
    return ("procMount", f"{_named(names)} {words}") if names else None


def _selinux(metadata: Object, spec: Object) -> Found:
    types: set[str] = set()
    told: set[str] = set()

    def bad(holder: Object) -> bool:
        options = _security(holder).get("seLinuxOptions")
        if options is None:
            return False
        wrong = {key for key in ("user", "role") if options.get(key)}
        if options.get("type", "") not in _SELINUX:
            types.add(options["type"])
            wrong.add("type")
        told.update(wrong)
        return bool(wrong)

    pod = bad(spec)
    names = [each["name"] for each in _containers(spec) if bad(each)]
    if not pod and not names:
        return None
    data = [f"type{'s' if len(types) > 1 else ''} {_quoted(sorted(types))}"] if types else []
    data += [f"{key} may not be set" for key in ("user", "role") if key in told]
    words = f"set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
    return "seLinuxOptions", f"{_setters(pod, names)} {words}"


_SECCOMP = ("RuntimeDefault", "Localhost")


def _seccomp(metadata: Object, spec: Object) -> Found:
    pod, names, values = _profiles(spec, "seccompProfile", _SECCOMP)
    if not pod and not names:
        return None
    words = f"must not set securityContext.seccompProfile.type to {_quoted(sorted(values))}"
    return "seccompProfile", f"{_setters(pod, names)} {words}"


def _seccomp_restricted(metadata: Object, spec: Object) -> Found:
    if _windows(spec):
        return None
    found = _seccomp(metadata, spec)
    if found is not None or _security(spec).get("seccompProfile"):
        return found
    names = [e["name"] for e in _containers(spec) if not _security(e).get("seccompProfile")]
    words = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return ("seccompProfile", f"pod or {_named(names)} {words}") if names else None


def _sysctls(metadata: Object, spec: Object) -> Found:
    given = [each.get("name", "") for each in _security(spec).get("sysctls") or ()]
    wrong = [name for name in given if name not in _SYSCTLS]
    return ("forbidden sysctls", ", ".join(wrong)) if wrong else None


def _host_process(metadata: Object, spec: Object) -> Found:
    def bad(holder: Object) -> bool:
        return bool((_security(holder).get("windowsOptions") or {}).get("hostProcess"))

    pod, names = bad(spec), [each["name"] for each in _containers(spec) if bad(each)]
    words = "must not set securityContext.windowsOptions.hostProcess=true"
    return ("hostProcess", f"{_setters(pod, names)} {words}") if pod or names else None


def _windows(spec: Object) -> bool:
    return (spec.get("os") or {}).get("name") == "windows"


def _escalation(metadata: Object, spec: Object) -> Found:
    if _windows(spec):
        return None
    names = [
        each["name"]
        for each in _containers(spec)
        if _security(each).get("allowPrivilegeEscalation") is not False
    ]
    words = "must set securityContext.allowPrivilegeEscalation=false"
    return ("allowPrivilegeEscalation != false", f"{_named(names)} {words}") if names else None


def _capabilities_restricted(metadata: Object, spec: Object) -> Found:
    if _windows(spec):
        return None
    missing = [
        each["name"]
        for each in _containers(spec)
        if "ALL" not in ((_security(each).get("capabilities") or {}).get("drop") or ())
    ]
    names, values = _adding(spec, frozenset(("NET_BIND_SERVICE",)))
    told = []
    if missing:
        told.append(f'{_named(missing)} must set securityContext.capabilities.drop=["ALL"]')
    if names:
        listed = _quoted(sorted(values))
        words = f"must not include {listed} in securityContext.capabilities.add"
        told.append(f"{_named(names)} {words}")
    return ("unrestricted capabilities", "; ".join(told)) if told else None


def _volumes(metadata: Object, spec: Object) -> Found:
    names, kinds = [], set()
    for each in spec.get("volumes") or ():
        kind = next((key for key in each if key != "name"), "unknown")
        if kind not in _VOLUMES:
            names.append(each["name"])
            kinds.add(kind)
    what = "restricted volume type"
    return _using("restricted volume types", names, what, kinds, "volume") if names else None


def _non_root(metadata: Object, spec: Object) -> Found:
    if spec.get("hostUsers") is False:
        return None
    whole = _security(spec).get("runAsNonRoot")
    explicit = [e["name"] for e in _containers(spec) if _security(e).get("runAsNonRoot") is False]
    reason = "runAsNonRoot != true"
    if whole is False or explicit:
        words = "must not set securityContext.runAsNonRoot=false"
        return reason, f"{_setters(whole is False, explicit)} {words}"
    if whole:
        return None
    names = [e["name"] for e in _containers(spec) if _security(e).get("runAsNonRoot") is None]
    words = "must set securityContext.runAsNonRoot=true"
    return (reason, f"pod or {_named(names)} {words}") if names else None


def _user(metadata: Object, spec: Object) -> Found:
    if spec.get("hostUsers") is False:
        return None
    pod = _security(spec).get("runAsUser") == 0
    names = [each["name"] for each in _containers(spec) if _security(each).get("runAsUser") == 0]
    detail = f"{_setters(pod, names)} must not set runAsUser=0"
    return ("runAsUser=0", detail) if pod or names else None


# In upstream's order, which is that of the names of its checks.
BASELINE: dict[str, Check] = {
    "appArmorProfile": _app_armor,
    "capabilities_baseline": _capabilities,
    "hostNamespaces": _host_namespaces,
    "hostPathVolumes": _host_paths,
    "hostPorts": _host_ports,
    "hostProbesAndHostLifecycle": _host_probes,
    "privileged": _privileged,
    "procMount": _proc_mount,
    "seLinuxOptions": _selinux,
    "seccompProfile_baseline": _seccomp,
    "sysctls": _sysctls,
    "windowsHostProcess": _host_process,
}
RESTRICTED: dict[str, Check] = {
    "allowPrivilegeEscalation": _escalation,
    "capabilities_restricted": _capabilities_restricted,
    "procMount_restricted": _proc_mount_restricted,
    "restrictedVolumes": _volumes,
    "runAsNonRoot": _non_root,
    "runAsUser": _user,
    "seccompProfile_restricted": _seccomp_restricted,
}
_OVERRIDDEN = ("capabilities_baseline", "hostPathVolumes", "procMount", "seccompProfile_baseline")

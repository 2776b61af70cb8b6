"""Warnings: what is allowed, but probably not meant. They go into `Warning` headers.

Worded as upstream words them. Left out: overlapping paths of projected volumes, and addresses that
are not in canonical form.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api import quantity
from bayplan.api.defaults.json_types import Object
from bayplan.api.names import dns1123_label, label_value

_NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": (
        "deprecated since v1.22; use Taints and Tolerations instead"
    ),
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
    "security.alpha.kubernetes.io/unsafe-sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
    "seccomp.security.alpha.kubernetes.io/pod": (
        'non-functional in v1.27+; use the "seccompProfile" field instead'
    ),
}
_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_VOLUME_PATHS = {"storageos": "storageOS"}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NO_SELECTOR = "a null labelSelector results in matching no pod"
_BYTES = ("memory", "ephemeral-storage")
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
Port = tuple[str, Object]
_Placed = tuple[int, str, int, str]  # the how manieth, where, host port and host address
MOST_PORTS = 200  # warnings of ports that meet; an answer has room for fewer


def name_warning(name: str, used_in: str) -> list[str]:
    """Warn of a name that cannot be a host name."""
    problems = dns1123_label(name)
    if not problems:
        return []
    text = f"metadata.name: this is used in {used_in}, which can result in surprising behavior;"
    return [f"{text} a DNS label is recommended: [{' '.join(problems)}]"]


def pod_warnings(prefix: str, meta: Object, spec: Object) -> list[str]:
    """Warn about a pod (prefix "") or a template (prefix "spec.template.")."""
    path = f"{prefix}spec"
    warnings = [
        f"{path}.nodeSelector[{key}]: {_NODE_LABELS[key]}"
        for key in spec.get("nodeSelector") or ()
        if key in _NODE_LABELS
    ]
    affinity = spec.get("affinity")
    if affinity:
        warnings += _node_affinity(f"{path}.affinity.nodeAffinity", affinity.get("nodeAffinity"))
    for i, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        where, key = f"{path}.topologySpreadConstraints[{i}]", constraint.get("topologyKey", "")
        if key in _NODE_LABELS:
            warnings.append(f"{where}.topologyKey: {key} is {_NODE_LABELS[key]}")
        if constraint.get("labelSelector") is None:
            warnings.append(f"{where}.labelSelector: {_NO_SELECTOR}")
    annotations = meta.get("annotations")
    if annotations:
        warnings += [
            f"{prefix}metadata.annotations[{key}]: {text}"
            for key, text in _ANNOTATIONS.items()
            if key in annotations
        ]
    if spec.get("volumes"):
        warnings += _volume_warnings(f"{path}.volumes", spec["volumes"])
    warnings += _list_warnings(path, spec)
    warnings += _container_warnings(path, spec)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        warnings.append(f"{path}.terminationGracePeriodSeconds: {text}")
    if affinity:
        warnings += _pod_affinity(f"{path}.affinity", affinity)
    return warnings


def node_term_warnings(path: str, term: Object, *, values: bool) -> list[str]:
    warnings: list[str] = []
    for i, expression in enumerate(term.get("matchExpressions") or ()):
        where, key = f"{path}.matchExpressions[{i}]", expression.get("key", "")
        if key in _NODE_LABELS:
            warnings.append(f"{where}.key: {key} is {_NODE_LABELS[key]}")
        for j, value in enumerate(expression.get("values") or () if values else ()):
            head = f"{where}.values[{j}]: {value} is invalid"
            warnings += [f"{head}, {problem}" for problem in label_value(value)]
    return warnings


def _node_affinity(path: str, affinity: Object | None) -> list[str]:
    warnings: list[str] = []
    terms = ((affinity or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    for i, term in enumerate(terms):
        where = f"{path}.{_REQUIRED}.nodeSelectorTerms[{i}]"
        warnings += node_term_warnings(where, term, values=False)
    for i, weighted in enumerate((affinity or {}).get(_PREFERRED) or ()):
        where = f"{path}.{_PREFERRED}[{i}].preference"
        warnings += node_term_warnings(where, weighted.get("preference") or {}, values=True)
    return warnings


def _pod_affinity(path: str, affinity: Object) -> list[str]:
    warnings: list[str] = []
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        for i, term in enumerate(terms.get(_REQUIRED) or ()):
            if term.get("labelSelector") is None:
                warnings.append(f"{path}.{kind}.{_REQUIRED}[{i}].labelSelector: {_NO_SELECTOR}")
        for i, weighted in enumerate(terms.get(_PREFERRED) or ()):
            if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
                where = f"{path}.{kind}.{_PREFERRED}[{i}].podAffinityTerm.labelSelector"
                warnings.append(f"{where}: {_NO_SELECTOR}")
    return warnings


def _volume_warnings(path: str, volumes: list[Object]) -> list[str]:
    warnings: list[str] = []
    for i, volume in enumerate(volumes):
        for kind, text in _VOLUMES.items():
            if volume.get(kind) is not None:
                warnings.append(f"{path}[{i}].{_VOLUME_PATHS.get(kind, kind)}: {text}")
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template:
            where = f"{path}[{i}].ephemeral.volumeClaimTemplate.spec"
            warnings += claim_warnings(where, template.get("spec") or {})
    return warnings


def _list_warnings(path: str, spec: Object) -> list[str]:
    warnings: list[str] = []
    for kind, field, word in (("hostAliases", "ip", "ip"), ("imagePullSecrets", "name", "name")):
        seen: set[str] = set()
        for i, item in enumerate(spec.get(kind) or ()):
            value = item.get(field, "")
            if value in seen:
                warnings.append(f'{path}.{kind}[{i}].{field}: duplicate {word} "{value}"')
            seen.add(value)
    for i, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            warnings.append(f'{path}.imagePullSecrets[{i}].name: invalid empty name ""')
    return warnings + _fractions(f"{path}.overhead", spec.get("overhead"))


def _fractions(path: str, resources: dict[str, str] | None) -> list[str]:
    warnings: list[str] = []
    for name in _BYTES:
        value = (resources or {}).get(name)
        if value is not None and quantity.nanos(value) % quantity.NANO:
            text = f'fractional byte value "{value}" is invalid, must be an integer'
            warnings.append(f"{path}[{name}]: {text}")
    return warnings


def _container_warnings(path: str, spec: Object) -> list[str]:
    warnings: list[str] = []
    ports: list[Port] = []
    for kind in _CONTAINER_LISTS:
        for i, container in enumerate(spec.get(kind) or ()):
            where = f"{path}.{kind}[{i}]"
            resources = container.get("resources")
            if resources:
                for part in ("limits", "requests"):
                    warnings += _fractions(f"{where}.resources.{part}", resources.get(part))
            if len(container.get("env") or ()) > 1:
                warnings += _env_warnings(f"{where}.env", container["env"])
            ports += [
                (f"{where}.ports[{j}]", p) for j, p in enumerate(container.get("ports") or ())
            ]
    return warnings + (_port_warnings(ports) if ports else [])


def _env_warnings(path: str, variables: list[Object]) -> list[str]:
    warnings: list[str] = []
    seen: set[str] = set()
    for i, variable in enumerate(variables):
        name, value = variable.get("name", ""), variable.get("value", "")
        if name in seen:
            reference = f"$({name})"
            builds_on = reference in value and value != reference
            if variable.get("valueFrom") is not None or not builds_on:
                text = (
                    f'hides previous definition of "{name}", which may be dropped when using apply'
                )
                warnings.append(f"{path}[{i}]: {text}")
        seen.add(name)
    return warnings


def _port_warnings(ports: list[Port]) -> list[str]:
    warnings: list[str] = []
    known: dict[tuple[int, str], _Rivals] = {}
    names: dict[str, str] = {}
    for where, port in ports:
        place = port.get("containerPort", 0), port.get("protocol", "")
        rivals = known.setdefault(place, _Rivals())
        for other_where, word in rivals.of(port):
            warnings.append(f"{where}: {word} port definition with {other_where}")
        rivals.add(where, port)
        if len(warnings) > MOST_PORTS:
            break
    for where, port in ports:
        name = port.get("name")
        if name and name in names:
            first = names[name]
            text = f'duplicate port name "{name}" with {first}, services and probes that select '
            warnings.append(f"{where}: {text}ports by name will use {first}")
        elif name:
            names[name] = where
    return warnings


class _Rivals:
    """Ports of one number and protocol in the pod, found by what they take on the host.

    Whoever is looked at gives a warning, so that looking ends with the warnings.
    """

    def __init__(self) -> None:
        self._all: list[_Placed] = []
        self._by_number: dict[int, list[_Placed]] = {}
        self._by_both: dict[tuple[int, str], list[_Placed]] = {}

    def add(self, where: str, port: Object) -> None:
        number, ip = port.get("hostPort", 0), port.get("hostIP", "")
        placed = len(self._all), where, number, ip
        self._all.append(placed)
        self._by_number.setdefault(number, []).append(placed)
        self._by_both.setdefault((number, ip), []).append(placed)

    def of(self, port: Object) -> Iterator[tuple[str, str]]:
        """Yield where the others are, and how they meet this port."""
        number, ip = port.get("hostPort", 0), port.get("hostIP", "")
        for _, where, other_number, other_ip in self._met(number, ip):
            if (number, ip) == (other_number, other_ip):
                yield where, "duplicate"
            elif 0 in (number, other_number):
                yield where, "overlapping"
            else:
                yield where, "dangerously ambiguous"

    def _met(self, number: int, ip: str) -> list[_Placed]:
        if not number:
            return self._all
        anywhere = self._by_number.get(0, [])
        if not ip:
            return sorted(anywhere + self._by_number.get(number, []))
        same, every = self._by_both.get((number, ip), []), self._by_both.get((number, ""), [])
        return sorted(anywhere + same + every)


def claim_warnings(path: str, spec: Object) -> list[str]:
    warnings: list[str] = []
    resources = spec.get("resources") or {}
    for part in ("requests", "limits"):
        value = (resources.get(part) or {}).get("storage")
        if value is not None and quantity.nanos(value) % quantity.NANO:
            text = f'fractional byte value "{value}" is invalid, must be an integer'
            warnings.append(f"{path}.resources.{part}[storage]: {text}")
    return warnings


def service_warnings(obj: Object) -> list[str]:
    spec = obj["spec"]
    warnings: list[str] = []
    headless = spec.get("type") == "ClusterIP" and spec.get("clusterIP") == "None"
    external = spec.get("type") == "ExternalName"
    if headless:
        if spec.get("loadBalancerIP"):
            warnings.append("spec.loadBalancerIP is ignored for headless services")
        if spec.get("externalIPs"):
            warnings.append("spec.externalIPs is ignored for headless services")
        if spec.get("sessionAffinity") != "None":
            warnings.append("spec.SessionAffinity is ignored for headless services")
    if spec.get("externalIPs") and not headless and not external:
        text = "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
        warnings.append(text)
    if external and spec.get("externalIPs"):
        warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if not external and spec.get("externalName"):
        warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        text = 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'
        warnings.append(text)
    return warnings


def volume_warnings(obj: Object) -> list[str]:
    """Warn about a PersistentVolume."""
    spec = obj["spec"]
    warnings: list[str] = []
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        text = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to "
        warnings.append(f"spec.persistentVolumeReclaimPolicy: {text}use dynamic provisioning.")
    required = (spec.get("nodeAffinity") or {}).get("required") or {}
    for i, term in enumerate(required.get("nodeSelectorTerms") or ()):
        where = f"spec.nodeAffinity.required.nodeSelectorTerms[{i}]"
        warnings += node_term_warnings(where, term, values=False)
    for kind, text in _VOLUMES.items():
        if kind not in ("gitRepo", "flocker", "quobyte") and spec.get(kind) is not None:
            warnings.append(f"spec.{_VOLUME_PATHS.get(kind, kind)}: {text}")
    return warnings

"""Environment variables of containers, and the references that volumes share with them."""

from __future__ import annotations

import re
from collections.abc import Collection

from bayplan.api.defaults.json_types import Object
from bayplan.api.names import dns1123_label, dns1123_subdomain, qualified_name
from bayplan.apiserver.validation.causes import Causes, invalid, known, not_supported, required
from bayplan.apiserver.validation.formats import check, config_key, env_name, named, no_backsteps

_ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
# What a field path may be at all; which of them fit depends on where it stands.
_KNOWN_FIELDS = frozenset(
    (*_ENV_FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase")
)
_RESOURCE_FIELDS = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGEPAGE_PREFIXES = ("requests.hugepages-", "limits.hugepages-")
_BYTE_DIVISORS = ("1", *(f"1{unit}" for unit in "kMGTPE"), *(f"1{unit}i" for unit in "KMGTPE"))
_SUBSCRIPT = re.compile(r"([^\[\]]*)\['(.*)'\]")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def validate_env(field: str, variables: list[Object]) -> Causes:
    causes: Causes = []
    for i, variable in enumerate(variables):
        path, name = f"{field}[{i}]", variable.get("name")
        causes += named(f"{path}.name", name, env_name)
        source = variable.get("valueFrom")
        if source is not None:
            causes += _validate_source(f"{path}.valueFrom", source, variable.get("value"))
    return causes


def _validate_source(field: str, source: Object, value: str | None) -> Causes:
    causes: Causes = []
    given = [name for name in _SOURCES if source.get(name) is not None]
    for name in given:
        path = f"{field}.{name}"
        if name == "fieldRef":
            causes += validate_field_ref(path, source[name], _ENV_FIELDS)
        elif name == "resourceFieldRef":
            causes += validate_resource_ref(path, source[name], volume=False)
        elif name == "fileKeyRef":
            causes += _validate_file_key(path, source[name])
        else:
            causes += _validate_key_ref(path, source[name])
    if not given:
        listed = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        causes.append(invalid(field, "", f"must specify one of: {listed}"))
    elif value:
        causes.append(invalid(field, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        text = "may not have more than one field specified at a time"
        causes.append(invalid(field, "", text))
    return causes


def validate_field_ref(field: str, reference: Object, supported: Collection[str]) -> Causes:
    version, path = reference.get("apiVersion", ""), reference.get("fieldPath", "")
    if not version:
        return [required(f"{field}.apiVersion")]
    if not path:
        return [required(f"{field}.fieldPath")]
    subscript = _SUBSCRIPT.fullmatch(path)
    base = subscript[1] if subscript else path
    unknown = (
        base not in ("metadata.annotations", "metadata.labels")
        if subscript
        else (path not in _KNOWN_FIELDS)
    )
    if version != "v1" or unknown:
        if version != "v1":
            why = f"unsupported pod version: {version}"
        elif subscript:
            why = f"field label does not support subscript: {base}"
        else:
            why = f"field label not supported: {path}"
        text = f"error converting fieldPath: {why}"
        return [invalid(f"{field}.fieldPath", path, text)]
    if subscript:
        key = subscript[2].lower() if base == "metadata.annotations" else subscript[2]
        return check(field, key, qualified_name)
    return known(f"{field}.fieldPath", path, sorted(supported))


def validate_resource_ref(field: str, reference: Object, *, volume: bool) -> Causes:
    causes: Causes = []
    resource = reference.get("resource", "")
    if volume and not reference.get("containerName"):
        causes.append(required(f"{field}.containerName"))
    elif not resource:
        causes.append(required(f"{field}.resource"))
    elif resource not in _RESOURCE_FIELDS and not resource.startswith(_HUGEPAGE_PREFIXES):
        causes.append(not_supported(f"{field}.resource", resource, _RESOURCE_FIELDS))
    return causes + _validate_divisor(field, resource, reference.get("divisor", "0"))


def _validate_divisor(field: str, resource: str, divisor: str) -> Causes:
    if divisor in ("0", ""):
        return []
    if resource.endswith(".cpu"):
        if divisor in ("1m", "1"):
            return []
        text = "only divisor's values 1m and 1 are supported with the cpu resource"
        return [invalid(f"{field}.divisor", resource, text)]
    what = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(
        resource.partition(".")[2]
    )
    if resource.startswith(_HUGEPAGE_PREFIXES):
        what = "hugepages"
    if what is None or divisor in _BYTE_DIVISORS:
        return []
    text = (
        f"only divisor's values {', '.join(_BYTE_DIVISORS)} are supported with the {what} resource"
    )
    return [invalid(f"{field}.divisor", resource, text)]


def _validate_key_ref(field: str, reference: Object) -> Causes:
    causes = check(f"{field}.name", reference.get("name", ""), dns1123_subdomain)
    key = reference.get("key")
    if not key:
        return [*causes, required(f"{field}.key")]
    return causes + check(f"{field}.key", key, config_key)


def _validate_file_key(field: str, reference: Object) -> Causes:
    causes = named(f"{field}.key", reference.get("key"), env_name)
    causes += named(f"{field}.volumeName", reference.get("volumeName"), dns1123_label)
    if not reference.get("path"):
        causes.append(required(f"{field}.path"))
    else:
        causes += no_backsteps(f"{field}.path", reference["path"])
    return causes


def validate_env_from(field: str, sources: list[Object]) -> Causes:
    causes: Causes = []
    for i, source in enumerate(sources):
        path = f"{field}[{i}]"
        if source.get("prefix"):
            causes += check(f"{path}.prefix", source["prefix"], env_name)
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in given:
            target = source[name].get("name")
            causes += named(f"{path}.{name}.name", target, dns1123_subdomain)
        if not given:
            text = "must specify one of: `configMapRef` or `secretRef`"
            causes.append(invalid(field, "", text))
        elif len(given) > 1:
            text = "may not have more than one field specified at a time"
            causes.append(invalid(field, "", text))
    return causes

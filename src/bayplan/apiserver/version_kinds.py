"""Kinds that only one version of Kubernetes serves, or behind a feature gate, or otherwise.

Fields that stand behind a gate that is off, or came with a newer version, are `Kind.hidden`: they
are dropped from what a client writes, unless the stored object has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from bayplan.api.schema import Type, type_for
from bayplan.apiserver.kinds import Kind, Subresource, built_in, kind_of
from bayplan.config import FeatureGates

_GATE = "featureGate="
_CSI_NODES = ("storage.k8s.io", "csinodes")
_SLICES = ("resource.k8s.io", "resourceslices")
_AUTOSCALERS = ("autoscaling", "horizontalpodautoscalers")
_SINCE_1_37: dict[tuple[str, str], tuple[str, ...]] = {
    _AUTOSCALERS: ("status", "conditions", "*", "observedGeneration"),
    _CSI_NODES: ("status",),
    ("", "nodes"): ("status", "nodeInfo", "runningInUserNamespace"),
}
_DEEPEST = 4
"""How deep a type may stand in itself; templates of composite groups may not be deeper."""


def version_kinds(gates: FeatureGates) -> list[Kind]:
    """The kinds of a version and its gates that not every server has."""
    modern = gates.since("1.37")
    found: list[Kind] = []
    if gates["GenericWorkload"]:
        scheduling = f"scheduling.k8s.io/{'v1beta1' if modern else 'v1alpha2'}"
        found.append(kind_of(scheduling, "podgroups PodGroup namespaced /status"))
        found.append(kind_of(scheduling, "workloads Workload namespaced"))
    if modern and gates["CompositePodGroup"]:
        row = "compositepodgroups CompositePodGroup namespaced /status"
        found.append(kind_of("scheduling.k8s.io/v1alpha3", row))
    if gates["DRADeviceTaintRules"]:
        resource = f"resource.k8s.io/{'v1' if modern else 'v1beta2'}"
        found.append(kind_of(resource, "devicetaintrules DeviceTaintRule /status"))
    if modern:
        certificates, migration = "certificates.k8s.io/v1", "storagemigration.k8s.io/v1"
        request = "podcertificaterequests PodCertificateRequest namespaced /status"
        found += [
            kind_of(certificates, "clustertrustbundles ClusterTrustBundle"),
            kind_of(certificates, request),
            kind_of(migration, "storageversionmigrations StorageVersionMigration /status"),
        ]
    found = [msgspec.structs.replace(kind, hidden=_hidden(kind, gates)) for kind in found]
    return found + list(_other_forms(modern))


def _other_forms(modern: bool) -> Iterator[Kind]:
    """The kinds of every server, where the version makes a difference."""
    for kind in built_in():
        resource = (kind.group, kind.resource)
        if not modern and resource in _SINCE_1_37:
            yield msgspec.structs.replace(kind, hidden=(_SINCE_1_37[resource],))
        elif modern and resource == _SLICES:
            fields = (*kind.field_labels, "spec.pool.name")
            yield msgspec.structs.replace(kind, field_labels=fields)
        elif modern and resource == _AUTOSCALERS:
            yield msgspec.structs.replace(kind, generation=True)
        elif modern and resource == _CSI_NODES:
            subs = {**kind.subresources, "status": Subresource("status", kind.kind)}
            # What it tells stands behind CSIVolumeHealth, which nobody here can switch on.
            hidden = (("status", "storageHealth"),)
            yield msgspec.structs.replace(kind, subresources=subs, hidden=hidden)


def _hidden(kind: Kind, gates: FeatureGates) -> tuple[tuple[str, ...], ...]:
    type_ = type_for(kind.api_version, kind.kind)
    assert type_ is not None
    off = {name for name in gates.names() if not gates[name]}
    return tuple(_gated(type_, off, ()))


def _gated(
    type_: Type, off: set[str], path: tuple[str, ...], within: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """The paths of fields whose gate is off; a list is passed by `*`."""
    if within.count(type_.name) == _DEEPEST:
        return
    within = (*within, type_.name)
    for field in type_.fields.values():
        here = (*path, field.name)
        needs = {rule.removeprefix(_GATE) for rule in field.rules if rule.startswith(_GATE)}
        if needs & off:
            yield here
        elif field.type.kind == "struct" and not field.type.name.startswith("meta."):
            yield from _gated(field.type, off, here, within)
        elif field.type.kind == "list" and (inner := field.type.elem) is not None:
            yield from _gated(inner, off, (*here, "*"), within)


def drop_hidden(kind: Kind, obj: dict[str, Any], old: dict[str, Any] | None) -> None:
    """Drop the fields of a new or changed object that stand behind a gate that is off."""
    for path in kind.hidden:
        _drop(obj, old, path)


def _drop(obj: Any, old: Any, path: Sequence[str]) -> None:
    name, rest = path[0], path[1:]
    if name == "*":
        for number, item in enumerate(obj or ()):
            _drop(item, old[number] if old and number < len(old) else None, rest)
    elif not isinstance(obj, dict) or name not in obj:
        return
    elif rest:
        _drop(obj[name], (old or {}).get(name), rest)
    elif not (old or {}).get(name):
        del obj[name]

"""Kinds that only one version of Kubernetes serves, or behind a feature gate, or otherwise.

Fields that stand behind a gate that is off, or came with a newer version, are `Kind.hidden`: they
are dropped from what a client writes, unless the stored object has them (`gated_fields`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from bayplan.api.schema import Type, type_for
from bayplan.apiserver.gated_fields import Tree, gated, tree_of
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
    return found + list(_other_forms(gates))


def _other_forms(gates: FeatureGates) -> Iterator[Kind]:
    """The kinds of every server, where the version or a gate makes a difference."""
    modern = gates.since("1.37")
    for kind in built_in():
        resource = (kind.group, kind.resource)
        features = list(gated(*resource, gates))
        changes: dict[str, Any] = {}
        if not modern and resource in _SINCE_1_37:
            features.append((_SINCE_1_37[resource],))
        elif modern and resource == _SLICES:
            changes["field_labels"] = (*kind.field_labels, "spec.pool.name")
        elif modern and resource == _AUTOSCALERS:
            changes["generation"] = True
        elif modern and resource == _CSI_NODES:
            status = Subresource("status", kind.kind)
            changes["subresources"] = {**kind.subresources, "status": status}
        if features or changes:
            yield msgspec.structs.replace(kind, hidden=tree_of(features), **changes)


def _hidden(kind: Kind, gates: FeatureGates) -> Tree:
    type_ = type_for(kind.api_version, kind.kind)
    assert type_ is not None
    off = {name for name in gates.names() if not gates[name]}
    return tree_of((path,) for path in _gated(type_, off, ()))


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

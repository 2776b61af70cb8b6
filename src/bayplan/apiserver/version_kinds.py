"""Kinds that only one version of Kubernetes serves, or that are served behind a feature gate.

The fields of such a kind that stand behind a further gate are `Kind.hidden` where that gate is off:
they are dropped from what a client writes, unless the stored object has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from bayplan.api.schema import Type, type_for
from bayplan.apiserver.kinds import Kind, kind_of
from bayplan.config import FeatureGates

_GATE = "featureGate="


def version_kinds(gates: FeatureGates) -> list[Kind]:
    """The kinds of a version and its gates that not every server has."""
    modern = gates.since("1.37")
    found: list[Kind] = []
    if gates["GenericWorkload"]:
        group, version = "scheduling.k8s.io", "v1beta1" if modern else "v1alpha2"
        found.append(kind_of(group, version, "podgroups", "PodGroup", True, status=True))
        found.append(kind_of(group, version, "workloads", "Workload", True))
    if gates["DRADeviceTaintRules"]:
        version = "v1" if modern else "v1beta2"
        found.append(
            kind_of(
                "resource.k8s.io",
                version,
                "devicetaintrules",
                "DeviceTaintRule",
                False,
                status=True,
            )
        )
    return [msgspec.structs.replace(kind, hidden=_hidden(kind, gates)) for kind in found]


def _hidden(kind: Kind, gates: FeatureGates) -> tuple[tuple[str, ...], ...]:
    type_ = type_for(kind.api_version, kind.kind)
    assert type_ is not None
    off = {name for name in gates.names() if not gates[name]}
    return tuple(_gated(type_, off, ()))


def _gated(type_: Type, off: set[str], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The paths of fields whose gate is off; a list is passed by `*`."""
    for field in type_.fields.values():
        here = (*path, field.name)
        needs = {rule.removeprefix(_GATE) for rule in field.rules if rule.startswith(_GATE)}
        if needs & off:
            yield here
        elif field.type.kind == "struct" and not field.type.name.startswith("meta."):
            yield from _gated(field.type, off, here)
        elif field.type.kind == "list" and (inner := field.type.elem) is not None:
            yield from _gated(inner, off, (*here, "*"))


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

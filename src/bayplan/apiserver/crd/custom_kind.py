"""Custom kinds: what a CustomResourceDefinition adds to the server.

A `CustomKind` is a `Kind` that also carries the structural schema of its version, the type made of
it, its printer columns and the paths of its scale subresource. All functions of this package that
handle custom objects take one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bayplan.api.schema import Type, custom_resource
from bayplan.apiserver.crd.conversion import Converter
from bayplan.apiserver.crd.defaults import View, has_defaults
from bayplan.apiserver.crd.pruning import PRESERVE
from bayplan.apiserver.crd.structural import has_rules
from bayplan.apiserver.crd.values import multiplies
from bayplan.apiserver.kinds import SUBRESOURCES, Kind, Subresource

Definition = Mapping[str, Any]
Object = dict[str, Any]


class CustomKind(Kind, frozen=True, kw_only=True):
    """A kind that a definition added."""

    schema: dict[str, Any]
    type: Type
    printer_columns: list[dict[str, Any]] = msgspec.field(default_factory=list)
    scale: dict[str, str] = msgspec.field(default_factory=dict)
    list_kind: str = ""
    multiplies: bool = False  # values are compared with many alternatives, or have defaults
    rules: Any = None  # crd.rules.Rules, or None where the schema has none
    stored_schema: dict[str, Any] | None = None  # of the storage version, if that is another one
    converter: Any = None  # crd.conversion.Converter, where a webhook converts


def kinds_of(definition: Definition) -> list[CustomKind]:
    """The kinds that a definition serves, one a version, in the order of the definition."""
    versions = definition["spec"]["versions"]
    storage = next((v for v in versions if v.get("storage")), versions[0])
    webhook = (definition["spec"].get("conversion") or {}).get("strategy") == "Webhook"
    converter = Converter(definition) if webhook and len(versions) > 1 else None
    return [
        _kind(definition, version, storage, converter)
        for version in versions
        if version.get("served")
    ]


def _schema(version: Mapping[str, Any]) -> dict[str, Any]:
    found = (version.get("schema") or {}).get("openAPIV3Schema")
    return found or {"type": "object", PRESERVE: True}


def _kind(
    definition: Definition,
    version: Mapping[str, Any],
    storage: Mapping[str, Any],
    converter: Converter | None,
) -> CustomKind:
    spec = definition["spec"]
    names = spec["names"]
    schema, stored = _schema(version), _schema(storage)
    subresources = version.get("subresources") or {}
    selectable = version.get("selectableFields") or ()
    return CustomKind(
        group=spec["group"],
        version=version["name"],
        resource=names["plural"],
        kind=names["kind"],
        namespaced=spec.get("scope") == "Namespaced",
        singular=names.get("singular") or names["kind"].lower(),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=_subresources(subresources, names["kind"]),
        field_labels=tuple(item["jsonPath"].removeprefix(".") for item in selectable),
        storage=(spec["group"], names["plural"]),
        storage_version=storage["name"],
        custom=True,
        view=View(stored) if has_defaults(stored) and converter is None else None,
        deprecated=_deprecation(spec["group"], version, names["kind"]),
        schema=schema,
        type=custom_resource(schema, names["kind"]),
        printer_columns=list(version.get("additionalPrinterColumns") or ()),
        scale=dict(subresources.get("scale") or {}),
        multiplies=multiplies(schema) or has_defaults(schema),
        rules=_rules(schema),
        list_kind=names.get("listKind") or f"{names['kind']}List",
        stored_schema=stored if storage is not version else None,
        marked=len(spec["versions"]) > 1,
        converter=converter,
    )


def _deprecation(group: str, version: Mapping[str, Any], kind: str) -> str:
    if not version.get("deprecated"):
        return ""
    default = f"{group}/{version['name']} {kind} is deprecated"
    return str(version.get("deprecationWarning") or default)


def _rules(schema: Mapping[str, Any]) -> Any:
    """The rules of a schema; what evaluates them is only loaded if there are any."""
    if not has_rules(schema):
        return None
    from bayplan.apiserver.crd.rules import Rules

    return Rules(schema)


def _subresources(wanted: Mapping[str, Any], kind: str) -> dict[str, Subresource]:
    found = {}
    if "scale" in wanted:
        found["scale"] = SUBRESOURCES["scale"]
    if "status" in wanted:
        found["status"] = Subresource("status", kind)
    return found


def custom(kind: Kind) -> CustomKind:
    """The kind as the custom kind it is; asking for another one is a programming error."""
    assert isinstance(kind, CustomKind), kind
    return kind


def is_costly(kind: Kind) -> bool:
    """Whether few bytes may be much to complete and to judge: it depends on the schema."""
    found = custom(kind)
    return found.rules is not None or found.multiplies


def type_of(kind: Kind) -> Type:
    """The type of a custom kind's objects, for apply and managedFields."""
    return custom(kind).type


ScalePath = tuple[str, ...]


def scale_paths(kind: Kind) -> tuple[ScalePath, ScalePath, ScalePath]:
    """Where replicas, observed replicas and the selector are, as keys; empty where not given."""
    scale = custom(kind).scale
    return (
        _keys(scale.get("specReplicasPath", "")),
        _keys(scale.get("statusReplicasPath", "")),
        _keys(scale.get("labelSelectorPath", "")),
    )


def _keys(path: str) -> ScalePath:
    return tuple(part for part in path.split(".") if part)

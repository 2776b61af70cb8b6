"""OpenAPI schemas of the API types, made from the schema table; descriptions are not in it.

`Writer` collects the schemas that a set of kinds needs, in the v3 form (`#/components/schemas/`)
or the v2 form (`#/definitions/`). Names are those of the real server, because clients look types
up by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api.schema import Field, Type, catalog, struct
from bayplan.api.schema.model import SCALARS

Schema = dict[str, Any]
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_NAMED = {
    "time": f"{META}.Time",
    "microtime": f"{META}.MicroTime",
    "duration": f"{META}.Duration",
    "quantity": QUANTITY,
    "intorstring": INT_OR_STRING,
    "object": RAW,
    "any": f"{EXTENSIONS}.JSON",
}
_PLAIN: dict[str, Schema] = {
    "string": {"type": "string"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "boolean": {"type": "boolean"},
    "number": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
}
_BODIES_V3: dict[str, Schema] = {
    f"{META}.Time": {"type": "string", "format": "date-time"},
    f"{META}.MicroTime": {"type": "string", "format": "date-time"},
    f"{META}.Duration": {"type": "string"},
    f"{META}.FieldsV1": {"type": "object"},
    QUANTITY: {"oneOf": [{"type": "string"}, {"type": "number"}]},
    INT_OR_STRING: {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
    RAW: {"type": "object"},
    f"{EXTENSIONS}.JSON": {},
}
_BODIES_V2: dict[str, Schema] = _BODIES_V3 | {
    QUANTITY: {"type": "string"},
    INT_OR_STRING: {"type": "string", "format": "int-or-string"},
}
assert set(_NAMED) | set(_PLAIN) == set(SCALARS.values())


def full_name(type_: Type) -> str:
    """The name of a struct as OpenAPI documents give it."""
    package, _, bare = type_.name.rpartition(".")
    return f"{catalog().packages[package]}.{bare}"


def custom_name(group: str, version: str, kind: str) -> str:
    """The name of a custom resource's schema: the group backwards."""
    return ".".join([*reversed(group.split(".")), version, kind])


class Writer:
    """Collects schemas and all that they refer to."""

    def __init__(self, v2: bool = False) -> None:
        self.v2 = v2
        self.found: dict[str, Schema] = {}
        self._prefix = "#/definitions/" if v2 else "#/components/schemas/"

    def reference(self, name: str) -> Schema:
        return {"$ref": self._prefix + name}

    def add(self, type_: Type, gvk: list[Mapping[str, str]] | None = None) -> Schema:
        """Write a struct (once) and return a reference to it."""
        name = full_name(type_)
        if name not in self.found:
            self.found[name] = {}  # types may contain themselves
            self.found[name] = self._struct(type_)
        if gvk:
            self.found[name]["x-kubernetes-group-version-kind"] = gvk
        return self.reference(name)

    def _struct(self, type_: Type) -> Schema:
        schema: Schema = {"type": "object"}
        required = [name for name, field in type_.fields.items() if field.required]
        if required:
            schema["required"] = required
        schema["properties"] = {
            name: self._field(field) for name, field in type_.fields.items() if field.published
        }
        if type_.atomic:
            schema["x-kubernetes-map-type"] = "atomic"
        unions = type_.raw.get("unions") if type_.raw is not None else None
        if unions:
            schema["x-kubernetes-unions"] = unions
        return schema

    def _field(self, field: Field) -> Schema:
        type_ = field.type
        schema = self._named(f"{META}.FieldsV1") if field.name == "fieldsV1" else self.of(type_)
        if "$ref" in schema and not self.v2:
            schema = {"allOf": [schema]}
            if type_.kind == "struct" and not field.pointer:
                schema["default"] = {}
        if field.default is not None and not self.v2:
            schema["default"] = field.default
        if field.enum:
            schema["enum"] = field.enum
        if type_.kind == "list" and field.name != "items":
            schema["x-kubernetes-list-type"] = type_.list_type
            if type_.keys:
                schema["x-kubernetes-list-map-keys"] = list(type_.keys)
        elif type_.kind == "map" and type_.atomic:
            schema["x-kubernetes-map-type"] = "atomic"
        if field.merge_key:
            schema["x-kubernetes-patch-merge-key"] = field.merge_key
        if field.strategy:
            schema["x-kubernetes-patch-strategy"] = ",".join(field.strategy)
        return schema

    def of(self, type_: Type) -> Schema:
        """The schema of a type; structs and named scalars become references."""
        if type_.kind == "struct":
            return self.add(struct(type_.name))
        if type_.kind == "list" and type_.elem is not None:
            return {"type": "array", "items": self._inner(type_.elem)}
        if type_.kind == "map" and type_.elem is not None:
            return {"type": "object", "additionalProperties": self._inner(type_.elem)}
        if type_.kind in _PLAIN:
            return dict(_PLAIN[type_.kind])
        return self._named(_NAMED[type_.kind])

    def _inner(self, type_: Type) -> Schema:
        schema = self.of(type_)
        if type_.kind == "struct" and not self.v2:
            return {"allOf": [schema], "default": {}}
        return schema

    def _named(self, name: str) -> Schema:
        bodies = _BODIES_V2 if self.v2 else _BODIES_V3
        self.found.setdefault(name, dict(bodies[name]))
        return self.reference(name)

    def add_custom(
        self, name: str, schema: Mapping[str, Any], gvk: list[Mapping[str, str]]
    ) -> Schema:
        """Write a custom resource's schema with its type and metadata."""
        if name not in self.found:
            body = dict(schema)
            properties = dict(body.get("properties") or {})
            properties["apiVersion"] = properties["kind"] = {"type": "string"}
            metadata = self.add(struct("meta.v1.ObjectMeta"))
            properties["metadata"] = metadata if self.v2 else {"allOf": [metadata]}
            body["properties"] = properties
            self.found[name] = body
        self.found[name]["x-kubernetes-group-version-kind"] = gvk
        return self.reference(name)

    def add_list(self, name: str, item: Schema, gvk: list[Mapping[str, str]]) -> Schema:
        """Write the list kind of a custom resource."""
        meta = self.add(struct("meta.v1.ListMeta"))
        self.found[name] = {
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "items": {"type": "array", "items": item},
                "kind": {"type": "string"},
                "metadata": meta if self.v2 else {"allOf": [meta]},
            },
            "x-kubernetes-group-version-kind": gvk,
        }
        return self.reference(name)

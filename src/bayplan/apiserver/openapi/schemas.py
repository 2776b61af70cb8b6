"""OpenAPI schemas of the API types, made from the schema table, with our own descriptions.

`Writer` collects the schemas that a set of kinds needs, in the v3 form (`#/components/schemas/`)
or the v2 form (`#/definitions/`). Names are those of the real server, because clients look types
up by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api.schema import Field, Type, catalog, struct
from bayplan.api.schema.model import SCALARS
from bayplan.apiserver.openapi import words

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
PRESERVE = "x-kubernetes-preserve-unknown-fields"
_ONLY_V3 = ("allOf", "anyOf", "oneOf", "not", "nullable")
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
        texts = words.of_type(type_.name, type_.fields)
        if words.ITSELF in texts:
            schema["description"] = texts[words.ITSELF]
        schema["properties"] = {
            name: _described(self._field(field), texts.get(name, ""))
            for name, field in type_.fields.items()
            if field.published
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
            self.found[name] = self._custom(schema)
        self.found[name]["x-kubernetes-group-version-kind"] = gvk
        return self.reference(name)

    def _custom(self, schema: Mapping[str, Any]) -> Schema:
        if self.v2 and schema.get(PRESERVE):
            return {"type": "object"}  # kubectl would refuse all fields but those that are told
        body = for_v2(schema) if self.v2 else dict(schema)
        return {**body, "properties": {**(body.get("properties") or {}), **self._shared()}}

    def _shared(self) -> dict[str, Schema]:
        """The properties that every custom resource has."""
        metadata = self.add(struct("meta.v1.ObjectMeta"))
        known = {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": metadata if self.v2 else {"allOf": [metadata]},
        }
        return {name: _described(known[name], text) for name, text in words.OBJECT.items()}

    def add_list(self, name: str, item: Schema, gvk: list[Mapping[str, str]]) -> Schema:
        """Write the list kind of a custom resource."""
        meta = self.add(struct("meta.v1.ListMeta"))
        self.found[name] = {
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": _described({"type": "string"}, words.LIST["apiVersion"]),
                "items": {"type": "array", "items": item},
                "kind": _described({"type": "string"}, words.LIST["kind"]),
                "metadata": _described(
                    meta if self.v2 else {"allOf": [meta]}, words.LIST["metadata"]
                ),
            },
            "x-kubernetes-group-version-kind": gvk,
        }
        return self.reference(name)


def _described(schema: Schema, text: str) -> Schema:
    return {"description": text, **schema} if text else schema


def for_v2(schema: Mapping[str, Any]) -> Schema:
    """Return a custom resource's schema without what version 2 does not know or kubectl trips over.

    What may be null has no type; what keeps unknown fields tells none.
    """
    body = {key: value for key, value in schema.items() if key not in _ONLY_V3}
    if schema.get("nullable"):
        body.pop("type", None)
    if schema.get("nullable") or schema.get(PRESERVE):
        body.pop("items", None)
        body.pop("properties", None)
    kind = body.get("type")
    if (kind == "array" and "items" not in body) or (kind == "object" and schema.get(PRESERVE)):
        del body["type"]
    if "properties" in body:
        properties: Mapping[str, Any] = body["properties"]
        body["properties"] = {name: for_v2(value) for name, value in properties.items()}
        required = [
            name for name in body.get("required") or () if not _nullable(properties.get(name))
        ]
        body = {**body, "required": required} if required else _without(body, "required")
    for name in ("items", "additionalProperties"):
        if isinstance(body.get(name), Mapping):
            body[name] = for_v2(body[name])
    if _nullable(schema.get("additionalProperties")):
        body = _without(body, "required")
    return body


def _nullable(schema: Any) -> bool:
    return isinstance(schema, Mapping) and bool(schema.get("nullable"))


def _without(schema: Schema, name: str) -> Schema:
    return {key: value for key, value in schema.items() if key != name}

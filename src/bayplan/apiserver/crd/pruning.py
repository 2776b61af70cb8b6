"""Drops what a structural schema does not name.

Go prints 1.0 as 1, so a whole number that a float can hold exactly becomes an integer here: clients
could not read `1.0` into an integer field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api.place import Place, below
from bayplan.api.schema import decode, struct, unknown_fields

Object = dict[str, Any]
Schema = Mapping[str, Any]
PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
TYPE_META = ("apiVersion", "kind", "metadata")
EXACT = 2**53 - 1
_ANYTHING: Schema = {PRESERVE: True}


def prune_root(obj: Object, schema: Schema, path: Place | str, found: list[Place]) -> Object:
    """Return an object without unknown fields; their places are added to `found`."""
    rest = {key: value for key, value in obj.items() if key not in TYPE_META}
    result: Object = {key: obj[key] for key in TYPE_META[:2] if key in obj}
    if isinstance(obj.get("metadata"), dict):
        meta_type = struct("meta.v1.ObjectMeta")
        metadata, dropped = decode(obj["metadata"], meta_type)
        if dropped:
            unknown = unknown_fields(meta_type, obj["metadata"])
            found.extend(below(path, f"metadata.{name}") for name in unknown)
        result["metadata"] = metadata
    return {**result, **_prune_object(rest, schema, path, found)}


def _prune_object(value: Object, schema: Schema, path: Place | str, found: list[Place]) -> Object:
    properties = schema.get("properties") or {}
    other = schema.get("additionalProperties")
    result: Object = {}
    for key, item in value.items():
        inner = below(path, key)
        if key in properties:
            result[key] = prune(item, properties[key], inner, found)
        elif isinstance(other, Mapping):
            result[key] = prune(item, other, inner, found)
        elif other or schema.get(PRESERVE):
            result[key] = prune(item, _ANYTHING, inner, found)
        else:
            found.append(inner)
    return result


def prune(value: Any, schema: Schema, path: Place | str, found: list[Place]) -> Any:
    """Return a value without unknown fields; their places are added to `found`."""
    if isinstance(value, dict):
        if schema.get(EMBEDDED):
            return prune_root(value, schema, path, found)
        return _prune_object(value, schema, path, found)
    if isinstance(value, list):
        items = schema.get("items", _ANYTHING)
        return [prune(v, items, Place(path, i), found) for i, v in enumerate(value)]
    return int(value) if isinstance(value, float) and is_whole(value) else value


def is_whole(value: float) -> bool:
    """Whether upstream takes a float for an integer."""
    return value.is_integer() and abs(value) <= EXACT

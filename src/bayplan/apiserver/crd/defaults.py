"""The `default`s of a structural schema: which there are, and writing them into a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api.patch import clone
from bayplan.apiserver.crd.pruning import prune

Schema = Mapping[str, Any]


def has_defaults(schema: Any) -> bool:
    """Whether anything in a schema has a default; most have none, and are shown as stored."""
    if not isinstance(schema, Mapping):
        return False
    if "default" in schema:
        return True
    inner = (*(schema.get("properties") or {}).values(), schema.get("items"))
    return any(map(has_defaults, (*inner, schema.get("additionalProperties"))))


def fill(value: Any, schema: Schema) -> None:
    """Write the defaults of a schema into a value, in place."""
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        for key, inner in properties.items():
            if value.get(key) is None and (key not in value or not inner.get("nullable")):
                value.pop(key, None)
                if "default" in inner:
                    value[key] = prune(clone(inner["default"]), inner, "", [])
            if key in value:
                fill(value[key], inner)
        other = schema.get("additionalProperties")
        if isinstance(other, Mapping):
            for key in value.keys() - properties.keys():
                fill(value[key], other)
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for item in value:
            fill(item, schema["items"])


class View:
    """Shows an object with the defaults of the stored version, which may be newer than it."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def __call__(self, obj: dict[str, Any]) -> dict[str, Any]:
        fill(obj, self._schema)
        return obj

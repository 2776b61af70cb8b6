"""The `default`s of a structural schema: which there are, and writing them into a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api.patch import clone
from bayplan.api.patch.values import size as size_of
from bayplan.apiserver.crd.pruning import prune

Schema = Mapping[str, Any]
MOST_FILLED = 3 << 20  # bytes of defaults in one object, as many as a request may have


def has_defaults(schema: Any) -> bool:
    """Whether anything in a schema has a default; most have none, and are shown as stored."""
    if not isinstance(schema, Mapping):
        return False
    if "default" in schema:
        return True
    inner = (*(schema.get("properties") or {}).values(), schema.get("items"))
    return any(map(has_defaults, (*inner, schema.get("additionalProperties"))))


def fill(value: Any, schema: Schema, most: int = MOST_FILLED) -> bool:
    """Write the defaults of a schema into a value, in place; say whether all had room."""
    filling = _Filling(most)
    filling.fill(value, schema)
    return filling.left >= 0


class _Filling:
    """The defaults of one object: what lists hold thousands of must not copy a large one as often.

    Nothing more is written when so many bytes are used up.
    """

    def __init__(self, most: int) -> None:
        self.left = most
        self._named: dict[int, list[tuple[str, int]]] = {}

    def fill(self, value: Any, schema: Schema) -> None:
        if isinstance(value, dict):
            self._object(value, schema)
        elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
            for item in value:
                self.fill(item, schema["items"])

    def _object(self, value: dict[str, Any], schema: Schema) -> None:
        properties = schema.get("properties") or {}
        for key in [key for key, item in value.items() if item is None and key in properties]:
            if not properties[key].get("nullable"):
                del value[key]
        for key, size in self._defaulted(properties):
            if key not in value and self.left >= 0:
                self.left -= size
                inner = properties[key]
                value[key] = prune(clone(inner["default"]), inner, "", [])
        other = schema.get("additionalProperties")
        for key, item in value.items():
            inner = properties.get(key, other)
            if isinstance(inner, Mapping):
                self.fill(item, inner)

    def _defaulted(self, properties: Mapping[str, Schema]) -> list[tuple[str, int]]:
        """Return the names that have a default, with its size."""
        found = self._named.get(id(properties))
        if found is None:
            own = [
                (key, inner["default"]) for key, inner in properties.items() if "default" in inner
            ]
            found = self._named[id(properties)] = [(key, size_of(default)) for key, default in own]
        return found


class View:
    """Shows an object with the defaults of the stored version, which may be newer than it."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def __call__(self, obj: dict[str, Any]) -> dict[str, Any]:
        fill(obj, self._schema)
        return obj

"""What stands under allOf, anyOf, oneOf and not in a structural schema.

It may only restrict values. Types, defaults and extensions belong outside, and every field that is
restricted there must be named outside as well; upstream sees to the latter at the root only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bayplan.api.place import Place
from bayplan.apiserver.validation.causes import Cause, forbidden, required

Schema = Mapping[str, Any]
JUNCTORS = ("anyOf", "allOf", "oneOf", "not")
# Fields that may not stand there, and what is said of them.
_OUTSIDE = {
    "type": "empty",
    "additionalProperties": "undefined",
    "default": "undefined",
    "title": "empty",
    "description": "empty",
    "nullable": "false",
    "x-kubernetes-preserve-unknown-fields": "false",
    "x-kubernetes-embedded-resource": "false",
    "x-kubernetes-int-or-string": "false",
    "x-kubernetes-list-map-keys": "empty",
    "x-kubernetes-list-type": "undefined",
    "x-kubernetes-map-type": "undefined",
    "x-kubernetes-validations": "empty",
}
_UNDEFINED = ("additionalProperties", "default", "x-kubernetes-list-type", "x-kubernetes-map-type")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def validate_junctors(schema: Schema, path: Place | str, *, root: bool) -> list[Cause]:
    """Every problem of what stands under the junctors of one schema."""
    causes: list[Cause] = []
    either = schema.get("anyOf") == _INT_OR_STRING
    for name, index, inner in _below(schema):
        if name == "anyOf" and either:
            continue
        first = name == "allOf" and index == 0 and inner.get("anyOf") == _INT_OR_STRING
        place = _place(path, name, index)
        causes += _nested({**inner, "anyOf": []} if first else inner, place)
        causes += _incomplete(inner, schema, path, place) if root else []
    return causes


def _below(schema: Schema) -> Iterator[tuple[str, int, Schema]]:
    for name in JUNCTORS:
        given = schema.get(name)
        items = [given] if isinstance(given, Mapping) else given or []
        for index, inner in enumerate(items):
            yield name, index, inner


def _place(path: Place | str, name: str, index: int) -> Place:
    return Place(path, ".not") if name == "not" else Place(path, f".{name}[{index}]")


def _nested(schema: Schema, path: Place | str) -> list[Cause]:
    causes: list[Cause] = []
    for name, index, inner in _below(schema):
        causes += _nested(inner, _place(path, name, index))
    items = schema.get("items")
    if isinstance(items, Mapping):
        causes += _nested(items, Place(path, ".items"))
    for key, inner in (schema.get("properties") or {}).items():
        causes += _nested(inner, Place(path, f".properties[{key}]"))
    for name, word in _OUTSIDE.items():
        value = schema.get(name)
        if value is not None if name in _UNDEFINED else bool(value):
            causes.append(forbidden(Place(path, f".{name}"), f"must be {word} to be structural"))
    if "metadata" in (schema.get("properties") or {}):
        text = "must not be specified in a nested context"
        causes.append(forbidden(Place(path, ".properties[metadata]"), text))
    return causes


def _incomplete(
    nested: Schema, schema: Schema, path: Place | str, place: Place | str
) -> list[Cause]:
    """What is restricted under a junctor without being there outside."""
    causes: list[Cause] = []
    for name, index, inner in _below(nested):
        causes += _incomplete(inner, schema, path, _place(place, name, index))
    items, there = nested.get("items"), schema.get("items")
    if isinstance(items, Mapping):
        if isinstance(there, Mapping):
            causes += _incomplete(items, there, Place(path, ".items"), Place(place, ".items"))
        else:
            causes.append(
                required(Place(path, ".items"), f"because it is defined in {place}.items")
            )
    known = schema.get("properties") or {}
    for key, inner in (nested.get("properties") or {}).items():
        here, inside = Place(path, f".properties[{key}]"), Place(place, f".properties[{key}]")
        if key in known:
            causes += _incomplete(inner, known[key], here, inside)
        else:
            causes.append(required(here, f"because it is defined in {inside}"))
    return causes

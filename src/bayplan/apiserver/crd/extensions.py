"""What a schema may say by extensions, and which fields of OpenAPI it may not use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api.place import Place
from bayplan.apiserver.validation.causes import (
    Cause,
    allowed,
    forbidden,
    invalid,
    repeated,
    required,
)

Schema = Mapping[str, Any]
LIST_TYPES = ("atomic", "set", "map")
MAP_TYPES = ("atomic", "granular")
PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
EMBEDDED = "x-kubernetes-embedded-resource"
LIST_TYPE, KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")


def validate_extensions(schema: Schema, path: Place | str) -> list[Cause]:
    causes = [
        forbidden(Place(path, f".{name}"), f"{name} is not supported")
        for name in _UNSUPPORTED
        if schema.get(name)
    ]
    if isinstance(schema.get("items"), list):
        text = "items must be a schema object and not an array"
        causes.append(forbidden(Place(path, ".items"), text))
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        causes.append(forbidden(Place(path, ".uniqueItems"), text))
    if schema.get(PRESERVE) is False:
        causes.append(invalid(Place(path, f".{PRESERVE}"), False, "must be true or undefined"))
    causes += _needs_type(schema, path, MAP_TYPE, "object")
    map_type = schema.get(MAP_TYPE)
    causes += allowed(Place(path, f".{MAP_TYPE}"), map_type, MAP_TYPES)
    causes += _validate_list(schema, path)
    for name in (PRESERVE, EMBEDDED):
        if schema.get(INT_OR_STRING) and schema.get(name):
            text = f"must be false if {INT_OR_STRING} is true"
            causes.append(invalid(Place(path, f".{name}"), True, text))
    return causes


def _needs_type(schema: Schema, path: Place | str, name: str, wanted: str) -> list[Cause]:
    kind = schema.get("type") or ""
    if schema.get(name) is None or kind == wanted:
        return []
    text = f"must be {wanted} if {name} is specified"
    return [
        invalid(Place(path, ".type"), kind, text) if kind else required(Place(path, ".type"), text)
    ]


def _validate_list(schema: Schema, path: Place | str) -> list[Cause]:
    causes = _needs_type(schema, path, LIST_TYPE, "array")
    list_type, keys = schema.get(LIST_TYPE), schema.get(KEYS) or []
    items = schema.get("items")
    items = items if isinstance(items, Mapping) else {}
    if not causes and list_type == "set" and items:
        causes += _validate_set_items(items, Place(path, ".items"))
    causes += allowed(Place(path, f".{LIST_TYPE}"), list_type, LIST_TYPES)
    if keys and list_type != "map":
        text = f"must be map if {KEYS} is non-empty"
        place = Place(path, f".{LIST_TYPE}")
        causes.append(
            required(place, text) if list_type is None else invalid(place, list_type, text)
        )
    if list_type == "map":
        causes += _validate_keys(schema, items, keys, path)
    if list_type in ("set", "map") and items.get("nullable"):
        text = f"cannot be nullable when {LIST_TYPE} is {list_type}"
        causes.append(forbidden(Place(path, ".items.nullable"), text))
    return causes


def _validate_set_items(items: Schema, path: Place | str) -> list[Cause]:
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.get("type") == "array" and items.get(LIST_TYPE) not in (None, "atomic"):
        return [invalid(Place(path, f".{LIST_TYPE}"), items[LIST_TYPE], text)]
    if items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        return [
            invalid(Place(path, f".{MAP_TYPE}"), items.get(LIST_TYPE), text)
        ]  # upstream shows that
    return []


def _validate_keys(
    schema: Schema, items: Schema, keys: list[str], path: Place | str
) -> list[Cause]:
    causes: list[Cause] = []
    if not keys:
        causes.append(
            required(Place(path, f".{KEYS}"), "must not be empty if x-kubernetes-list-type is map")
        )
    if "items" not in schema:
        text = "must have a schema if x-kubernetes-list-type is map"
        return [*causes, required(Place(path, ".items"), text)]
    if items and items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        return [*causes, invalid(Place(path, ".items.type"), items.get("type") or "", text)]
    properties = items.get("properties") or {}
    again = repeated(keys)
    for index, key in enumerate(keys):
        place = Place(path, f".items.properties[{key}]")
        if key not in properties:
            text = "entries must all be names of item properties"
            causes.append(invalid(Place(path, f".{KEYS}"), keys, text))
        elif properties[key].get("type") in ("array", "object"):
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            causes.append(invalid(Place(place, ".type"), items["type"], text))
        if index in again:
            causes.append(
                invalid(Place(path, f".{KEYS}"), keys, "must not contain duplicate entries")
            )
    needed = set(items.get("required") or ())
    for key in keys:
        one = properties.get(key)
        if one is None:
            continue
        place = Place(path, f".items.properties[{key}]")
        reason = f"this property is in {KEYS}, so it"
        if key not in needed and one.get("default") is None:
            text = f"{reason} must have a default or be a required property"
            causes.append(required(Place(place, ".default"), text))
        if one.get("nullable"):
            causes.append(forbidden(Place(place, ".nullable"), f"{reason} cannot be nullable"))
    return causes

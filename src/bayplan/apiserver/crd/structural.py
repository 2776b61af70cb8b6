"""Whether the schema in a definition is a structural one.

A structural schema names the type of every field outside of allOf, anyOf, oneOf and not. Pruning,
defaulting and apply rely on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api.patterns import PatternError, compile_pattern
from bayplan.api.place import Place
from bayplan.apiserver.crd.extensions import (
    EMBEDDED,
    INT_OR_STRING,
    PRESERVE,
    validate_extensions,
)
from bayplan.apiserver.crd.junctors import validate_junctors
from bayplan.apiserver.crd.values import validate_value
from bayplan.apiserver.validation.causes import (
    Cause,
    allowed,
    forbidden,
    invalid,
    required,
)

Schema = Mapping[str, Any]
TYPES = ("array", "boolean", "integer", "number", "object", "string")
RULES = "x-kubernetes-validations"


def has_rules(schema: Any) -> bool:
    """Whether anything in a schema has rules; most have none, and need no second walk."""
    if isinstance(schema, Mapping):
        return RULES in schema or any(map(has_rules, schema.values()))
    return isinstance(schema, list) and any(map(has_rules, schema))


def validate_schema(schema: Schema, path: Place | str) -> list[Cause]:
    """Every problem of the root schema of a version."""
    kind = schema.get("type", "")
    if kind and kind != "object":
        return [invalid(Place(path, ".type"), kind, "must be object at the root")]
    if not kind:
        return [required(Place(path, ".type"), "must not be empty at the root")]
    causes = _validate(schema, path)
    if causes or not has_rules(schema):
        return causes
    from bayplan.apiserver.crd.rule_checks import validate_rules_of

    return validate_rules_of(schema, path)


def _validate(schema: Schema, path: Place | str, level: str = "root") -> list[Cause]:
    causes = validate_extensions(schema, path) + _validate_type(schema, path, level)
    causes += _validate_pattern(schema, path) + validate_junctors(
        schema, path, root=level == "root"
    )
    if "default" in schema and level != "root":
        causes += [
            Cause(cause.reason, Place(path, ".default"), cause.message)
            for cause in validate_value(schema["default"], schema)
        ]
    causes += _validate_children(schema, path, level)
    items = schema.get("items")
    if isinstance(items, Mapping):
        causes += _validate(items, Place(path, ".items"), "item")
    elif schema.get("type") == "array" and not items:
        causes.append(required(Place(path, ".items"), "must be specified"))
    return causes


def _validate_children(schema: Schema, path: Place | str, level: str) -> list[Cause]:
    causes: list[Cause] = []
    properties = schema.get("properties") or {}
    other = schema.get("additionalProperties")
    place = Place(path, ".additionalProperties")
    if properties and (isinstance(other, Mapping) or other is False):
        text = "additionalProperties and properties are mutual exclusive"
        causes.append(forbidden(place, text))
    if other is not None and level == "root":
        causes.append(forbidden(place, "must not be used at the root"))
    if other is not None and schema.get(EMBEDDED):
        causes.append(forbidden(place, f"must not be used if {EMBEDDED} is set"))
    whole = level == "root" or bool(schema.get(EMBEDDED))
    for name, inner in properties.items():
        inside = Place(path, f".properties[{name}]")
        if whole and name in TYPE_META:
            causes += _validate_meta(inner, inside, name, level)
        else:
            causes += _validate(inner, inside, "field")
    if isinstance(other, Mapping):
        causes += _validate(other, place, "field")
    return causes


TYPE_META = {"metadata": "object", "apiVersion": "string", "kind": "string"}
_NAMES = {"name", "generateName"}


def _validate_meta(schema: Schema, path: Place | str, name: str, level: str) -> list[Cause]:
    """The fields of every object: their types are known, and little may be said of them."""
    causes: list[Cause] = []
    kind = schema.get("type") or ""
    if kind != TYPE_META[name]:
        causes.append(invalid(Place(path, ".type"), kind, f"must be {TYPE_META[name]}"))
    if level == "root" and "default" in schema:
        causes.append(forbidden(Place(path, ".default"), f"must not be set in top-level {name}"))
    if name == "metadata" and level == "root":
        rest = {key for key, value in schema.items() if value} - {"type", "default", "properties"}
        if rest or not set(schema.get("properties") or {}) <= _NAMES:
            text = (
                "must not specify anything other than name and generateName, "
                "but metadata is implicitly specified"
            )
            causes.append(forbidden(path, text))
    return causes


_WHERE = {
    "root": "at the root",
    "item": "for specified array items",
    "field": "for specified object fields",
}


def _validate_type(schema: Schema, path: Place | str, level: str) -> list[Cause]:
    kind, causes = schema.get("type") or "", list[Cause]()
    place = Place(path, ".type")
    causes += allowed(place, kind or None, TYPES)
    if kind == "null":
        text = "type cannot be set to null, use nullable as an alternative"
        causes.append(forbidden(place, text))
    if schema.get(EMBEDDED):
        text = f"must be object if {EMBEDDED} is true"
        if kind != "object":
            causes.append(invalid(place, kind, text) if kind else required(place, text))
        if not schema.get(PRESERVE) and not schema.get("properties"):
            text = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
            causes.append(required(Place(path, ".properties"), text))
    elif not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        causes.append(required(place, f"must not be empty {_WHERE[level]}"))
    return causes


def _validate_pattern(schema: Schema, path: Place | str) -> list[Cause]:
    pattern = schema.get("pattern")
    if not pattern:
        return []
    try:
        compile_pattern(pattern)
    except PatternError as error:
        text = f"must be a valid regular expression, but isn't: {error}"
        return [invalid(Place(path, ".pattern"), pattern, text)]
    return []

"""Whether the schema in a definition is a structural one.

A structural schema names the type of every field outside of allOf, anyOf, oneOf and not. Pruning,
defaulting and apply rely on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api.patterns import PatternError, compile_pattern
from bayplan.apiserver.crd.values import validate_value
from bayplan.apiserver.validation.errors import Cause, forbidden, invalid, not_supported, required

Schema = Mapping[str, Any]
TYPES = ("array", "boolean", "integer", "number", "object", "string")
INT_OR_STRING = "x-kubernetes-int-or-string"
PRESERVE = "x-kubernetes-preserve-unknown-fields"
LIST_TYPES = ("atomic", "set", "map")
RULES = "x-kubernetes-validations"
MAP_TYPES = ("atomic", "granular")


def has_rules(schema: Any) -> bool:
    """Whether anything in a schema has rules; most have none, and need no second walk."""
    if isinstance(schema, Mapping):
        return RULES in schema or any(map(has_rules, schema.values()))
    return isinstance(schema, list) and any(map(has_rules, schema))


def validate_schema(schema: Schema, path: str) -> list[Cause]:
    """Every problem of the root schema of a version."""
    kind = schema.get("type", "")
    if kind and kind != "object":
        return [invalid(f"{path}.type", kind, "must be object at the root")]
    if not kind:
        return [required(f"{path}.type", "must not be empty at the root")]
    causes = _validate(schema, path, root=True)
    if causes or not has_rules(schema):
        return causes
    from bayplan.apiserver.crd.rule_checks import validate_rules_of

    return validate_rules_of(schema, path)


def _validate(schema: Schema, path: str, *, root: bool = False) -> list[Cause]:
    causes = _validate_type(schema, path) + _validate_extensions(schema, path)
    causes += _validate_pattern(schema, path)
    if "default" in schema and not root:
        causes += [
            Cause(cause.reason, f"{path}.default", cause.message)
            for cause in validate_value(schema["default"], schema)
        ]
    properties = schema.get("properties")
    other = schema.get("additionalProperties")
    if properties and other:
        text = "additionalProperties and properties are mutual exclusive"
        causes.append(forbidden(f"{path}.additionalProperties", text))
    for name, inner in (properties or {}).items():
        if root and name in ("metadata", "apiVersion", "kind"):
            continue
        causes += _validate(inner, f"{path}.properties[{name}]")
    if isinstance(other, Mapping):
        causes += _validate(other, f"{path}.additionalProperties")
    items = schema.get("items")
    if isinstance(items, Mapping):
        causes += _validate(items, f"{path}.items")
    elif schema.get("type") == "array":
        causes.append(required(f"{path}.items", "must be specified"))
    return causes


def _validate_type(schema: Schema, path: str) -> list[Cause]:
    kind = schema.get("type", "")
    if kind in TYPES:
        return []
    if kind:
        return [not_supported(f"{path}.type", kind, TYPES)]
    if schema.get(INT_OR_STRING) or schema.get(PRESERVE):
        return []
    return [required(f"{path}.type", "must not be empty for specified object fields")]


def _validate_pattern(schema: Schema, path: str) -> list[Cause]:
    pattern = schema.get("pattern")
    if not pattern:
        return []
    try:
        compile_pattern(pattern)
    except PatternError as error:
        text = f"must be a valid regular expression, but isn't: {error}"
        return [invalid(f"{path}.pattern", pattern, text)]
    return []


def _validate_extensions(schema: Schema, path: str) -> list[Cause]:
    causes = []
    list_type = schema.get("x-kubernetes-list-type")
    if list_type is not None and list_type not in LIST_TYPES:
        causes.append(not_supported(f"{path}.x-kubernetes-list-type", list_type, LIST_TYPES))
    if list_type == "map" and not schema.get("x-kubernetes-list-map-keys"):
        text = "must not be empty if x-kubernetes-list-type is map"
        causes.append(required(f"{path}.x-kubernetes-list-map-keys", text))
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is not None and map_type not in MAP_TYPES:
        causes.append(not_supported(f"{path}.x-kubernetes-map-type", map_type, MAP_TYPES))
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        causes.append(forbidden(f"{path}.uniqueItems", text))
    return causes

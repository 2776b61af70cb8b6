"""Validates values against an OpenAPI v3 schema, with the words of the real API server.

Covers what structural schemas may say: types, formats, enums, bounds, lengths, patterns, required
and further properties, allOf/anyOf/oneOf/not, int-or-string, list sets and maps. Every problem is
reported. Rules in CEL (`x-kubernetes-validations`) are in `rules.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api.patch import identity, same
from bayplan.api.patterns import PatternError, compile_pattern
from bayplan.api.place import Place, below
from bayplan.apiserver.crd.formats import matches_format
from bayplan.apiserver.crd.pruning import is_whole
from bayplan.apiserver.validation.causes import (
    Cause,
    duplicate,
    invalid,
    kept,
    look,
    not_supported,
    quote,
    required,
    too_long,
    too_many,
    trying,
)

Schema = Mapping[str, Any]
_ROOT = {"apiVersion", "kind", "metadata"}
NO_FIELD = "<nil>"
TRIED = 3  # an alternative, in the time of a value
FEW = 2  # alternatives, as of what is a number or a string
AT_ONCE = 64  # values of an enum that are looked at in the time of a value
EMBEDDED = "x-kubernetes-embedded-resource"


def validate_value(value: Any, schema: Schema, path: Place | str = "") -> list[Cause]:
    """All problems of a value; `path` is the field it is in (empty for a whole object)."""
    look()
    if value is None and (schema.get("nullable") or not path):
        return []
    causes: list[Cause] = []
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            causes = [_type_cause(path, value, "integer,string")]
    elif not _has_type(value, schema.get("type")) or value is None:
        causes = [_wrong_type(value, schema, path), *_not_whole(value, schema, path)]
    causes += _enum(value, schema, path)
    if isinstance(value, str):
        causes += _string(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        causes += _number(value, schema, path)
    elif isinstance(value, list):
        causes += _list(value, schema, path)
    elif isinstance(value, dict):
        causes += _object(value, schema, path)
    return causes + _combined(value, schema, path)


def multiplies(schema: Schema) -> bool:
    """Say whether values of it are compared with more than one or two others each."""
    alternatives = sum(len(schema.get(name) or ()) for name in ("allOf", "anyOf", "oneOf"))
    if alternatives > FEW or len(schema.get("enum") or ()) > AT_ONCE:
        return True
    inner = [*(schema.get("properties") or {}).values()]
    inner += [each for name in ("allOf", "anyOf", "oneOf") for each in schema.get(name) or ()]
    inner += [schema.get(name) for name in ("items", "additionalProperties", "not")]
    return any(multiplies(each) for each in inner if isinstance(each, Mapping))


def _has_type(value: Any, wanted: str | None) -> bool:
    match wanted:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            whole = isinstance(value, int) or (isinstance(value, float) and is_whole(value))
            return whole and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
    return True


def _not_whole(value: Any, schema: Schema, path: Place | str) -> list[Cause]:
    """A second complaint of upstream's about numbers where integers belong."""
    if schema.get("type") != "integer" or not isinstance(value, float):
        return []
    if value.is_integer() and -(2**63) <= value < 2**63:
        return []
    text = f"Checked value must be of type integer (default format) in {path}"
    return [Cause("FieldValueInvalid", NO_FIELD, f'Invalid value: "": {text}')]


def _wrong_type(value: Any, schema: Schema, path: Place | str) -> Cause:
    return _type_cause(path, value, str(schema.get("type", "object")))


def _type_cause(path: Place | str, value: Any, wanted: str) -> Cause:
    found = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array"}
    name = "null" if value is None else found.get(type(value), "object")
    text = f'Invalid value: "{name}": {path} in body must be of type {wanted}: "{name}"'
    return Cause("FieldValueTypeInvalid", path, text)


def _bad(path: Place | str, value: Any, text: str) -> Cause:
    return invalid(path, value, f"{path} in body {text}")


def _enum(value: Any, schema: Schema, path: Place | str) -> list[Cause]:
    allowed = schema.get("enum")
    if not allowed:
        return []
    look(len(allowed) // AT_ONCE)
    # Strings, which nearly all are, cannot be the same as anything else: looked for without Python.
    if value in allowed if isinstance(value, str) else any(same(value, one) for one in allowed):
        return []
    texts = [item if isinstance(item, str) else quote(item) for item in allowed]
    return [not_supported(path, value, texts)]


def _string(value: str, schema: Schema, path: Place | str) -> list[Cause]:
    causes = []
    most, least = schema.get("maxLength"), schema.get("minLength")
    if most is not None and len(value) > most:
        causes.append(too_long(path, most))
    if least is not None and len(value) < least:
        causes.append(_bad(path, value, f"should be at least {least} chars long"))
    pattern = schema.get("pattern")
    if pattern and not _found(pattern, value):
        causes.append(_bad(path, value, f"should match '{pattern}'"))
    format_ = schema.get("format")
    if format_ and not matches_format(format_, value):
        shown = quote(value)
        text = f"Invalid value: {shown}: {path} in body must be of type {format_}: {shown}"
        causes.append(Cause("FieldValueTypeInvalid", path, text))
    return causes


def _found(pattern: str, value: str) -> bool:
    try:
        return compile_pattern(pattern).search(value) is not None
    except PatternError:  # of a definition from before patterns were checked
        return True


def _number(value: float, schema: Schema, path: Place | str) -> list[Cause]:
    causes = []
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and (value < least or (schema.get("exclusiveMinimum") and value == least)):
        words = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        causes.append(_bad(path, value, f"should be {words} {_number_text(least)}"))
    if most is not None and (value > most or (schema.get("exclusiveMaximum") and value == most)):
        words = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        causes.append(_bad(path, value, f"should be {words} {_number_text(most)}"))
    step = schema.get("multipleOf")
    if step and not float(value / step).is_integer():
        causes.append(_bad(path, value, f"should be a multiple of {_number_text(step)}"))
    bits = {"int32": 31, "int64": 63}.get(str(schema.get("format")))
    if bits and schema.get("type") == "integer" and not -(2**bits) <= value < 2**bits:
        causes.append(_bad(path, value, f"must be of type {schema['format']}: {quote(value)}"))
    return causes


def _number_text(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def _list(value: list[Any], schema: Schema, path: Place | str) -> list[Cause]:
    causes = []
    most, least = schema.get("maxItems"), schema.get("minItems")
    if most is not None and len(value) > most:
        causes.append(too_many(path, len(value), most))
    if least is not None and len(value) < least:
        causes.append(_bad(path, value, f"should have at least {least} items"))
    causes += _duplicates(value, schema, path)
    items = schema.get("items")
    if isinstance(items, Mapping):
        for index, item in enumerate(value):
            causes += validate_value(item, items, Place(path, index))
    return causes


def _duplicates(value: list[Any], schema: Schema, path: Place | str) -> list[Cause]:
    list_type = schema.get("x-kubernetes-list-type")
    if list_type != "map":
        unique = schema.get("uniqueItems") or list_type == "set"
        return _repeated(list(enumerate(value)), path) if unique else []
    names = schema.get("x-kubernetes-list-map-keys") or ()
    text = "must be an object for an array of list-type map"
    keys, causes = [], []
    for index, item in enumerate(value):
        if isinstance(item, dict):
            keys.append((index, {name: item.get(name) for name in names}))
        else:
            causes.append(invalid(Place(path, index), item, text))
    return causes + _repeated(keys, path)


def _repeated(keys: list[tuple[int, Any]], path: Place | str) -> list[Cause]:
    causes = []
    seen: set[object] = set()
    for index, key in keys:
        known = identity(key)
        if known in seen:
            causes.append(duplicate(Place(path, index), key))
        seen.add(known)
    return causes


def _object(value: dict[str, Any], schema: Schema, path: Place | str) -> list[Cause]:
    wanted = schema.get("required") or ()
    causes = [required(below(path, name)) for name in wanted if name not in value]
    if schema.get(EMBEDDED):
        missing = [name for name in ("apiVersion", "kind") if not value.get(name)]
        causes += [required(below(path, name)) for name in missing]
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if most is not None and len(value) > most:
        causes.append(too_many(path, len(value), most))
    if least is not None and len(value) < least:
        causes.append(_bad(path, value, f"should have at least {least} properties"))
    properties = schema.get("properties") or {}
    other = schema.get("additionalProperties")
    for key, item in value.items():
        if not path and key in _ROOT:
            continue
        inner = properties.get(key, other)
        if isinstance(inner, Mapping):
            causes += validate_value(item, inner, below(path, key))
    return causes


def _combined(value: Any, schema: Schema, path: Place | str) -> list[Cause]:
    """allOf, anyOf, oneOf and not; upstream's complaints about the whole have no field."""
    causes: list[Cause] = []
    for inner in schema.get("allOf") or ():
        problems = validate_value(value, inner, path)
        if problems:
            causes += [*problems, _whole(path, "must validate all the schemas (allOf)")]
    any_of = schema.get("anyOf")
    if any_of and not schema.get("x-kubernetes-int-or-string"):
        tried = [_tried(value, inner, path) for inner in any_of]
        if all(tried):
            whole = _whole(path, "must validate at least one schema (anyOf)")
            causes += [whole, *kept(min(tried, key=len))]
    one_of = schema.get("oneOf")
    if one_of:
        tried = [_tried(value, inner, path) for inner in one_of]
        passing = sum(not problems for problems in tried)
        found = "none valid" if not passing else f"{passing} valid alternatives"
        if passing != 1:
            text = f"must validate one and only one schema (oneOf). Found {found}"
            causes += [_whole(path, text), *([] if passing else kept(min(tried, key=len)))]
    if schema.get("not") is not None and not _tried(value, schema["not"], path):
        causes.append(_whole(path, "must not validate the schema (not)"))
    return causes


def _tried(value: Any, schema: Schema, path: Place | str) -> list[Cause]:
    look(TRIED)
    with trying():
        return validate_value(value, schema, path)


def _whole(path: Place | str, text: str) -> Cause:
    return Cause("FieldValueInvalid", NO_FIELD, f'Invalid value: "": "{path}" {text}')

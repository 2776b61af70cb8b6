"""Types of expressions made from an OpenAPI schema, and values of JSON seen through it.

A `Declared` knows the CEL type of a part of a schema, how large it can be (for estimates) and how
its JSON becomes a value: numbers are doubles, times are times, lists of sets know no order. Parts
whose JSON already is the value are handed through untouched.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any

from bayplan.cel import types as t
from bayplan.cel.checker import Structs
from bayplan.cel.errors import EvaluationError
from bayplan.cel.syntax import RESERVED
from bayplan.cel.times import parse_duration, parse_timestamp
from bayplan.cel.types import Type
from bayplan.cel.values import MapList, SetList

Schema = Mapping[str, Any]
MAX_REQUEST = 3 * 1024 * 1024
_WORDS = RESERVED | {"true", "false", "null", "in"}
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_UNESCAPES = {value: key for key, value in _ESCAPES.items()}
_SPECIAL = re.compile(r"__|[-./]")
_ESCAPED = re.compile(r"__[^_]+__")
_NAME = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*", re.ASCII)


def escape(name: str) -> str | None:
    """How an expression writes a field; None if it cannot."""
    if name in _WORDS:
        return f"__{name}__"
    if _NAME.fullmatch(name) is None:
        return None
    return _SPECIAL.sub(lambda found: _ESCAPES[found[0]], name)


def unescape(name: str) -> str:
    """The field that an expression means."""
    return _ESCAPED.sub(lambda found: _UNESCAPES.get(found[0], found[0][2:-2]), name)


class Declared:
    """A part of a schema as expressions see it."""

    def __init__(
        self,
        type: Type,
        *,
        most: int = 0,
        least_bytes: int = 1,
        fields: dict[str, Declared] | None = None,
        item: Declared | None = None,
        convert: Callable[[Any], Any] | None = None,
    ) -> None:
        self.type = type
        self.most = most  # elements, characters
        self.least_bytes = least_bytes
        self.fields = fields
        self.item = item
        self.convert = convert

    def value(self, given: Any) -> Any:
        """A value of JSON as expressions see it."""
        return given if self.convert is None or given is None else self.convert(given)

    def structs(self) -> Structs:
        """The fields of all objects in it, by the names of their types."""
        found: Structs = {}
        if self.item is not None:
            found.update(self.item.structs())
        if self.fields is not None:
            found[self.type.name] = {name: each.type for name, each in self.fields.items()}
            for each in self.fields.values():
                found.update(each.structs())
        return found

    def size_of(self, path: tuple[str, ...]) -> int | None:
        """How large the part at a path can be; the first step names the variable."""
        at: Declared | None = self
        for step in path[1:]:
            if at is None:
                return None
            if step in ("@items", "@values"):
                at = at.item
            elif step == "@keys":
                at = _KEY if at.item is not None and at.type.kind == "map" else None
            else:
                at = (at.fields or {}).get(step)
        return None if at is None else at.most

    @property
    def cardinality(self) -> int:
        """How often such a value can stand in one request."""
        return MAX_REQUEST // (self.least_bytes + 1)


_KEY = Declared(t.STRING, least_bytes=2)  # upstream gives keys no size


def declare(schema: Schema, name: str, *, root: bool = False) -> Declared | None:
    """Make the declaration of a schema; None if expressions cannot see it."""
    if schema.get("x-kubernetes-int-or-string"):
        longest = schema.get("maxLength")
        most = MAX_REQUEST - 2 if longest is None else max(longest, 0) * 4
        return Declared(t.DYN, most=most)
    kind = schema.get("type")
    if root or schema.get("x-kubernetes-embedded-resource"):
        schema = _with_meta(schema)
    if kind == "array":
        return _array(schema, name)
    if kind == "object":
        return _object(schema, name)
    if kind == "string":
        return _string(schema)
    if kind == "boolean":
        return Declared(t.BOOL, least_bytes=4)
    if kind == "number":
        return Declared(t.DOUBLE, convert=float)
    return Declared(t.INT, convert=_whole) if kind == "integer" else None


def _whole(value: Any) -> Any:
    return int(value) if type(value) is float and value.is_integer() else value


_META: Schema = {
    "kind": {"type": "string"},
    "apiVersion": {"type": "string"},
    "metadata": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
    },
}


def _with_meta(schema: Schema) -> Schema:
    """Type and name are always there at the root of a resource."""
    return {**schema, "properties": {**(schema.get("properties") or {}), **_META}}


def _array(schema: Schema, name: str) -> Declared | None:
    items = schema.get("items")
    item = declare(items, f"{name}.@idx") if isinstance(items, Mapping) else None
    if item is None:
        return None
    most = schema.get("maxItems")
    if most is None:
        most = (MAX_REQUEST - 2) // (item.least_bytes + 1)
    return Declared(
        t.list_of(item.type),
        most=max(most, 0),
        least_bytes=2,
        item=item,
        convert=_list_conversion(schema, item),
    )


def _list_conversion(schema: Schema, item: Declared) -> Callable[[Any], Any] | None:
    kind = schema.get("x-kubernetes-list-type")
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    if kind == "set":
        return lambda given: SetList(map(item.value, given))
    if kind == "map":

        def convert(given: Any) -> MapList:
            made = MapList(map(item.value, given))
            made.keys = keys
            return made

        return convert
    if item.convert is None:
        return None
    return lambda given: [item.value(each) for each in given]


def _object(schema: Schema, name: str) -> Declared | None:
    other = schema.get("additionalProperties")
    if isinstance(other, Mapping):
        return _map(schema, other, name)
    fields: dict[str, Declared] = {}
    required = schema.get("required") or ()
    least = 2
    for key, inner in (schema.get("properties") or {}).items():
        escaped = escape(key)
        found = declare(inner, f"{name}.{escaped}")
        if found is None:
            continue
        if escaped is not None:
            fields[escaped] = found
        if key in required and inner.get("default") is None:
            least += len(key) + found.least_bytes + 4
    conversions = {
        unescape(escaped): found.value
        for escaped, found in fields.items()
        if found.convert is not None
    }
    convert = _object_conversion(conversions) if conversions else None
    return Declared(t.struct(name), most=0, least_bytes=least, fields=fields, convert=convert)


def _object_conversion(
    conversions: Mapping[str, Callable[[Any], Any]],
) -> Callable[[Any], Any]:
    def convert(given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        made = dict(given)
        for key, each in conversions.items():
            if key in made:
                made[key] = each(made[key])
        return made

    return convert


def _map(schema: Schema, other: Schema, name: str) -> Declared | None:
    item = declare(other, f"{name}.@elem")
    if item is None:
        return None
    most = schema.get("maxProperties")
    if most is None:
        most = (MAX_REQUEST - 2) // (item.least_bytes + 6)
    convert = None
    if item.convert is not None:
        value = item.value
        convert = lambda given: {key: value(each) for key, each in given.items()}  # noqa: E731
    return Declared(
        t.map_of(t.STRING, item.type),
        most=max(most, 0),
        least_bytes=2,
        item=item,
        convert=convert,
    )


def _date(text: str) -> Any:
    return parse_timestamp(f"{text}T00:00:00Z")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as problem:
        raise EvaluationError(f"Invalid byte formatted string {text}: {problem}") from None


_FORMATS: dict[str, tuple[Type, int, int, Callable[[str], Any]]] = {
    "byte": (t.BYTES, MAX_REQUEST - 2, 2, _bytes),
    "duration": (t.DURATION, 32, 3, parse_duration),
    "date": (t.TIMESTAMP, 12, 12, _date),
    "date-time": (t.TIMESTAMP, 32, 21, parse_timestamp),
}


def _string(schema: Schema) -> Declared:
    longest = schema.get("maxLength")
    found = _FORMATS.get(schema.get("format") or "")
    if found is not None:
        kind, most, least, convert = found
        if kind is t.BYTES and longest is not None:
            most = max(longest, 0)
        return Declared(kind, most=most, least_bytes=least, convert=convert)
    if longest is not None:
        most = max(longest, 0) * 4
    elif schema.get("enum"):
        most = max(len(each.encode()) for each in schema["enum"] if isinstance(each, str))
    else:
        most = MAX_REQUEST - 2
    return Declared(t.STRING, most=most, least_bytes=2)

"""Turns a decoded JSON or YAML body into the canonical form of its kind.

The real API server reads a body into a Go struct and prints that struct again. Fields it does not
know are dropped, nulls and empty `omitempty` values vanish, structs that are not pointers appear
as `{}`, quantities and times get their canonical text, and a value of the wrong type is an error.
`decode` does the same with a table of small functions compiled from the schema, in one pass over
the object.

Where the pass meets an unknown field or a wrong type, a second and slower one finds out its path.
Defaults, validation and admission are not done here. Slices and maps that Go would print as `null`
are left out; a time is not: typed clients write it into managed fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from bayplan.api.quantity import FORMAT_WRONG
from bayplan.api.schema import scalars
from bayplan.api.schema.model import Field, Type
from bayplan.errors import DecodeError

Json = Any
Unknown = list[str]
Convert = Callable[[Json, Unknown], Json]

_INT32 = 2**31
_INT64 = 2**63


class FieldTypeError(DecodeError):
    """A value does not fit its field; the text is the API server's (a 400)."""


class _Mismatch(Exception):
    """A value has the wrong type; the slow pass says where."""


def decode(obj: dict[str, Json], type_: Type) -> tuple[dict[str, Json], bool]:
    """Return the canonical object, and whether unknown fields were dropped.

    Raises FieldTypeError if a value does not fit. `obj` is not changed; parts of it may be shared
    with the result.
    """
    unknown: Unknown = []
    try:
        return _converter(type_)(obj, unknown), bool(unknown)
    except (_Mismatch, ValueError, TypeError, AttributeError) as error:
        raise FieldTypeError(f"{_prefix(obj)}{_explain(obj, type_)}") from error


def decode_fields(
    obj: dict[str, Json], type_: Type, names: Iterable[str]
) -> tuple[dict[str, Json], bool]:
    """Like `decode`, for an object that is canonical already but for the fields of these names."""
    unknown: Unknown = []
    out = dict(obj)
    try:
        for name in names:
            field, item = type_.fields.get(name), obj.get(name)
            if field is None:
                if name in obj:
                    unknown.append(name)
                    del out[name]
                continue
            if item is not None:
                item = _converter(field.type)(item, unknown)
                if item or not _omits_empty(field):
                    out[name] = item
                    continue
            out.pop(name, None)
            out.update((key, zero()) for key, zero in _always(name, field))
    except (_Mismatch, ValueError, TypeError, AttributeError) as error:
        raise FieldTypeError(f"{_prefix(obj)}{_explain(obj, type_)}") from error
    return out, bool(unknown)


def _prefix(obj: Json) -> str:
    if not isinstance(obj, dict):
        return ""
    version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    version = version.rsplit("/", 1)[-1] if isinstance(version, str) else version
    return f'{kind} in version "{version}" cannot be handled as a {kind}: '


# -- the fast pass ------------------------------------------------------------------------------


@cache
def _converter(type_: Type) -> Convert:
    if type_.kind == "struct":
        return _struct_converter(type_)
    if type_.kind == "list":
        assert type_.elem is not None
        return _list_converter(type_.elem)
    if type_.kind == "map":
        assert type_.elem is not None
        return _map_converter(type_.elem)
    return _SCALARS[type_.kind]


def _struct_converter(type_: Type) -> Convert:
    # Filled on first use: types may contain themselves.
    table: dict[str, tuple[Convert, bool, type | None]] = {}
    missing: list[tuple[str, Callable[[], Json]]] = []

    def fill() -> None:
        for name, field in type_.fields.items():
            missing.extend(_always(name, field))
            plain = _AS_THEY_ARE.get(field.type.kind)
            table[name] = (_converter(field.type), _omits_empty(field), plain)

    def convert(value: Json, unknown: Unknown) -> Json:
        if type(value) is not dict:
            raise _Mismatch
        if not table:
            fill()
        out = {}
        for key, item in value.items():
            entry = table.get(key)
            if entry is None:
                unknown.append(key)
                continue
            if item is None:
                continue
            if type(item) is not entry[2]:
                item = entry[0](item, unknown)
            if item or not entry[1]:
                out[key] = item
        for key, zero in missing:
            if key not in out:
                out[key] = zero()
        return out

    return convert


def _omits_empty(field: Field) -> bool:
    if field.pointer:
        return False
    if field.type.kind == "struct":
        return field.omitzero
    if field.type.kind in ("list", "map"):
        # The real server stores protobuf, which does not tell an empty one from none.
        return True
    return field.omitempty or field.omitzero


def _always(name: str, field: Field) -> list[tuple[str, Callable[[], Json]]]:
    """The zero value that Go prints for an absent field, if it prints one."""
    if field.pointer or field.omitzero:
        return []
    kind = field.type.kind
    if kind == "struct":
        return [(name, lambda: _converter(field.type)({}, []))]
    if kind in ("time", "microtime"):
        return [(name, lambda: None)]  # a struct in Go, which `omitempty` does not leave out
    if field.omitempty or kind not in _ZERO:
        return []
    value = _ZERO[kind]
    return [(name, lambda: value)]


_ZERO: dict[str, Json] = {
    "string": "",
    "int32": 0,
    "int64": 0,
    "number": 0,
    "boolean": False,
    "quantity": "0",
    "intorstring": 0,
}


def _zero(type_: Type) -> Json:
    """What null means inside a list or map: Go's zero value."""
    if type_.kind == "struct":
        return _converter(type_)({}, [])
    return _ZERO.get(type_.kind)


def _list_converter(elem: Type) -> Convert:
    def convert(value: Json, unknown: Unknown) -> Json:
        if type(value) is not list:
            raise _Mismatch
        inner = _converter(elem)
        return [inner(v, unknown) if v is not None else _zero(elem) for v in value]

    return convert


def _map_converter(elem: Type) -> Convert:
    plain = _AS_THEY_ARE.get(elem.kind)

    def convert(value: Json, unknown: Unknown) -> Json:
        if type(value) is not dict:
            raise _Mismatch
        out = dict(value)
        for key, item in value.items():
            if type(item) is not plain:
                out[key] = _converter(elem)(item, unknown) if item is not None else _zero(elem)
        return out

    return convert


def _exactly(type_: type) -> Convert:
    def convert(value: Json, _: Unknown) -> Json:
        if type(value) is not type_:
            raise _Mismatch
        return value

    return convert


def _whole(limit: int) -> Convert:
    def convert(value: Json, _: Unknown) -> Json:
        if type(value) is not int or not -limit <= value < limit:
            raise _Mismatch
        return value

    return convert


_string, _boolean = _exactly(str), _exactly(bool)
_int32, _int64 = _whole(_INT32), _whole(_INT64)


def _number(value: Json, _: Unknown) -> Json:
    if type(value) is not int and type(value) is not float:
        raise _Mismatch
    return value


def _quantity(value: Json, _: Unknown) -> Json:
    if type(value) is bool:
        raise _Mismatch
    return scalars.canonical_quantity(value if type(value) is str else repr(value))


def _int_or_string(value: Json, _: Unknown) -> Json:
    if type(value) is str:
        return value
    return _int32(value, _)


def _time(value: Json, _: Unknown) -> Json:
    if type(value) is not str:
        raise _Mismatch
    return scalars.canonical_time(value)


def _micro_time(value: Json, _: Unknown) -> Json:
    return scalars.canonical_micro_time(_string(value, _))


def _bytes(value: Json, _: Unknown) -> Json:
    return scalars.checked_base64(_string(value, _))


def _as_is(value: Json, _: Unknown) -> Json:
    return value


_SCALARS: dict[str, Convert] = {
    "string": _string,
    "int32": _int32,
    "int64": _int64,
    "boolean": _boolean,
    "number": _number,
    "quantity": _quantity,
    "intorstring": _int_or_string,
    "time": _time,
    "microtime": _micro_time,
    "duration": _string,
    "bytes": _bytes,
    "object": _as_is,
    "any": _as_is,
}


# Values of these types need no look: there are more texts than anything else.
_AS_THEY_ARE: dict[str, type] = {"string": str, "duration": str, "boolean": bool}

_OWN_READERS = ("quantity", "intorstring", "time", "microtime", "duration")


# -- the slow pass ------------------------------------------------------------------------------


def _explain(value: Json, type_: Type) -> str:
    """Find the value that does not fit which Go would name; say so in its words.

    Go remembers the first misfit and reads on; a type that reads its own text ends the reading.
    """
    first = ""
    for text, ends in _misfits(value, type_, "", ""):
        if ends:
            return text
        first = first or text
    return first


def _misfits(value: Json, type_: Type, owner: str, path: str) -> Iterator[tuple[str, bool]]:
    if value is None:
        return
    if type_.kind == "struct" and isinstance(value, dict):
        for key, item in value.items():
            if (field := type_.fields.get(key)) is not None:
                inner = f"{path}.{key}" if path else key
                yield from _misfits(item, field.type, type_.short, inner)
    elif type_.kind in ("list", "map") and isinstance(
        value, list if type_.kind == "list" else dict
    ):
        assert type_.elem is not None
        for item in value if isinstance(value, list) else value.values():
            yield from _misfits(item, type_.elem, owner, path)
    elif text := _misfit(value, type_, owner, path):
        yield text, type_.kind in _OWN_READERS and not isinstance(value, dict | list)


def _misfit(value: Json, type_: Type, owner: str, path: str) -> str:
    try:
        _converter(type_)(value, [])
    except ValueError as error:
        return str(error)
    except (_Mismatch, TypeError, AttributeError):
        if type_.kind == "quantity":
            return FORMAT_WRONG  # it reads any JSON as text
        where = f"Go struct field {owner}.{path}" if path else "Go value"
        return f"json: cannot unmarshal {_got(value)} into {where} of type {go_type(type_)}"
    return ""


def _got(value: Json) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict):
        return "object"
    return f"number {value}" if isinstance(value, float) or abs(value) >= _INT32 else "number"


def go_type(type_: Type) -> str:
    """The Go name of a type, as error messages give it."""
    if type_.kind == "struct":
        version, _, short = type_.name.rpartition(".")
        return f"{version.rsplit('.', 1)[-1]}.{short}"
    if type_.kind == "list" and type_.elem is not None:
        return "[]" + go_type(type_.elem)
    if type_.kind == "map" and type_.elem is not None:
        return "map[string]" + go_type(type_.elem)
    return {
        "boolean": "bool",
        "number": "float64",
        "quantity": "resource.Quantity",
        "intorstring": "intstr.IntOrString",
        "time": "v1.Time",
        "microtime": "v1.MicroTime",
        "bytes": "[]uint8",
    }.get(type_.kind, type_.kind)

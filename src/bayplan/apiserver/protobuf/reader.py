"""Reads `application/vnd.kubernetes.protobuf` bodies, which Go clients send by default.

A body is the magic `k8s\\0` and an envelope with apiVersion, kind and the bytes of the object.
Field numbers come from the schema table, so every built-in kind can be read without generated
code. The result is the plain dict that the JSON form of the object would give, empty values
included; `bayplan.api.schema.decode` removes them.
"""

from __future__ import annotations

import base64
import struct as binary
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from math import isfinite
from typing import Any

from bayplan.api import json
from bayplan.api.duration import format_duration
from bayplan.api.schema import Field, Type, type_for
from bayplan.api.schema import decode as canonical
from bayplan.errors import DecodeError

MAGIC = b"k8s\x00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SIGN = 1 << 63
# What reading a damaged message can run into.
_BROKEN = (ValueError, IndexError, TypeError, AttributeError, OverflowError, RecursionError)

Message = bytes | memoryview
Reader = Callable[[Any], Any]


class ProtobufError(DecodeError):
    """A protobuf body cannot be read."""


def decode(body: bytes) -> dict[str, Any]:
    """Return the object of a protobuf body as a dict."""
    if not body.startswith(MAGIC):
        raise ProtobufError(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    api_version = kind = ""
    raw: Message = b""
    try:
        for number, value in fields(memoryview(body)[len(MAGIC) :]):
            if number == 1:
                for inner, text in fields(value):
                    if inner == 1:
                        api_version = _text(text)
                    elif inner == 2:
                        kind = _text(text)
            elif number == 2:
                raw = value
        type_ = type_for(api_version, kind)
        if type_ is None:
            raise ProtobufError(f'no kind "{kind}" is registered for version "{api_version}"')
        result = _struct(type_, raw)
    except ProtobufError:
        raise
    except (*_BROKEN, binary.error, DecodeError) as error:
        raise ProtobufError(f"decoding protobuf {kind or 'envelope'}: {error}") from error
    return {**result, "apiVersion": api_version, "kind": kind}


# -- the wire format -----------------------------------------------------------------------------


def fields(data: Message) -> Iterator[tuple[int, Any]]:
    """The fields of a message: number, and an int or the bytes of a string, message or double."""
    at, end = 0, len(data)
    view = memoryview(data)
    while at < end:
        tag, at = _varint(view, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(view, at)
            yield number, value
        elif wire == 2:
            size, at = _varint(view, at)
            if at + size > end:
                raise ValueError("unexpected EOF")
            yield number, view[at : at + size]
            at += size
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            if at + size > end:
                raise ValueError("unexpected EOF")
            yield number, view[at : at + size]
            at += size
        else:
            raise ValueError(f"illegal wireType {wire}")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7
        if shift > 63:
            raise ValueError("integer overflow")


def _text(value: Message) -> str:
    return str(value, "utf-8")  # not bytes(value): a number would become as many zeros


def _signed(value: int) -> int:
    return value - (1 << 64) if value & _SIGN else value


# -- types ---------------------------------------------------------------------------------------

_Slot = tuple[str, Field]
Way = tuple[int, ...]


@cache
def paths(type_: Type) -> dict[str, Way]:
    """Return the fields that stand in an embedded message, and the numbers that lead to it."""
    found: dict[str, Way] = {}

    def walk(messages: list[Any], at: Way) -> None:
        for number, members, *further in messages:
            found.update(dict.fromkeys(members, (*at, number)))
            walk(further, (*at, number))

    walk(type_.messages, ())
    return found


@cache
def _slots(type_: Type, at: Way) -> tuple[dict[int, _Slot], set[int]]:
    """By number: the fields of a message itself, and the messages embedded in it."""
    ways = paths(type_)
    own = {
        field.number: (name, field)
        for name, field in type_.fields.items()
        if field.number and ways.get(name, ()) == at
    }
    deeper = {way[len(at)] for way in ways.values() if len(way) > len(at) and way[: len(at)] == at}
    return own, deeper


def _struct(type_: Type, data: Message) -> dict[str, Any]:
    result: dict[str, Any] = {}
    _read_into(result, type_, data, ())
    return result


def _read_into(result: dict[str, Any], type_: Type, data: Message, at: Way) -> None:
    own, embedded = _slots(type_, at)
    for number, value in fields(data):
        if number in embedded:
            _read_into(result, type_, value, (*at, number))
        elif (slot := own.get(number)) is not None:
            _put(result, type_, slot, value)


def _put(result: dict[str, Any], owner: Type, slot: _Slot, value: Any) -> None:
    name, field = slot
    type_ = field.type
    if type_.kind == "list" and type_.name == "wrapped":
        assert type_.elem is not None
        result[name] = [_value(type_.elem, item) for number, item in fields(value) if number == 1]
    elif type_.kind == "list":
        assert type_.elem is not None
        items = result.setdefault(name, [])
        if type_.elem.kind in ("int32", "int64", "boolean") and not isinstance(value, int):
            items += _packed(type_.elem, value)
        else:
            items.append(_value(type_.elem, value))
    elif type_.kind == "map":
        assert type_.elem is not None
        key, item = _entry(type_.elem, value)
        result.setdefault(name, {})[key] = item
    elif type_.kind == "any" and owner.short == "JSONSchemaProps":
        result[name] = _schema_part(owner, name, value)
    else:
        result[name] = _value(type_, value)


def _packed(elem: Type, data: Message) -> list[Any]:
    found, at = [], 0
    view = memoryview(data)
    while at < len(view):
        value, at = _varint(view, at)
        found.append(_value(elem, value))
    return found


def _entry(elem: Type, data: Message) -> tuple[str, Any]:
    key, value = "", None
    for number, item in fields(data):
        if number == 1:
            key = _text(item)
        elif elem.kind == "list" and elem.elem is not None:
            inner = elem.elem
            value = [_value(inner, part) for index, part in fields(item) if index == 1]
        else:
            value = _value(elem, item)
    return key, value if value is not None else _value(elem, b"")


def _value(type_: Type, value: Any) -> Any:
    if type_.kind == "struct":
        return _struct(type_, value)
    return _READERS[type_.kind](value)


def _moment(value: Message) -> datetime | None:
    parts = dict(fields(value))
    if not parts:
        return None
    seconds = _signed(parts.get(1, 0))
    return _EPOCH + timedelta(seconds=seconds, microseconds=parts.get(2, 0) // 1000)


def _time(value: Message) -> str | None:
    moment = _moment(value)
    # Not every C library fills early years up to four digits.
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20) if moment is not None else None


def _micro_time(value: Message) -> str | None:
    moment = _moment(value)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").zfill(27) if moment is not None else None


def _quantity(value: Message) -> str:
    return next((_text(item) for number, item in fields(value) if number == 1), "0")


def _int_or_string(value: Message) -> int | str:
    parts = dict(fields(value))
    if parts.get(1, 0) == 1:
        return _text(parts.get(3, b""))
    return _signed(parts.get(2, 0))


def _raw(value: Message) -> Any:
    found = next((item for number, item in fields(value) if number == 1), b"")
    data = memoryview(found).tobytes()
    if data.startswith(MAGIC):
        return decode(data)
    return json.load(data) if data else None


def _duration(value: Message) -> str:
    return format_duration(next((_signed(item) for n, item in fields(value) if n == 1), 0))


def _number(value: Any) -> float:
    if isinstance(value, int):
        return value
    found = float(binary.unpack("<d", value)[0])
    if not isfinite(found):
        raise ValueError(f"unsupported value: {found}")
    return found


_READERS: dict[str, Reader] = {
    "string": _text,
    "int32": _signed,
    "int64": _signed,
    "boolean": bool,
    "number": _number,
    "bytes": lambda value: base64.b64encode(value).decode(),
    "time": _time,
    "microtime": _micro_time,
    "duration": _duration,
    "quantity": _quantity,
    "intorstring": _int_or_string,
    "object": _raw,
    "any": _raw,
}


def _schema_part(owner: Type, name: str, value: Message) -> Any:
    """The fields of a custom resource's schema that are one of several forms."""
    parts = list(fields(value))
    if name == "items":
        schemas = [_whole(owner, item) for _, item in parts]
        return schemas[0] if parts and parts[0][0] == 1 else schemas
    if name in ("additionalProperties", "additionalItems"):
        schema = next((item for number, item in parts if number == 2), None)
        return _whole(owner, schema) if schema is not None else bool(dict(parts).get(1, 0))
    return _raw(value)


def _whole(owner: Type, data: Message) -> Any:
    """A schema inside a field of any form, which later steps leave as it is."""
    return canonical(_struct(owner, data), owner)[0]

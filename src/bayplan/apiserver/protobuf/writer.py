"""Writes objects as `application/vnd.kubernetes.protobuf`.

`writer(type)` compiles the schema of a type into closures: a dict from JSON field name to a
function that returns the field's bytes, tag and length included. What an object holds is written
and nothing else: stored objects are canonical, so a field that is there differs from Go's zero
value or is behind a pointer. Fields that have no number (`kind`, `apiVersion`) stand in the
envelope.

It does not check values: what is stored has been checked. `stored` is faster where an object comes
from the store.
"""

from __future__ import annotations

import base64
import struct as binary
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec

from bayplan.api.duration import parse_nanoseconds
from bayplan.api.remembered import remembered
from bayplan.api.schema import Field, Type, struct, type_for
from bayplan.apiserver.protobuf.reader import MAGIC, paths

Write = Callable[[Any], bytes]
"""A value in, the bytes of its message or text out: without tag and length."""
_json = msgspec.json.Encoder()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNSIGNED = (1 << 64) - 1
_VARINT, _FIXED64, _BYTES = 0, 1, 2


def _varint(value: int) -> bytes:
    value &= _UNSIGNED
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = [_varint(number) for number in range(4096)]


def varint(value: int) -> bytes:
    """Return an integer in the wire's form; negative ones take ten bytes."""
    return _SMALL[value] if 0 <= value < 4096 else _varint(value)


def tag(number: int, wire: int = _BYTES) -> bytes:
    return varint(number << 3 | wire)


def delimited(head: bytes, data: bytes) -> bytes:
    """Return a field of bytes: its tag, the length, and what it holds."""
    size = len(data)
    return head + (_SMALL[size] if size < 4096 else _varint(size)) + data


# -- scalars -------------------------------------------------------------------------------------

_ONE, _TWO, _THREE = tag(1), tag(2), tag(3)
_NUMBER_ONE, _NUMBER_TWO = tag(1, _VARINT), tag(2, _VARINT)


def _text(value: str) -> bytes:
    return value.encode()


@remembered(4096)  # the times of an object, and of those made with it, are mostly the same
def _moment(value: str) -> bytes:
    moment = datetime.fromisoformat(value)
    since = moment - _EPOCH
    seconds = since.days * 86400 + since.seconds
    nanos = since.microseconds * 1000
    return _NUMBER_ONE + varint(seconds) + _NUMBER_TWO + varint(nanos)


def _duration(value: str) -> bytes:
    return _NUMBER_ONE + varint(parse_nanoseconds(value))


def _quantity(value: str) -> bytes:
    return delimited(_ONE, value.encode())


def _int_or_string(value: int | str) -> bytes:
    if isinstance(value, str):
        return _NUMBER_ONE + b"\x01" + delimited(_THREE, value.encode())
    return _NUMBER_ONE + b"\x00" + _NUMBER_TWO + varint(value)


def _raw(value: Any) -> bytes:
    return delimited(_ONE, _json.encode(value))


_DELIMITED: dict[str, Write] = {
    "string": _text,
    "bytes": base64.b64decode,
    "time": _moment,
    "microtime": _moment,
    "duration": _duration,
    "quantity": _quantity,
    "intorstring": _int_or_string,
    "object": _raw,
    "any": _raw,
}
_NUMBERS = ("int32", "int64", "boolean")


def _number_field(number: int) -> Write:
    head = tag(number, _VARINT)
    small = [head + varint(value) for value in range(128)]

    def write(value: int) -> bytes:
        return small[value] if 0 <= value < 128 else head + varint(value)

    return write


def _double_field(number: int) -> Write:
    head = tag(number, _FIXED64)
    return lambda value: head + binary.pack("<d", value)


# -- fields --------------------------------------------------------------------------------------


def _field(owner: Type, field: Field, number: int) -> Write:
    """Return what writes a field with its tag."""
    type_ = field.type
    if owner.short == "JSONSchemaProps" and field.name in _SCHEMA_FORMS:
        return _message_field(_SCHEMA_FORMS[field.name], number)
    if type_.kind == "list" and type_.elem is not None:
        if type_.name == "wrapped":
            return _message_field(_wrapped(type_.elem), number)
        return _repeated(_one(type_.elem, number))
    if type_.kind == "map" and type_.elem is not None:
        return _map_field(type_.elem, number)
    return _one(type_, number)


def _one(type_: Type, number: int) -> Write:
    """Return what writes one value with its tag."""
    if type_.kind in _NUMBERS:
        return _number_field(number)
    if type_.kind == "number":
        return _double_field(number)
    if type_.kind == "string":
        return _string_field(number)
    if type_.kind == "list" and type_.elem is not None:
        return _message_field(_wrapped(type_.elem), number)
    write = _struct_writer(type_) if type_.kind == "struct" else _DELIMITED[type_.kind]
    return _message_field(write, number)


def _message_field(write: Write, number: int) -> Write:
    head = tag(number)

    def field(value: Any) -> bytes:
        data = write(value)
        size = len(data)
        return head + (_SMALL[size] if size < 4096 else _varint(size)) + data

    return field


def _string_field(number: int) -> Write:
    head = tag(number)

    def field(value: str) -> bytes:
        data = value.encode()
        size = len(data)
        return head + (_SMALL[size] if size < 4096 else _varint(size)) + data

    return field


def _repeated(one: Write) -> Write:
    return lambda values: b"".join(map(one, values))


def _wrapped(elem: Type) -> Write:
    return _repeated(_one(elem, 1))


def _map_field(elem: Type, number: int) -> Write:
    head, item = tag(number), _one(elem, 2)

    def field(values: dict[str, Any]) -> bytes:
        parts = []
        for key, value in values.items():
            parts.append(delimited(head, delimited(_ONE, key.encode()) + item(value)))
        return b"".join(parts)

    return field


# -- structs -------------------------------------------------------------------------------------


@cache
def _struct_writer(type_: Type) -> Write:
    # Filled on first use: types may contain themselves.
    table: dict[str, Write] = {}
    inside: dict[str, tuple[int, ...]] = {}

    def plain(obj: dict[str, Any]) -> bytes:
        if not table:
            table.update(fields(type_))
        find = table.get
        return b"".join(
            [
                write(value)
                for name, value in obj.items()
                if value is not None and (write := find(name)) is not None
            ]
        )

    def nested(obj: dict[str, Any]) -> bytes:
        if not table:
            table.update(fields(type_))
            inside.update(paths(type_))
        parts: list[bytes] = []
        below: dict[tuple[int, ...], list[bytes]] = {}
        for name, value in obj.items():
            write = table.get(name)
            if write is not None and value is not None:
                at = inside.get(name)
                (parts if at is None else below.setdefault(at, [])).append(write(value))
        return b"".join(parts) + _embedded(below, ())

    return nested if type_.messages else plain


def _embedded(below: dict[tuple[int, ...], list[bytes]], at: tuple[int, ...]) -> bytes:
    """Join the fields of embedded messages, and of messages embedded in those."""
    out = b""
    for number in sorted({path[len(at)] for path in below if path[: len(at)] == at != path}):
        path = (*at, number)
        data = b"".join(below.get(path, ())) + _embedded(below, path)
        out += delimited(tag(number), data)
    return out


def fields(type_: Type) -> dict[str, Write]:
    """Return what writes each field of a struct, with its tag."""
    found = {name: field for name, field in type_.fields.items() if field.number}
    return {name: _field(type_, field, field.number) for name, field in found.items()}


# -- fields of several forms ---------------------------------------------------------------------


def _schema(value: Any) -> bytes:
    return _struct_writer(struct("apiextensions.v1.JSONSchemaProps"))(value)


def _schema_or_array(value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join(delimited(_TWO, _schema(one)) for one in value)
    return delimited(_ONE, _schema(value))


def _schema_or_bool(value: Any) -> bytes:
    if isinstance(value, bool):
        return _NUMBER_ONE + varint(value)
    return _NUMBER_ONE + b"\x01" + delimited(_TWO, _schema(value))


_SCHEMA_FORMS: dict[str, Write] = {
    "items": _schema_or_array,
    "additionalItems": _schema_or_bool,
    "additionalProperties": _schema_or_bool,
}


# -- envelopes -----------------------------------------------------------------------------------


def envelope(api_version: str, kind: str, size: int) -> bytes:
    """Return all that stands before the bytes of an object."""
    head = delimited(_ONE, api_version.encode()) + delimited(_TWO, kind.encode())
    return MAGIC + delimited(_ONE, head) + _TWO + varint(size)


_END = tag(3) + b"\x00" + tag(4) + b"\x00"
"""What stands after them: content encoding and content type, which are empty."""


def known(api_version: str, kind: str) -> bool:
    """Say whether a kind can be written."""
    return type_for(api_version, kind) is not None


def _partial(obj: dict[str, Any]) -> bytes:
    """Write metadata only, of one object or of a list."""
    if "items" not in obj:
        return delimited(_ONE, _struct_writer(struct("meta.v1.ObjectMeta"))(obj["metadata"]))
    head = delimited(_ONE, _struct_writer(struct("meta.v1.ListMeta"))(obj["metadata"]))
    return head + b"".join(delimited(_TWO, _partial(item)) for item in obj["items"])


def message(obj: dict[str, Any]) -> bytes:
    """Return an object of a built-in kind, or metadata only, without its envelope."""
    type_ = type_for(obj["apiVersion"], obj["kind"])
    return _struct_writer(type_)(obj) if type_ is not None else _partial(obj)


def encode(obj: dict[str, Any]) -> bytes:
    """Return an object of a built-in kind, or metadata only, as a whole body."""
    return enveloped(obj["apiVersion"], obj["kind"], message(obj))


def enveloped(api_version: str, kind: str, data: bytes) -> bytes:
    return envelope(api_version, kind, len(data)) + data + _END


_EVENT_TYPES = {
    kind: delimited(_ONE, kind.encode())
    for kind in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
}


def event_frame(kind: str, body: bytes) -> bytes:
    """Return an event of a watch: its length in four bytes, its type and the object's body."""
    event = _EVENT_TYPES[kind] + delimited(_TWO, delimited(_ONE, body))
    return len(event).to_bytes(4, "big") + event


def list_pieces(
    api_version: str, kind: str, metadata: dict[str, Any], items: list[bytes]
) -> list[bytes]:
    """Return the body of a list in pieces; every item is a whole field (`list_item`)."""
    head = delimited(_ONE, _struct_writer(struct("meta.v1.ListMeta"))(metadata))
    size = len(head) + sum(map(len, items))
    return [envelope(api_version, kind, size) + head, *items, _END]


def list_item(data: bytes) -> bytes:
    """Return a message as an item of a list."""
    return delimited(_TWO, data)

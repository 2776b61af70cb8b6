"""JSON as Go reads it, but not as deep: no number without end, no NaN, no nesting without end.

What is taken must be readable, printable and changeable ever after, and much of that recurses. Go
reads 10,000 levels; no Kubernetes object comes near to `DEEPEST`.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from bayplan.errors import DecodeError

DEEPEST = 200
TOO_DEEP = f"exceeded max depth: objects may be nested {DEEPEST} levels deep"
_decoder = msgspec.json.Decoder()
# An int64 has at most 19 digits; looking for more costs little, and nearly no body has them.
_MANY_DIGITS = re.compile(rb"[0-9]{19}")


def load(body: bytes) -> Any:
    """Return what the text says. Raises DecodeError."""
    try:
        value = _decoder.decode(body)
        if body.count(b"{") + body.count(b"[") > DEEPEST:
            check_depth(value)
        return _go_numbers(value) if _MANY_DIGITS.search(body) else value
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(_go_words(str(error), body)) from error


# How Go goes on, and how far before the byte that we are told the character is.
_MALFORMED = {
    "trailing characters": ("after top-level value", 1),
    "object keys must be strings": ("looking for beginning of object key string", 0),
    "invalid character": ("looking for beginning of value", 0),
}
_AT_BYTE = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)")


def _go_words(text: str, body: bytes) -> str:
    """What Go says of malformed JSON, where it is known."""
    if text == "Input data was truncated":
        return "unexpected end of JSON input"
    found = _AT_BYTE.fullmatch(text)
    if found is None or found[1] not in _MALFORMED:
        return text
    where, before = _MALFORMED[found[1]]
    at = int(found[2]) - before
    return f"invalid character '{chr(body[at])}' {where}" if at < len(body) else text


def check_depth(value: Any) -> None:
    """Raise DecodeError if a value is nested more deeply than anything has to be."""
    level = [value] if type(value) in (dict, list) else []
    for _ in range(DEEPEST):
        level = [
            inner
            for each in level
            for inner in (each.values() if type(each) is dict else each)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return
    raise DecodeError(TOO_DEEP)


def _go_numbers(value: Any) -> Any:
    """Read integers beyond 64 bits as Go does: as floats, if there is one that large."""
    if type(value) is dict:
        return {key: _go_numbers(item) for key, item in value.items()}
    if type(value) is list:
        return [_go_numbers(item) for item in value]
    if type(value) is int and not -(2**63) <= value < 2**63:
        if abs(value) >= 1 << 1024:
            raise DecodeError("json: cannot unmarshal number into Go value of type float64")
        return float(value)
    return value


def go_name(value: object) -> str:
    """What Go's decoder calls a value in its errors."""
    names = {str: "string", bool: "bool", int: "number", float: "number", list: "array"}
    return names.get(type(value), "null")


def go_type(value: object) -> str:
    """The Go type of a decoded value."""
    names = {str: "string", bool: "bool", int: "int64", float: "float64", list: "[]interface {}"}
    return names.get(type(value), "map[string]interface {}")

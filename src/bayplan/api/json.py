"""JSON as Go reads it, but not as deep: no number without end, no NaN, no nesting without end.

What is taken must be readable, printable and changeable ever after, and much of that recurses. Go
reads 10,000 levels; no Kubernetes object comes near to `DEEPEST`.

A decoder in C keeps the interpreter's lock from the first byte to the last. That is short for
texts, and long for hundreds of thousands of small values, so those are read by pieces: two to four
times slower, but other threads have their turns meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from bayplan.errors import DecodeError

DEEPEST = 200
TOO_DEEP = f"exceeded max depth: objects may be nested {DEEPEST} levels deep"
DENSE = 100_000  # commas and brackets that are read at once: 1 MB of pods, 10 to 35 ms
_decoder = msgspec.json.Decoder()
_skipper = msgspec.json.Decoder(msgspec.Raw)
TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_NAME = rb"[\s,]*+(?:%b\s*+:\s*+)?+" % TEXT
_LEAF = rb'(?:%b|[^]\[{}\s:,"]++)' % TEXT
_MEMBER = rb"%b(?:%b|[\[{](?:%b%b){0,16}+\s*+[]}])" % (_NAME, _LEAF, _NAME, _LEAF)
# A few members, the beginning of one with more inside, with its key, or an end.
_PIECE = re.compile(
    rb"((?:%b){1,64}+)|[\s,]*+(?:(%b)\s*+:\s*+)?+([\[{])|[]}]" % (_MEMBER, TEXT), re.DOTALL
)
# An int64 has at most 19 digits; looking for more costs little, and nearly no body has them.
_ALIKE, _MANY_DIGITS = bytes.maketrans(b"123456789", b"0" * 9), b"0" * 19


def load(body: bytes) -> Any:
    """Return what the text says. Raises DecodeError."""
    try:
        value = read(body)
        if body.count(b"{") + body.count(b"[") > DEEPEST:
            check_depth(value)
        return _go_numbers(value) if _MANY_DIGITS in body.translate(_ALIKE) else value
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(_go_words(str(error), body)) from error


def read(text: bytes) -> Any:
    """Return what any JSON says, as msgspec does; its errors may name another place."""
    if len(text) < DENSE or sum(map(text.count, (b",", b"[", b"{"))) < DENSE:
        return _decoder.decode(text)
    _skipper.decode(text)  # raises where it is none
    return by_pieces(text)


def by_pieces(
    text: bytes, decode: Callable[[bytes], Any] = _decoder.decode, make: Callable[[], Any] = dict
) -> Any:
    """Read what is known to be JSON so that other threads have turns; `make` makes its objects."""
    whole: list[Any] = []
    around: list[Any] = []
    inside: Any = whole
    for found in _PIECE.finditer(text):
        some, key, opened = found.groups()
        if some is not None and type(inside) is list:
            inside.extend(decode(b"[%b]" % some.lstrip(b", \t\r\n")))
        elif some is not None:
            inside.update(decode(b"{%b}" % some.lstrip(b", \t\r\n")))
        elif opened is None:
            inside = around.pop()
        else:
            around.append(inside)
            inside = make() if opened == b"{" else []
            if key is None:
                around[-1].append(inside)
            else:
                around[-1].update([(decode(key), inside)])
    return whole[0]


# How Go goes on, and how far before the byte that we are told the character is.
_MALFORMED = {
    "trailing characters": ("after top-level value", 1),
    "object keys must be strings": ("looking for beginning of object key string", 0),
    "expected '\"'": ("looking for beginning of object key string", 0),  # as `_skipper` says it
    "invalid character": ("looking for beginning of value", 0),
}
_AT_BYTE = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)")


def _go_words(text: str, body: bytes) -> str:
    """What Go says of malformed JSON, where it is known."""
    if text == "Input data was truncated":
        return "unexpected end of JSON input"
    found = _AT_BYTE.fullmatch(text)
    if found is None or found[1] not in _MALFORMED:
        return text.partition(" - at ")[0]
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

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
        raise DecodeError(str(error)) from error


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

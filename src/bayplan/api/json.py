"""JSON as Go reads it: no number without end, no NaN, nothing deeper than the stack."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from bayplan.errors import DecodeError

_decoder = msgspec.json.Decoder()
# An int64 has at most 19 digits; looking for more costs little, and nearly no body has them.
_MANY_DIGITS = re.compile(rb"[0-9]{19}")


def load(body: bytes) -> Any:
    """Return what the text says. Raises DecodeError."""
    try:
        value = _decoder.decode(body)
        return _go_numbers(value) if _MANY_DIGITS.search(body) else value
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(str(error)) from error


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

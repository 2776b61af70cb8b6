"""Validation problems as data, worded as Kubernetes words them.

A `Cause` is one entry of `details.causes` of a 422 answer: the reason is the cause's type, the
field a path such as `spec.containers[0].name`, the message the text after the field name. The
constructors below build the texts (`Invalid value: "x": must be …`). Nothing here decides what is
valid.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

REQUIRED = "FieldValueRequired"
INVALID = "FieldValueInvalid"
NOT_SUPPORTED = "FieldValueNotSupported"
FORBIDDEN = "FieldValueForbidden"
DUPLICATE = "FieldValueDuplicate"
TOO_LONG = "FieldValueTooLong"
TOO_MANY = "FieldValueTooMany"
NOT_FOUND = "FieldValueNotFound"
TYPE_INVALID = "FieldValueTypeInvalid"


class Cause(NamedTuple):
    """One problem of one field."""

    reason: str
    field: str
    message: str


def quote(value: object) -> str:
    """Write a value as Go's `%q` (strings), `%v` (numbers, booleans) or JSON (the rest) would."""
    if value is None:
        return "null"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def required(field: str, detail: str = "") -> Cause:
    return Cause(REQUIRED, field, f"Required value: {detail}" if detail else "Required value")


def invalid(field: str, value: object, detail: str) -> Cause:
    return Cause(INVALID, field, _with_detail(f"Invalid value: {quote(value)}", detail))


def not_supported(field: str, value: object, supported: Iterable[str]) -> Cause:
    listed = ", ".join(f'"{name}"' for name in sorted(supported))
    tail = f": supported values: {listed}" if listed else ""
    return Cause(NOT_SUPPORTED, field, f"Unsupported value: {quote(value)}{tail}")


def forbidden(field: str, detail: str) -> Cause:
    return Cause(FORBIDDEN, field, f"Forbidden: {detail}" if detail else "Forbidden")


def duplicate(field: str, value: object) -> Cause:
    return Cause(DUPLICATE, field, f"Duplicate value: {quote(value)}")


def not_found(field: str, value: object) -> Cause:
    return Cause(NOT_FOUND, field, f"Not found: {quote(value)}")


def too_long(field: str, max_bytes: int) -> Cause:
    unit = "byte" if max_bytes == 1 else "bytes"
    return Cause(TOO_LONG, field, f"Too long: may not be more than {max_bytes} {unit}")


def too_many(field: str, actual: int, max_items: int) -> Cause:
    unit = "item" if max_items == 1 else "items"
    return Cause(TOO_MANY, field, f"Too many: {actual}: must have at most {max_items} {unit}")


def invalid_message(kind: str, group: str, name: str, causes: Sequence[Cause]) -> str:
    """Word a list of causes as the message of kube-apiserver's 422 Status."""
    texts = list(dict.fromkeys(f"{c.field}: {c.message}" if c.field else c.message for c in causes))
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind}.{group}" if group else kind
    return f'{qualified} "{name}" is invalid: {joined}'


def _with_detail(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text

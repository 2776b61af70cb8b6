"""Validation problems as data, worded as Kubernetes words them.

The constructors below build one `Cause` each (`Invalid value: "x": must be …`); a validator
collects them in a list. Nothing here decides what is valid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import msgspec

from bayplan.api.defaults.json_types import Object


class Cause(NamedTuple):
    """One problem of one field: an entry of `details.causes` of a 422 answer.

    `reason` is the cause's type, `field` a path such as `spec.containers[0].name`, `message` the
    text without the path.
    """

    reason: str
    field: str
    message: str


Causes = list[Cause]

IMMUTABLE = "field is immutable"
NOT_NEGATIVE = "must be greater than or equal to 0"
POSITIVE = "must be greater than zero"


MAX_QUOTED = 8 << 20  # characters of one object's causes
_left: ContextVar[int] = ContextVar("_left")


@contextmanager
def quoting() -> Iterator[None]:
    """While an object is judged: a list that is quoted for each of its elements ends somewhere."""
    token = _left.set(MAX_QUOTED)
    try:
        yield
    finally:
        _left.reset(token)


def quote(value: object) -> str:
    """Write a value as upstream's messages do: JSON without spaces, keys of maps sorted."""
    return bounded(
        lambda: json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True), '"…"'
    )


def bounded(write: Callable[[], str], instead: str = "…") -> str:
    """Write a text that may hold a whole list, while there is room for such."""
    left = _left.get(None)
    if left is None:
        return write()
    if left <= 0:
        return instead
    text = write()
    _left.set(left - len(text))
    return text


def required(field: str, detail: str = "") -> Cause:
    return Cause("FieldValueRequired", field, _with_detail("Required value", detail))


def invalid(field: str, value: object, detail: str) -> Cause:
    return Cause("FieldValueInvalid", field, _with_detail(f"Invalid value: {quote(value)}", detail))


def invalid_unshown(field: str, detail: str) -> Cause:
    """A value that is wrong, but too long or too secret to be repeated."""
    return Cause("FieldValueInvalid", field, f"Invalid value: {detail}")


def not_supported(field: str, value: object, supported: Sequence[str]) -> Cause:
    listed = ", ".join(f'"{name}"' for name in supported)
    text = _with_detail(
        f"Unsupported value: {quote(value)}", listed and f"supported values: {listed}"
    )
    return Cause("FieldValueNotSupported", field, text)


def forbidden(field: str, detail: str = "") -> Cause:
    return Cause("FieldValueForbidden", field, _with_detail("Forbidden", detail))


def duplicate(field: str, value: object) -> Cause:
    return Cause("FieldValueDuplicate", field, f"Duplicate value: {quote(value)}")


def not_found(field: str, value: object) -> Cause:
    return Cause("FieldValueNotFound", field, f"Not found: {quote(value)}")


def too_long(field: str, max_bytes: int) -> Cause:
    return Cause("FieldValueTooLong", field, f"Too long: may not be more than {max_bytes} bytes")


def too_many(field: str, actual: int, max_items: int) -> Cause:
    unit = "item" if max_items == 1 else "items"
    text = f"Too many: {actual}: must have at most {max_items} {unit}"
    return Cause("FieldValueTooMany", field, text)


def internal(field: str, why: str) -> Cause:
    return Cause("InternalError", field, f"Internal error: {why}")


def immutable(field: str, new: object, old: object) -> Causes:
    """Return one cause if a field changed that may not; empty and absent are the same."""
    if (new or None) == (old or None):
        return []
    return [invalid(field, new, IMMUTABLE)]


def unchanged(*paths: str) -> Callable[[Object, Object], Causes]:
    """A check of updates: the fields at these paths may not change."""

    def check(obj: Object, old: Object) -> Causes:
        return [each for path in paths for each in immutable(path, _at(obj, path), _at(old, path))]

    return check


def _at(obj: Any, path: str) -> Any:
    for name in path.split("."):
        obj = (obj or {}).get(name)
    return obj


def one_of(field: str, value: object, supported: Sequence[str]) -> Causes:
    """Demand one of the given words; empty is a missing value."""
    if value in supported:
        return []
    return [not_supported(field, value, supported) if value else required(field)]


def allowed(field: str, value: object, supported: Sequence[str]) -> Causes:
    """Demand one of the given words if something is given."""
    return [] if value is None or value in supported else [not_supported(field, value, supported)]


def non_negative(field: str, value: int | None) -> Causes:
    return [invalid(field, value, NOT_NEGATIVE)] if value is not None and value < 0 else []


def positive(field: str, value: int) -> Causes:
    return [invalid(field, value, POSITIVE)] if value <= 0 else []


def invalid_message(kind: str, group: str, name: str, causes: Sequence[Cause]) -> str:
    """Word a list of causes as the message of kube-apiserver's 422 Status."""
    texts = list(dict.fromkeys(f"{c.field}: {c.message}" if c.field else c.message for c in causes))
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind}.{group}" if group else kind
    return f'{qualified} "{name}" is invalid: {joined}'


def _with_detail(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text


def identity(value: object) -> object:
    """Something hashable that is equal for equal values of JSON."""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value, order="deterministic")


def repeated(values: Iterable[object]) -> set[int]:
    """Return the positions whose value was there before; never each compared with each.

    A list comes from a stranger and may have as many elements as three megabytes hold.
    """
    seen: set[object] = set()
    found = set()
    for position, value in enumerate(values):
        key = identity(value)
        if key in seen:
            found.add(position)
        seen.add(key)
    return found

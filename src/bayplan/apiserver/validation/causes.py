"""Validation problems as data, worded as Kubernetes words them.

The constructors below build one `Cause` each (`Invalid value: "x": must be …`); a validator
collects them in a list. Nothing here decides what is valid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Self

import msgspec

from bayplan.api.defaults.json_types import Object
from bayplan.api.place import Place
from bayplan.errors import BayplanError


class _Cause(NamedTuple):
    reason: str
    field: str
    message: str


class Cause(_Cause):
    """One problem of one field: an entry of `details.causes` of a 422 answer.

    `reason` is the cause's type, `field` a path such as `spec.containers[0].name`, `message` the
    text without the path.
    """

    __slots__ = ()

    def __new__(cls, reason: str, field: Place | str, message: str) -> Self:
        field = str(field)
        _count(CAUSE + len(field) + len(message))
        return super().__new__(cls, reason, field, message)


Causes = list[Cause]

IMMUTABLE = "field is immutable"
NOT_NEGATIVE = "must be greater than or equal to 0"
POSITIVE = "must be greater than zero"


MAX_QUOTED = 8 << 20  # characters of values in one object's causes
MAX_TOLD = 16 << 20  # characters of all its causes, each of which is CAUSE besides its text
CAUSE = 100
MAX_LOOKED = 2_000_000  # values that are held against schemas for one object: some seconds
_left: ContextVar[int] = ContextVar("_left")
_told: ContextVar[int] = ContextVar("_told")
_looked: ContextVar[list[int]] = ContextVar("_looked")


class TooManyProblems(BayplanError):
    """An object has more problems than anybody reads."""


@contextmanager
def quoting() -> Iterator[None]:
    """While an object is judged: what is told of each of a list's elements ends somewhere.

    Raises TooManyProblems where the problems are too many or too long even so.
    """
    token, told, looked = _left.set(MAX_QUOTED), _told.set(0), _looked.set([0])
    try:
        yield
    finally:
        _left.reset(token)
        _told.reset(told)
        _looked.reset(looked)


def look(values: int = 1) -> None:
    """Count what is compared: alternatives multiply it. Raises TooManyProblems."""
    if (looked := _looked.get(None)) is not None:
        looked[0] += values
        if looked[0] > MAX_LOOKED:
            raise TooManyProblems("too much to compare with what its schema allows")


@contextmanager
def trying() -> Iterator[None]:
    """While it is open whether what is found will be told; what is kept counts with `kept`."""
    told = _told.get(None)
    try:
        yield
    finally:
        if told is not None:
            _told.set(told)


def kept(causes: Causes) -> Causes:
    """Return what was found while `trying` and is told after all."""
    _count(sum(CAUSE + len(cause.field) + len(cause.message) for cause in causes))
    return causes


def _count(length: int) -> None:
    if (told := _told.get(None)) is not None:
        if told > MAX_TOLD:
            raise TooManyProblems("too many problems to tell them all")
        _told.set(told + length)


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


def required(field: Place | str, detail: str = "") -> Cause:
    return Cause("FieldValueRequired", field, _with_detail("Required value", detail))


def invalid(field: Place | str, value: object, detail: str) -> Cause:
    return Cause("FieldValueInvalid", field, _with_detail(f"Invalid value: {quote(value)}", detail))


def invalid_unshown(field: Place | str, detail: str) -> Cause:
    """A value that is wrong, but too long or too secret to be repeated."""
    return Cause("FieldValueInvalid", field, f"Invalid value: {detail}")


def not_supported(field: Place | str, value: object, supported: Sequence[str]) -> Cause:
    listed = ", ".join(f'"{name}"' for name in supported)
    text = _with_detail(
        f"Unsupported value: {quote(value)}", listed and f"supported values: {listed}"
    )
    return Cause("FieldValueNotSupported", field, text)


def forbidden(field: Place | str, detail: str = "") -> Cause:
    return Cause("FieldValueForbidden", field, _with_detail("Forbidden", detail))


def duplicate(field: Place | str, value: object) -> Cause:
    return Cause("FieldValueDuplicate", field, f"Duplicate value: {quote(value)}")


def not_found(field: Place | str, value: object) -> Cause:
    return Cause("FieldValueNotFound", field, f"Not found: {quote(value)}")


def too_long(field: Place | str, max_bytes: int) -> Cause:
    return Cause("FieldValueTooLong", field, f"Too long: may not be more than {max_bytes} bytes")


def too_many(field: Place | str, actual: int, max_items: int) -> Cause:
    unit = "item" if max_items == 1 else "items"
    text = f"Too many: {actual}: must have at most {max_items} {unit}"
    return Cause("FieldValueTooMany", field, text)


def internal(field: Place | str, why: str) -> Cause:
    return Cause("InternalError", field, f"Internal error: {why}")


def immutable(field: Place | str, new: object, old: object) -> Causes:
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


def one_of(field: Place | str, value: object, supported: Sequence[str]) -> Causes:
    """Demand one of the given words; empty is a missing value."""
    if value in supported:
        return []
    return [not_supported(field, value, supported) if value else required(field)]


def known(field: Place | str, value: object, supported: Sequence[str]) -> Causes:
    """Demand one of the given words; empty is a wrong one."""
    return [] if value in supported else [not_supported(field, value, supported)]


def allowed(field: Place | str, value: object, supported: Sequence[str]) -> Causes:
    """Demand one of the given words if something is given."""
    return [] if value is None else known(field, value, supported)


def non_negative(field: Place | str, value: int | None) -> Causes:
    return [invalid(field, value, NOT_NEGATIVE)] if value is not None and value < 0 else []


def positive(field: Place | str, value: int) -> Causes:
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


def once(field: str, value: object, seen: set[Any]) -> Causes:
    """Demand a value that was not seen before, and remember it."""
    if value in seen:
        return [duplicate(field, value)]
    seen.add(value)
    return []


def missing(field: str, holder: Object, *names: str) -> Causes:
    """Demand that these fields are not empty."""
    return [required(f"{field}.{name}") for name in names if not holder.get(name)]


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

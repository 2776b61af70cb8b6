"""Whether every amount in an object is one, before anybody counts with it.

An API server lets no other in; a dump that was edited by hand may hold any. Which fields are
amounts follows from the types of the structs, so that no kind is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, get_type_hints

import msgspec

from bayplan.api import Resources, quantity
from bayplan.api.meta import Quantity
from bayplan.api.requests import parse_all

_ONE = (Quantity, Quantity | None)


def check_amounts(item: msgspec.Struct, path: str = "") -> None:
    """Raise QuantityError that names the field of the first amount that is none."""
    hints = _fields(type(item))
    for name, shown, hint in hints:
        value = getattr(item, name)
        if not value:
            continue
        field = f"{path}{shown}"
        if hint == Resources:
            parse_all(value, field)
        elif hint in _ONE:
            _parse(value, field)
        else:
            for place, part in _parts(value):
                check_amounts(part, f"{field}{place}.")


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, Any], ...]:
    hints = get_type_hints(kind)
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    found = [(name, shown, hints[name]) for name, shown in names]
    return tuple(item for item in found if item[2] not in (str, int, bool, dict[str, str]))


def _parts(value: object) -> Iterator[tuple[str, msgspec.Struct]]:
    if isinstance(value, msgspec.Struct):
        yield "", value
    elif isinstance(value, tuple):
        for number, part in enumerate(value):
            if isinstance(part, msgspec.Struct):
                yield f"[{number}]", part
    elif isinstance(value, dict):
        for name, part in value.items():
            if isinstance(part, msgspec.Struct):
                yield f"[{name}]", part


def _parse(value: Quantity, field: str) -> None:
    try:
        quantity.parse(value)
    except quantity.QuantityError as problem:
        raise quantity.QuantityError(f"{field}: {problem}") from problem

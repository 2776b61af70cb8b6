"""Which values of a list were there before; never each compared with each.

A list comes from a stranger and may have as many elements as three megabytes hold.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


def identity(value: object) -> object:
    """Something hashable that is equal for equal values of JSON."""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value, order="deterministic")


def repeated(values: Iterable[object]) -> set[int]:
    """Return the positions whose value was there before."""
    seen: set[object] = set()
    found = set()
    for position, value in enumerate(values):
        key = identity(value)
        if key in seen:
            found.add(position)
        seen.add(key)
    return found

"""Copying and comparing JSON values the way patches need it."""

from __future__ import annotations

from typing import Any

import msgspec


def clone(value: Any) -> Any:
    """A deep copy of a JSON value (several times faster than copy.deepcopy)."""
    if type(value) is dict:
        return {k: clone(v) if type(v) in (dict, list) else v for k, v in value.items()}
    if type(value) is list:
        return [clone(v) if type(v) in (dict, list) else v for v in value]
    return value


def without_nulls(value: Any) -> Any:
    """Drop null members of objects at any depth; null items of lists stay."""
    if type(value) is dict:
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if type(value) is list:
        return [without_nulls(v) for v in value]
    return value


def same(left: Any, right: Any) -> bool:
    """JSON equality: true is not 1, and 1 is not 1.0."""
    if type(left) is not type(right):
        return False
    if type(left) is dict:
        return len(left) == len(right) and all(
            k in right and same(v, right[k]) for k, v in left.items()
        )
    if type(left) is list:
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def identity(value: Any) -> object:
    """Return something hashable that two values have in common just if they are the same."""
    if type(value) is str:
        return value
    if type(value) in (dict, list):
        return list, msgspec.json.encode(value, order="sorted")
    return type(value), value


def size(value: Any) -> int:
    """Return how many bytes a value takes as JSON."""
    return len(msgspec.json.encode(value))

"""Decoded JSON as the API server handles it, and how fields of it are filled in.

Objects are plain dictionaries whose types were checked against the schema when they were decoded;
their values are as varied as the API, hence the one `Any` of this package.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def absent(holder: Object, **values: Any) -> None:
    """Set fields that Go keeps as pointers: only null and absent count as not given."""
    for name, value in values.items():
        if holder.get(name) is None:
            holder[name] = value


def empty(holder: Object, **values: Any) -> None:
    """Set fields that Go keeps as values: what is zero or "" counts as not given, too."""
    for name, value in values.items():
        if not holder.get(name):
            holder[name] = value


def struct(holder: Object, name: str) -> Object:
    """A struct that is made if it is not there."""
    if holder.get(name) is None:
        holder[name] = {}
    found: Object = holder[name]
    return found


def keep(holder: Object, before: Object, *names: str) -> None:
    """Take fields as they were before; one that was not there goes."""
    for name in names:
        if name in before:
            holder[name] = before[name]
        else:
            holder.pop(name, None)

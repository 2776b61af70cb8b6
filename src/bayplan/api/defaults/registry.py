"""Which function writes the defaults of which resource, as one table."""

from __future__ import annotations

from collections.abc import Callable

Object = dict[str, object]

_DEFAULTS: dict[tuple[str, str], Callable[[Object], None]] = {}


def apply_defaults(group: str, version: str, resource: str, obj: Object) -> None:
    """Write the API server's defaults into `obj` in place; unknown resources stay as they are."""
    function = _DEFAULTS.get((group, resource))
    if function is not None:
        function(obj)


def has_defaults(group: str, resource: str) -> bool:
    """Say whether this resource has defaults of its own."""
    return (group, resource) in _DEFAULTS

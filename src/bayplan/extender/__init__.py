"""HTTP extenders, both sides: wire format, the client that calls them, the kit to write one.

An extender's author needs two names:

    from bayplan.extender import Extender, Rejection

They are loaded when they are asked for: a scheduler that calls extenders does not need the kit.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayplan.extender.answers import Rejection
    from bayplan.extender.kit import Extender, NodeLookup
    from bayplan.extender.nodes import NodeCache
    from bayplan.extender.wire import Victims

__all__ = ["Extender", "NodeCache", "NodeLookup", "Rejection", "Victims"]

_HOMES = {
    "Extender": "kit",
    "NodeCache": "nodes",
    "NodeLookup": "kit",
    "Rejection": "answers",
    "Victims": "wire",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

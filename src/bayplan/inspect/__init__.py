"""Any cluster as a value to ask: why, what if, how many, what changes.

    from bayplan.inspect import Cluster

    cluster = Cluster.from_kubeconfig()

It reads (get and list only, or files) and decides with the engine; it never writes to a cluster.
Names are loaded when they are asked for: a server only needs to know where questions come in.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayplan.inspect.cluster import Cluster, Origin, Unread
    from bayplan.inspect.errors import AccessError, InspectError, SourceError, UnknownObject
    from bayplan.inspect.settings import Settings, load_settings
    from bayplan.inspect.trial import Trial, unbound

PREFIX = "/inspect/v1/"
"""Path below which questions are served."""
MAX_BODY = 1 << 20

__all__ = [
    "MAX_BODY",
    "PREFIX",
    "AccessError",
    "Cluster",
    "InspectError",
    "Origin",
    "Settings",
    "SourceError",
    "Trial",
    "UnknownObject",
    "Unread",
    "load_settings",
    "unbound",
]

_HOMES = {
    "cluster": ("Cluster", "Origin", "Unread"),
    "errors": ("AccessError", "InspectError", "SourceError", "UnknownObject"),
    "settings": ("Settings", "load_settings"),
    "trial": ("Trial", "unbound"),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

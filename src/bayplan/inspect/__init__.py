"""Any cluster as a value to ask: why, what if, how many, what changes.

    from bayplan.inspect import Cluster

    cluster = Cluster.from_kubeconfig()

It reads (get and list only, or files) and decides with the engine; it never writes to a cluster.
"""

from bayplan.inspect.cluster import Cluster, Origin, Unread
from bayplan.inspect.errors import AccessError, InspectError, SourceError, UnknownObject
from bayplan.inspect.settings import Settings, load_settings
from bayplan.inspect.trial import Trial, unbound

__all__ = [
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

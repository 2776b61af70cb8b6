"""Talks to an API server: kubeconfig, auth, list, watch, bind, informers, leader election.

client = connect(load_kubeconfig())                 # sockets (see `connect`)
client = Client(AsgiTransport(app, token=token))    # an application of this process
pods = Informer(client, PODS, Pod)
pods.add_handler(lambda changes: ...)
task = asyncio.create_task(pods.run()); await pods.wait_synced()
"""

from importlib import import_module
from typing import TYPE_CHECKING

from bayplan.client.errors import (
    AlreadyExists,
    ApiError,
    ClientError,
    Conflict,
    Forbidden,
    Gone,
    KubeconfigError,
    NoApiServer,
    NotFound,
    NotLeading,
    TransportError,
    Unauthorized,
)
from bayplan.client.informer import Change, Informer
from bayplan.client.kubeconfig import Connection, load_kubeconfig
from bayplan.client.leaderelection import LeaderElector
from bayplan.client.limiter import RateLimiter
from bayplan.client.resources import Resource
from bayplan.client.rest import Client, is_retriable
from bayplan.client.transport import Response, StreamResponse, Transport

if TYPE_CHECKING:
    from bayplan.client.asgi_transport import AsgiTransport
    from bayplan.client.socket_transport import connect

__all__ = [
    "AlreadyExists",
    "ApiError",
    "AsgiTransport",
    "Change",
    "Client",
    "ClientError",
    "Conflict",
    "Connection",
    "Forbidden",
    "Gone",
    "Informer",
    "KubeconfigError",
    "LeaderElector",
    "NoApiServer",
    "NotFound",
    "NotLeading",
    "RateLimiter",
    "Resource",
    "Response",
    "StreamResponse",
    "Transport",
    "TransportError",
    "Unauthorized",
    "connect",
    "is_retriable",
    "load_kubeconfig",
]


_LATER = {"AsgiTransport": "asgi_transport", "connect": "socket_transport"}


def __getattr__(name: str) -> object:
    """Load what speaks to a server when it is asked for: in the server's process nobody does."""
    if name in _LATER:
        return getattr(import_module(f"bayplan.client.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""The seam between the client and the wire.

A `Transport` carries one request and brings back one answer, whole or as a stream. It knows nothing
of Kubernetes. There are three: `socket_transport.SocketTransport` over sockets;
`asgi_transport.AsgiTransport`, which calls an ASGI application in the same event loop, so that
tests need no socket and run on virtual time; and `apiserver.local.LocalTransport`, which asks an
API server of this process without HTTP. Tests that want faults wrap any of them.

A transport does not retry, limit or decode: `rest.Client` does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

MAX_CONNECTIONS = 64
CONNECT_TIMEOUT = 30.0


class Response(msgspec.Struct, frozen=True):
    """A whole answer; header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class StreamResponse(msgspec.Struct, frozen=True):
    """An answer whose body comes in pieces of any size."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]
    straight: Callable[[Callable[[bytes], bool]], None] | None = None
    """Takes what is to be called with pieces, whole lines, that come while `chunks` is waited for.

    It returns whether it took them; what it did not take comes out of `chunks`. Only where nothing
    lies between the two ends.
    """


class Transport(Protocol):
    """Carries requests; safe for many at once on one event loop."""

    async def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float | None,
    ) -> Response:
        """Send one request and return its answer, whatever the status.

        `target` is path and query, already quoted. Raises TransportError when no answer came.
        """

    def stream(
        self, method: str, target: str, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[StreamResponse]:
        """Open a streamed answer; leaving the context ends it.

        Iterating `chunks` ends when the server closes, and raises TransportError when it breaks.
        """

    async def refresh_credentials(self) -> bool:
        """Fetch new credentials after a 401; return whether trying again makes sense."""

    async def close(self) -> None:
        """Close all connections; open streams end."""

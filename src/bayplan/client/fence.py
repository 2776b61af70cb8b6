"""A client that sends nothing any more once its process has lost the right to write.

A leader whose Lease ran out may have hundreds of writes waiting: for a turn at the rate limit, for
a thread, or because the process was stopped for a while. Each is judged when it would leave, by the
clock; what is refused was not sent at all. A write that is on its way by then is not called back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from bayplan.client.errors import NotLeading
from bayplan.client.rest import Client
from bayplan.client.transport import Response, StreamResponse, Transport

Holds = Callable[[], bool]


def always() -> bool:
    """Hold: nobody else may write, so no Lease is needed."""
    return True


def fenced(client: Client, holds: Holds) -> Client:
    """Return the same client, whose requests raise NotLeading unless `holds()`."""
    other = copy.copy(client)
    other.transport = FencedTransport(client.transport, holds)
    return other


class FencedTransport:
    """A Transport that carries requests while `holds()`."""

    def __init__(self, inner: Transport, holds: Holds) -> None:
        self._inner = inner
        self._holds = holds

    async def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float | None,
    ) -> Response:
        if not self._holds():
            raise NotLeading(f"{method} {target}: not sent, the lease was lost")
        return await self._inner.request(method, target, headers, body, timeout)

    def stream(
        self, method: str, target: str, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[StreamResponse]:
        return self._inner.stream(method, target, headers)

    async def refresh_credentials(self) -> bool:
        return await self._inner.refresh_credentials()

    async def close(self) -> None:
        await self._inner.close()

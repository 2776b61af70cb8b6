"""The usual transport to a real server: lean connections, aiohttp where they do not do.

Requests and streams go through `http1.Http1Pool`; everything goes through aiohttp when a proxy
stands between. Only then is aiohttp loaded, which costs a fifth of a second of CPU. Both share the
connection's credentials and TLS settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from bayplan import __version__
from bayplan.client.auth import Credential, Credentials
from bayplan.client.http1 import Http1Pool
from bayplan.client.kubeconfig import Connection
from bayplan.client.limiter import RateLimiter
from bayplan.client.proxy import proxy_of
from bayplan.client.rest import Client, Observer
from bayplan.client.tls import client_context
from bayplan.client.transport import (
    CONNECT_TIMEOUT,
    MAX_CONNECTIONS,
    Response,
    StreamResponse,
)

if TYPE_CHECKING:
    from bayplan.client.aiohttp_transport import AiohttpTransport


class SocketTransport:
    """A Transport to the server of a connection."""

    def __init__(
        self,
        connection: Connection,
        *,
        max_connections: int = MAX_CONNECTIONS,
        compression: bool | None = None,
    ) -> None:
        self._connection = connection
        self._limit = max_connections
        self._credentials = Credentials(connection)
        gzip = connection.compression if compression is None else compression
        self._extra = {"accept-encoding": "gzip"} if gzip else {}
        # Several impersonation headers of one name also need the general client.
        general = connection.impersonate or proxy_of(connection)
        self._general = self._open_general(gzip) if general else None
        self._pool: Http1Pool | None = None
        self._lock = asyncio.Lock()
        self._credential: Credential | None = None
        self._merged: dict[int, tuple[Mapping[str, str], dict[str, str]]] = {}

    async def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float | None,
    ) -> Response:
        if self._general is not None:
            return await self._general.request(method, target, headers, body, timeout)
        pool = await self._current()
        return await pool.request(method, target, self._with_auth(headers), body, timeout)

    @asynccontextmanager
    async def stream(
        self, method: str, target: str, headers: Mapping[str, str]
    ) -> AsyncIterator[StreamResponse]:
        if self._general is not None:
            opened = self._general.stream(method, target, headers)
        else:
            pool = await self._current()
            plain = self._with_auth(headers) | {"accept-encoding": "identity"}
            opened = pool.stream(method, target, plain)
        async with opened as response:
            yield response

    async def refresh_credentials(self) -> bool:
        return await self._credentials.refresh()

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()
        if self._general is not None:
            await self._general.close()

    def _open_general(self, gzip: bool) -> AiohttpTransport:
        from bayplan.client.aiohttp_transport import AiohttpTransport

        return AiohttpTransport(
            self._connection,
            credentials=self._credentials,
            max_connections=self._limit,
            compression=gzip,
        )

    async def _current(self) -> Http1Pool:
        """Return the connections that carry the credential of now."""
        credential = await self._credentials.get()
        if self._pool is None or credential is not self._credential:
            await self._adopt(credential)
        assert self._pool is not None
        return self._pool

    async def _adopt(self, credential: Credential) -> None:
        """Use a new credential; another certificate needs new connections."""
        async with self._lock:
            before, self._credential = self._credential, credential
            self._merged.clear()
            if self._pool is not None and before is not None and before.cert == credential.cert:
                return
            if self._pool is not None:
                await self._pool.close()
            self._pool = Http1Pool(
                self._connection.server,
                client_context(self._connection, cert=credential.cert, key=credential.key),
                limit=self._limit,
                server_hostname=self._connection.tls_server_name,
                connect_timeout=CONNECT_TIMEOUT,
            )

    def _with_auth(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers with the credential's; the same object for the same input."""
        known = self._merged.get(id(headers))
        if known is not None and known[0] is headers:
            return known[1]
        assert self._credential is not None
        merged = {**headers, **self._credential.headers, **self._extra}
        if len(self._merged) > 64:
            self._merged.clear()
        self._merged[id(headers)] = (headers, merged)
        return merged


def connect(
    connection: Connection,
    *,
    qps: float = 50.0,
    burst: int = 100,
    user_agent: str = f"bayplan/{__version__}",
    compression: bool | None = None,
    max_connections: int = MAX_CONNECTIONS,
    timeout: float | None = 60.0,
    observe: Observer | None = None,
) -> Client:
    """Return a client for a connection; call it on the loop that will use it."""
    transport = SocketTransport(
        connection, max_connections=max_connections, compression=compression
    )
    limiter = RateLimiter(qps, burst) if qps > 0 else None
    return Client(
        transport,
        limiter=limiter,
        namespace=connection.namespace,
        user_agent=user_agent,
        timeout=timeout,
        observe=observe,
    )

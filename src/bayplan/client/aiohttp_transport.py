"""The general transport over sockets, for proxies and impersonation: aiohttp.

Connections are capped (64 by default), because more of them buy nothing but memory on both ends; a
watch holds one of its own, outside the cap. The TLS context is made at the first request and again
when an exec plugin hands out another certificate.

It does not decode, retry or limit; `rest.Client` does.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from bayplan import vanished
from bayplan.client.auth import Credential, Credentials
from bayplan.client.errors import AnswerTooLong, KubeconfigError, RequestTimeout, TransportError
from bayplan.client.http1_connection import most
from bayplan.client.kubeconfig import Connection
from bayplan.client.proxy import proxy_of
from bayplan.client.tls import client_context
from bayplan.client.transport import (
    CONNECT_TIMEOUT,
    MAX_CONNECTIONS,
    Response,
    StreamResponse,
)
from bayplan.errors import reason

READ_BUFFER = 1 << 20


Pair = tuple[aiohttp.ClientSession, aiohttp.ClientSession]


class AiohttpTransport:
    """A Transport to the server of a connection."""

    def __init__(
        self,
        connection: Connection,
        *,
        credentials: Credentials | None = None,
        max_connections: int = MAX_CONNECTIONS,
        compression: bool | None = None,
    ) -> None:
        self._connection = connection
        self._credentials = credentials or Credentials(connection)
        self._limit = max_connections
        gzip = connection.compression if compression is None else compression
        self._encoding = "gzip" if gzip else "identity"
        self._pair: Pair | None = None
        """For requests, and for streams, which are not limited."""
        self._cert = b""

    async def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float | None,
    ) -> Response:
        credential = await self._credentials.get()
        session, _ = await self._sessions(credential)
        try:
            async with session.request(
                method,
                self._url(target),
                headers=self._headers(headers, credential),
                data=body,
                timeout=aiohttp.ClientTimeout(total=timeout, connect=CONNECT_TIMEOUT),
                allow_redirects=False,
                server_hostname=self._connection.tls_server_name or None,
            ) as answer:
                read = await _read(answer, most(method, target))
                return Response(answer.status, _lower(answer.headers), read)
        except TimeoutError as cause:
            raise RequestTimeout(f"{method} {target}: no answer within {timeout} s") from cause
        except (aiohttp.ClientError, OSError) as cause:
            raise self._broken(cause) from cause

    @asynccontextmanager
    async def stream(
        self, method: str, target: str, headers: Mapping[str, str]
    ) -> AsyncIterator[StreamResponse]:
        credential = await self._credentials.get()
        _, streams = await self._sessions(credential)
        try:
            answer = await streams.request(
                method,
                self._url(target),
                headers=self._headers(headers, credential),
                timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT),
                allow_redirects=False,
                server_hostname=self._connection.tls_server_name or None,
            )
        except TimeoutError as cause:
            raise RequestTimeout(f"{method} {target}: cannot connect in time") from cause
        except (aiohttp.ClientError, OSError) as cause:
            raise self._broken(cause) from cause
        try:
            yield StreamResponse(answer.status, _lower(answer.headers), self._chunks(answer))
        finally:
            answer.close()

    async def refresh_credentials(self) -> bool:
        return await self._credentials.refresh()

    async def close(self) -> None:
        before, self._pair = self._pair, None
        await _close(before)

    async def _chunks(self, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        try:
            async for chunk in answer.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError, TimeoutError) as cause:
            raise self._broken(cause) from cause

    async def _sessions(self, credential: Credential) -> Pair:
        pair = self._pair
        if pair is None or credential.cert != self._cert:
            # No await before both are set: another request would open a second pair.
            before = pair
            context = client_context(self._connection, cert=credential.cert, key=credential.key)
            pair = self._pair = self._open(context, self._limit), self._open(context, 0)
            self._cert = credential.cert
            await _close(before)
        return pair

    def _open(self, context: ssl.SSLContext | None, limit: int) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=limit,
            ssl=context if context is not None else True,
            keepalive_timeout=90,
            socket_factory=vanished.new_socket,
        )
        return aiohttp.ClientSession(
            connector=connector,
            read_bufsize=READ_BUFFER,
            proxy=proxy_of(self._connection) or None,
        )

    def _url(self, target: str) -> URL:
        return URL(self._connection.server + target, encoded=True)

    def _headers(self, headers: Mapping[str, str], credential: Credential) -> CIMultiDict[str]:
        every = CIMultiDict(headers)
        every.update(credential.headers)
        every["accept-encoding"] = self._encoding
        for name, value in self._connection.impersonate:
            every.add(name, value)
        return every

    def _broken(self, cause: BaseException) -> TransportError | KubeconfigError:
        server = self._connection.server
        if isinstance(
            cause, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError
        ):
            return TransportError(
                f"connecting to {server}: its certificate is not trusted ({cause}); set "
                "certificate-authority or tls-server-name of the cluster in the kubeconfig"
            )
        if isinstance(cause, aiohttp.ClientConnectorError):
            return TransportError(
                f"connecting to {server}: {reason(cause.os_error)}; is the API server running?"
            )
        return TransportError(f"talking to {server}: {cause or type(cause).__name__}")


async def _read(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    body = bytearray()
    async for part in answer.content.iter_any():
        body += part
        if len(body) > limit:
            raise AnswerTooLong("the body", limit)
    return bytes(body)


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


async def _close(sessions: Iterable[aiohttp.ClientSession] | None) -> None:
    for session in sessions or ():
        await session.close()
    # aiohttp closes TLS connections in callbacks of the next loop turn.
    await asyncio.sleep(0)

"""The door for clients of the server's own process: the same verbs, without HTTP around them.

A request is handed over as what it is, a method, a path and a body, and its answer comes back as
bytes; nothing is written as a message only to be read again. Who asks, whether it is allowed,
flow control, admission and metrics are the server's own. A watch is read in the task of the client:
no other one stands between it and the store. Nothing here sleeps or depends on timing, so a run on
a virtual-time loop is deterministic.

It does not compress, and does not start or stop the server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import cast
from urllib.parse import unquote

from bayplan.apiserver.http import Connection, head_of
from bayplan.apiserver.responses import JSON_TYPE, Answer, Stream
from bayplan.apiserver.server import ApiServer
from bayplan.client.errors import RequestTimeout, TransportError
from bayplan.client.transport import Response, StreamResponse, Transport

Head = tuple[Mapping[str, str], dict[str, str], list[tuple[str, str]]]
MAX_HEADS = 64
_JSON_HEAD: Mapping[str, str] = {"content-type": JSON_TYPE.decode()}


class LocalTransport:
    """A Transport into a server of this process, as the user who owns `token`."""

    def __init__(self, server: ApiServer, *, token: str = "") -> None:
        self._server = server
        self._auth = {"authorization": f"Bearer {token}"} if token else {}
        self._heads: dict[int, Head] = {}
        self._open: set[Stream] = set()

    async def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float | None,
    ) -> Response:
        """Ask the server. `headers` must not change afterwards: what they say is kept."""
        connection = self._connection(method, target, headers, body or b"")
        if timeout is None:
            return await self._ask(connection)
        try:
            async with asyncio.timeout(timeout):
                return await self._ask(connection)
        except TimeoutError as cause:
            raise RequestTimeout(f"{method} {target}: no answer within {timeout} s") from cause

    async def _ask(self, connection: Connection) -> Response:
        begun = time.perf_counter()
        result = await self._server.answer(connection)
        try:
            if isinstance(result, Stream):
                body = b"".join([chunk async for chunk in result.chunks])
                result.close()
            else:
                body = result.body
        finally:
            self._server.finished(connection, result.status, begun)
        if connection.method == "HEAD":
            body = b""
        return Response(result.status, _headers(connection, result), body)

    @asynccontextmanager
    async def stream(
        self, method: str, target: str, headers: Mapping[str, str]
    ) -> AsyncIterator[StreamResponse]:
        connection = self._connection(method, target, headers, b"")
        begun = time.perf_counter()
        result = await self._server.answer(connection)
        shown = _headers(connection, result)
        try:
            if isinstance(result, Answer):
                yield StreamResponse(result.status, shown, _whole(result.body))
                return
            self._open.add(result)
            chunks = _unbroken(result.chunks)
            try:
                with self._server.counted(connection):
                    yield StreamResponse(result.status, shown, chunks, result.bare)
            finally:
                await chunks.aclose()
                result.close()
                self._open.discard(result)
        finally:
            self._server.finished(connection, result.status, begun)

    async def refresh_credentials(self) -> bool:
        return False

    async def close(self) -> None:
        for stream in list(self._open):
            stream.close()

    def _connection(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> Connection:
        head = self._heads.get(id(headers))
        if head is None or head[0] is not headers:
            head = self._read(headers)
        path, _, query = target.partition("?")
        raw = path.encode()
        if "%" in path:
            path = unquote(path)
        return Connection.local(method, path, raw, query.encode(), head[1], head[2], body)

    def _read(self, headers: Mapping[str, str]) -> Head:
        every = {name.lower(): value for name, value in {**headers, **self._auth}.items()}
        posing = [pair for pair in every.items() if pair[0].startswith("impersonate-")]
        if len(self._heads) >= MAX_HEADS:
            self._heads.clear()
        found = self._heads[id(headers)] = (headers, every, posing)
        return found


def _headers(connection: Connection, result: Answer | Stream) -> Mapping[str, str]:
    if not (result.headers or connection.flow or connection.warnings):
        if result.content_type is JSON_TYPE:
            return _JSON_HEAD
        return {"content-type": result.content_type.decode()}
    pairs = [*head_of(connection, result.content_type), *result.headers]
    return {name.decode().lower(): value.decode() for name, value in pairs}


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _unbroken(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield what a stream yields; what it raises is a connection that broke."""
    source = cast("AsyncGenerator[bytes, None]", chunks)
    try:
        async for chunk in source:
            yield chunk
    except Exception as failure:
        raise TransportError(f"stream broke: {failure}") from failure
    finally:
        await source.aclose()


def _proof(local: LocalTransport) -> Transport:
    """Let mypy prove that the protocol is met."""
    return local

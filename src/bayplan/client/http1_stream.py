"""A streamed answer on a connection of its own: what watches run on.

The other half of `http1`: same connections, but the body is handed on as it comes. When the reader
falls behind by READ_BUFFER, the socket is not read until it has caught up, so that a slow reader
costs the server's memory and not ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from bayplan.client.errors import TransportError
from bayplan.client.http1_connection import HttpConnection
from bayplan.client.transport import StreamResponse

READ_BUFFER = 1 << 20


class Streaming(HttpConnection):
    """One connection with one request, whose `head` is set when the answer begins."""

    def __init__(self) -> None:
        super().__init__()
        self.head: asyncio.Future[StreamResponse] = asyncio.get_running_loop().create_future()
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._buffered = 0
        self._more = asyncio.Event()
        self._whole = False
        self._problem: TransportError | None = None

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        if status < 200:  # an interim answer; the real one follows
            self._headers = {}
        elif not self.head.done():
            self.head.set_result(StreamResponse(status, self._headers, self._chunks()))

    def on_body(self, body: bytes) -> None:
        self.received = 0  # it is not kept here, so it may go on for ever
        self._parts.append(body)
        self._buffered += len(body)
        self._more.set()
        if self._buffered > READ_BUFFER and self.transport is not None:
            self.transport.pause_reading()

    def on_message_complete(self) -> None:
        if self.head.done():
            self._whole = True
            self._more.set()

    def connection_lost(self, exc: Exception | None) -> None:
        measured = "content-length" in self._headers or "transfer-encoding" in self._headers
        if exc is None and self.head.done() and not measured:
            self._whole = True  # a body without a measure ends with its connection
            self._more.set()
        super().connection_lost(exc)

    def fail(self, problem: TransportError) -> None:
        if not self.head.done():
            self.head.set_exception(problem)
        elif not self._whole and self._problem is None:
            self._problem = problem
            self._more.set()
        self.close()

    async def _chunks(self) -> AsyncIterator[bytes]:
        while True:
            await self._more.wait()
            self._more.clear()
            if self._parts:
                parts, self._parts, self._buffered = self._parts, [], 0
                if self.transport is not None and not self.transport.is_closing():
                    self.transport.resume_reading()
                yield b"".join(parts)
            if self._parts:
                continue
            if self._whole:
                return
            if self._problem is not None:
                raise self._problem

"""What every HTTP/1.1 connection of the client does: feeds the parser, tells of the end."""

from __future__ import annotations

import asyncio
from typing import cast

import httptools

from bayplan.client.errors import TransportError

WRITE_LIMIT = 1 << 20


class HttpConnection(asyncio.Protocol):
    """One connection; the parser calls its `on_…` methods."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(WRITE_LIMIT)

    def data_received(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as problem:
            self.fail(TransportError(f"answer is not HTTP: {problem}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(TransportError(f"connection closed by the server: {exc or 'end of stream'}"))

    def fail(self, problem: TransportError) -> None:
        """Give up what is under way, and the connection."""
        raise NotImplementedError

    def close(self) -> None:
        """Close it now: nothing is left to send, and TLS would wait for a good-bye."""
        if self.transport is not None:
            self.transport.abort()

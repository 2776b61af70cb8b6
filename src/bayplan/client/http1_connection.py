"""What every HTTP/1.1 connection of the client does: feeds the parser, tells of the end.

A server may be anything that an address in a kubeconfig names: what it may say beside its body
is bounded, interim answers included; so is the body, where it is kept, by what was asked for: a
list may be long, one object not.
"""

from __future__ import annotations

import asyncio
from typing import cast

import httptools

from bayplan import vanished
from bayplan.client.errors import ELSEWHERE, AnswerTooLong, TransportError
from bayplan.errors import reason

WRITE_LIMIT = 1 << 20
MAX_HEAD = 1 << 20
MAX_ANSWER = 1 << 30  # also unpacked; a list of 100,000 pods is a fifth of it
MAX_OBJECT = 64 << 20  # one object, or what is said of a write; objects have a few megabytes


def most(method: str, target: str) -> int:
    """Return how many bytes the answer to a request may have."""
    if method not in ("GET", "DELETE"):
        return MAX_OBJECT
    parts = target.partition("?")[0].strip("/").split("/")
    parts = parts[2 if parts[0] == "api" else 3 :]  # /api/VERSION/… or /apis/GROUP/VERSION/…
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    return MAX_OBJECT if len(parts) == 2 else MAX_ANSWER


class HttpConnection(asyncio.Protocol):
    """One connection; the parser calls its `on_…` methods."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.parser = httptools.HttpResponseParser(self)
        self.received = 0
        """Bytes since the answer began or its body went on."""
        self.limit = MAX_ANSWER
        self.server = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(WRITE_LIMIT)
        vanished.notice(self.transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as problem:
            self.fail(
                TransportError(f"the answer of {self.server} is not HTTP ({problem}), {ELSEWHERE}")
            )
            return
        if self.received > MAX_HEAD:
            self.fail(AnswerTooLong("the head or trailer", MAX_HEAD))

    def connection_lost(self, exc: Exception | None) -> None:
        why = (reason(exc) if isinstance(exc, OSError) else exc) or "end of stream"
        self.fail(
            TransportError(
                f"connection closed by the server {self.server}: {why}; is the API server running?"
            )
        )

    def fail(self, problem: TransportError) -> None:
        """Give up what is under way, and the connection."""
        raise NotImplementedError

    def close(self) -> None:
        """Close it now: nothing is left to send, and TLS would wait for a good-bye."""
        if self.transport is not None:
            self.transport.abort()

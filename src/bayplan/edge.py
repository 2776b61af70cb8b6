"""The edge of every server to the network: what a client may send, and how slowly.

A request's head is bounded in bytes and in headers and must be complete in time, as must its body;
so are trailers, and the requests that come before earlier ones are answered. Little is buffered for
one that does not read, and who takes nothing of an answer for long is cut off. Deadlines are looked
at by one timer a connection, so an ordinary request costs nothing more.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from bayplan.released import RELEASED
from bayplan.scope import AT_ONCE, LOST, PEER, PIECE, STRAIGHT, Headers

MAX_HEAD = 64 * 1024
MAX_HEADERS = 256
MAX_AHEAD = 64  # requests of a connection that wait for the answer before theirs
HEAD_SECONDS = 32.0  # as upstream
BODY_SECONDS = 60.0
UNREAD_SECONDS = 120.0  # in which a client takes nothing of what waits for it
LOOK_EVERY = 8.0
WRITE_BUFFER = 32 * 1024
TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n"
    b"connection: close\r\n\r\n"
)


class HeadTooLargeError(Exception):
    """The head of a request is larger than allowed."""


class TooFarAheadError(Exception):
    """A client sends requests faster than it takes answers."""


def straight(send: object) -> Callable[[bytes], bool] | None:
    """Return how to write chunks, framed already, into the response that `send` sends.

    What is returned never waits: where the client does not read, or has gone, it writes nothing and
    returns False. None for a response that does not come in chunks.
    """
    cycle = getattr(send, "__self__", None)
    if not isinstance(cycle, RequestResponseCycle) or not cycle.chunked_encoding:
        return None
    flow, put = cycle.flow, cycle.transport.write

    def write(framed: bytes) -> bool:
        if flow.write_paused or cycle.disconnected or cycle.response_complete:
            return False
        put(framed)
        return True

    return write


def lost(send: object) -> bool:
    """Say whether what `send` is given reaches nobody any more."""
    cycle = getattr(send, "__self__", None)
    return isinstance(cycle, RequestResponseCycle) and cycle.disconnected


def at_once(send: object, status: int, headers: Headers, body: bytes) -> bool:
    """Write a short answer, head and body, in one TLS record; False where `send` is to do it.

    Uvicorn writes two. The headers give the length, and the request is not a HEAD.
    """
    cycle = getattr(send, "__self__", None)
    if not isinstance(cycle, RequestResponseCycle) or len(body) > PIECE or not cycle.keep_alive:
        return False
    if cycle.flow.write_paused or cycle.disconnected or cycle.response_started:
        return False
    lines = [b"%b: %b\r\n" % header for header in headers]
    head = b"".join((STATUS_LINE[status], *lines, b"\r\n"))
    if head.count(b"\n") != len(lines) + 2 or head.count(b"\r") != len(lines) + 2 or b"\0" in head:
        return False  # a value that would be more than one; uvicorn refuses it
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.transport.write(head + body)
    cycle.message_event.set()
    cycle.on_response()
    return True


class EdgeProtocol(HttpToolsProtocol):
    """Uvicorn's HTTP/1.1 protocol with limits."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_bytes = 0  # since a head was complete or a part of a body came
        self._in_head = True
        self._since = self.loop.time()  # when the head or body under way began
        self._too_large = False
        self._unread, self._unread_since = 0, 0.0  # bytes that were not taken, and since when
        self._timer: asyncio.TimerHandle | None = None
        self._peer: bytes | None = None  # the certificate that the client showed

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        secured = transport.get_extra_info("ssl_object")
        if secured is not None and secured.context.verify_mode != ssl.CERT_NONE:
            self._peer = secured.getpeercert(binary_form=True)
        transport.set_write_buffer_limits(high=WRITE_BUFFER)
        self._timer = self.loop.call_later(LOOK_EVERY, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().connection_lost(exc)
        RELEASED.one(self.loop)

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MAX_HEAD and not self.transport.is_closing():
            self._too_large = True
            self.send_400_response("")

    def send_400_response(self, msg: str) -> None:
        if not self._too_large:
            super().send_400_response(msg)
            return
        self.transport.write(TOO_LARGE)
        self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        scope = cast("dict[str, Any]", self.scope)
        scope[STRAIGHT], scope[LOST], scope[AT_ONCE] = straight, lost, at_once
        if self._peer is not None:
            scope[PEER] = self._peer
        self._in_head, self._since = True, self.loop.time()

    def handle_websocket_upgrade(self) -> None:
        if self._timer is not None:  # the connection is another's from now on
            self._timer.cancel()
            self._timer = None
        if self._peer is not None:  # the websocket's own scope begins with a copy of this
            self.app_state = {**self.app_state, PEER: self._peer}
        super().handle_websocket_upgrade()

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MAX_HEADERS:
            self._too_large = True
            raise HeadTooLargeError
        super().on_header(name, value.rstrip(b" \t"))  # the space behind a value is none of it

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= MAX_AHEAD:
            raise TooFarAheadError
        self._in_head, self._head_bytes, self._since = False, 0, self.loop.time()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    def _look(self) -> None:
        """End the connection if it is late; look again later."""
        waited = self.loop.time() - self._since
        reading = self.cycle is not None and self.cycle.more_body
        busy = self.cycle is not None and not self.cycle.response_complete
        if (
            (self._in_head and not busy and waited > HEAD_SECONDS)
            or (reading and not self._in_head and waited > BODY_SECONDS)
            or self._stuck()
        ):
            self.transport.abort()
            return
        self._timer = self.loop.call_later(LOOK_EVERY, self._look)

    def _stuck(self) -> bool:
        """Say whether nothing of what waits to be read was taken for too long."""
        unread = self.transport.get_write_buffer_size() if self.flow.write_paused else 0
        if not unread or unread != self._unread:
            self._unread, self._unread_since = unread, self.loop.time()
        return self.loop.time() - self._unread_since > UNREAD_SECONDS and unread > 0

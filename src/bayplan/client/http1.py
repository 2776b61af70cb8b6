"""A lean HTTP/1.1 connection pool: what binds thousands of pods a second.

A general client spends 150 µs and more of CPU on a small request; a scheduler sends two for every
pod. This one does only what an API server needs: one request at a time on a kept-alive connection,
one write, httptools for parsing, TLS by the event loop. Connections are reused last-in first-out,
so idle ones are found closed by the server before they are needed.

Streams get connections of their own (`http1_stream`), outside the pool's limit. It follows no
redirects and knows no proxy; `socket_transport` sends those cases through aiohttp.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import urlsplit

from bayplan import packed
from bayplan.client.errors import AnswerTooLong, RequestTimeout, TransportError
from bayplan.client.http1_connection import HttpConnection, most
from bayplan.client.http1_stream import Streaming
from bayplan.client.transport import Response, StreamResponse
from bayplan.errors import reason

KEPT_HEADERS = {b"retry-after", b"content-encoding"}
KEPT_LENGTHS = {len(name) for name in KEPT_HEADERS}
Opened = TypeVar("Opened", bound=HttpConnection)


class _Exchange(HttpConnection):
    """One connection; `answer` is set while a request is under way."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: asyncio.Future[Response] | None = None
        self.reusable = True
        self._headers: dict[str, str] = {}
        self._body: bytes | bytearray = b""

    def on_message_begin(self) -> None:
        self._headers = {}
        self._body = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(name) in KEPT_LENGTHS and (lower := name.lower()) in KEPT_HEADERS:
            self._headers[lower.decode()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self.received = 0
        if len(self._body) + len(body) > self.limit:
            self.fail(AnswerTooLong("the body", self.limit))
            return
        if not self._body:
            self._body = body
            return
        if isinstance(self._body, bytes):
            self._body = bytearray(self._body)
        self._body += body  # kept as one: chunks of few bytes would take many times their length

    def on_message_complete(self) -> None:
        status = self.parser.get_status_code()
        if status < 200:  # an interim answer; the real one follows
            return
        self.received = 0
        if not self.parser.should_keep_alive():
            self.reusable = False
        body, self._body = bytes(self._body), b""
        if self._headers.get("content-encoding") == "gzip":
            try:
                body = packed.unpack(body, self.limit)
            except packed.PackedError as problem:
                self.fail(TransportError(f"answer cannot be unpacked: {problem}"))
                return
        answer, self.answer = self.answer, None
        if answer is None or answer.done():
            self.reusable = False
        else:
            answer.set_result(Response(status, self._headers, body))

    def fail(self, problem: TransportError) -> None:
        self.reusable = False
        answer, self.answer = self.answer, None
        if answer is not None and not answer.done():
            answer.set_exception(problem)
        self.close()


class Http1Pool:
    """Kept-alive connections to one server."""

    def __init__(
        self,
        server: str,
        context: ssl.SSLContext | None,
        *,
        limit: int = 64,
        server_hostname: str = "",
        connect_timeout: float = 30.0,
    ) -> None:
        url = urlsplit(server)
        self._server = server
        self._host = url.hostname or ""
        self._port = url.port or (443 if url.scheme == "https" else 80)
        self._prefix = url.path.rstrip("/")
        self._authority = url.netloc.rpartition("@")[2]
        self._context = context
        self._hostname = server_hostname or None
        self._connect_timeout = connect_timeout
        self._free = asyncio.Semaphore(limit)
        self._idle: deque[_Exchange] = deque()
        self._all: set[HttpConnection] = set()
        self._encoded: dict[int, tuple[Mapping[str, str], bytes]] = {}

    async def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float | None,
    ) -> Response:
        """Send one request. `headers` must not change afterwards: their encoding is kept."""
        message = self._message(method, target, headers, body)
        async with self._free:
            exchange = self._take() or await self._open(_Exchange)
            loop = asyncio.get_running_loop()
            answer: asyncio.Future[Response] = loop.create_future()
            exchange.answer, exchange.limit = answer, most(method, target)
            timer = None
            if timeout is not None:
                late = RequestTimeout(f"{method} {target}: no answer within {timeout} s")
                timer = loop.call_later(timeout, exchange.fail, late)
            assert exchange.transport is not None
            exchange.transport.write(message)
            try:
                return await answer
            except asyncio.CancelledError:
                exchange.fail(TransportError("cancelled"))
                raise
            finally:
                if timer is not None:
                    timer.cancel()
                self._give_back(exchange)

    @asynccontextmanager
    async def stream(
        self, method: str, target: str, headers: Mapping[str, str]
    ) -> AsyncIterator[StreamResponse]:
        """Send a request and hand its answer on as it comes."""
        message = self._message(method, target, headers, None)
        opened = await self._open(Streaming)
        assert opened.transport is not None
        opened.transport.write(message)
        try:
            yield await opened.head
        finally:
            opened.close()
            self._all.discard(opened)

    async def close(self) -> None:
        """Close every connection; what is under way fails."""
        for connection in list(self._all):
            connection.fail(TransportError("the client is closed"))
        self._all.clear()
        self._idle.clear()
        await asyncio.sleep(0)

    @property
    def connections(self) -> int:
        """Return how many are open, idle ones too."""
        return len(self._all)

    def _take(self) -> _Exchange | None:
        while self._idle:
            exchange = self._idle.pop()
            if exchange.reusable:
                return exchange
            self._all.discard(exchange)
        return None

    def _give_back(self, exchange: _Exchange) -> None:
        if exchange.reusable:
            self._idle.append(exchange)
        else:
            exchange.close()
            self._all.discard(exchange)

    async def _open(self, kind: Callable[[], Opened]) -> Opened:
        loop = asyncio.get_running_loop()
        opened = kind()
        opened.server = self._server
        try:
            async with asyncio.timeout(self._connect_timeout):
                await loop.create_connection(
                    lambda: opened,
                    self._host,
                    self._port,
                    ssl=self._context,
                    server_hostname=self._hostname if self._context is not None else None,
                )
        except asyncio.CancelledError:
            opened.close()  # the loop has done so too, but waits for a good-bye
            raise
        except TimeoutError as cause:
            raise RequestTimeout(f"connecting to {self._server}: timed out") from cause
        except ssl.SSLCertVerificationError as cause:
            raise TransportError(
                f"connecting to {self._server}: its certificate is not trusted "
                f"({cause.verify_message}); set certificate-authority or tls-server-name of the "
                "cluster in the kubeconfig"
            ) from cause
        except OSError as cause:
            raise TransportError(
                f"connecting to {self._server}: {reason(cause)}; is the API server running?"
            ) from cause
        self._all.add(opened)
        return opened

    def _message(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        head = f"{method} {self._prefix}{target} HTTP/1.1\r\n".encode()
        if body is None:
            return b"%b%b\r\n" % (head, self._header_bytes(headers))
        return b"%b%bcontent-length: %d\r\n\r\n%b" % (
            head,
            self._header_bytes(headers),
            len(body),
            body,
        )

    def _header_bytes(self, headers: Mapping[str, str]) -> bytes:
        known = self._encoded.get(id(headers))
        if known is not None and known[0] is headers:
            return known[1]
        lines = [f"host: {self._authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if any("\r" in line or "\n" in line for line in lines):
            raise TransportError("a header contains a line break; check the token")
        encoded = ("\r\n".join(lines) + "\r\n").encode("latin-1")
        if len(self._encoded) > 64:
            self._encoded.clear()
        self._encoded[id(headers)] = (headers, encoded)
        return encoded

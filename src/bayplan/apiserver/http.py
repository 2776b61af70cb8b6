"""One HTTP exchange over ASGI: headers, bounded bodies, gzip both ways, streams.

A stream watches for the client's going away while it waits for data, and closes its source at
once when that happens. Nothing here knows Kubernetes.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    MutableMapping,
)
from typing import Any, TypeVar, cast

from bayplan import packed
from bayplan.apiserver.errors import ApiError, bad_request, too_large
from bayplan.apiserver.request import Request
from bayplan.apiserver.responses import Answer, Stream
from bayplan.intake import Share
from bayplan.scope import AT_ONCE, LOST, PEER, PIECE, STRAIGHT, AtOnce

T = TypeVar("T")
Message = MutableMapping[str, Any]
_PACKED = ((b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))
_NOT_KEPT = (b"cache-control", b"no-cache, private")
WARNING_CHARS, WARNING_CHARS_EACH = 4096, 256  # of all warnings of an answer, and of one
GZIP_FROM = 128 * 1024  # as upstream: small answers are not worth it

NOTHING_MORE: Message = {}
Straight = Callable[[Callable[[Message], Awaitable[None]]], Callable[[bytes], bool] | None]


def framed(chunk: bytes) -> bytes:
    """Return a chunk as HTTP/1.1 sends it."""
    return b"%x\r\n%b\r\n" % (len(chunk), chunk)


class Connection:
    """The request's head, and the two ends of its body."""

    __slots__ = (
        "_body",
        "_receive",
        "at_once",
        "flow",
        "headers",
        "impersonation",
        "lost",
        "method",
        "path",
        "peer",
        "pretty",
        "query",
        "raw_path",
        "request",
        "send",
        "straight",
        "warnings",
    )

    def __init__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.raw_path: bytes = scope.get("raw_path") or self.path.encode()
        self.query: bytes = scope["query_string"]
        self.peer: bytes | None = scope.get(PEER)
        self.headers: dict[str, str] = {}
        self.impersonation: list[tuple[str, str]] = []
        for name, value in scope["headers"]:
            key = name.decode("latin-1")
            text = value.decode("latin-1")
            if key.startswith("impersonate-"):
                self.impersonation.append((key, text))
            # Clients may send several Accept headers; they count as one list.
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text
        self._body: bytes | None = None  # where it is all there already
        self._receive = receive
        self.send = send
        self.straight: Straight | None = scope.get(STRAIGHT)
        self.lost: Callable[[object], bool] = scope.get(LOST, _unknown)
        self.at_once: AtOnce = scope.get(AT_ONCE, _unknown)
        self.pretty = False
        self.request: Request | None = None  # once it is known to be about a resource
        self.warnings: list[str] = []
        self.flow: tuple[tuple[bytes, bytes], ...] = ()  # says by which level it was let in

    @classmethod
    def local(
        cls,
        method: str,
        path: str,
        raw_path: bytes,
        query: bytes,
        headers: dict[str, str],
        impersonation: list[tuple[str, str]],
        body: bytes,
    ) -> Connection:
        """Return a request of this process; its answer is not sent, and its body is all there."""
        made = cls.__new__(cls)
        made.method = method
        made.path = path
        made.raw_path = raw_path
        made.query = query
        made.peer = None
        made.headers = headers
        made.impersonation = impersonation
        made._body = body
        made._receive = _never
        made.pretty = False
        made.request = None
        made.warnings = []
        made.flow = ()
        return made

    async def read(self, limit: int, share: Share) -> bytes:
        """Return the body. Raises a 413 as soon as it is longer than allowed, or FullError."""
        message: Message = NOTHING_MORE
        if (body := self._body) is None:
            message = await self._receive()
            body = cast("bytes", message.get("body", b""))
        parts = [body]
        while True:
            share.take(len(parts[-1]))
            if share.size > limit:
                raise too_large(limit)
            if not message.get("more_body"):
                return parts[0] if len(parts) == 1 else b"".join(parts)
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise bad_request("the connection was closed before the body was complete")
            parts.append(message.get("body", b""))

    async def gone(self) -> None:
        """Return when the client has gone away."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return


async def _never() -> Message:
    """Stand in for what a client sends later, where it is a task of this process."""
    await asyncio.Event().wait()
    return NOTHING_MORE


def _unknown(*_: object) -> bool:
    """Stand in for what `edge` knows, where clients are no sockets."""
    return False


def decode_body(body: bytes, encoding: str | None, limit: int) -> bytes:
    """Undo the Content-Encoding of a body, without growing beyond the limit."""
    if not encoding or encoding.lower() == "identity" or not body:
        return body
    if encoding.lower() != "gzip":
        raise ApiError(
            415, "UnsupportedMediaType", f'content encoding "{encoding}" is not supported; use gzip'
        )
    try:
        return packed.unpack(body, limit)
    except packed.TooLargeError as error:
        raise too_large(error.limit) from error
    except packed.PackedError as error:
        raise bad_request(str(error)) from error


def plain_text(status: int, text: str) -> Answer:
    return Answer(status, text.encode(), b"text/plain; charset=utf-8")


def _bounded(warnings: Iterable[str]) -> list[str]:
    """Keep what a head can hold, as upstream: when it is too much, the beginnings, and not all."""
    found = list(warnings)
    if sum(map(len, found)) <= WARNING_CHARS:
        return found
    kept, written = [], 0
    for text in found:
        if written >= WARNING_CHARS:
            break
        kept.append(text[:WARNING_CHARS_EACH])
        written += len(kept[-1])
    return kept


def _warning(text: str) -> tuple[bytes, bytes]:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    printable = "".join(char if " " <= char < "\x7f" else "?" for char in quoted)
    return b"warning", f'299 - "{printable}"'.encode("ascii")


def head_of(connection: Connection, content_type: bytes) -> list[tuple[bytes, bytes]]:
    """Return the headers that every answer has."""
    headers = [(b"content-type", content_type), _NOT_KEPT]
    if connection.flow:
        headers += connection.flow
    if connection.warnings:
        headers += [_warning(text) for text in _bounded(dict.fromkeys(connection.warnings))]
    return headers


def _accepts_gzip(connection: Connection) -> bool:
    return "gzip" in connection.headers.get("accept-encoding", "")


async def send_answer(connection: Connection, answer: Answer) -> None:
    """Send a finished response."""
    body = answer.body
    headers = head_of(connection, answer.content_type)
    if answer.headers:
        headers.extend(answer.headers)
        if any(name == _NOT_KEPT[0] for name, _ in answer.headers):
            headers.remove(_NOT_KEPT)
    if len(body) > GZIP_FROM and _accepts_gzip(connection):
        body = packed.pack(body)
        headers += _PACKED
    headers.append((b"content-length", str(len(body)).encode()))
    if connection.method == "HEAD":
        body = b""
    elif connection.at_once(connection.send, answer.status, headers, body):
        return
    await connection.send(
        {"type": "http.response.start", "status": answer.status, "headers": headers}
    )
    await connection.send({"type": "http.response.body", "body": body})


async def _packing(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Compress beside the event loop; zlib lets other threads run meanwhile."""
    packer = zlib.compressobj(1, wbits=31)
    async for chunk in chunks:
        if data := await asyncio.to_thread(packer.compress, chunk):
            yield data
    yield packer.flush()


TURN_BYTES = 4 << 20  # about 5 ms over TLS
PIECE_COST = 32 * 1024  # of a write, beside its bytes


class Pacing:
    """How much all streams of a server together write in one turn of the event loop.

    Clients that begin to read again all at once, or hear of the same large change, would otherwise
    be written to in one turn, thousands of them, and everybody else waits that long. Who comes too
    late waits for the next turn, in the order of arrival. A stream alone is as fast as before.
    """

    def __init__(self, turn_bytes: int = TURN_BYTES) -> None:
        self._turn_bytes = self._left = turn_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._running = False

    async def turn(self, size: int) -> None:
        """Return when so many bytes may be written."""
        cost = size + PIECE_COST
        if not self._running:
            self._running = True
            asyncio.get_running_loop().call_soon(self._next)
        if self._left > 0 and not self._waiting:
            self._left -= cost
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((cost, future))
        await future

    def _next(self) -> None:
        """Begin a turn."""
        self._left = self._turn_bytes
        while self._waiting and self._left > 0:
            cost, future = self._waiting.popleft()
            if not future.done():  # whose client has gone meanwhile
                self._left -= cost
                future.set_result(None)
        self._running = self._left < self._turn_bytes
        if self._running:
            asyncio.get_running_loop().call_soon(self._next)


LAST_SECONDS = 0.3  # of a stream that is told to end


class Endless:
    """Streams that go on until somebody ends them: watches and logs."""

    def __init__(self) -> None:
        self.pacing = Pacing()
        self._open: set[asyncio.Future[None]] = set()
        self._over = False

    def begin(self) -> asyncio.Future[None]:
        """Return what is done when the stream shall end."""
        ending = asyncio.get_running_loop().create_future()
        self._open.add(ending)
        ending.add_done_callback(self._open.discard)
        if self._over:
            ending.set_result(None)
        return ending

    def end(self) -> None:
        """End all of them, and at once whatever begins later."""
        self._over = True
        for ending in list(self._open):
            if not ending.done():
                ending.set_result(None)


async def while_awaited(connection: Connection, work: Awaitable[T], endless: Endless) -> T:
    """Return what work gives that may take for ever, as long as its client and the server stay."""
    task = asyncio.ensure_future(work)
    left, ending = asyncio.ensure_future(connection.gone()), endless.begin()
    try:
        await asyncio.wait((task, left, ending), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ApiError(503, "ServiceUnavailable", "the answer is no longer waited for")
        return task.result()
    finally:
        for each in (task, left, ending):
            each.cancel()
        await asyncio.gather(task, left, return_exceptions=True)


async def send_stream(connection: Connection, stream: Stream, endless: Endless) -> None:
    """Send a response in pieces until its source or its reader ends, or the server all of them.

    A list is sent to its last piece.
    """
    headers = [*head_of(connection, stream.content_type), *stream.headers]
    if stream.packed and _accepts_gzip(connection):
        headers += _PACKED
        stream = stream._replace(chunks=_packing(stream.chunks))
    try:
        await connection.send(
            {"type": "http.response.start", "status": stream.status, "headers": headers}
        )
    except BaseException:
        stream.close()
        raise
    if stream.straight is not None and connection.straight is not None:
        stream.straight(connection.straight(connection.send))
    pump = asyncio.ensure_future(_pump(connection, stream, endless.pacing))
    watch = asyncio.ensure_future(connection.gone())
    ending = asyncio.get_running_loop().create_future() if stream.packed else endless.begin()
    try:
        await asyncio.wait((pump, watch, ending), return_when=asyncio.FIRST_COMPLETED)
        if ended := ending.done() and not watch.done():
            stream.close()
            await asyncio.wait((pump, watch), timeout=LAST_SECONDS)
            ended = not pump.done()
    finally:
        for each in (pump, watch, ending):
            each.cancel()
        await asyncio.gather(pump, watch, return_exceptions=True)
        stream.close()
    if ended:
        await connection.send({"type": "http.response.body", "body": b"", "more_body": False})
    if pump.done() and not pump.cancelled() and (error := pump.exception()) is not None:
        raise error


def _pieces(chunk: bytes) -> Iterable[bytes]:
    """Cut what is long: a client that does not read holds one piece, not the whole of it."""
    if len(chunk) <= PIECE:
        return (chunk,)
    return (chunk[at : at + PIECE] for at in range(0, len(chunk), PIECE))


async def _pump(connection: Connection, stream: Stream, pacing: Pacing) -> None:
    """Send what a stream yields. To one who has gone nothing waits, so nothing more is made."""
    chunks = cast("AsyncGenerator[bytes, None]", stream.chunks)
    send, lost = connection.send, connection.lost
    try:
        async for chunk in chunks:
            for piece in _pieces(chunk):
                await pacing.turn(len(piece))
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                if lost(send):
                    return
    finally:
        await chunks.aclose()
    await send({"type": "http.response.body", "body": b"", "more_body": False})

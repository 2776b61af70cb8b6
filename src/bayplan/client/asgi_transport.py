"""Calls an ASGI application directly: no socket, no thread, no wall clock.

The application runs in the caller's event loop. A whole request is awaited in the caller's task; a
stream runs as a task of its own that is told `http.disconnect` and cancelled when the reader
leaves. Nothing here sleeps or depends on timing, so a run on a virtual-time loop is deterministic.

It does not start or stop the application (lifespan): whoever made the application does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

from bayplan.client.errors import RequestTimeout, TransportError
from bayplan.client.transport import Response, StreamResponse

# ASGI's own types: messages are dictionaries whose values depend on the message.
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class AsgiTransport:
    """A Transport into an application of this process, as the user who owns `token`."""

    def __init__(self, app: AsgiApp, *, token: str = "") -> None:
        self._app = app
        self._auth = {"authorization": f"Bearer {token}"} if token else {}
        self._streams: set[asyncio.Task[None]] = set()

    async def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float | None,
    ) -> Response:
        answer = _Answer(body or b"")
        call = self._app(self._scope(method, target, headers), answer.receive, answer.send)
        try:
            if timeout is None:
                await call
            else:
                async with asyncio.timeout(timeout):
                    await call
        except TimeoutError as cause:
            raise RequestTimeout(f"{method} {target}: no answer within {timeout} s") from cause
        if answer.status == 0:
            raise TransportError(f"{method} {target}: the application sent no answer")
        return Response(answer.status, answer.headers, b"".join(answer.parts))

    @asynccontextmanager
    async def stream(
        self, method: str, target: str, headers: Mapping[str, str]
    ) -> AsyncIterator[StreamResponse]:
        answer = _StreamedAnswer()
        scope = self._scope(method, target, headers)
        task = asyncio.ensure_future(self._drive(scope, answer))
        task.add_done_callback(answer.drop)  # also if it is cancelled before it begins
        self._streams.add(task)
        try:
            await answer.started.wait()
            if answer.failure is not None and answer.status == 0:
                raise TransportError(f"{method} {target}: {answer.failure}") from answer.failure
            yield StreamResponse(answer.status, answer.headers, answer.chunks())
        finally:
            answer.left.set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._streams.discard(task)

    async def refresh_credentials(self) -> bool:
        return False

    async def close(self) -> None:
        for task in list(self._streams):
            task.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)

    async def _drive(self, scope: MutableMapping[str, Any], answer: _StreamedAnswer) -> None:
        try:
            await self._app(scope, answer.receive, answer.send)
        except Exception as failure:  # the reader raises it as its own TransportError
            answer.finish(failure)
        else:
            answer.finish(None)

    def _scope(
        self, method: str, target: str, headers: Mapping[str, str]
    ) -> MutableMapping[str, Any]:
        path, _, query = target.partition("?")
        every = {"host": "in-process", **headers, **self._auth}
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in every.items()],
            "client": ("127.0.0.1", 0),
            "server": ("in-process", 80),
            "state": {},
        }


class _Answer:
    """Collects a whole answer."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self.status = 0
        self.headers: dict[str, str] = {}
        self.parts: list[bytes] = []

    async def receive(self) -> Message:
        if self._body is None:
            # The client stays until it has its answer.
            await asyncio.get_running_loop().create_future()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = _headers_of(message)
        elif message.get("body"):
            self.parts.append(bytes(message["body"]))


class _StreamedAnswer:
    """Hands pieces of the body to a reader as they come."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.started = asyncio.Event()
        self.left = asyncio.Event()
        self.failure: BaseException | None = None
        self._asked = False
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = _headers_of(message)
            self.started.set()
        elif message.get("body"):
            self._pieces.put_nowait(bytes(message["body"]))

    def finish(self, failure: BaseException | None) -> None:
        self.failure = failure
        self._pieces.put_nowait(None)
        self.started.set()

    def drop(self, task: asyncio.Task[None]) -> None:
        """Tell the reader of a task that was cancelled."""
        if task.cancelled():
            self.finish(TransportError("the stream was closed"))

    async def chunks(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            yield piece
        if self.failure is not None:
            raise TransportError(f"stream broke: {self.failure}") from self.failure


def _headers_of(message: Message) -> dict[str, str]:
    return {name.decode().lower(): value.decode() for name, value in message.get("headers", ())}

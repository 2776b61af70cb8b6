"""Websockets of exec, attach and logs, in the protocols that Kubernetes' clients speak.

A message begins with the number of its channel: 0 input, 1 output, 2 errors, 3 how it ended, 4 the
size of the terminal, 255 (v5) the end of a channel. `binary.k8s.io` and `base64.binary.k8s.io`,
which logs use, have no channels. Whatever else asks for a websocket is refused in words.

Browsers let any page open a websocket and show the user's certificate with it, so that counts for
nothing where a page of another site asks: it needs a token, which it cannot know.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from bayplan.apiserver.backend import Backend
from bayplan.apiserver.containers import container_of, log_options, runner
from bayplan.apiserver.errors import ApiError, bad_request, too_large, too_many_requests
from bayplan.apiserver.http import Connection
from bayplan.apiserver.request import Request, flag
from bayplan.apiserver.responses import error_answer
from bayplan.apiserver.verbs.read import get
from bayplan.intake import FullError, Intake, Share
from bayplan.origin import is_own
from bayplan.scope import PEER

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
MAX_INPUT = 4 << 20
PIECE = 32 << 10  # of output in one message
END_OF_INPUT = b"\x04"
_STDIN, _ERROR, _CLOSE = 0, 3, 255
_BEARER = "base64url.bearer.authorization.k8s.io."
_CHANNELS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io", "")
_PLAIN = ("binary.k8s.io", "base64.binary.k8s.io", "")
_NO_FORWARD = "port-forward needs a real network, and these nodes are simulated"


class Streams:
    """Serves websockets.

    `ask` turns a connection into a permitted request, `failed` says what is told of an error, and
    what clients send as input counts as bodies do (`intake`).
    """

    def __init__(
        self,
        ask: Callable[[Connection], Request],
        failed: Callable[[Connection, Exception], ApiError],
        backend: Backend,
        intake: Intake,
    ) -> None:
        self._ask = ask
        self._failed = failed
        self._backend = backend
        self._intake = intake

    async def serve(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one websocket from its opening to its end."""
        peer = scope.get("state", {}).get(PEER)
        connection = Connection({**scope, "method": "GET", PEER: peer}, receive, send)
        page = connection.headers.get("origin")
        if page is not None and not is_own(page, connection.headers.get("host", "")):
            connection.peer = None
        offered = scope.get("subprotocols") or []
        for word in offered:
            if word.startswith(_BEARER):
                token = _unpadded(word.removeprefix(_BEARER))
                connection.headers.setdefault("authorization", f"Bearer {token}")
        await receive()  # websocket.connect
        try:
            request, pod, protocol = await self._permitted(connection, offered)
        except Exception as error:
            await _refuse(send, self._failed(connection, error))
            return
        await send({"type": "websocket.accept", "subprotocol": protocol or None})
        with suppress(ConnectionError), self._intake.share() as share:  # the client went away
            talk = _Talk(receive, send, protocol, share)
            try:
                await talk.end(await talk.while_open(self._work(request, pod, connection, talk)))
            except ConnectionError:
                raise
            except Exception as error:
                await talk.fail(self._failed(connection, error))

    async def _permitted(
        self, connection: Connection, offered: list[str]
    ) -> tuple[Request, dict[str, Any], str]:
        """Return what is asked for, of which pod, and in which protocol. Raises ApiError."""
        request = self._ask(connection)
        known = _PLAIN if request.subresource == "log" else _CHANNELS
        protocol = next((word for word in known if word in (offered or [""])), None)
        if request.subresource not in ("exec", "attach", "log") or protocol is None:
            raise _refused(request, offered)
        if request.subresource == "exec" and not _command(connection):
            raise bad_request("you must specify at least one command for the container")
        found = await get(self._backend, request)
        pod = msgspec.json.decode(found.body)
        runner(self._backend.containers, pod, request)
        container_of(pod, request.query.get("container", ""))
        return request, pod, protocol

    def _work(
        self, request: Request, pod: dict[str, Any], connection: Connection, talk: _Talk
    ) -> Awaitable[int]:
        """Return what answers, to be awaited."""
        containers = self._backend.containers
        assert containers is not None
        name = request.query.get("container", "")
        if request.subresource == "log":
            return self._copy(containers.log(pod, log_options(request.query)), talk.plain)
        if request.subresource == "attach":
            return self._copy(containers.attach(pod, name), lambda data: talk.write(1, data))
        given = None
        if flag(request.query, "stdin"):
            talk.expect_input(terminal=flag(request.query, "tty"))
            given = talk.input
        return containers.execute(pod, name, _command(connection), given, talk.write)

    async def _copy(self, lines: Any, write: Callable[[bytes], Awaitable[None]]) -> int:
        async for line in lines:
            await write(line)
        return 0


class _Talk:
    """One open websocket."""

    def __init__(self, receive: Receive, send: Send, protocol: str, share: Share) -> None:
        self._receive = receive
        self._send = send
        self._protocol = protocol
        self._share = share
        self._input: bytearray | None = None  # what nobody will read is not kept
        self._ends_by_key = False
        self._complete = asyncio.Event()

    def expect_input(self, *, terminal: bool) -> None:
        """Keep what the client sends as input, which Ctrl-D ends on a terminal."""
        self._input, self._ends_by_key = bytearray(), terminal

    async def while_open(self, work: Awaitable[int]) -> int:
        """Work until it is done or the client has gone. Raises ApiError for too much input."""
        task, reading = asyncio.ensure_future(work), asyncio.ensure_future(self._read())
        try:
            await asyncio.wait((task, reading), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                reading.result()
                raise ConnectionError("the client went away")
            return task.result()
        finally:
            for one in (task, reading):
                one.cancel()
            await asyncio.gather(task, reading, return_exceptions=True)

    async def _read(self) -> None:
        """Take what the client sends until it goes."""
        while (message := await self._receive())["type"] != "websocket.disconnect":
            data = message.get("bytes") or (message.get("text") or "").encode()
            if data[:1] == bytes([_STDIN]) and self._input is not None:
                self._keep(data[1:], self._input)
            elif data[:2] == bytes([_CLOSE, _STDIN]):
                self._complete.set()

    def _keep(self, data: bytes, kept: bytearray) -> None:
        if len(kept) + len(data) > MAX_INPUT:
            raise too_large(MAX_INPUT)
        try:
            self._share.take(len(data))
        except FullError as full:
            raise too_many_requests(str(full)) from full
        line, ended, _ = data.partition(END_OF_INPUT) if self._ends_by_key else (data, b"", b"")
        kept += line
        if ended:
            self._complete.set()

    async def input(self) -> bytes:
        """Return all that the client sends as input."""
        await self._complete.wait()
        return bytes(self._input or b"")

    async def _put(self, message: Message) -> None:
        try:
            await self._send(message)
        except (OSError, RuntimeError) as ended:  # uvicorn's words for a websocket that has ended
            raise ConnectionError("the client went away") from ended

    async def write(self, channel: int, data: bytes) -> None:
        for begin in range(0, len(data), PIECE):
            piece = bytes([channel]) + data[begin : begin + PIECE]
            await self._put({"type": "websocket.send", "bytes": piece})

    async def plain(self, data: bytes) -> None:
        if self._protocol == "base64.binary.k8s.io":
            text = base64.b64encode(data).decode()
            await self._put({"type": "websocket.send", "text": text})
        else:
            await self._put({"type": "websocket.send", "bytes": data})

    async def end(self, code: int) -> None:
        """Say how it ended, in the protocols that have words for that, and close."""
        if self._protocol.startswith(("v4", "v5")):
            status: dict[str, Any] = {"metadata": {}, "status": "Success"}
            if code:
                status = {
                    "metadata": {},
                    "status": "Failure",
                    "message": f"command terminated with non-zero exit code: exit status {code}",
                    "reason": "NonZeroExitCode",
                    "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
                }
            await self.write(_ERROR, msgspec.json.encode(status))
        await self._put({"type": "websocket.close", "code": 1000})

    async def fail(self, error: ApiError) -> None:
        if self._protocol in _CHANNELS:
            await self.write(_ERROR, error_answer(error).body)
        await self._put({"type": "websocket.close", "code": 1000})


def _command(connection: Connection) -> list[str]:
    query = parse_qsl(connection.query.decode("latin-1"))
    return [value for key, value in query if key == "command"]


def _refused(request: Request, offered: list[str]) -> ApiError:
    if request.subresource == "portforward":
        return ApiError(501, "NotImplemented", _NO_FORWARD)
    words = ", ".join(word for word in offered if not word.startswith(_BEARER)) or "none"
    what = request.subresource or request.kind.resource
    return ApiError(400, "BadRequest", f"{what} is not served over a websocket that speaks {words}")


async def _refuse(send: Send, error: ApiError) -> None:
    answer = error_answer(error)
    headers = [
        (b"content-type", answer.content_type),
        (b"content-length", str(len(answer.body)).encode()),
    ]
    start = "websocket.http.response.start"
    await send({"type": start, "status": answer.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": answer.body})


def _unpadded(text: str) -> str:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except ValueError:
        return ""

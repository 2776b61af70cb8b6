"""The network between the processes: it loses, delays, repeats, reorders, cuts, and lies.

A request travels to its host, is served there in a task of the host's own, and its answer travels
back. So whatever happens to the one who asked, the host goes on; and when the host crashes, the one
who asked sees a broken connection. What a host sends on a watch is compared with the truth where it
leaves the host, before the network can harm it.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

from bayplan.client import AsgiTransport, Response, StreamResponse, TransportError
from bayplan.client.asgi_transport import AsgiApp
from bayplan.client.errors import RequestTimeout
from bayplan.supervised import end

T = TypeVar("T")
LONGEST = 30.0  # seconds after which who asks gives up
CODES = (409, 429, 500, 503)
GONE = b'{"kind":"Status","code":410,"reason":"Expired","message":"simulated"}'
Tap = Callable[[str], Callable[[bytes], None] | None]


class Host:
    """A process that serves; `app` is None while it is down."""

    def __init__(self) -> None:
        self.app: AsgiApp | None = None
        self.asked: dict[asyncio.Task[Any], tuple[float, str]] = {}
        """Requests that are being answered: since when, and what."""
        self._tasks: dict[asyncio.Task[Any], None] = {}

    async def run(self, work: Coroutine[Any, Any, T], what: str = "") -> T:
        """Let the host do something to its end, whoever waits for it. Raises TransportError."""
        task = asyncio.ensure_future(work)
        self._tasks[task] = None
        if what:
            self.asked[task] = (asyncio.get_running_loop().time(), what)
        task.add_done_callback(self._done)
        await asyncio.wait({task})
        if task.cancelled():
            raise TransportError("connection reset by peer")
        return task.result()

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        self.asked.pop(task, None)
        if not task.cancelled():
            task.exception()  # told to who waits, if anybody does

    async def crash(self) -> None:
        """End all that runs here, at once."""
        self.app = None
        await end(*self._tasks)


class Network:
    """All links, and how bad things are at the moment."""

    def __init__(self, rng: random.Random, tap: Tap) -> None:
        self.rng = rng
        self.tap = tap
        self.loss = 0.0
        self.delay = 0.01
        self.errors = 0.0
        self.links: dict[str, Link] = {}
        self._repeats: set[asyncio.Task[None]] = set()

    def repeat(self, request: Coroutine[Any, Any, None]) -> None:
        """Let a request arrive once more; nobody waits for its answer."""
        task = asyncio.ensure_future(request)
        self._repeats.add(task)
        task.add_done_callback(self._repeats.discard)

    def link(self, name: str, host: Host, token: str) -> Link:
        """Return the way from a process to a host; a restarted process has a new one."""
        self.links[name] = Link(self, name, host, token)
        return self.links[name]

    def heal(self) -> None:
        self.loss = self.errors = 0.0
        self.delay = 0.01
        for link in self.links.values():
            link.join()


class Link:
    """The transport of one process."""

    def __init__(self, network: Network, name: str, host: Host, token: str) -> None:
        self._network = network
        self._host = host
        self._token = token
        self.name = name
        self._whole = asyncio.Event()
        self._whole.set()
        self._dead = False
        self.asked: Callable[[str, str], None] = lambda method, target: None
        self.told: Callable[[str, Response], None] = lambda method, answer: None

    def cut(self) -> None:
        """Nothing passes until `join`."""
        self._whole.clear()

    def join(self) -> None:
        self._whole.set()

    def kill(self) -> None:
        """The process behind this link is dead: nothing leaves it any more."""
        self._dead = True

    async def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float | None,
    ) -> Response:
        self.asked(method, target)
        try:
            async with asyncio.timeout(min(timeout or LONGEST, LONGEST)):
                answer = await self._exchange(method, target, headers, body)
            self.told(method, answer)
            return answer
        except TimeoutError as cause:
            raise RequestTimeout(f"{method} {target}: no answer") from cause

    async def _exchange(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> Response:
        await self._travel()
        network, rng = self._network, self._network.rng
        if rng.random() < network.errors:
            code = rng.choice(CODES)
            status = {"kind": "Status", "code": code, "message": "simulated"}
            extra = {"retry-after": "1"} if code == 429 else {}
            return Response(code, extra, json.dumps(status).encode())
        if rng.random() < network.loss / 4:  # sent again by something in between
            network.repeat(self._again(method, target, headers, body))
        answer = await self._serve(method, target, headers, body)
        await self._travel()
        return answer

    async def _serve(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> Response:
        app = self._host.app
        if app is None:
            raise TransportError("connection refused")
        transport = AsgiTransport(app, token=self._token)
        work = transport.request(method, target, headers, body, None)
        return await self._host.run(work, f"{self.name}: {method} {target}")

    async def _again(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> None:
        try:
            await self._serve(method, target, headers, body)
        except TransportError:
            return

    async def _travel(self) -> None:
        """Go one way; what is lost never arrives."""
        if self._dead:
            raise TransportError("this process is dead")
        rng = self._network.rng
        if rng.random() < self._network.loss:
            if rng.random() < 0.5:
                raise TransportError("connection reset")
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(rng.random() * self._network.delay)
        await self._whole.wait()
        if self._dead:
            raise TransportError("this process is dead")

    def stream(
        self, method: str, target: str, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[StreamResponse]:
        return self._stream(method, target, headers)

    @asynccontextmanager
    async def _stream(
        self, method: str, target: str, headers: Mapping[str, str]
    ) -> AsyncIterator[StreamResponse]:
        try:
            async with asyncio.timeout(LONGEST):
                await self._travel()
        except TimeoutError as cause:
            raise RequestTimeout("the watch was not answered") from cause
        app = self._host.app
        if app is None:
            raise TransportError("connection refused")
        if self._network.rng.random() < self._network.errors / 2:
            yield StreamResponse(410, {}, _gone())
            return
        pieces: asyncio.Queue[bytes | TransportError | None] = asyncio.Queue()
        head: asyncio.Future[StreamResponse] = asyncio.get_running_loop().create_future()
        transport = AsgiTransport(app, token=self._token)
        feeding = asyncio.ensure_future(
            self._host.run(self._feed(transport, method, target, headers, head, pieces))
        )
        try:
            first_of: list[asyncio.Future[Any]] = [head, feeding]
            await asyncio.wait(first_of, return_when=asyncio.FIRST_COMPLETED)
            if not head.done():
                raise TransportError("connection reset by peer")
            first = head.result()
            yield StreamResponse(first.status, first.headers, self._chunks(pieces))
        finally:
            await transport.close()
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)

    async def _feed(
        self,
        transport: AsgiTransport,
        method: str,
        target: str,
        headers: Mapping[str, str],
        head: asyncio.Future[StreamResponse],
        pieces: asyncio.Queue[bytes | TransportError | None],
    ) -> None:
        """Take what the host sends, in the host's task."""
        see = self._network.tap(target)
        try:
            async with transport.stream(method, target, headers) as answer:
                head.set_result(answer)
                async for chunk in answer.chunks:
                    if see is not None and answer.status == 200:
                        see(chunk)
                    pieces.put_nowait(chunk)
            pieces.put_nowait(None)
        except TransportError as problem:
            pieces.put_nowait(problem)
        finally:
            pieces.put_nowait(TransportError("connection reset by peer"))

    async def _chunks(
        self, pieces: asyncio.Queue[bytes | TransportError | None]
    ) -> AsyncIterator[bytes]:
        rng, network = self._network.rng, self._network
        while (piece := await pieces.get()) is not None:
            if isinstance(piece, TransportError):
                raise piece
            await asyncio.sleep(rng.random() * network.delay)
            if not self._whole.is_set():
                await self._hold()
            if self._dead or rng.random() < network.loss / 4:
                raise TransportError("the watch broke")
            yield piece

    async def _hold(self) -> None:
        """Wait for a partition to end; a connection does not survive a long one."""
        try:
            async with asyncio.timeout(LONGEST):
                await self._whole.wait()
        except TimeoutError as cause:
            raise TransportError("the watch broke in a partition") from cause

    async def refresh_credentials(self) -> bool:
        return False

    async def close(self) -> None:
        return


async def _gone() -> AsyncIterator[bytes]:
    yield GONE

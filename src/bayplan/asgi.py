"""The one wrapper of uvicorn: behind the edge, quiet, leaving signals to who runs the loop.

Every server of ours is made here, so all refuse the same (`bayplan.edge`). Listening is done
before (`bayplan.listening`), so that a taken address is told in our words.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator

import uvicorn

from bayplan.edge import EdgeProtocol

CUT_OFF_SECONDS = 1.0


def config(
    app: Callable[..., object], *, tls: ssl.SSLContext | None = None, **settings: object
) -> uvicorn.Config:
    """Return settings of a server without a log of its own, which believes no forwarded address.

    Warnings would tell of every request that is none; websockets are for who asks for them.
    """
    chosen: dict[str, object] = {"access_log": False, "log_level": "error", "server_header": False}
    chosen |= {"date_header": False, "interface": "asgi3", "ws": "none", "http": EdgeProtocol}
    chosen["proxy_headers"] = False  # nobody asks where a request came from
    made = uvicorn.Config(app, **(chosen | settings))  # type: ignore[arg-type]
    if tls is not None:
        made.load()
        made.ssl = tls
    return made


class _Silence(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return False


class Server(uvicorn.Server):
    """A uvicorn server on sockets that listen already; setting `should_exit` ends it."""

    def __init__(self, settings: uvicorn.Config) -> None:
        self._up, self._ending = asyncio.Event(), asyncio.Event()
        super().__init__(settings)

    @property
    def should_exit(self) -> bool:
        return self._ending.is_set()

    @should_exit.setter
    def should_exit(self, ending: bool) -> None:
        if ending:
            self._ending.set()

    async def main_loop(self) -> None:
        """Wait for the end. Uvicorn would look for it, and tell the time, ten times a second."""
        await self.on_tick(0)
        await self._ending.wait()

    async def open(self, sockets: list[socket.socket] | None) -> None:
        """Begin to answer."""
        await super().startup(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.open(sockets)
        if self.started:
            self._up.set()

    async def answers(self, running: asyncio.Task[None]) -> None:
        """Wait until it answers; if it ended without, raise what it ended with, if anything."""
        waiting = asyncio.create_task(self._up.wait())
        try:
            await asyncio.wait([waiting, running], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if running.done():
            running.result()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End; whoever is still being answered after the grace is cut off, which is no error."""
        log, silence = logging.getLogger("uvicorn.error"), _Silence()
        log.addFilter(silence)
        try:
            await super().shutdown(sockets)
            if tasks := self.server_state.tasks:
                await asyncio.wait(tasks, timeout=CUT_OFF_SECONDS)
        finally:
            log.removeFilter(silence)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def begin(settings: uvicorn.Config, listener: socket.socket) -> Callable[[], Awaitable[None]]:
    """Answer on a socket; returns when that has begun, with what ends it."""
    server = Server(settings)
    running = asyncio.create_task(server.serve(sockets=[listener]))

    async def end() -> None:
        server.should_exit = True
        await running
        listener.close()

    try:
        await server.answers(running)
    except BaseException:
        await end()
        raise
    return end

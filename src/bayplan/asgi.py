"""The one wrapper of uvicorn: quiet, tells when it answers, and takes signals only if asked to.

Listening is done before (`bayplan.listening`), so that a taken address is told in our words.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator

import uvicorn


def config(app: Callable[..., object], **settings: object) -> uvicorn.Config:
    """Return settings of a server without a log of its own."""
    chosen: dict[str, object] = {"access_log": False, "log_level": "error", "server_header": False}
    return uvicorn.Config(app, **(chosen | settings))  # type: ignore[arg-type]


class Server(uvicorn.Server):
    """A uvicorn server on sockets that listen already.

    `tell` is called once it answers. With `signals`, SIGINT and SIGTERM end it; else they are left
    to whoever runs the loop.
    """

    def __init__(
        self,
        settings: uvicorn.Config,
        tell: Callable[[], object] = lambda: None,
        *,
        signals: bool = False,
    ) -> None:
        super().__init__(settings)
        self._tell = tell
        self._signals = signals
        self._up = asyncio.Event()

    async def open(self, sockets: list[socket.socket] | None) -> None:
        """Begin to answer."""
        await super().startup(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.open(sockets)
        if self.started:
            self._up.set()
            self._tell()

    async def answers(self, running: asyncio.Task[None]) -> None:
        """Wait until it answers; if it ended without, raise what it ended with, if anything."""
        waiting = asyncio.create_task(self._up.wait())
        await asyncio.wait([waiting, running], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if running.done():
            running.result()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if not self._signals:
            yield
            return
        with super().capture_signals():
            yield

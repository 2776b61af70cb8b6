"""The one wrapper of uvicorn: quiet, tells when it answers, and takes signals only if asked to.

Listening is done before (`bayplan.listening`), so that a taken address is told in our words.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator

import uvicorn

CUT_OFF_SECONDS = 1.0


def config(app: Callable[..., object], **settings: object) -> uvicorn.Config:
    """Return settings of a server without a log of its own, which believes no forwarded address."""
    chosen: dict[str, object] = {"access_log": False, "log_level": "error", "server_header": False}
    chosen["proxy_headers"] = False  # nobody asks where a request came from
    return uvicorn.Config(app, **(chosen | settings))  # type: ignore[arg-type]


class _Silence(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return False


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
        if not self._signals:
            yield
            return
        with super().capture_signals():
            try:
                yield
            finally:
                self._captured_signals.clear()  # it has ended as asked; that is no failure

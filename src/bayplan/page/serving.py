"""Runs a page on a loopback socket while a block runs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from bayplan.listening import listen_for_page
from bayplan.page.app import PageApp
from bayplan.page.guard import Guard, new_token
from bayplan.page.questions import Questions
from bayplan.page.saving import Saving
from bayplan.page.sources import Source
from bayplan.page.stream import Stream


@asynccontextmanager
async def serving(
    source: Source,
    *,
    listener: socket.socket | None = None,
    refresh: Callable[[], None] | None = None,
    where: str | None = "",
) -> AsyncIterator[str]:
    """Serve the page; yields the address with its token. `where`: see Questions.

    `listener` is closed at the end; without one any free port of 127.0.0.1 is taken.
    """
    listener = listener or listen_for_page("127.0.0.1", 0)
    host, number = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    stream = Stream(source.board, refresh) if source.live else None
    token = new_token()
    names = [f"{name}:{number}" for name in ("127.0.0.1", "[::1]", "localhost")]
    questions = Questions(source, where)
    routes = [*questions.routes, Saving(source, questions).route]
    page = PageApp(source, stream, routes)
    await page.whole.body()  # ahead of the first who asks
    app = Guard(page.app, token, names, f"bayplan-{number}")
    server = _Server(_quiet(app))
    tasks = [asyncio.create_task(server.serve(sockets=[listener]))]
    if stream is not None:
        tasks.append(asyncio.create_task(stream.run()))
    try:
        await server.answers(tasks[0])
        yield f"http://{shown}:{number}/?token={token}"
    finally:
        if stream is not None:
            stream.close()
        server.should_exit = True
        await tasks[0]
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks[1:], return_exceptions=True)
        listener.close()


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs it, and tells when it answers."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._up.set()

    async def answers(self, running: asyncio.Task[None]) -> None:
        """Wait until it answers, or has ended without."""
        waiting = asyncio.create_task(self._up.wait())
        await asyncio.wait([waiting, running], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _quiet(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        access_log=False,
        log_level="error",
        lifespan="off",
        timeout_graceful_shutdown=1,
        server_header=False,
        ws="none",
    )

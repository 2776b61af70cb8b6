"""Runs a page on a loopback socket while a block runs."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from bayplan.asgi import begin, config
from bayplan.listening import listen_for_page
from bayplan.page.app import PageApp
from bayplan.page.guard import Guard, new_token
from bayplan.page.questions import Questions
from bayplan.page.saving import Saving
from bayplan.page.sources import Source
from bayplan.page.stream import Stream
from bayplan.supervised import end, supervised


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
    with listener or listen_for_page("127.0.0.1", 0) as listener:
        host, number = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        stream = Stream(source.board, refresh, source.cut_off) if source.live else None
        token = new_token()
        names = [f"{name}:{number}" for name in ("127.0.0.1", "[::1]", "localhost")]
        questions = Questions(source, where)
        routes = [*questions.routes, Saving(source, questions).route]
        page = PageApp(source, stream, routes)
        await page.whole.body()  # ahead of the first who asks
        app = Guard(page.app, token, names, f"bayplan-{number}")
        stop = await begin(config(app, lifespan="off", timeout_graceful_shutdown=1), listener)
        telling = None if stream is None else supervised("page", stream.run, Counter())
        try:
            yield f"http://{shown}:{number}/?token={token}"
        finally:
            if stream is not None:
                stream.close()
            await stop()
            await end(telling)

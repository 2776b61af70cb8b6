"""The page's HTTP side: its files, the cluster, its changes and its history.

    GET /                   the page; all views are addresses behind #
    GET /static/VERSION/…   its modules and styles
    GET /api/cluster        the whole cluster in columns
    GET /api/stream?after=N changes after frame N, as server-sent events
    GET /api/history?run=   the cluster at the beginning and every frame since
    GET /api/report?…       the page with its data in one file

Answers to questions are added by `questions`. There is no request that changes a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from bayplan.api.labels import parse_int64
from bayplan.errors import BayplanError
from bayplan.page import modules, wire
from bayplan.page.sources import Source
from bayplan.page.stream import Stream
from bayplan.page.whole import Whole

TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
BINARY = "application/octet-stream"
NO_STORE = {"cache-control": "no-store"}


class PageApp:
    """The routes of one source's page; `app` is the ASGI application."""

    def __init__(
        self, source: Source, stream: Stream | None = None, more: Sequence[BaseRoute] = ()
    ) -> None:
        self._source = source
        self._stream = stream
        self.whole = Whole(source.board, self.about())
        self._files = {path.name: path for path in modules.STATIC.iterdir() if path.suffix in TYPES}
        self._page = modules.index()
        self.app = Starlette(
            routes=[
                Route("/", self._index),
                Route("/static/{version}/{name}", self._static),
                Route("/api/cluster", self._cluster),
                Route("/api/stream", self._changes),
                Route("/api/history", self._history),
                *more,
            ],
            exception_handlers={BayplanError: refused},
        )

    def about(self) -> wire.Json:
        return {**self._source.about(), "live": self._source.live}

    async def _index(self, request: Request) -> Response:
        return Response(self._page, media_type="text/html; charset=utf-8", headers=NO_STORE)

    async def _static(self, request: Request) -> Response:
        path = self._files.get(request.path_params["name"])
        if path is None:
            return Response("no such file\n", 404)
        # The version is part of the address, so a browser need not ask again.
        headers = {"cache-control": "private, max-age=31536000, immutable"}
        return Response(path.read_bytes(), media_type=TYPES[path.suffix], headers=headers)

    async def _cluster(self, request: Request) -> Response:
        if self._stream is not None:
            self._stream.tick()
        return zipped(await self.whole.body(), BINARY)

    async def _history(self, request: Request) -> Response:
        board = self._source.run(request.query_params.get("run", ""))
        if board is None:
            return problem(404, "there is no such run")
        if self._stream is not None:
            self._stream.tick()
        return packed(wire.history(board, self.about()), BINARY)

    async def _changes(self, request: Request) -> Response:
        if self._stream is None:
            return problem(404, "nothing changes here any more")
        last = request.headers.get("last-event-id") or request.query_params.get("after", "")
        after = max(parse_int64(last) or 0, 0)
        return StreamingResponse(
            self._stream.follow(after), media_type="text/event-stream", headers=NO_STORE
        )


def packed(body: bytes, kind: str = "application/json") -> Response:
    """Return a body, compressed."""
    return zipped(wire.gzipped(body), kind)


def zipped(body: bytes, kind: str) -> Response:
    headers = {**NO_STORE, "content-encoding": "gzip"}
    return Response(body, media_type=kind, headers=headers)


def problem(status: int, message: str) -> Response:
    body = msgspec.json.encode({"error": message})
    return Response(body, status, media_type="application/json", headers=NO_STORE)


async def refused(request: Request, error: Exception) -> Response:
    """A question that cannot be answered, in one line."""
    return problem(422, str(error))

"""`bayplan inspect serve`: the questions on an address of their own, for who has the token."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from bayplan import asgi
from bayplan.extender.body import BodyError, read_body
from bayplan.inspect import MAX_BODY, PREFIX
from bayplan.inspect.http import Questions
from bayplan.intake import Intake
from bayplan.listening import listen


class InspectServer:
    """Serves questions; every request needs the token, as a bearer or in the query."""

    def __init__(self, questions: Questions, token: str = "") -> None:
        self.token = token or secrets.token_urlsafe(24)
        self.port = 0
        self._questions = questions
        self._intake = Intake()
        self._end: Callable[[], Awaitable[None]] | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one, told in `port`."""
        listener = listen(host, port, "--bind")
        self.port = listener.getsockname()[1]
        settings = asgi.config(self._serve, lifespan="off", timeout_graceful_shutdown=1)
        self._end = await asgi.begin(settings, listener)

    async def stop(self) -> None:
        if self._end is not None:
            await self._end()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._answer(Request(scope, receive))
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        if not path.startswith(PREFIX):
            return JSONResponse({"error": f"questions are below {PREFIX}"}, 404)
        if request.method not in ("GET", "HEAD", "POST"):
            return JSONResponse({"error": "questions are GET or POST"}, 405)
        header = request.headers.get("authorization", "")
        token = header[7:].strip() if header[:7].lower() == "bearer " else ""
        token = token or request.query_params.get("token", "")
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            return JSONResponse({"error": "give the token that was printed"}, 401)
        asked = None
        if request.method == "POST":
            try:
                with self._intake.share() as share:
                    asked = await read_body(request.scope, request.receive, share, MAX_BODY)
            except BodyError as problem:
                return JSONResponse({"error": str(problem)}, problem.status)
        query = dict(request.query_params)
        status, body = await self._questions.answer(path.removeprefix(PREFIX), query, asked)
        return Response(body, status, media_type="application/json")

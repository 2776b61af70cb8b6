"""`bayplan inspect serve`: the questions on an address of their own, for who has the token."""

from __future__ import annotations

import logging
import secrets

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from bayplan.errors import CannotListen
from bayplan.inspect.http import Questions
from bayplan.inspect.paths import MAX_BODY, PREFIX


def _quiet_log() -> logging.Logger:
    """Tell of errors that are ours; what is no HTTP request is its sender's affair."""
    log = logging.getLogger(__name__)
    log.addFilter(_ours)
    return log


def _ours(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | web.RequestPayloadError | ConnectionError)


class InspectServer:
    """Serves questions; every request needs the token, as a bearer or in the query."""

    def __init__(self, questions: Questions, token: str = "") -> None:
        self.token = token or secrets.token_urlsafe(24)
        self.port = 0
        self._questions = questions
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one, told in `port`."""
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_get(PREFIX + "{path:.*}", self._answer)
        app.router.add_post(PREFIX + "{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, logger=_quiet_log())
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError as problem:
            await self.stop()
            raise CannotListen(f"{host}:{port}", "--bind", problem) from problem
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        header = request.headers.get("authorization", "")
        token = header[7:].strip() if header[:7].lower() == "bearer " else ""
        token = token or request.query.get("token", "")
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            return web.json_response({"error": "give the token that was printed"}, status=401)
        try:
            asked = await request.read() if request.method == "POST" else None
        except (web.RequestPayloadError, HttpProcessingError, ConnectionError) as problem:
            return web.json_response({"error": f"the body cannot be read: {problem}"}, status=400)
        path = request.match_info["path"]
        status, body = await self._questions.answer(path, dict(request.query), asked)
        return web.Response(status=status, body=body, content_type="application/json")

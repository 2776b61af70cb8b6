"""`bayplan inspect serve`: the questions on an address of their own, for who has the token."""

from __future__ import annotations

import secrets

from aiohttp import web

from bayplan.errors import CannotListen
from bayplan.inspect.http import Questions
from bayplan.inspect.paths import MAX_BODY, PREFIX


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
        self._runner = web.AppRunner(app, access_log=None)
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
        asked = await request.read() if request.method == "POST" else None
        path = request.match_info["path"]
        status, body = await self._questions.answer(path, dict(request.query), asked)
        return web.Response(status=status, body=body, content_type="application/json")

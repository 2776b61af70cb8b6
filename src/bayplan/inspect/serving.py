"""`bayplan inspect serve`: the questions on an address of their own, for who has the token."""

from __future__ import annotations

import secrets

from aiohttp import web

from bayplan.inspect.http import PREFIX, Questions


class InspectServer:
    """Serves questions; every request needs the token, as a bearer or in the query."""

    def __init__(self, questions: Questions, token: str = "") -> None:
        self.token = token or secrets.token_urlsafe(24)
        self.port = 0
        self._questions = questions
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one, told in `port`."""
        app = web.Application()
        app.router.add_get(PREFIX + "{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        header = request.headers.get("authorization", "")
        given = header[7:].strip() if header[:7].lower() == "bearer " else ""
        given = given or request.query.get("token", "")
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return web.json_response({"error": "give the token that was printed"}, status=401)
        status, body = await self._questions.answer(request.match_info["path"], dict(request.query))
        return web.Response(status=status, body=body, content_type="application/json")

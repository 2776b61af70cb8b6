"""Who may read the page: this machine's browser that was given the token.

The address that is printed carries a token; the first load exchanges it for a cookie and leads to
the address without it. A request whose `Host` is not this server is refused, so that no other
site's name can be made to point here; nothing is answered to a page of another origin. The policy
lets the page load only what comes from here and run no inline script.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
NO_TOKEN = (
    "This page needs the address that `bayplan` printed, with its token.\n"
    "Copy it from the terminal once; this browser is then remembered.\n"
)


class Guard:
    """Wraps the application; see the module's docstring."""

    def __init__(self, app: ASGIApp, token: str, hosts: Iterable[str], cookie: str) -> None:
        self._app = app
        self._token = token
        self._hosts = frozenset(hosts)
        self._cookie = cookie
        self._session = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.encode(), text.encode()) for name, text in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        await self._answer(Request(scope))(scope, receive, sealed)

    def _answer(self, request: Request) -> ASGIApp:
        if request.headers.get("host", "").lower() not in self._hosts:
            return PlainTextResponse("this is not a name of this server\n", 421)
        origin = request.headers.get("origin", "")
        if origin and origin.lower().removeprefix("http://") not in self._hosts:
            return PlainTextResponse("another site must not ask\n", 403)
        given = request.query_params.get("token")
        if given is not None and _same(given, self._token):
            return self._exchange(request)
        if _same(request.cookies.get(self._cookie, ""), self._session):
            return self._app
        return PlainTextResponse(NO_TOKEN, 401)

    def _exchange(self, request: Request) -> ASGIApp:
        """Set the cookie and lead on without the token, so that it is not shared by accident."""
        rest = [(k, v) for k, v in parse_qsl(request.url.query) if k != "token"]
        target = request.url.path + (f"?{urlencode(rest)}" if rest else "")
        answer = RedirectResponse(target, 303)
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
        return answer


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def new_token() -> str:
    return secrets.token_urlsafe(16)

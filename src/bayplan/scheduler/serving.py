"""The scheduler's HTTP endpoints: health, metrics and configuration.

`/healthz /livez /readyz` answer anyone, with `?verbose` and `?exclude=` as Kubernetes' components
have them; everything else asks the gatekeeper. Over HTTPS by default; `--port` adds plain HTTP
for manifests of old, where only health and metrics are served.

The paths are a table of callables given by the driver: this module knows no scheduler.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bayplan import asgi
from bayplan.api.user import User
from bayplan.apiserver.certificates import peer_user
from bayplan.extender.body import BodyError, read_body
from bayplan.inspect import MAX_BODY
from bayplan.inspect import PREFIX as INSPECT
from bayplan.intake import Intake
from bayplan.listening import listen
from bayplan.observe.metrics import CONTENT_TYPE
from bayplan.observe.slis import HealthSlis
from bayplan.scheduler.delegated import Gatekeeper
from bayplan.scheduler.inspecting import EXPLAIN, Answer
from bayplan.scope import PEER

log = structlog.get_logger(__name__)

Check = Callable[[], str | None]
"""A health check: None when all is well, else what is wrong."""

SLIS = "/metrics/slis"
NO_PAGE = "404 page not found\n"

Page = Callable[[], tuple[str, bytes]]
"""Returns content type and body of a page."""


class Endpoints(msgspec.Struct, frozen=True):
    """What is served."""

    healthz: Mapping[str, Check]
    livez: Mapping[str, Check]
    readyz: Mapping[str, Check]
    pages: Mapping[str, Page]
    explain: Callable[[str], Awaitable[bytes | None]] | None = None
    """Tells why a pod (`namespace/name`) is where it is, as JSON; None when it is not known."""
    inspect: Answer | None = None
    """Answers questions about the cluster."""


class Server:
    """Serves the endpoints on any number of addresses."""

    def __init__(self, endpoints: Endpoints, gatekeeper: Gatekeeper) -> None:
        self._endpoints = endpoints
        self._gatekeeper = gatekeeper
        self._slis = HealthSlis()
        self._intake = Intake()
        self._ends: list[Callable[[], Awaitable[None]]] = []
        self.ports: list[int] = []

    async def listen(self, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Listen on an address (port 0: any); plain HTTP without a context. Return the port."""
        listener = listen(host, port, "--secure-port" if context else "--port")
        bound: int = listener.getsockname()[1]
        app = _application(self._secure if context else self._plain)
        settings = asgi.config(app, tls=context, lifespan="off", timeout_graceful_shutdown=1)
        self._ends.append(await asgi.begin(settings, listener))
        self.ports.append(bound)
        log.info("serving", scheme="https" if context else "http", host=host, port=bound)
        return bound

    async def close(self) -> None:
        """Stop listening."""
        for end in self._ends:
            await end()

    async def _secure(self, request: Request) -> Response:
        header = request.headers.get("authorization", "")
        token = header[7:].strip() if header[:7].lower() == "bearer " else ""
        path, verb = request.url.path, request.method.lower()
        verdict = await self._gatekeeper.check(path, token, _certificate_user(request), verb=verb)
        if verdict != 200:
            forbidden = f'forbidden: cannot {verb} "{path}"'
            return _text("Unauthorized\n" if verdict == 401 else f"{forbidden}\n", verdict)
        if self._endpoints.inspect is not None and path.startswith(INSPECT):
            asked = None
            if request.method == "POST":
                with self._intake.share() as share:
                    asked = await read_body(request.scope, request.receive, share, MAX_BODY)
            query = dict(request.query_params)
            status, body = await self._endpoints.inspect(path.removeprefix(INSPECT), query, asked)
            return Response(body, status, media_type="application/json")
        if self._endpoints.explain is not None and path.startswith(EXPLAIN):
            found = await self._endpoints.explain(path.removeprefix(EXPLAIN))
            if found is None:
                return _text("this scheduler knows no such pod\n", 404)
            return Response(found, media_type="application/json")
        return self._serve(request)

    async def _plain(self, request: Request) -> Response:
        if request.url.path in ("/metrics", SLIS, "/healthz", "/livez", "/readyz"):
            return self._serve(request)
        return _text(NO_PAGE, 404)

    def _serve(self, request: Request) -> Response:
        path, query = request.url.path, request.query_params
        if path == SLIS:
            return Response(self._slis.exposition(), headers={"content-type": CONTENT_TYPE})
        page = self._endpoints.pages.get(path)
        if page is not None:
            content_type, body = page()
            return Response(body, headers={"content-type": content_type})
        checks = {
            "/healthz": self._endpoints.healthz,
            "/livez": self._endpoints.livez,
            "/readyz": self._endpoints.readyz,
        }
        for root, group in checks.items():
            if path == root:
                excluded = set(query.getlist("exclude"))
                return _health(root, group, "verbose" in query, excluded, self._slis)
            name = path.removeprefix(f"{root}/")
            if name != path and name in group:
                return _health(f"{root}/{name}", {name: group[name]}, False, set(), self._slis)
        return _text(NO_PAGE, 404)


def _text(text: str, status: int = 200) -> Response:
    return Response(text, status, media_type="text/plain")


def _application(answer: Callable[[Request], Awaitable[Response]]) -> ASGIApp:
    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        questions = request.method == "POST" and request.url.path.startswith(INSPECT)
        try:
            if request.method in ("GET", "HEAD") or questions:
                response = await answer(request)
            else:
                response = _text("405: Method Not Allowed", 405)
        except BodyError as problem:
            response = _text(f"{problem}\n", problem.status)
        await response(scope, receive, send)

    return application


def _health(
    root: str, checks: Mapping[str, Check], verbose: bool, excluded: set[str], slis: HealthSlis
) -> Response:
    lines, failed = [], []
    title = root.removeprefix("/").split("/")[0]
    for name, check in checks.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
            continue
        problem = check()
        slis.checked(title, name, problem is None)
        if problem is None:
            lines.append(f"[+]{name} ok")
        else:
            lines.append(f"[-]{name} failed: {problem}")
            failed.append(name)
    if failed:
        return _text("\n".join([*lines, f"{title} check failed\n"]), 500)
    if verbose:
        return _text("\n".join([*lines, f"{title} check passed\n"]))
    return _text("ok")


def _certificate_user(request: Request) -> User | None:
    """Return the user of a client certificate that TLS has verified."""
    shown = request.scope.get(PEER)
    return peer_user(shown) if shown else None


def metrics_page(exposition: Callable[[], bytes]) -> Page:
    """Return the page of `/metrics`."""
    return lambda: (CONTENT_TYPE, exposition())


def configz_page(config: Callable[[], object]) -> Page:
    """Return the page of `/configz`: the configuration as in its file."""
    return lambda: (
        "application/json",
        msgspec.json.encode({"componentconfig": config()}),
    )

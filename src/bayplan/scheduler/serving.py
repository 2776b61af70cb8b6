"""The scheduler's HTTP endpoints: health, metrics and configuration.

`/healthz /livez /readyz` answer anyone, with `?verbose` and `?exclude=` as Kubernetes' components
have them; everything else asks the gatekeeper. Over HTTPS by default; `--port` adds plain HTTP
for manifests of old, where only health and metrics are served.

The paths are a table of callables given by the driver: this module knows no scheduler.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping

import msgspec
import structlog
from aiohttp import web

from bayplan.api.user import User
from bayplan.errors import ConfigError
from bayplan.inspect.paths import MAX_BODY
from bayplan.inspect.paths import PREFIX as INSPECT
from bayplan.observe.metrics import CONTENT_TYPE
from bayplan.observe.slis import HealthSlis
from bayplan.scheduler.delegated import Gatekeeper
from bayplan.scheduler.inspecting import EXPLAIN, Answer

log = structlog.get_logger(__name__)

Check = Callable[[], str | None]
"""A health check: None when all is well, else what is wrong."""

SLIS = "/metrics/slis"

Page = Callable[[], tuple[str, bytes]]
"""Returns content type and body of a page."""


class Endpoints(msgspec.Struct, frozen=True):
    """What is served."""

    healthz: Mapping[str, Check]
    livez: Mapping[str, Check]
    readyz: Mapping[str, Check]
    pages: Mapping[str, Page]
    explain: Callable[[str], bytes | None] = lambda pod: None
    """Tells why a pod (`namespace/name`) is where it is, as JSON; None when it is not known."""
    inspect: Answer | None = None
    """Answers questions about the cluster."""


class Server:
    """Serves the endpoints on any number of addresses."""

    def __init__(self, endpoints: Endpoints, gatekeeper: Gatekeeper) -> None:
        self._endpoints = endpoints
        self._gatekeeper = gatekeeper
        self._slis = HealthSlis()
        self._runners: list[web.AppRunner] = []
        self.ports: list[int] = []

    async def listen(self, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Listen on an address (port 0: any); plain HTTP without a context. Return the port."""
        app = web.Application(client_max_size=MAX_BODY)
        handler = self._secure if context else self._plain
        app.router.add_get("/{path:.*}", handler)
        app.router.add_post(f"{INSPECT}{{path:.*}}", handler)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        self._runners.append(runner)
        site = web.TCPSite(runner, host, port, ssl_context=context)
        try:
            await site.start()
        except OSError as problem:
            flag = "--secure-port" if context else "--port"
            raise ConfigError(
                f"listening on {host}:{port}: {problem.strerror}; "
                f"choose another {flag} or --bind-address (0 switches it off)"
            ) from problem
        bound: int = runner.addresses[0][1]
        self.ports.append(bound)
        log.info("serving", scheme="https" if context else "http", host=host, port=bound)
        return bound

    async def close(self) -> None:
        """Stop listening."""
        for runner in self._runners:
            await runner.cleanup()

    async def _secure(self, request: web.Request) -> web.Response:
        header = request.headers.get("authorization", "")
        token = header[7:].strip() if header[:7].lower() == "bearer " else ""
        user, verb = _certificate_user(request), request.method.lower()
        verdict = await self._gatekeeper.check(request.path, token, user, verb=verb)
        if verdict != 200:
            forbidden = f'forbidden: cannot {verb} "{request.path}"'
            text = "Unauthorized" if verdict == 401 else forbidden
            return web.Response(status=verdict, text=f"{text}\n")
        if self._endpoints.inspect is not None and request.path.startswith(INSPECT):
            path = request.path.removeprefix(INSPECT)
            asked = await request.read() if request.method == "POST" else None
            status, body = await self._endpoints.inspect(path, dict(request.query), asked)
            return web.Response(status=status, body=body, content_type="application/json")
        return self._serve(request)

    async def _plain(self, request: web.Request) -> web.Response:
        if request.path in ("/metrics", SLIS, "/healthz", "/livez", "/readyz"):
            return self._serve(request)
        return web.Response(status=404, text="404 page not found\n")

    def _serve(self, request: web.Request) -> web.Response:
        if request.path == SLIS:
            return web.Response(
                body=self._slis.exposition(), headers={"content-type": CONTENT_TYPE}
            )
        page = self._endpoints.pages.get(request.path)
        if page is not None:
            content_type, body = page()
            return web.Response(body=body, headers={"content-type": content_type})
        if request.path.startswith(EXPLAIN):
            found = self._endpoints.explain(request.path.removeprefix(EXPLAIN))
            if found is None:
                return web.Response(status=404, text="this scheduler knows no such pod\n")
            return web.Response(body=found, content_type="application/json")
        checks = {
            "/healthz": self._endpoints.healthz,
            "/livez": self._endpoints.livez,
            "/readyz": self._endpoints.readyz,
        }
        for root, group in checks.items():
            if request.path == root:
                excluded = set(request.query.getall("exclude", []))
                return _health(root, group, "verbose" in request.query, excluded, self._slis)
            name = request.path.removeprefix(f"{root}/")
            if name != request.path and name in group:
                return _health(f"{root}/{name}", {name: group[name]}, False, set(), self._slis)
        return web.Response(status=404, text="404 page not found\n")


def _health(
    root: str, checks: Mapping[str, Check], verbose: bool, excluded: set[str], slis: HealthSlis
) -> web.Response:
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
        return web.Response(status=500, text="\n".join([*lines, f"{title} check failed\n"]))
    if verbose:
        return web.Response(text="\n".join([*lines, f"{title} check passed\n"]))
    return web.Response(text="ok")


def _certificate_user(request: web.Request) -> User | None:
    """Return the user of a client certificate that TLS has verified."""
    transport = request.transport
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    if not certificate:
        return None
    names = dict(pair for group in certificate.get("subject", ()) for pair in group)
    groups = tuple(
        value
        for group in certificate.get("subject", ())
        for key, value in group
        if key == "organizationName"
    )
    common = names.get("commonName", "")
    return User(common, groups=(*groups, "system:authenticated")) if common else None


def metrics_page(exposition: Callable[[], bytes]) -> Page:
    """Return the page of `/metrics`."""
    return lambda: (CONTENT_TYPE, exposition())


def configz_page(config: Callable[[], object]) -> Page:
    """Return the page of `/configz`: the configuration as in its file."""
    return lambda: (
        "application/json",
        msgspec.json.encode({"componentconfig": config()}),
    )

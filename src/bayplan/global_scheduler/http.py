"""The HTTP face of the global scheduler: allocations, sites, health, metrics, a page to try it."""

import asyncio
import hmac
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from prometheus_client import generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from bayplan import origin
from bayplan.errors import BayplanError
from bayplan.extender.body import BodyError, header, read_body
from bayplan.global_scheduler import answers, listing, openapi, page
from bayplan.global_scheduler.draining import drain
from bayplan.global_scheduler.fields import PROBLEMS, Fields, Json, Problem
from bayplan.global_scheduler.metrics import Metrics, by_site
from bayplan.global_scheduler.question import read_question
from bayplan.global_scheduler.quotas import QuotaError
from bayplan.global_scheduler.request import (
    MAX_REPLICAS,
    MAX_TOGETHER,
    check_size,
    read_allocation,
)
from bayplan.global_scheduler.service import (
    Allocations,
    ConflictError,
    NoSiteError,
    NotFoundError,
    fingerprint,
)
from bayplan.global_scheduler.stack import Allocation
from bayplan.global_scheduler.stranded import stranded
from bayplan.global_scheduler.whatif import UnknownSiteError, sites_named
from bayplan.global_scheduler.writer import TooWideError, UnavailableError
from bayplan.intake import Intake

MAX_BODY = 4 * 1024 * 1024
MAX_TTL = 86_400.0
MAX_KEY = 255

Handler = Callable[[Request], Awaitable[Response]]


class _BadRequest(BayplanError):
    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("bad request")
        self.problems = problems[:PROBLEMS]  # several allocations have as many each


class Api:
    """The routes, as an ASGI application."""

    def __init__(
        self, service: Allocations, *, ttl: float = 60.0, token: str = "", prefix: str = "/v1"
    ) -> None:
        self.service = service
        self.metrics = Metrics(service)
        self.feed = listing.Feed(service)
        self._intake = Intake()
        self._ttl = ttl
        self._token = token
        self._often = f"{prefix}/allocations"
        self._create = self._guarded(self.create)
        one = f"{prefix}/allocations/{{id}}"
        self._routes = Starlette(
            routes=[
                Route(f"{prefix}/allocations", self._create, methods=["POST"]),
                self._route(f"{prefix}/allocations", self.list, "GET"),
                self._route(one, self.get, "GET"),
                self._route(one, self.release, "DELETE"),
                self._route(one, self.resize, "PATCH"),
                self._route(f"{one}/move", self.move, "POST"),
                self._route(f"{one}/commit", self.commit, "POST"),
                self._route(f"{prefix}/sites", self.sites, "GET"),
                self._route(f"{prefix}/sites/{{id}}", self.site, "GET"),
                self._route(f"{prefix}/stream", self.stream, "GET"),
                self._route(f"{prefix}/sites/{{id}}/drain", self.drain, "POST"),
                self._route(f"{prefix}/sites/{{id}}/drain", self.reopen, "DELETE"),
                self._route(f"{prefix}/rebalance", self.plan, "GET"),
                self._route(f"{prefix}/rebalance", self.rebalance, "POST"),
                self._route(f"{prefix}/whatif", self.what_if, "POST"),
                self._route(f"{prefix}/stranded", self.stranded, "GET"),
                Route("/metrics", self._guarded(self.show_metrics)),
                Route("/metrics/sites", self._guarded(self.show_sites)),
                Route("/healthz", _healthy),
                Route("/openapi.json", _document),
                *page.routes(),
            ],
            exception_handlers={HTTPException: _refused},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; an allocation, which is asked for most, without asking every route."""
        if scope.get("path") != self._often or scope.get("method") != "POST":
            return await self._routes(scope, receive, send)
        request = Request(scope, receive)
        try:
            answer = await self._create(request)
        except HTTPException as refusal:
            answer = await _refused(request, refusal)
        await answer(scope, receive, send)

    async def _body(self, request: Request) -> Json:
        kind = header(request.scope, b"content-type").partition(b";")[0].strip().lower()
        if kind != b"application/json":
            raise HTTPException(415, "Content-Type must be application/json")
        with self._intake.share() as share:
            body = await read_body(request.scope, request.receive, share, MAX_BODY)
        try:
            value: Json = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
            raise _BadRequest([Problem("", f"not JSON: {cause}")]) from cause
        return value

    def _route(self, path: str, handler: Handler, method: str) -> Route:
        return Route(path, self._guarded(handler), methods=[method])

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(request: Request) -> Response:
            try:
                self._authorize(request)
                answer = await handler(request)
            except BayplanError as problem:
                answer = _error(problem)
            self.metrics.requests.labels(request.method, answer.status_code).inc()
            return answer

        return guarded

    def _authorize(self, request: Request) -> None:
        if not self._token:
            if why := origin.problem(request.scope):
                raise HTTPException(403, why)
            return
        given = header(request.scope, b"authorization")
        if not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            raise HTTPException(401, "a bearer token is needed")

    async def what_if(self, request: Request) -> Response:
        """POST /v1/whatif."""
        problems: list[Problem] = []
        question = read_question(await self._body(request), self.service.table, problems)
        if problems:
            raise _BadRequest(problems)
        answer = await self.service.what_if(question)
        return _answer({"whatif": msgspec.to_builtins(answer)})

    async def create(self, request: Request) -> Response:
        """POST /v1/allocations."""
        body = await self._body(request)
        problems: list[Problem] = []
        if Fields(body, []).has("allocations"):
            return await self._create_all(request, Fields(body, problems))
        dry = _flag(request, "dry_run", problems)
        explain = _flag(request, "explain", problems)
        ttl = self._reservation(request, problems)
        key = header(request.scope, b"idempotency-key").decode("latin-1")
        if len(key) > MAX_KEY:
            problems.append(Problem("Idempotency-Key", f"is longer than {MAX_KEY} characters"))
        allocation, found = self._allocation(body)
        if problems + found:
            raise _BadRequest(problems + found)
        why = self.service.explain(allocation) if explain else None
        try:
            if dry:
                record = self.service.dry_run(allocation)
            else:
                with self.metrics.seconds.time():
                    record = await self.service.create(
                        allocation,
                        key=key,
                        fingerprint=fingerprint(allocation) if key else "",
                        ttl=ttl,
                    )
        except NoSiteError as refused:
            return _answer(answers.no_site_body(refused.why) | answers.why_body(why), 409)
        answer = {"allocation": answers.allocation_body(record)} | answers.why_body(why)
        return _answer(answer, 200 if dry else 201)

    def _allocation(self, body: Json) -> tuple[Allocation, list[Problem]]:
        table = self.service.table
        return read_allocation(
            body,
            flavors=table.flavors,
            volume_types=table.volume_types,
            new_id=str(uuid.uuid4()),
        )

    async def _create_all(self, request: Request, fields: Fields) -> Response:
        """Several allocations, all or none; they are committed at once."""
        problems = fields.problems
        for name in ("dry_run", "explain", "reserve"):
            if _flag(request, name, problems):
                problems.append(Problem(name, "is not possible with several allocations"))
        wanted = []
        for item in fields.items("allocations", most=MAX_TOGETHER):
            allocation, found = self._allocation({"allocation": item.everything})
            problems += [
                Problem(f"{item.path}{p.path.removeprefix('allocation')}", p.text) for p in found
            ]
            wanted.append(allocation)
        if not fields.raw("allocations"):
            problems.append(Problem("allocations", f"must have 1 to {MAX_TOGETHER} entries"))
        check_size(fields, "allocations", wanted)
        if problems:
            raise _BadRequest(problems)
        with self.metrics.seconds.time():
            records = await self.service.create_all(wanted)
        return _answer({"allocations": [answers.allocation_body(one) for one in records]}, 201)

    async def resize(self, request: Request) -> Response:
        """PATCH /v1/allocations/{id}."""
        problems: list[Problem] = []
        fields = Fields(await self._body(request), problems)
        replicas = fields.integer("replicas")
        if not 1 <= replicas <= MAX_REPLICAS:
            fields.problem("replicas", f"must be from 1 to {MAX_REPLICAS}, got {replicas}")
        if problems:
            raise _BadRequest(problems)
        record = await self.service.resize(request.path_params["id"], replicas)
        return _answer({"allocation": answers.full_body(record)})

    async def move(self, request: Request) -> Response:
        """POST /v1/allocations/{id}/move."""
        problems: list[Problem] = []
        fields = Fields(await self._body(request), problems)
        leave = fields.texts("leave")
        if not leave:
            fields.problem("leave", "must name at least one site")
        if problems:
            raise _BadRequest(problems)
        sites = sites_named(self.service.table.sites, leave)
        record = await self.service.move(request.path_params["id"], sites, "asked for")
        return _answer({"allocation": answers.full_body(record)})

    def _reservation(self, request: Request, problems: list[Problem]) -> float:
        """Seconds that the allocation is held without a commit; 0 commits at once."""
        if not request.scope["query_string"]:
            return 0.0
        reserve = _flag(request, "reserve", problems)
        fields = Fields(dict(request.query_params), problems)
        ttl = fields.number("ttl_seconds", default=self._ttl)
        if not 0 < ttl <= MAX_TTL:
            problems.append(Problem("ttl_seconds", f"must be above 0 and at most {MAX_TTL:g}"))
        return ttl if reserve else 0.0

    async def list(self, request: Request) -> Response:
        """GET /v1/allocations."""
        fields = Fields(dict(request.query_params), [])
        body = await listing.allocations(self.service, listing.read_page(fields), fields)
        return _checked(body, fields)

    async def get(self, request: Request) -> Response:
        """GET /v1/allocations/{id}."""
        identity = request.path_params["id"]
        record = self.service.get(identity)
        problems: list[Problem] = []
        explain = _flag(request, "explain", problems)
        if problems:
            raise _BadRequest(problems)
        why = self.service.explain_placed(identity) if explain else None
        return _answer({"allocation": answers.full_body(record)} | answers.why_body(why))

    async def release(self, request: Request) -> Response:
        """DELETE /v1/allocations/{id}."""
        await self.service.release(request.path_params["id"])
        return Response(status_code=204)

    async def commit(self, request: Request) -> Response:
        """POST /v1/allocations/{id}/commit."""
        record = await self.service.commit(request.path_params["id"])
        return _answer({"allocation": answers.full_body(record)})

    async def sites(self, request: Request) -> Response:
        """GET /v1/sites."""
        fields = Fields(dict(request.query_params), [])
        body = await listing.sites(self.service.table, listing.read_page(fields))
        return _checked(body, fields)

    async def site(self, request: Request) -> Response:
        """GET /v1/sites/{id}."""
        identity = request.path_params["id"]
        row = self.service.table.row_of(identity)
        if row is None:
            raise UnknownSiteError(f'there is no site "{identity}"')
        return _answer({"site": listing.one_site(self.service, row)})

    async def stream(self, request: Request) -> Response:
        """GET /v1/stream: a JSON object a line, until the reader goes."""
        return StreamingResponse(self.feed.follow(), media_type="application/x-ndjson")

    async def drain(self, request: Request) -> Response:
        """POST /v1/sites/{id}/drain."""
        done = await drain(self.service, request.path_params["id"])
        return _answer({"drain": msgspec.to_builtins(done)})

    async def reopen(self, request: Request) -> Response:
        """DELETE /v1/sites/{id}/drain."""
        await self.service.open_site(request.path_params["id"])
        return Response(status_code=204)

    async def plan(self, request: Request) -> Response:
        """GET /v1/rebalance."""
        problems: list[Problem] = []
        most = Fields(dict(request.query_params), problems).integer("moves", default=20, least=1)
        if most > MAX_TOGETHER:
            problems.append(Problem("moves", f"must be at most {MAX_TOGETHER}, got {most}"))
        if problems:
            raise _BadRequest(problems)
        plan = await self.service.plan(most)
        return _answer({"plan": msgspec.to_builtins(plan)})

    async def rebalance(self, request: Request) -> Response:
        """POST /v1/rebalance: carry out moves of a plan."""
        problems: list[Problem] = []
        steps = [
            (item.text("allocation", required=True), item.text("from", required=True),
             item.text("to", required=True))
            for item in Fields(await self._body(request), problems).items(
                "moves", required=True, most=MAX_TOGETHER
            )
        ]  # fmt: skip
        if problems:
            raise _BadRequest(problems)
        done = []
        for identity, source, target in steps:
            entry = {"allocation": identity, "from": source, "to": target}
            try:
                await self.service.move(identity, {source}, "rebalanced", to=target, most=1)
            except (NoSiteError, NotFoundError, ConflictError) as problem:
                entry["problem"] = str(problem)
            done.append(entry)
        return _answer({"moves": done})

    async def stranded(self, request: Request) -> Response:
        """GET /v1/stranded."""
        return _answer({"stranded": msgspec.to_builtins(list(stranded(self.service.table)))})

    async def show_metrics(self, request: Request) -> Response:
        """GET /metrics."""
        return Response(generate_latest(self.metrics.registry), media_type="text/plain")

    async def show_sites(self, request: Request) -> Response:
        """GET /metrics/sites."""

        async def pieces() -> AsyncIterator[bytes]:
            for piece in by_site(self.service):
                yield piece
                await asyncio.sleep(0)

        return StreamingResponse(pieces(), media_type="text/plain")


def _flag(request: Request, name: str, problems: list[Problem]) -> bool:
    if not request.scope["query_string"]:
        return False
    text = request.query_params.get(name, "false").lower()
    if text not in ("true", "false", "1", "0", ""):
        problems.append(Problem(name, f'expected true or false, got "{text}"'))
    return text in ("true", "1", "")


def _checked(body: object, fields: Fields) -> Response:
    if fields.problems:
        raise _BadRequest(fields.problems)
    return _answer(body)


def _answer(value: object, status: int = 200) -> Response:
    return Response(answers.render(value), status, media_type="application/json")


def _error(problem: BayplanError) -> Response:
    match problem:
        case _BadRequest():
            return _answer(answers.bad_body(problem.problems), 400)
        case NoSiteError():
            return _answer(answers.no_site_body(problem.why), 409)
        case NotFoundError() | UnknownSiteError():
            return _answer(answers.error_body(answers.NOT_FOUND, str(problem)), 404)
        case ConflictError() | TooWideError():
            return _answer(answers.error_body(answers.CONFLICT, str(problem)), 409)
        case QuotaError():
            return _answer(answers.error_body(answers.QUOTA, str(problem)), 409)
        case UnavailableError() | listing.TooManyReadersError():
            return _answer(answers.error_body(answers.UNAVAILABLE, str(problem)), 503)
        case BodyError():
            return _answer(answers.error_body(answers.BAD_BODY, str(problem)), problem.status)
    return _answer(answers.error_body(answers.INTERNAL, str(problem)), 500)


async def _refused(request: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, HTTPException)
    code = answers.NO_ACCESS if refusal.status_code in (401, 403) else answers.BAD_URI
    body = answers.error_body(code, refusal.detail)
    return JSONResponse(body, refusal.status_code, headers=refusal.headers)


async def _healthy(request: Request) -> Response:
    return Response("ok", media_type="text/plain")


async def _document(request: Request) -> Response:
    return JSONResponse(openapi.document())

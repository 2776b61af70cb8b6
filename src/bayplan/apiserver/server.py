"""The API server as an ASGI application.

Requests to resources take a short way: path, identity, permission, verb, answer; no framework in
between. Health, version, discovery and OpenAPI are looked up in a table of plain paths. What a verb
raises as `ApiError` becomes a Status; anything else is logged, counted and answered with a 500 that
does not tell details.

    server = ApiServer(MemoryStore())          # an ASGI app; every argument has a default
    await server.start()                       # writes the objects that a cluster starts with
    client = Client(LocalTransport(server, token=server.admin_token))   # `.local`

With `clock`, `uid` and `suffix` given, the same requests give the same bytes: that is what `sim`
uses. Sockets, TLS and signals are `bayplan.apiserver.serving`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import structlog
from cryptography.hazmat.primitives.asymmetric import ec

from bayplan.api.json import TOO_DEEP
from bayplan.api.user import ANONYMOUS, User
from bayplan.apiserver import bootstrap, bootstrap_rbac
from bayplan.apiserver.admission import OPTIONAL
from bayplan.apiserver.aggregation import Aggregator
from bayplan.apiserver.aside import AT_ONCE, WAITING, beside, leave_turn
from bayplan.apiserver.auth import ADMIN, Authenticator, new_token
from bayplan.apiserver.authorization import Action
from bayplan.apiserver.backend import Backend, Clock, random_suffix, random_uid
from bayplan.apiserver.bodies import parse_aside
from bayplan.apiserver.certificates import peer_user
from bayplan.apiserver.dispatch import Dispatcher
from bayplan.apiserver.documents import Documents
from bayplan.apiserver.errors import (
    ApiError,
    bad_request,
    internal,
    path_not_found,
    too_large,
    too_many_requests,
    unauthorized,
)
from bayplan.apiserver.fairness import Fairness
from bayplan.apiserver.fairness.seats import Seats
from bayplan.apiserver.fairness.suggested import objects as flow_objects
from bayplan.apiserver.front_proxy import FrontProxy
from bayplan.apiserver.http import (
    Connection,
    Endless,
    decode_body,
    plain_text,
    send_answer,
    send_stream,
    while_awaited,
)
from bayplan.apiserver.metrics import Metrics, words_of, words_of_path
from bayplan.apiserver.negotiate import BODIES, PROTOBUF, STREAMS, accept, error_media
from bayplan.apiserver.permission import demand, demand_action
from bayplan.apiserver.remotes import Remote
from bayplan.apiserver.request import NO_QUERY, Request, Target, flag, parse_path, parse_query
from bayplan.apiserver.responses import JSON_TYPE, Answer, Stream, error_answer, refusal, writable
from bayplan.apiserver.tokens import ISSUER, Tokens
from bayplan.config import DEFAULT_GATES, FeatureGates
from bayplan.intake import FullError, Intake, Share
from bayplan.store import Full, Store, StoreError, TooLarge, Unavailable

log = structlog.get_logger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MAX_BODY = 3 * 1024 * 1024
MAX_READS, MAX_WRITES = 400, 200
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_BROWSERS = ("Mozilla", "curl", "Wget")


Ask = Callable[[str, dict[str, str], bytes | None], Awaitable[tuple[int, bytes]]]
"""The rest of a path, its query and the body of a POST in, HTTP status and JSON out."""


class Page(NamedTuple):
    """What another part of the process shows: the rest of the path in, a body or None out."""

    read: Callable[[str], Awaitable[bytes | None]]
    media: bytes = JSON_TYPE


class ApiServer:
    """Serves the Kubernetes API from a store. An ASGI application."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock = time.time,
        uid: Callable[[], str] = random_uid,
        suffix: Callable[[], str] = random_suffix,
        admin_token: str = "",
        anonymous: bool = True,
        rbac: bool = False,
        signing_key: ec.EllipticCurvePrivateKey | None = None,
        issuer: str = ISSUER,
        check_capacity: bool = False,
        track_managers: bool = True,
        max_body: int = MAX_BODY,
        max_reads: int = MAX_READS,
        max_writes: int = MAX_WRITES,
        disabled_plugins: Iterable[str] = OPTIONAL,
        gates: FeatureGates = DEFAULT_GATES,
        metrics: Metrics | None = None,
    ) -> None:
        self.backend = Backend(
            store,
            clock=clock,
            uid=uid,
            suffix=suffix,
            check_capacity=check_capacity,
            track_managers=track_managers,
            rbac=rbac,
            disabled_plugins=disabled_plugins,
            gates=gates,
            metrics=metrics,
        )
        self.tokens = Tokens(self.backend.reader, clock, key=signing_key, issuer=issuer)
        self.authenticator = Authenticator(self.tokens, anonymous=anonymous)
        self.admin_token = admin_token or new_token()
        self.authenticator.add(self.admin_token, ADMIN)
        self._always_allow = not rbac
        self._dispatcher = Dispatcher(self.backend, self.authenticator)
        self._aggregator = Aggregator(self.backend)
        self._documents = Documents(self.backend, self.tokens)
        self.pages: dict[str, Page] = {}
        """What other parts of the process show below a path."""
        self.questions: dict[str, Ask] = {}
        """What other parts of the process answer below a path, with a query."""
        self.advertised: tuple[str, int] | None = None
        """The address and port that the endpoints of the `kubernetes` service tell, if any."""
        self.complete = False
        """Whether all that a cluster starts with is written, also what nobody here asks for."""
        self._max_body = max_body
        self._endless = Endless()
        self._fairness = Fairness(store, self.backend.reader, max_reads, max_writes)
        self._intake = Intake()
        self._large = Seats(AT_ONCE, queue=WAITING, room=WAITING)
        self.failures = 0  # requests that ended in an unexpected exception

    @property
    def identity(self) -> FrontProxy | None:
        """As whom this server speaks to those behind it."""
        return self._aggregator.identity

    @identity.setter
    def identity(self, identity: FrontProxy) -> None:
        self._aggregator.identity = identity

    @property
    def store(self) -> Store:
        return self.backend.store

    async def start(self) -> None:
        """Write what every cluster starts with and learn the definitions in the store."""
        await self.backend.reader.start(bootstrap.MIRRORED)
        found = bootstrap.system_objects()
        if not self._always_allow or self.complete:
            found += bootstrap_rbac.objects()
        if self.complete:
            found += [bootstrap.service_range(), *flow_objects()]
            self.backend.registers_services = True
        await bootstrap.write(self.backend, found)
        if self.advertised is not None:
            await bootstrap.write_endpoints(self.backend, *self.advertised)
        await self._dispatcher.start()
        self.backend.started = True
        await self._aggregator.start()

    def end_watches(self) -> None:
        """End watches and other streams without an end, also those that are still to come."""
        self.backend.ending = True
        self._endless.end()
        for watcher in list(self.backend.watchers):
            watcher.close()

    async def close(self) -> None:
        """End what this server runs; the store belongs to whoever opened it."""
        self.end_watches()
        await self._aggregator.close()
        await self._dispatcher.close()
        self._fairness.close()
        await self.backend.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            from bayplan.apiserver.streams import Streams  # few clients open one

            streams = Streams(self._stream_request, self.failed, self.backend, self._intake)
            await streams.serve(scope, receive, send)
            return
        if scope["type"] != "http":
            await _lifespan(receive, send)
            return
        connection = Connection(scope, receive, send)
        begun = time.perf_counter()
        result = await self.answer(connection)
        try:
            if isinstance(result, Stream):
                with self.counted(connection):
                    await send_stream(connection, result, self._endless)
            else:
                await send_answer(connection, result)
        except ApiError as broken:  # of a server behind this one; the connection ends unfinished
            log.warning("an answer broke off", path=connection.path, err=str(broken))
        finally:
            self.finished(connection, result.status, begun)

    def finished(self, connection: Connection, status: int, begun: float) -> None:
        """Count a request whose answer has been sent; `begun` is what `perf_counter` said."""
        request = connection.request
        words = words_of(request) if request is not None else words_of_path(connection.path)
        if words is not None:
            self.backend.metrics.finished(words, status, time.perf_counter() - begun)

    @contextmanager
    def counted(self, connection: Connection) -> Iterator[None]:
        """Count a watch as open while the block sends it."""
        request = connection.request
        if request is None or request.verb != "watch":
            yield
            return
        running = self.backend.metrics.running(words_of(request))
        running.value += 1
        try:
            yield
        finally:
            running.value -= 1

    async def answer(self, connection: Connection) -> Answer | Stream:
        """Return the answer, an error's too."""
        try:
            return await self._handle(connection)
        except ApiError as error:
            media = error_media(connection.headers.get("accept"))
            return await refusal(error, media=media, pretty=connection.pretty)
        except Exception as error:
            return error_answer(self.failed(connection, error))

    def failed(self, connection: Connection, error: Exception) -> ApiError:
        """Return what a client is told of an error; of one that nobody expected we are told."""
        if isinstance(error, ApiError):
            return error
        if isinstance(error, RecursionError):  # a patch that nests what was not, before any write
            return bad_request(TOO_DEEP)
        if isinstance(error, StoreError):
            log.warning("the store refuses", error=str(error), path=connection.path)
            return _store_error(error)
        self.failures += 1
        log.exception("request failed", method=connection.method, path=connection.path)
        return internal(type(error).__name__)

    async def _handle(self, connection: Connection) -> Answer | Stream:
        path = connection.path
        user = self._authenticate(connection, path)
        if connection.impersonation:
            user = self._impersonated(user, connection)
        target = parse_path(path)
        if self.backend.remotes and (remote := self._remote(path)) is not None:
            return await self._pass_on(remote, target, connection, user)
        if target is None:
            self._authorize_path(user, connection.method, path)
            return await self._document(connection, user)
        kind = self.backend.registry.get(target.group, target.version, target.resource)
        if kind is None:
            return self._unknown(target.group, target.version)
        query = parse_query(connection.query) if connection.query else NO_QUERY
        verb = _verb(connection.method, target.name, query, target.watch)
        request = Request(
            verb,
            kind,
            target.namespace,
            target.name,
            target.subresource,
            query=query,
            content_type=connection.headers.get("content-type"),
            user=user,
            user_agent=connection.headers.get("user-agent", ""),
        )
        connection.request = request
        request.pretty = connection.pretty = _pretty(query, request.user_agent)
        if not self._always_allow:
            demand(self.backend.authorizer, request)
        if target.longer and target.subresource != "proxy":
            raise path_not_found()
        return await self._limited(connection, request)

    def _remote(self, path: str) -> Remote | None:
        """Return who else answers for a path, if somebody does."""
        parts = path.split("/", 4)
        if len(parts) < 4 or parts[1] != "apis":
            return None
        return self.backend.remotes.get(parts[2], parts[3])

    async def _pass_on(
        self, remote: Remote, target: Target | None, connection: Connection, user: User
    ) -> Answer | Stream:
        """Let another server answer what its user may ask."""
        reading = connection.method in ("GET", "HEAD")
        if target is None:
            # Everybody may GET below /apis, to discover; what stands there are resources.
            if connection.path.rstrip("/") != f"/apis/{remote.group}/{remote.version}":
                raise path_not_found()
            self._authorize_path(user, connection.method, connection.path)
            return await self._aggregator.pass_on(remote, connection, user, b"", watch=False)
        query = parse_query(connection.query) if connection.query else NO_QUERY
        verb = _verb(connection.method, target.name, query, target.watch)
        group, _, namespace, resource, name, part, *_ = target
        action = Action(verb, group, resource, part, namespace)
        if not self._always_allow:
            demand_action(self.backend.authorizer, user, action._replace(name=name))
        with self._intake.share() as share:
            body = b"" if reading else await self._body(connection, share)
            return await self._passed(remote, connection, user, action, body)

    async def _passed(
        self, remote: Remote, connection: Connection, user: User, action: Action, body: bytes
    ) -> Answer | Stream:
        reading = connection.method in ("GET", "HEAD")
        place = self._fairness.place(user, action, reading=reading)
        connection.flow = place.headers
        await place.seats.take(place.flow or (user.name, connection.headers.get("user-agent", "")))
        if action.verb == "watch":  # when it begins is the other server's matter
            place.seats.give()
            opening = self._aggregator.pass_on(remote, connection, user, body, watch=True)
            return await while_awaited(connection, opening, self._endless)
        try:
            return await self._aggregator.pass_on(remote, connection, user, body, watch=False)
        finally:
            place.seats.give()

    def _stream_request(self, connection: Connection) -> Request:
        """Return what a websocket asks for, if its user may. Raises ApiError."""
        user = self._authenticate(connection, connection.path)
        if connection.impersonation:
            user = self._impersonated(user, connection)
        target = parse_path(connection.path)
        kind = target and self.backend.registry.get(target.group, target.version, target.resource)
        if target is None or kind is None or target.longer:
            raise path_not_found()
        query = parse_query(connection.query) if connection.query else NO_QUERY
        request = Request(
            "get", kind, target.namespace, target.name, target.subresource, query=query, user=user
        )
        if not self._always_allow:
            demand(self.backend.authorizer, request)
            if request.subresource != "log":
                demand(self.backend.authorizer, request, "create")
        return request

    async def _limited(self, connection: Connection, request: Request) -> Answer | Stream:
        """Run a verb; its body, which is counted to the end, comes before it takes a seat."""
        if request.verb in ("get", "list", "watch"):
            return await self._seated(connection, request, reading=True)
        with self._intake.share() as share:
            request.body = await self._body(connection, share)
            return await self._seated(connection, request, reading=False)

    async def _seated(
        self, connection: Connection, request: Request, *, reading: bool
    ) -> Answer | Stream:
        """Run a verb when there is a seat for it; a watch needs one only while it opens."""
        kind, namespace = request.kind, request.namespace
        if kind.resource == "namespaces":
            namespace = request.name
        action = Action(request.verb, kind.group, kind.resource, request.subresource, namespace)
        place = self._fairness.place(request.user, action, reading=reading)
        connection.flow = place.headers
        await place.seats.take(place.flow or (request.user.name, request.user_agent))
        self.backend.metrics.enter(reading)
        request.large = self._large
        try:
            header = connection.headers.get("accept")
            binary = header is not None and PROTOBUF in header and writable(request.kind)
            streams = STREAMS if request.verb in ("list", "watch") else ()
            route = () if kind.custom else (*BODIES, *streams)
            request.output = accept(header, binary=binary, route=route)
            if not reading:
                await parse_aside(request)
            result = await self._dispatcher.run(request)
        finally:
            place.seats.give()
            leave_turn(request)
            self.backend.metrics.leave(reading)
        connection.warnings = request.warnings
        return result

    async def _body(self, connection: Connection, share: Share) -> bytes:
        """Return the body, unpacked; `share` counts both forms. Raises a 413 or 429."""
        length = connection.headers.get("content-length", "")
        if length.isdigit() and int(length) > self._max_body:
            raise too_large(self._max_body)
        encoding = connection.headers.get("content-encoding")
        try:
            sent = await connection.read(self._max_body, share)
            if encoding is None:
                return sent
            body = await beside(decode_body, sent, encoding, self._max_body)
            share.take(len(body))
        except FullError as full:
            raise too_many_requests(str(full)) from full
        return body

    def _authenticate(self, connection: Connection, path: str) -> User:
        if connection.peer is not None:
            shown = peer_user(connection.peer)
            if shown is not None:
                return shown
        header = connection.headers.get("authorization")
        if header is None:
            if self.authenticator.anonymous and path in bootstrap.PUBLIC_PATHS:
                return ANONYMOUS
            raise unauthorized()
        return self.authenticator.authenticate(header)

    def _impersonated(self, user: User, connection: Connection) -> User:
        from bayplan.apiserver.impersonation import impersonate

        return impersonate(self.backend.authorizer, user, connection.impersonation)

    def _authorize_path(self, user: User, method: str, path: str) -> None:
        if self._always_allow or user is ANONYMOUS or path in bootstrap.PUBLIC_PATHS:
            return
        verb = {"GET": "get", "HEAD": "get"}.get(method, method.lower())
        allowed, _ = self.backend.authorizer.allows(user, Action(verb, path=path))
        if not allowed:
            why = f'User "{user.name}" cannot {verb} path "{path}"'
            raise ApiError(403, "Forbidden", f"forbidden: {why}", details={})

    async def _document(self, connection: Connection, user: User) -> Answer | Stream:
        for prefix, ask in self.questions.items():
            if connection.path.startswith(prefix) and connection.method in ("GET", "POST"):
                query = dict(parse_qsl(connection.query.decode("latin-1")))
                with self._intake.share() as share:
                    posted = connection.method == "POST"
                    body = await self._body(connection, share) if posted else None
                    return Answer(*await ask(connection.path.removeprefix(prefix), query, body))
        if connection.method not in ("GET", "HEAD"):
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method")
        for prefix, page in self.pages.items():
            if connection.path.startswith(prefix):
                body = await page.read(connection.path.removeprefix(prefix))
                if body is None:
                    return plain_text(404, "not found\n")
                return Answer(200, body, page.media)
        found = await self._documents.answer(connection)
        return found if found is not None else plain_text(404, "404 page not found\n")

    def _unknown(self, group: str, version: str) -> Answer:
        """Answer for a resource that no kind serves: JSON below a built-in group, else text."""
        if any(kind.group == group and not kind.custom for kind in self.backend.registry):
            raise path_not_found()
        return plain_text(404, "404 page not found\n")


def _store_error(error: StoreError) -> ApiError:
    """Say what a client can do about a store that cannot write, and nothing about the disk."""
    if isinstance(error, Full):
        text = "the store's disk is full; delete objects or free space"
        return ApiError(507, "InsufficientStorage", text)
    if isinstance(error, TooLarge):
        return ApiError(413, "RequestEntityTooLarge", "etcdserver: request is too large")
    if isinstance(error, Unavailable):
        return ApiError(503, "ServiceUnavailable", "the store is unavailable")
    return internal("the store failed")


def _verb(method: str, name: str, query: dict[str, str], watch: bool) -> str:
    if method in ("GET", "HEAD"):
        if name and not watch:
            return "get"
        return "watch" if watch or flag(query, "watch") else "list"
    if method == "DELETE" and not watch:
        return "delete" if name else "deletecollection"
    verb = _VERBS.get(method)
    if verb is None or watch:  # below the old prefix nothing else is done
        raise ApiError(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    return verb


def _pretty(query: dict[str, str], user_agent: str) -> bool:
    if "pretty" in query:
        return query["pretty"] not in ("false", "0")
    return user_agent.startswith(_BROWSERS)


async def _lifespan(receive: Receive, send: Send) -> None:
    """Answer uvicorn's lifespan messages."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


__all__ = ["ApiServer"]

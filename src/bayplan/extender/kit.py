"""The kit to write an extender: decorate functions, get an ASGI application.

    from bayplan.extender import Extender

    app = Extender()

    @app.filter
    def has_ssd(pod, nodes):
        return [node.metadata.name for node in nodes if "ssd" in node.metadata.labels]

A function names what it wants: `pod`, and `nodes` (Node objects) or `names`; preempt gets `pod` and
`victims`; bind gets `pod_name`, `namespace`, `uid`, `node`. The same names work as methods of a
class: `Extender(MyExtender())`. Functions may be `async`; plain ones run in a thread pool, so that
a slow one does not stop the health check.

A wrong answer becomes an error that the scheduler reports, and is counted; it never ends the
server. A function that takes long is logged with the line where it stands, and counted
(`watchdog`). What it does not do: listen on a socket (`serve`) or watch nodes (a `NodeLookup`, such
as a `NodeCache`, is given).
"""

import asyncio
import hmac
import inspect
from collections import Counter as Tally
from collections.abc import Callable, Coroutine, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, Protocol, TypeVar

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from bayplan import origin
from bayplan.api import Node, Pod, decode
from bayplan.errors import RAISED, BayplanError, with_place
from bayplan.extender import answers, wire
from bayplan.extender import pairs as paired
from bayplan.extender.body import BodyError, Receive, Send, header, read_body, respond
from bayplan.extender.nodes import NodeCache
from bayplan.extender.watchdog import Watchdog
from bayplan.intake import Intake

log = structlog.get_logger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
Scope = MutableMapping[str, Any]

VERBS = ("filter", "prioritize", "preempt", "bind")
PATHS = {
    "/filter": "filter",
    "/prioritize": "prioritize",
    "/priority": "prioritize",
    "/priorities": "prioritize",
    "/preempt": "preempt",
    "/bind": "bind",
}
WANTS = {
    "filter": ("pod", "nodes", "names"),
    "prioritize": ("pod", "nodes", "names"),
    "preempt": ("pod", "victims"),
    "bind": ("pod_name", "namespace", "uid", "node"),
}
THREADS = 8
NODES_KEPT = 20_000
SLOW_SECONDS = 1.0
"""A pod waits for its extenders in every cycle; longer than this is told."""


class NodeLookup(Protocol):
    """Finds Node objects by name, for requests that carry names only."""

    def node_json(self, name: str) -> bytes | None:
        """The node as JSON, or None when it is not known (yet)."""


class UnknownVerbError(BayplanError):
    """A request asked for something that this extender does not do."""


class Extender:
    """An extender as an ASGI application."""

    def __init__(
        self,
        implementation: object | None = None,
        *,
        name: str = "extender",
        nodes: NodeLookup | None = None,
        token: str = "",
        prefix: str = "",
        hosts: tuple[str, ...] = (),
        slow_seconds: float = SLOW_SECONDS,
        pairs: bool = True,
        ahead: bool = False,
    ) -> None:
        self.name = name
        self.pairs = pairs
        """Take both verbs in one call from schedulers that know how (see `pairs`)."""
        self.ahead = ahead
        """Promise that `filter` and `prioritize` keep nothing between calls: a Bayplan scheduler
        may then ask about several pods at once, before it knows where the first of them goes."""
        self.nodes = nodes
        self.token = token
        self.prefix = prefix.rstrip("/")
        self.hosts = hosts
        """Names that callers may use for this server beside its addresses (without a token)."""
        self.gzip = False
        """Pack large answers. Off: most extenders are near, where packing costs more time."""
        self.functions: dict[str, Callable[..., Any]] = {}
        self._wants: dict[str, tuple[str, ...]] = {}
        self.background: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """Run beside the server on its loop, from start to stop; for watching a cluster."""
        self._running: list[asyncio.Task[None]] = []
        self._intake = Intake()
        self._read_nodes: dict[bytes, Node] = {}
        self._known_nodes = paired.KnownNodes()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix=f"{name}-extender")
        self.registry = CollectorRegistry()
        self._calls = Counter(
            "extender_calls",
            "Calls by verb and result.",
            ["verb", "result"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "extender_call_duration_seconds", "Time in calls.", ["verb"], registry=self.registry
        )
        self._slow = Counter(
            "extender_slow_calls", "Calls that took too long.", ["verb"], registry=self.registry
        )
        self._watchdog = Watchdog(slow_seconds, self._tell_slow)
        for verb in VERBS if implementation is not None else ():
            if function := getattr(implementation, verb, None):
                self._register(verb, function)
        if implementation is not None and not self.functions:
            raise BayplanError(
                f"{type(implementation).__name__} has none of the methods {', '.join(VERBS)}"
            )

    def filter(self, function: F) -> F:
        """Say which nodes a pod may go to: return names to keep, or a dict node → reason."""
        return self._register("filter", function)

    def prioritize(self, function: F) -> F:
        """Score nodes: return a dict node → 0..10."""
        return self._register("prioritize", function)

    def preempt(self, function: F) -> F:
        """Say which victims are acceptable: return nodes to keep, or a dict node → UIDs."""
        return self._register("preempt", function)

    def bind(self, function: F) -> F:
        """Bind a pod yourself: return nothing, or an error as text."""
        return self._register("bind", function)

    def _register(self, verb: str, function: F) -> F:
        if verb in self.functions:
            raise BayplanError(f"{verb} is given twice; an extender has one function a verb")
        wanted = tuple(inspect.signature(function).parameters)
        if unknown := [name for name in wanted if name not in WANTS[verb]]:
            raise BayplanError(
                f"{verb} function {_name(function)} asks for {', '.join(unknown)}; "
                f"it may ask for {', '.join(WANTS[verb])}"
            )
        self.functions[verb] = function
        self._wants[verb] = wanted
        return function

    async def answer(self, verb: str, body: bytes) -> bytes:
        """Answer one call: the body of a request in, the body of the answer out."""
        function = self.functions.get(verb)
        if function is None:
            has = ", ".join(self.functions) or "none"
            raise UnknownVerbError(f"this extender has no {verb} function; it has {has}")
        return await getattr(self, f"_{verb}")(function, body)  # type: ignore[no-any-return]

    async def _filter(self, function: Callable[..., Any], body: bytes) -> bytes:
        args = wire.decode_args(body)
        try:
            names = args.names
            value = await self._call("filter", function, args, names)
            result = answers.filter_answer(value, names, args.nodes, _name(function))
        except BayplanError as problem:
            log.warning("filter failed", extender=self.name, error=str(problem))
            self._calls.labels("filter", "error").inc()
            result = wire.FilterResult(error=str(problem))
        return wire.encode_filter_result(result)

    async def _prioritize(self, function: Callable[..., Any], body: bytes) -> bytes:
        args = wire.decode_args(body)
        names = args.names
        value = await self._call("prioritize", function, args, names)
        return wire.encode_priorities(answers.prioritize_answer(value, names, _name(function)))

    async def _pair(self, body: bytes) -> bytes:
        """Both verbs at once, see `pairs`: prioritize over what filter keeps."""
        call = paired.decode_call(body)
        args = self._known_nodes.args_of(call)
        if args is None:
            return paired.encode(paired.PairAnswer(unknown=True))
        function = self.functions["filter"]
        try:
            value = await self._call("filter", function, args, args.names)
            result = answers.filter_answer(value, args.names, None, _name(function))
        except BayplanError as problem:
            log.warning("filter failed", extender=self.name, error=str(problem))
            self._calls.labels("filter", "error").inc()
            return paired.encode(paired.PairAnswer(error=str(problem)))
        names = result.node_names or []
        kept: list[int] | None = None
        if len(names) < len(args.names):
            left = set(names)
            kept = [place for place, name in enumerate(args.names) if name in left]
            texts = None if args.nodes is None else [args.nodes[place] for place in kept]
            args = wire.ExtenderArgs(args.pod, texts, names)
        scores, wrong = await self._scores(args) if len(names) > 1 else ([], "")
        failed, unresolvable = result.failed_nodes, result.unresolvable_nodes
        return paired.encode(
            paired.PairAnswer(False, kept, failed, unresolvable, "", scores, wrong)
        )

    async def _scores(self, args: wire.ExtenderArgs) -> tuple[list[int], str]:
        """The scores of a pair in their order, or what was wrong."""
        function = self.functions["prioritize"]
        try:
            value = await self._call("prioritize", function, args, args.names)
            scores = answers.prioritize_answer(value, args.names, _name(function))
        except BayplanError as problem:
            text = str(problem)
            log.warning("call failed", extender=self.name, verb="prioritize", error=text)
            self._calls.labels("prioritize", "error").inc()
            return [], text
        self._calls.labels("prioritize", "answered").inc()
        return list(scores.values()), ""

    async def _preempt(self, function: Callable[..., Any], body: bytes) -> bytes:
        args = wire.decode_preemption_args(body)
        proposed = {node: _with_uids(entry) for node, entry in args.victims.items()}
        given = {"pod": lambda: decode(Pod, args.pod), "victims": lambda: proposed}
        value = await self._run("preempt", function, given)
        return wire.encode_preemption_result(
            answers.preempt_answer(value, proposed, _name(function))
        )

    async def _bind(self, function: Callable[..., Any], body: bytes) -> bytes:
        args = wire.decode_binding_args(body)
        given = {
            "pod_name": lambda: args.pod_name,
            "namespace": lambda: args.pod_namespace,
            "uid": lambda: args.pod_uid,
            "node": lambda: args.node,
        }
        try:
            error = answers.bind_answer(await self._run("bind", function, given), _name(function))
        except BayplanError as problem:
            error = str(problem)
        if error:
            log.warning("bind failed", extender=self.name, pod=args.pod_name, error=error)
            self._calls.labels("bind", "error").inc()
        return wire.encode_binding_result(error)

    async def _call(
        self, verb: str, function: Callable[..., Any], args: wire.ExtenderArgs, names: list[str]
    ) -> object:
        given = {
            "pod": lambda: decode(Pod, args.pod),
            "names": lambda: names,
            "nodes": lambda: self._typed(args, names),
        }
        return await self._run(verb, function, given)

    def _typed(self, args: wire.ExtenderArgs, names: Sequence[str]) -> list[Node]:
        """The nodes of a call; a cache of typed ones is asked before anything is read."""
        if args.nodes is None and isinstance(self.nodes, NodeCache):
            found = [self.nodes.node(name) for name in names]
            if None not in found:
                return [node for node in found if node is not None]
        return [self._node(bytes(text)) for text in self._nodes(args, names)]

    def _tell_slow(self, verb: str, seconds: float, place: str) -> None:
        self._slow.labels(verb).inc()
        log.warning(
            "extender function is slow",
            extender=self.name,
            verb=verb,
            seconds=round(seconds, 3),
            at=place,
        )

    def _node(self, text: bytes) -> Node:
        """Read a node; the same text, which comes with nearly every call, is read once."""
        node = self._read_nodes.get(text)
        if node is None:
            if len(self._read_nodes) >= NODES_KEPT:
                self._read_nodes.clear()
            node = self._read_nodes[text] = decode(Node, text)
        return node

    def _nodes(
        self, args: wire.ExtenderArgs, names: Sequence[str]
    ) -> Sequence[bytes | msgspec.Raw]:
        if args.nodes is not None:
            return args.nodes
        if self.nodes is None:
            raise BayplanError(
                "the scheduler sent node names only (nodeCacheCapable) and this extender has no "
                "node cache; start it with --kubeconfig, or let the function ask for `names`"
            )
        found = [self.nodes.node_json(name) for name in names]
        if missing := [name for name, node in zip(names, found, strict=True) if node is None]:
            raise BayplanError(f"the node cache does not know {', '.join(missing[:5])} yet")
        return [node for node in found if node is not None]

    async def _run(
        self, verb: str, function: Callable[..., Any], given: Mapping[str, Callable[[], object]]
    ) -> object:
        arguments = {name: given[name]() for name in self._wants[verb]}

        def call() -> object:
            watched.here()
            return function(**arguments)

        try:
            with self._watchdog.watch(verb) as watched:
                if inspect.iscoroutinefunction(function):
                    return await function(**arguments)
                return await asyncio.get_running_loop().run_in_executor(self._pool, call)
        except (BayplanError, asyncio.CancelledError, GeneratorExit):
            raise
        except RAISED as cause:  # the author's code: name it, count it, go on
            log.exception("extender function raised", extender=self.name, verb=verb)
            raise BayplanError(
                f"{_name(function)} raised {type(cause).__name__}: {with_place(cause)}"
            ) from cause

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event (ASGI)."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            event = await receive()
            if event["type"] == "lifespan.startup":
                from bayplan.supervised import supervised

                failures: Tally[str] = Tally()
                self._running = [supervised("background", w, failures) for w in self.background]
            else:
                for task in self._running:
                    task.cancel()
                await asyncio.gather(*self._running, return_exceptions=True)
                self._pool.shutdown(wait=False, cancel_futures=True)
            await send({"type": f"{event['type']}.complete"})
            if event["type"] == "lifespan.shutdown":
                return

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path in ("/healthz", "/livez", "/readyz"):
            return await respond(send, 200, b"ok", "text/plain")
        if not self._authorized(scope):
            return await _refuse(send, 401, "a bearer token is needed")
        if not self.token and (why := origin.problem(scope, self.hosts)):
            return await _refuse(send, 403, why)
        if path == "/metrics":
            return await respond(
                send, 200, generate_latest(self.registry), "text/plain; version=0.0.4"
            )
        verb = PATHS.get(path.removeprefix(self.prefix))
        if verb is None:
            return await _refuse(send, 404, f"no such path; there are {', '.join(PATHS)}")
        if scope["method"] != "POST":
            return await _refuse(send, 405, "extender verbs are POST")
        await self._serve(verb, scope, receive, send)

    async def _serve(self, verb: str, scope: Scope, receive: Receive, send: Send) -> None:
        start = perf_counter()
        both = {"filter", "prioritize"} <= self.functions.keys() and self.pairs
        asked = header(scope, paired.HEADER_LOW) if both and verb == "filter" else b""
        try:
            with self._intake.share() as share:  # also while it waits for a thread
                body = await read_body(scope, receive, share)
                if asked == paired.CALL.encode():
                    answer = await self._pair(body)
                else:
                    answer = await self.answer(verb, body)
        except UnknownVerbError as problem:
            return await _refuse(send, 404, str(problem))
        except BodyError as problem:
            return await _refuse(send, problem.status, str(problem))
        except RecursionError:
            return await _refuse(send, 400, "the body is nested too deeply")
        except BayplanError as problem:
            log.warning("call failed", extender=self.name, verb=verb, error=str(problem))
            self._calls.labels(verb, "error").inc()
            return await _refuse(send, 400, str(problem))
        self._calls.labels(verb, "answered").inc()
        self._seconds.labels(verb).observe(perf_counter() - start)
        packed = scope if self.gzip else None
        said = []
        if asked:
            said.append((paired.HEADER_LOW, paired.KNOWN.encode()))
        if self.ahead:
            said.append((wire.AHEAD_LOW, wire.AHEAD_YES))
        await respond(send, 200, answer, "application/json", scope=packed, more=tuple(said))

    def _authorized(self, scope: Scope) -> bool:
        if not self.token:
            return True
        expected = f"Bearer {self.token}".encode()
        return any(
            key == b"authorization" and hmac.compare_digest(value, expected)
            for key, value in scope["headers"]
        )


def _with_uids(entry: wire.Victims) -> wire.Victims:
    """Victims with their UIDs filled in, also where whole pods were sent."""
    if entry.uids or not entry.pods:
        return entry
    uids = [decode(Pod, pod).metadata.uid for pod in entry.pods]
    return wire.Victims(pods=entry.pods, uids=uids, num_pdb_violations=entry.num_pdb_violations)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))


async def _refuse(send: Send, status: int, text: str) -> None:
    await respond(send, status, text.encode(), "text/plain; charset=utf-8")

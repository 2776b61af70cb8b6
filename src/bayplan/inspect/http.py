"""The same questions over HTTP, as JSON, for pages and programs.

A table of routes serves `bayplan inspect serve`, the API server of `bayplan up` and the scheduler
alike, and the OpenAPI document is made from it. A cluster is read when the first question comes and
again when the picture is older than `max_age`; questions are answered in a thread, one at a time,
so the event loop is never held. Who may ask is decided by the server around this.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from bayplan import __version__
from bayplan.errors import BayplanError
from bayplan.inspect import http_changes
from bayplan.inspect.cluster import Cluster, Unread
from bayplan.inspect.errors import InspectError, UnknownObject
from bayplan.inspect.why import why_on_node, why_owner, why_pending

PREFIX = "/inspect/v1/"
OPENAPI = "openapi.json"
Query = Mapping[str, str]
Load = Callable[[], Awaitable[Cluster]]


class Parameter(msgspec.Struct, frozen=True):
    """One query parameter."""

    name: str
    about: str
    required: bool = False


class Route(msgspec.Struct, frozen=True):
    """One question."""

    answer: Callable[[Cluster, Query], Any]
    about: str
    parameters: tuple[Parameter, ...] = ()


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """What a cluster is, in numbers."""

    name: str
    version: str
    taken: float
    nodes: int
    pods: int
    pending: int
    schedulers: tuple[str, ...]
    settings: str
    unread: tuple[Unread, ...] = ()


def summary(cluster: Cluster, query: Query) -> Summary:
    return Summary(
        cluster.origin.name,
        cluster.origin.version,
        cluster.origin.taken,
        len(cluster.nodes),
        len(cluster.pods),
        sum(1 for _ in cluster.pending()),
        cluster.settings.scheduler_names,
        cluster.settings.source,
        cluster.origin.unread,
    )


def _why(cluster: Cluster, query: Query) -> Any:
    if query.get("owner"):
        kind, _, rest = query["owner"].partition("/")
        namespace, slash, name = rest.partition("/")
        found = cluster.owner(kind, name if slash else namespace, namespace if slash else "")
        return why_owner(cluster, found)
    if not query.get("pod"):
        raise InspectError("give pod=NAMESPACE/NAME or owner=KIND/NAMESPACE/NAME")
    pod = cluster.pod(query["pod"])
    node = query.get("node")
    return why_on_node(cluster, pod, node) if node else cluster.why(pod)


def _pending(cluster: Cluster, query: Query) -> Any:
    return why_pending(cluster, query.get("namespace", ""))


ROUTES: dict[str, Route] = {
    "cluster": Route(summary, "What the cluster is, in numbers."),
    "why": Route(
        _why,
        "Why a pod waits, or is where it is.",
        (
            Parameter("pod", "`namespace/name`"),
            Parameter("owner", "instead: `kind/namespace/name` of what makes pods"),
            Parameter("node", "why not on this node"),
        ),
    ),
    "pending": Route(
        _pending,
        "All pending pods, grouped by cause.",
        (Parameter("namespace", "only of this namespace"),),
    ),
    "whatif": Route(
        http_changes.what_if,
        "What would move, wait or be lost if the cluster changed.",
        (
            Parameter("changes", "such as `drain=node-1;scale=deployment/web=3`"),
            Parameter("each", "instead: `node` or `zone`, one at a time"),
        ),
    ),
    "capacity": Route(
        http_changes.capacity,
        "How many more pods fit, and what ends it.",
        (
            Parameter("templates", "such as `3xdeployment/web;cpu=1,memory=2Gi`", required=True),
            Parameter("keepFree", "`node` or `zone`: keep the room to lose one"),
        ),
    ),
    "diff": Route(
        http_changes.diff,
        "What another configuration would decide differently.",
        (Parameter("config", "a KubeSchedulerConfiguration as JSON or YAML", required=True),),
    ),
}
"""Path below the prefix to question; what else can be asked is added here."""


class Questions:
    """Answers questions about one cluster, read anew when its picture is old."""

    def __init__(
        self, load: Load, *, max_age: float = 2.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._load = load
        self._max_age = max_age
        self._clock = clock
        self._cluster: Cluster | None = None
        self._read_at = 0.0
        self._lock = asyncio.Lock()

    async def answer(self, path: str, query: Query) -> tuple[int, bytes]:
        """HTTP status and JSON for a path below the prefix."""
        if path == OPENAPI:
            return 200, msgspec.json.encode(openapi())
        route = ROUTES.get(path)
        if route is None:
            known = ", ".join(sorted(ROUTES))
            return _error(404, f'no question "{path}"; there are: {known}')
        unknown = sorted(set(query) - {item.name for item in route.parameters} - {"token"})
        if unknown:
            return _error(400, f'no parameter "{unknown[0]}" of "{path}"')
        async with self._lock:
            try:
                cluster = await self._fresh()
                found = await asyncio.to_thread(route.answer, cluster, query)
            except UnknownObject as problem:
                return _error(404, str(problem))
            except BayplanError as problem:
                return _error(400, str(problem))
        return 200, msgspec.json.encode(found)

    async def _fresh(self) -> Cluster:
        now = self._clock()
        if self._cluster is None or now - self._read_at > self._max_age:
            self._cluster = await self._load()
            self._read_at = self._clock()
        return self._cluster


def _error(status: int, text: str) -> tuple[int, bytes]:
    return status, msgspec.json.encode({"error": text})


def openapi() -> dict[str, Any]:
    """The OpenAPI document of all routes."""
    paths = {
        f"{PREFIX}{name}": {
            "get": {
                "summary": route.about,
                "operationId": name.replace("/", "-"),
                "parameters": [
                    {
                        "name": item.name,
                        "in": "query",
                        "description": item.about,
                        "required": item.required,
                        "schema": {"type": "string"},
                    }
                    for item in route.parameters
                ],
                "responses": {
                    "200": {
                        "description": "the answer",
                        "content": {"application/json": {"schema": {"type": "object"}}},
                    },
                    "400": {"description": "the question makes no sense"},
                    "404": {"description": "no such object"},
                },
            }
        }
        for name, route in ROUTES.items()
    }
    info = {"title": "Bayplan inspect", "version": __version__}
    return {"openapi": "3.0.3", "info": info, "paths": paths}

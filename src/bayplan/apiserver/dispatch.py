"""Which function answers which verb of which resource or subresource.

The table is plain data; kinds that are not stored and subresources that are more than a part of
their object have their own entries.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bayplan.apiserver.aside import decoded
from bayplan.apiserver.auth import Authenticator
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.containers import NO_KUBELET, log_options, runner
from bayplan.apiserver.definition_sync import RESOURCE, Definitions, is_definition
from bayplan.apiserver.discovery import KUBELET_SUBRESOURCES
from bayplan.apiserver.errors import ApiError, method_not_allowed, not_found, path_not_found
from bayplan.apiserver.http import plain_text
from bayplan.apiserver.kinds import METRICS_GROUP
from bayplan.apiserver.request import Request
from bayplan.apiserver.responses import Answer, Stream, plain_answer
from bayplan.apiserver.selectors import parse_labels
from bayplan.apiserver.subresources.binding import bind
from bayplan.apiserver.subresources.eviction import evict
from bayplan.apiserver.subresources.reviews import Reviews
from bayplan.apiserver.subresources.scale import scale
from bayplan.apiserver.subresources.token import issue_token
from bayplan.apiserver.verbs.cleanup import finish
from bayplan.apiserver.verbs.create import create
from bayplan.apiserver.verbs.delete import delete, delete_collection
from bayplan.apiserver.verbs.patch import patch
from bayplan.apiserver.verbs.read import get, list_
from bayplan.apiserver.verbs.update import update
from bayplan.apiserver.verbs.watch import watch

Handler = Callable[[Backend, Request], Awaitable[Answer | Stream]]

VERBS: dict[str, Handler] = {
    "create": create,
    "delete": delete,
    "deletecollection": delete_collection,
    "get": get,
    "list": list_,
    "patch": patch,
    "update": update,
    "watch": watch,
}
_WRITES = frozenset(("create", "delete", "deletecollection", "patch", "update"))
# Subresources that read and write the object itself, through the ordinary verbs.
_PARTS = frozenset(("status", "finalize", "ephemeralcontainers", "resize", "approval"))

DEPRECATED = {
    "v1/ComponentStatus": "v1 ComponentStatus is deprecated in v1.19+",
    "v1/Endpoints": ("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
}


class Dispatcher:
    """Finds and runs the handler of a request."""

    def __init__(self, backend: Backend, authenticator: Authenticator) -> None:
        self._backend = backend
        self._authenticator = authenticator
        self._reviews = Reviews(authenticator, backend.authorizer, backend.now)
        self._definitions = Definitions(backend, finish)

    async def start(self) -> None:
        """Serve the kinds of stored definitions."""
        await self._definitions.start()

    async def close(self) -> None:
        await self._definitions.close()

    async def run(self, request: Request) -> Answer | Stream:
        """Answer a request. Raises ApiError."""
        kind = request.kind
        if kind.key in DEPRECATED:
            request.warnings.append(DEPRECATED[kind.key])
        if kind.deprecated:
            request.warnings.append(kind.deprecated)
        if request.subresource:
            return await self._subresource(request)
        if not kind.stored:
            return await self._unstored(request)
        if request.verb not in kind.verbs and not (kind.namespaced and not request.namespace):
            raise method_not_allowed()
        everywhere = request.verb in ("list", "watch") and not request.name
        if kind.namespaced and not request.namespace and not everywhere:
            raise _elsewhere(request)
        if not kind.namespaced and request.namespace:
            if kind.custom:
                return plain_text(404, "404 page not found\n")
            raise path_not_found()
        if (request.verb in ("create",) and request.name) or (
            request.verb in ("update", "patch") and not request.name
        ):
            raise method_not_allowed()
        result = await self._verb(request)
        if request.verb in _WRITES and (
            (kind.resource == RESOURCE and is_definition(kind))
            or kind.storage in self._backend.terminating
        ):
            await self._definitions.sync()
        return result

    async def _verb(self, request: Request) -> Answer | Stream:
        run = VERBS[request.verb]
        if request.kind.hub:
            from bayplan.apiserver.verbs.forms import in_another_form

            return await in_another_form(self._backend, request, run)
        return await run(self._backend, request)

    async def _unstored(self, request: Request) -> Answer | Stream:
        kind = request.kind
        everywhere = request.verb == "list" and "list" in kind.verbs
        if kind.namespaced and not request.namespace and not everywhere:
            raise path_not_found()
        if request.verb not in kind.verbs:
            raise method_not_allowed()
        if kind.resource == "bindings":
            return await bind(self._backend, request)
        if kind.group == METRICS_GROUP:
            return _metrics(self._backend, request)
        if kind.resource == "componentstatuses":
            return _component_statuses(request)
        return self._reviews.answer(request)

    async def _subresource(self, request: Request) -> Answer | Stream:
        kind, name = request.kind, request.subresource
        if kind.namespaced != bool(request.namespace):
            raise path_not_found()
        sub = kind.subresources.get(name)
        if sub is None:
            if not kind.group and _needs_kubelet(kind.resource, name):
                raise await self._no_stream(request)
            raise path_not_found()
        if request.verb not in sub.verbs:
            raise method_not_allowed()
        if name in _PARTS:
            return await self._verb(request)
        if name == "scale":
            return await scale(self._backend, request)
        if name == "binding":
            return await bind(self._backend, request)
        if name == "eviction":
            return await evict(self._backend, request)
        if name == "token":
            return await issue_token(self._backend, request, self._authenticator.tokens)
        return await self._log(request)

    async def _log(self, request: Request) -> Stream:
        codec = self._backend.codec(request.kind)
        kv = await self._backend.must_get(codec, request.namespace, request.name)
        pod = await decoded(request, codec, kv)  # a 404 comes before what follows
        options = log_options(request.query)
        lines = runner(self._backend.containers, pod, request).log(pod, options)
        return Stream(200, lines, b"text/plain")

    async def _no_stream(self, request: Request) -> ApiError:
        """Say why a request that wants a connection of its own, but asks in HTTP, gets none."""
        if self._backend.containers is None:
            return ApiError(503, "ServiceUnavailable", NO_KUBELET)
        if request.subresource in ("exec", "attach"):
            text = f"{request.subresource} is answered over websockets only, as kubectl 1.31 asks"
        else:
            text = f"{request.subresource} needs a real network, and these nodes are simulated"
        return ApiError(501, "NotImplemented", text)


def _elsewhere(request: Request) -> ApiError:
    """Answer a path without namespace to a kind that has them: only lists are there."""
    if request.name:
        return path_not_found()
    return method_not_allowed()


def _needs_kubelet(resource: str, name: str) -> bool:
    return any(sub.name == name for sub in KUBELET_SUBRESOURCES.get(resource, ()))


def _metrics(backend: Backend, request: Request) -> Answer:
    """Answer with what pods or nodes use, as metrics-server does."""
    kind = request.kind
    if backend.containers is None:
        raise ApiError(503, "ServiceUnavailable", NO_KUBELET)
    found = backend.containers.usage(kind.resource, request.namespace, request.name)
    head = {"kind": kind.kind, "apiVersion": kind.api_version}
    if request.name:
        if not found:
            raise not_found(kind.group, kind.resource, request.name)
        return plain_answer(request, {**head, **found[0]})
    labels = parse_labels(request.query.get("labelSelector", ""))
    items = [
        {**head, **item}
        for item in found
        if labels is None or labels.matches(item["metadata"].get("labels") or {})
    ]
    head["kind"] += "List"
    return plain_answer(request, {**head, "metadata": {}, "items": items})


def _component_statuses(request: Request) -> Answer:
    listed = {"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": []}
    if request.name:
        raise path_not_found()
    return plain_answer(request, listed)

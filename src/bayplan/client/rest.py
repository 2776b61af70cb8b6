"""Requests to a Kubernetes API server: the verbs, retries and limits, no objects.

Answers are raw bytes and the caller decodes what it needs: the scheduler reads typed structs with
msgspec, a controller plain dictionaries (`msgspec.json.decode`). Bodies may be bytes (sent as they
are) or anything msgspec can encode. A failure raises an `ApiError` by its HTTP code and reason.

Retries follow client-go: an answer of 429 or 5xx that carries Retry-After is tried again after that
time, up to ten times; a read whose connection broke is tried again; a write is not, because it may
have happened. A 401 refreshes the credentials once. All waits use the running event loop's clock.

It does not cache (informers do) and does not ask discovery (see `resources`).
"""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Literal, TypedDict
from urllib.parse import quote, urlencode

import msgspec

from bayplan import __version__
from bayplan.client import http1_connection
from bayplan.client.errors import (
    AnswerTooLong,
    NoApiServer,
    ServerFault,
    TooManyRequests,
    TransportError,
    error_from,
)
from bayplan.client.limiter import RateLimiter
from bayplan.client.resources import PODS, Resource
from bayplan.client.transport import Response, Transport
from bayplan.errors import DecodeError

PatchType = Literal["json", "merge", "strategic", "apply"]
Body = bytes | Mapping[str, object] | list[object] | msgspec.Struct
Lines = list[bytes]
Observer = Callable[[str, int, float], None]
Query = Mapping[str, str | int | bool | None]

PATCH_CONTENT_TYPES: dict[PatchType, str] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class PatchOptions(TypedDict, total=False):
    """What `Client.patch` is told beside the object, for those that pass it on."""

    kind: PatchType
    subresource: str
    field_manager: str
    force: bool


class DeleteOptions(TypedDict, total=False):
    """What `Client.delete` is told beside the object, for those that pass it on."""

    grace_period: int | None
    uid: str
    propagation: str


JSON = "application/json"
MAX_RETRIES = 10
MAX_EVENT = 64 << 20  # bytes of a line of a watch; objects have a few megabytes
MAX_REFUSAL = 1 << 20
MAX_PAGES = 10_000  # five million objects
BROKEN_READ_RETRIES = 3
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # what is no JSON of ours

_encode = msgspec.json.Encoder().encode


class Client:
    """An API server seen through a transport; safe for many requests at once."""

    def __init__(
        self,
        transport: Transport,
        *,
        limiter: RateLimiter | None = None,
        namespace: str = "default",
        user_agent: str = f"bayplan/{__version__}",
        headers: Mapping[str, str] | None = None,
        timeout: float | None = 60.0,
        observe: Observer | None = None,
    ) -> None:
        """`observe` is told method, HTTP code (0: no answer) and seconds of every request.

        Without a `timeout` nothing is given up that does not end, no informer's watch either.
        """
        self.transport = transport
        self.namespace = namespace
        self.timeout = timeout
        self._limiter = limiter
        base = {"accept": JSON, "user-agent": user_agent, **(headers or {})}
        self._headers = base
        self._json_headers = {**base, "content-type": JSON}
        self._by_type: dict[tuple[str, str], dict[str, str]] = {}
        self._observe = observe

    def unlimited(self) -> Client:
        """Return the same client without the rate limit, for what must not wait in its queue."""
        other = copy.copy(self)
        other._limiter = None
        return other

    async def turn_behind(self) -> None:
        """Wait until the rate limit lets a request pass that all others may overtake.

        Who chooses then what to send, over `unlimited`, chooses late.
        """
        if self._limiter is not None:
            await self._limiter.acquire(behind=True)

    # -- one request

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Body | None = None,
        content_type: str = JSON,
        accept: str = "",
        timeout: float | None = None,
    ) -> bytes:
        """Send a request and return the body of its answer; raise ApiError on 400 and above."""
        target = path + _query_text(query)
        raw = body if body is None or isinstance(body, bytes) else _encode(body)
        headers = self._headers_for(raw, content_type, accept)
        return _accepted(await self._send(method, target, headers, raw, timeout or self.timeout))

    def _headers_for(self, raw: bytes | None, content_type: str, accept: str) -> dict[str, str]:
        if raw is None and not accept:
            return self._headers
        if content_type == JSON and not accept:
            return self._json_headers
        key = ("" if raw is None else content_type, accept)
        known = self._by_type.get(key)
        if known is None:
            # The same object each time: transports keep its encoding.
            known = self._by_type[key] = dict(self._headers)
            if raw is not None:
                known["content-type"] = content_type
            if accept:
                known["accept"] = accept
        return known

    async def _send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        raw: bytes | None,
        timeout: float | None,
    ) -> Response:
        refreshed = False
        busy = broken = 0
        while True:
            if self._limiter is not None:
                await self._limiter.acquire()
            try:
                if self._observe is None:
                    response = await self.transport.request(method, target, headers, raw, timeout)
                else:
                    response = await self._observed(method, target, headers, raw, timeout)
            except TransportError as problem:
                broken += 1
                final = isinstance(problem, AnswerTooLong) or broken > BROKEN_READ_RETRIES
                if method != "GET" or final:
                    raise
                await asyncio.sleep(0.05 * 2**broken)
                continue
            status = response.status
            if status < 400:
                return response
            if status == 401 and not refreshed:
                refreshed = True
                if await self.transport.refresh_credentials():
                    continue
            if status == 429 or status >= 500:
                pause = _retry_after(response.headers)
                busy += 1
                if pause is not None and busy <= MAX_RETRIES:
                    await asyncio.sleep(pause)
                    continue
            return response

    async def _observed(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        raw: bytes | None,
        timeout: float | None,
    ) -> Response:
        assert self._observe is not None
        clock = asyncio.get_running_loop().time
        begin, code = clock(), 0
        try:
            response = await self.transport.request(method, target, headers, raw, timeout)
            code = response.status
            return response
        finally:
            self._observe(method, code, clock() - begin)

    # -- reading

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, subresource: str = ""
    ) -> bytes:
        """Return one object."""
        return await self.request("GET", resource.path(namespace, quote(name), subresource))

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str | None = None,
        resource_version_match: str = "",
        limit: int = 0,
        continue_: str = "",
        timeout: float | None = None,
    ) -> bytes:
        """Return a list object, or one page of it when `limit` is set; no namespace means all."""
        query: dict[str, str | int | bool | None] = {
            "labelSelector": label_selector or None,
            "fieldSelector": field_selector or None,
            "resourceVersion": resource_version,
            "resourceVersionMatch": resource_version_match or None,
            "limit": limit or None,
            "continue": continue_ or None,
        }
        return await self.request("GET", resource.path(namespace), query=query, timeout=timeout)

    async def pages(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
    ) -> AsyncIterator[bytes]:
        """Yield the pages of a consistent list, each a list object."""
        token, paging = "", Paging()
        while True:
            page = await self.list(
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                continue_=token,
            )
            paging.check(page)
            yield page
            token = _token(page)
            if not token:
                return

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        bookmarks: bool = True,
        timeout_seconds: int | None = None,
        send_initial_events: bool = False,
        straight: Callable[[Lines], bool] | None = None,
    ) -> AsyncGenerator[Lines, None]:
        """Yield watch events as they come: batches of whole JSON lines, undecoded.

        The first batch is empty and tells that the server has accepted the watch.
        Ends when the server ends the watch; raises ApiError when it refuses it (Gone: list again)
        and TransportError when the connection breaks. A watch takes one token of the rate limit.
        An event of type ERROR inside the stream is passed on as any other line.
        `straight` may be called with lines instead, while the next are waited for: in the process
        of the server that saves a turn of the loop. It returns whether it took them.
        """
        query: dict[str, str | int | bool | None] = {
            "watch": True,
            "resourceVersion": resource_version or None,
            "labelSelector": label_selector or None,
            "fieldSelector": field_selector or None,
            "allowWatchBookmarks": bookmarks or None,
            "timeoutSeconds": timeout_seconds,
        }
        if send_initial_events:
            query |= {"sendInitialEvents": True, "resourceVersionMatch": "NotOlderThan"}
        target = resource.path(namespace) + _query_text(query)
        if self._limiter is not None:
            await self._limiter.acquire()
        async with self.transport.stream("GET", target, self._headers) as response:
            if response.status >= 400:
                body = b""
                async for chunk in response.chunks:
                    body += chunk
                    if len(body) > MAX_REFUSAL:
                        break
                if response.status == 401:
                    await self.transport.refresh_credentials()
                raise error_from(response.status, body, retry_after=_retry_after(response.headers))
            if straight is not None and response.straight is not None:
                take = straight  # the pieces of such a stream are whole lines
                response.straight(lambda piece: take(piece.split(b"\n")[:-1]))
            yield []
            held = 0
            parts: list[bytes] = []  # of a line that is not whole: a large object comes in many
            async for chunk in response.chunks:
                parts.append(chunk)
                if b"\n" not in chunk:
                    if (held := held + len(chunk)) > MAX_EVENT:
                        raise AnswerTooLong("a line", MAX_EVENT)
                    continue
                held = 0
                lines = b"".join(parts).split(b"\n")
                rest = lines.pop()
                parts = [rest] if rest else []
                whole = [line for line in lines if line]
                if whole:
                    yield whole

    # -- writing

    async def create(
        self, resource: Resource, body: Body, namespace: str = "", *, query: Query | None = None
    ) -> bytes:
        """Create an object and return it as stored."""
        return await self.request("POST", resource.path(namespace), body=body, query=query)

    async def update(
        self,
        resource: Resource,
        name: str,
        body: Body,
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> bytes:
        """Replace an object (or its subresource) and return it as stored."""
        path = resource.path(namespace, quote(name), subresource)
        return await self.request("PUT", path, body=body)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Body,
        namespace: str = "",
        *,
        kind: PatchType = "merge",
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
    ) -> bytes:
        """Patch an object and return it as stored; `apply` needs a field manager."""
        path = resource.path(namespace, quote(name), subresource)
        query = {"fieldManager": field_manager or None, "force": force or None}
        return await self.request(
            "PATCH", path, body=body, content_type=PATCH_CONTENT_TYPES[kind], query=query
        )

    async def patch_status(
        self,
        resource: Resource,
        name: str,
        body: Body,
        namespace: str = "",
        *,
        kind: PatchType = "strategic",
    ) -> bytes:
        """Patch the status of an object."""
        return await self.patch(resource, name, body, namespace, kind=kind, subresource="status")

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        grace_period: int | None = None,
        uid: str = "",
        propagation: str = "",
    ) -> bytes:
        """Delete an object; with `uid`, only if it is still that one."""
        options = _delete_options(grace_period, uid)
        if propagation:
            options["propagationPolicy"] = propagation
        path = resource.path(namespace, quote(name))
        return await self.request("DELETE", path, body=options or None)

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, label_selector: str = ""
    ) -> bytes:
        """Delete all objects that match."""
        query = {"labelSelector": label_selector or None}
        return await self.request("DELETE", resource.path(namespace), query=query)

    # -- pods

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Bind a pod to a node: the hot request of a scheduler.

        Raises Conflict when the pod is bound already or is another pod of that name.
        """
        body = (
            f'{{"apiVersion":"v1","kind":"Binding","metadata":{{"namespace":"{namespace}",'
            f'"name":"{name}","uid":"{uid}"}},"target":{{"kind":"Node","name":"{node}"}}}}'
        ).encode()
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        _accepted(await self._send("POST", path, self._json_headers, body, self.timeout))

    async def evict(
        self, namespace: str, name: str, *, uid: str = "", grace_period: int | None = None
    ) -> None:
        """Evict a pod; raises TooManyRequests while a disruption budget forbids it."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _delete_options(grace_period, uid),
        }
        await self.request("POST", PODS.path(namespace, quote(name), "eviction"), body=body)

    async def close(self) -> None:
        """Close the transport."""
        await self.transport.close()


def _delete_options(grace_period: int | None, uid: str) -> dict[str, object]:
    options: dict[str, object] = {}
    if grace_period is not None:
        options["gracePeriodSeconds"] = grace_period
    if uid:
        options["preconditions"] = {"uid": uid}
    return options


class Paging:
    """Ends a list that a server continues for ever."""

    def __init__(self) -> None:
        self._pages = self._size = 0

    def check(self, page: bytes) -> None:
        """Count a page. Raises AnswerTooLong."""
        self._pages += 1
        self._size += len(page)
        if self._pages > MAX_PAGES:
            raise AnswerTooLong("the list", MAX_PAGES, "pages")
        if self._size > http1_connection.MAX_ANSWER:
            raise AnswerTooLong("the list", http1_connection.MAX_ANSWER)


class _PageMeta(msgspec.Struct, frozen=True):
    continue_: str | None = msgspec.field(default=None, name="continue")


class _Page(msgspec.Struct, frozen=True):
    metadata: _PageMeta | None = None


_page_decoder = msgspec.json.Decoder(_Page)


def _token(page: bytes) -> str:
    try:
        metadata = _page_decoder.decode(page).metadata
    except UNREADABLE as problem:
        raise DecodeError(f"decoding a page of a list: {problem}") from problem
    return metadata.continue_ or "" if metadata is not None else ""


def _accepted(response: Response) -> bytes:
    """Return the body of an answer, or raise what it says."""
    body = response.body
    if response.status >= 400:
        raise error_from(response.status, body, retry_after=_retry_after(response.headers))
    if body[:9].lstrip()[:1] == b"<":
        raise NoApiServer("a web page")
    return body


def is_retriable(failure: Exception) -> bool:
    """Tell whether a failed request may succeed when it is simply sent again later."""
    return isinstance(failure, TransportError | TooManyRequests | ServerFault)


def _query_text(query: Query | None) -> str:
    if not query:
        return ""
    given = {
        name: ("true" if value is True else "false" if value is False else value)
        for name, value in query.items()
        if value is not None
    }
    return f"?{urlencode(given)}" if given else ""


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header; its date form is not used by API servers."""
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None

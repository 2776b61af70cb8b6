"""Reads a running cluster: get and list, in pages, nothing else.

Nodes and pods must be readable. Any other kind that is forbidden or not served is named in the
answer with what it lacks. Only events that say why a pod is not placed or not made are listed.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from bayplan.client import (
    ApiError,
    Client,
    Connection,
    Forbidden,
    NoApiServer,
    NotFound,
    Resource,
    TransportError,
    Unauthorized,
    connect,
)
from bayplan.client.resources import CORE_EVENTS, PODS
from bayplan.client.rest import UNREADABLE
from bayplan.errors import DecodeError
from bayplan.inspect.cluster import Objects, Origin, Unread
from bayplan.inspect.errors import AccessError, SourceError
from bayplan.inspect.kinds import EVENT_REASONS, KINDS, Kind
from bayplan.inspect.sources.gather import Gathering

AT_ONCE = 4
PAGE = 500
RUNNING_PODS = "status.phase!=Succeeded,status.phase!=Failed"
ROLE = "deploy/inspect/cluster-role.yaml"

T = TypeVar("T")


def read_live(connection: Connection) -> tuple[Objects, Origin]:
    """Read a cluster from a program without an event loop, or beside the one it has."""
    return run_beside(lambda: _read(connection))


def run_beside(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in a thread of its own, so that notebooks with a loop may call too."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(asyncio.run(work()))
        except BaseException as problem:  # handed on to the caller below
            failure.append(problem)

    thread = threading.Thread(target=run, name="bayplan-inspect")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


async def _read(connection: Connection) -> tuple[Objects, Origin]:
    client = connect(connection)
    try:
        objects, origin = await read_client(client, connection.server, connection.namespace)
    finally:
        await client.close()
    return objects, origin


async def read_client(
    client: Client, name: str, namespace: str = "default"
) -> tuple[Objects, Origin]:
    """Read a cluster through a client that somebody else owns."""
    gathering = Gathering()
    limit = asyncio.Semaphore(AT_ONCE)
    version = await _version(client, name)

    async def one(kind: Kind) -> Unread | None:
        async with limit:
            unread = await _list(client, kind, kind.served[0], gathering, name)
            if unread is not None and len(kind.served) > 1:
                unread = await _list(client, kind, kind.resource, gathering, name)
            return unread

    found = await asyncio.gather(*(one(kind) for kind in KINDS))
    unread = [item for item in found if item is not None and item.why] + gathering.unread()
    return gathering.objects, Origin(name, version, time.time(), namespace, tuple(unread))


async def _version(client: Client, name: str) -> str:
    try:
        body = await client.request("GET", "/version")
    except Unauthorized as problem:
        raise _refused(name, problem) from problem
    except NoApiServer as problem:
        raise _no_api_server(name) from problem
    except TransportError as problem:
        text = str(problem).removesuffix("; is the API server running?")
        remedy = "is the API server running? check --kubeconfig and --context"
        raise SourceError(f"{text}; {remedy}") from problem
    except ApiError:
        return ""
    try:
        return str(msgspec.json.decode(body).get("gitVersion", ""))
    except (*UNREADABLE, AttributeError) as problem:
        raise _no_api_server(name) from problem


async def _list(
    client: Client, kind: Kind, resource: Resource, gathering: Gathering, name: str
) -> Unread | None:
    """List all of a kind; what could not be read, without a reason where that is no news."""
    selectors = [""]
    if resource is PODS:
        selectors = [RUNNING_PODS]
    elif resource is CORE_EVENTS:
        selectors = [f"reason={reason}" for reason in EVENT_REASONS]
    try:
        for selector in selectors:
            async for page in client.pages(resource, field_selector=selector, limit=PAGE):
                gathering.add_json(page, resource.kind)
    except NotFound as problem:
        if kind.needed:
            raise _no_api_server(name) from problem
        return Unread(resource.plural, "" if kind.served_since else "not served", kind.without)
    except (DecodeError, NoApiServer) as problem:
        raise _no_api_server(name) from problem
    except Unauthorized as problem:
        raise _refused(name, problem) from problem
    except Forbidden as problem:
        if kind.needed:
            raise AccessError(
                f"{problem.message}; {resource.plural} must be readable. The least that is needed "
                f"is the ClusterRole of `bayplan snapshot role` ({ROLE})"
            ) from problem
        return Unread(resource.plural, "forbidden", kind.without)
    return None


def _no_api_server(name: str) -> SourceError:
    return SourceError(
        f"{name} does not answer as a Kubernetes API server; check the server's address"
    )


def _refused(name: str, problem: Unauthorized) -> AccessError:
    return AccessError(
        f"{name} refuses the credentials ({problem.message}): the token or certificate is wrong "
        "or has expired; log in again, or choose another --context"
    )

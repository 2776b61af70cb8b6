"""Speaks to API servers behind this one: asks what they serve, passes requests on.

A request is passed on as its user's, with the certificate of `front_proxy`; an answer is passed
back as it comes, so watches work.
"""

from __future__ import annotations

import asyncio
import ssl
import string
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from bayplan.api.user import User
from bayplan.apiserver.aside import aside_of
from bayplan.apiserver.calling import (
    Caller,
    CallError,
    Contexts,
    NoRoute,
    new_context,
    read_all,
    reason_of,
)
from bayplan.apiserver.errors import ApiError, timed_out
from bayplan.apiserver.front_proxy import FrontProxy, headers_of
from bayplan.apiserver.http import Connection, plain_text
from bayplan.apiserver.remotes import Discovered, Remote
from bayplan.apiserver.responses import Answer, Stream

CHECK_TIMEOUT = 5.0
MAX_DOCUMENT = 16 * 1024 * 1024
ANSWER_SECONDS = 60.0  # until an answer is there, unless it is a watch's; as upstream
_WANTED = (("Accept", "application/json"), ("Accept-Encoding", "identity"))
_PRINTABLE = string.digits + string.ascii_letters + string.punctuation
_discovered = msgspec.json.Decoder(Discovered)
# What belongs to one connection, or says who somebody is here.
_OWN_HEADERS = frozenset(
    (
        "authorization",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
_ANSWER_HEADERS = _OWN_HEADERS | {"content-type", "cache-control", "date"}


class Passing:
    """The connections to other servers."""

    def __init__(self, caller: Caller, identity: FrontProxy | None) -> None:
        self._caller = caller
        self._identity = identity
        self._contexts = Contexts(self._context)

    async def look(self, remote: Remote) -> None:
        """Ask a server for its kinds, and note in `remote` what came of it."""
        try:
            url, _ = self._address(remote)
            where = f"{url}/apis/{remote.group}/{remote.version}"
            status, body = await self._fetch(remote, where)
            if status != 200:
                raise CallError(f"bad status from {where}: {status}")
            found = await aside_of(len(body), _discovered.decode, body)
            remote.seen(found.resources or [], await self._openapi(remote, url))
        except NoRoute as error:
            remote.lost(error.reason, error.told)
        except (CallError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            shown = f"https://{remote.service_name}.{remote.namespace}.svc:{remote.port}"
            text = f"failing or missing response from {shown}/apis/{remote.group}/{remote.version}"
            remote.lost("FailedDiscoveryCheck", f"{text}: {error}")

    async def _openapi(self, remote: Remote, url: str) -> bytes:
        """Return the server's description of its kinds; not all have one."""
        where = f"{url}/openapi/v3/apis/{remote.group}/{remote.version}"
        try:
            status, body = await self._fetch(remote, where)
        except CallError:
            return b""
        return body if status == 200 else b""

    async def _fetch(self, remote: Remote, url: str) -> tuple[int, bytes]:
        user = User("system:kube-aggregator", ("system:masters",))
        headers = [*headers_of(user), *_WANTED]
        try:
            async with (
                asyncio.timeout(CHECK_TIMEOUT),
                self._caller.session.get(
                    url, headers=headers, **await self._secured(remote)
                ) as answer,
            ):
                return answer.status, await read_all(answer, MAX_DOCUMENT)
        except TimeoutError:
            raise CallError(f'Get "{url}": context deadline exceeded') from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise CallError(f'Get "{url}": {reason_of(error)}') from error

    def _address(self, remote: Remote) -> tuple[str, str]:
        host, port = self._caller.route(remote.namespace, remote.service_name, remote.port)
        host = f"[{host}]" if ":" in host else host
        return f"https://{host}:{port}", f"{remote.service_name}.{remote.namespace}.svc"

    def _context(self, key: tuple[str, bool]) -> ssl.SSLContext:
        bundle, insecure = key
        context = new_context(bundle)
        if insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self._identity is not None:
            self._identity.show(context)
        return context

    async def _secured(self, remote: Remote) -> dict[str, Any]:
        """Return how to speak TLS with a server."""
        context = await self._contexts.of((remote.bundle, remote.insecure))
        name = f"{remote.service_name}.{remote.namespace}.svc"
        return {"ssl": context, "server_hostname": name, "allow_redirects": False}

    async def pass_on(
        self, remote: Remote, connection: Connection, user: User, body: bytes, *, watch: bool
    ) -> Answer | Stream | None:
        """Answer a request by another server; None if there is no way to it."""
        if not remote.available:
            return None
        headers = [
            (name, value) for name, value in connection.headers.items() if not _kept_back(name)
        ]
        until = None if watch else asyncio.get_running_loop().time() + ANSWER_SECONDS
        try:
            url, _ = self._address(remote)
            async with asyncio.timeout_at(until):
                answer = await self._caller.session.request(
                    connection.method,
                    URL(f"{url}{_as_it_came(connection)}", encoded=True),
                    headers=[*headers, *headers_of(user)],
                    data=body or None,
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=CHECK_TIMEOUT),
                    **await self._secured(remote),
                )
        except NoRoute:
            return None
        except (CallError, aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientError):
                raise timed_out() from error
            remote.lost("FailedDiscoveryCheck", f"failing or missing response: {reason_of(error)}")
            return plain_text(503, f"error trying to reach service: {reason_of(error)}")
        return _passed_back(answer, until)


def _as_it_came(connection: Connection) -> str:
    """Return the path and query without having undone anything, so nothing in them is obeyed."""
    query = b"?" + connection.query if connection.query else b""
    path = connection.raw_path.replace(b"?", b"%3F").replace(b"#", b"%23")
    return quote(path + query, safe=_PRINTABLE)


def _kept_back(name: str) -> bool:
    return name in _OWN_HEADERS or name.startswith(("x-remote-", "impersonate-"))


def _passed_back(answer: aiohttp.ClientResponse, until: float | None) -> Answer | Stream:
    headers = tuple(
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in answer.headers.items()
        if name.lower() not in _ANSWER_HEADERS
    )
    media = answer.headers.get("Content-Type", "application/octet-stream").encode("latin-1")
    return Stream(answer.status, _pieces(answer, until), media, answer.close, headers)


async def _pieces(answer: aiohttp.ClientResponse, until: float | None) -> AsyncIterator[bytes]:
    now = asyncio.get_running_loop().time
    try:
        while until is None or now() < until:  # what has come already is read without a wait
            async with asyncio.timeout_at(until):
                piece = await answer.content.readany()
            if not piece:
                return
            yield piece
        raise TimeoutError
    except TimeoutError as error:
        raise timed_out() from error
    except aiohttp.ClientError as error:
        raise ApiError(503, "ServiceUnavailable", reason_of(error)) from error

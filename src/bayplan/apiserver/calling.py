"""Calls webhooks: finds where they are, speaks TLS with their own authority, keeps deadlines.

What is behind a Service is reached through the Service's endpoints, or by its external name; there
is no cluster network here, so a Service without either has no route.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import posixpath
import ssl
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import msgspec

from bayplan import vanished
from bayplan.api import json
from bayplan.apiserver.admission import Reader
from bayplan.apiserver.aside import LARGE, aside_of, beside, leave_own_turn
from bayplan.errors import BayplanError, DecodeError
from bayplan.trust import trusting

DEFAULT_TIMEOUT = 10
MAX_ANSWER = 3 * 1024 * 1024
CONTEXTS = 64
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
_JSON = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
}


class CallError(BayplanError):
    """A webhook could not be asked, or its answer not be read."""


class NoRoute(CallError):
    """A Service does not lead anywhere; `reason` and `told` are those of an APIService's status."""

    def __init__(self, text: str, reason: str, told: str) -> None:
        super().__init__(text)
        self.reason, self.told = reason, told


class Caller:
    """Keeps connections to webhooks; one a server."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._session: aiohttp.ClientSession | None = None
        self._contexts = Contexts(new_context)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            # Nothing is unpacked, so nothing grows here, and nobody's cookie is shown to others.
            # Whoever is slow or watched by many takes no connection away from the others.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, socket_factory=vanished.new_socket),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("Accept-Encoding",),
            )
        return self._session

    async def post(
        self, config: Mapping[str, Any], body: Any, timeout: float, read: Callable[[Any], T]
    ) -> T:
        """Send JSON and return what `read` makes of the JSON of the answer.

        Raises CallError, and what `read` raises. A large answer is read beside the event loop. A
        request that has a turn for what is large waits for it without the turn.
        """
        leave_own_turn()
        address, name = self.address(config)
        shown = _shown(config, timeout)
        try:
            async with (
                asyncio.timeout(timeout),
                self.session.post(
                    address,
                    data=_in_pieces(msgspec.json.encode(body)),
                    headers=_JSON,
                    ssl=await self._contexts.of(config.get("caBundle") or ""),
                    server_hostname=name or None,
                    allow_redirects=False,
                ) as answer,
            ):
                text = await read_all(answer, MAX_ANSWER)
        except TimeoutError:
            raise CallError(f'Post "{shown}": context deadline exceeded') from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise CallError(f'Post "{shown}": {reason_of(error)}') from error
        return await aside_of(len(text), lambda: read(_decoded(answer.status, text)))

    def address(self, config: Mapping[str, Any]) -> tuple[str, str]:
        """Where to send, and the name that the certificate must have if it is another."""
        if config.get("url"):
            return _clean(config["url"]), ""
        service = config.get("service") or {}
        namespace, name = service.get("namespace", ""), service.get("name", "")
        port, path = service.get("port") or 443, service.get("path") or "/"
        host, port = self.route(namespace, name, port)
        host = f"[{host}]" if ":" in host else host
        return f"https://{host}:{port}{path}", f"{name}.{namespace}.svc"

    def route(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        """Return the address and port behind a port of a Service. Raises NoRoute."""
        service = self._reader.get("", "services", namespace, name)
        where = f'service/{name} in "{namespace}"'
        if service is None:
            text = f'service "{name}" not found'
            raise NoRoute(text, "ServiceNotFound", f"{where} is not present")
        spec = service.get("spec") or {}
        if spec.get("type") == "ExternalName":
            return spec.get("externalName", ""), port
        wanted = [each for each in spec.get("ports") or () if each.get("port") == port]
        if not wanted:
            text = f'no service port {port} found for service "{name}"'
            raise NoRoute(text, "ServicePortError", f"{where} is not listening on port {port}")
        return self._endpoint(namespace, name, wanted[0].get("name") or "", where)

    def _endpoint(self, namespace: str, name: str, port: str, where: str) -> tuple[str, int]:
        text = f'no endpoints available for service "{name}"'
        slices = [
            each
            for each in self._reader.list("discovery.k8s.io", "endpointslices", namespace)
            if (each["metadata"].get("labels") or {}).get("kubernetes.io/service-name") == name
        ]
        if not slices:
            raise NoRoute(text, "EndpointsNotFound", f"cannot find endpointslices for {where}")
        for item in slices:
            ports = [p["port"] for p in item.get("ports") or () if (p.get("name") or "") == port]
            for endpoint in item.get("endpoints") or ():
                ready = (endpoint.get("conditions") or {}).get("ready", True)
                if ready and endpoint.get("addresses") and ports:
                    return endpoint["addresses"][0], ports[0]
        told = f'endpoints for {where} have no addresses with port name "{port}"'
        raise NoRoute(text, "MissingEndpoints", told)


class Contexts(Generic[K]):
    """TLS contexts, each made once and beside the event loop: to read authorities takes long."""

    def __init__(self, make: Callable[[K], ssl.SSLContext]) -> None:
        self._make = make
        self._made: dict[K, asyncio.Task[ssl.SSLContext]] = {}

    async def of(self, key: K) -> ssl.SSLContext:
        """Return the context of a key. Raises CallError."""
        task = self._made.get(key)
        if task is None:
            if len(self._made) >= CONTEXTS:
                self._made.clear()
            task = self._made[key] = asyncio.ensure_future(beside(self._make, key))
        try:
            return await asyncio.shield(task)
        except CallError:
            self._made.pop(key, None)
            raise


def new_context(bundle: str) -> ssl.SSLContext:
    try:
        return trusting(text=base64.b64decode(bundle).decode() or None)
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as error:
        raise CallError("unable to load root certificates: unable to parse bytes") from error


async def read_all(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    """Return a body. Raises ValueError as soon as it is longer than allowed."""
    found = bytearray()
    async for piece in answer.content.iter_any():
        found += piece
        if len(found) > limit:
            raise ValueError(f"the answer is larger than {limit} bytes")
    return bytes(found)


def _in_pieces(body: bytes) -> bytes | io.BytesIO:
    """Return a body as it is sent: a large one is encrypted and written piece by piece."""
    return body if len(body) < LARGE else io.BytesIO(body)


# What client-go says of an answer that is no Status.
_UNEXPECTED = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    403: "forbidden",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, "
    "but may still be processing the request",
}


def _decoded(status: int, text: bytes) -> Any:
    if status >= 300:
        if status in _UNEXPECTED:
            raise CallError(_UNEXPECTED[status])
        shown = text[:200].decode(errors="replace").strip()
        raise CallError(
            f'an error on the server ("{shown}") has prevented the request from succeeding'
        )
    try:
        found = json.load(text)
    except DecodeError as error:
        raise CallError(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(found, dict):
        raise CallError("couldn't get version/kind; json parse error: the answer is no object")
    return found


def _clean(url: str) -> str:
    """Return a URL with a path as Go's client sends it: envtest writes `https://host//path`."""
    parts = urlsplit(url)
    path = posixpath.normpath("/" + parts.path.lstrip("/"))
    return urlunsplit(parts._replace(path=path if parts.path else ""))


def _shown(config: Mapping[str, Any], timeout: float) -> str:
    """The URL as upstream's errors name it."""
    seconds = f"timeout={int(timeout)}s"
    if config.get("url"):
        url = _clean(config["url"])
        return f"{url}{'&' if '?' in url else '?'}{seconds}"
    service = config.get("service") or {}
    host = f"{service.get('name', '')}.{service.get('namespace', '')}.svc"
    return f"https://{host}:{service.get('port') or 443}{service.get('path') or '/'}?{seconds}"


def reason_of(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: x509: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        refused = "connection refused" in str(error).lower() or error.errno == 111
        return f"dial tcp {error.host}:{error.port}: " + (
            "connect: connection refused" if refused else str(error.strerror or error)
        )
    return "EOF" if isinstance(error, aiohttp.ServerDisconnectedError) else str(error)

"""Uvicorn with one port for HTTPS and, on loopback, plain HTTP.

kubectl and every Go client send a token only over TLS, so HTTPS is the default; a script on the
same machine finds plain HTTP simpler. A TLS connection begins with the byte 0x16 and no HTTP
request does, so the first byte, which is looked at and left in the socket, tells which it is.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections import Counter
from functools import partial
from pathlib import Path

import structlog
import uvicorn

from bayplan.asgi import Server
from bayplan.errors import ConfigError
from bayplan.supervised import end, supervised

log = structlog.get_logger(__name__)

TLS_HANDSHAKE = b"\x16"
FIRST_BYTE_SECONDS = 32.0
HANDSHAKE_SECONDS = 10.0
ACCEPTED_AT_ONCE = 100


class WebServer(Server):
    """Accepts connections itself and gives them to uvicorn's protocol.

    `tls` None means plain HTTP only; with `plain` both are served.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        tls: ssl.SSLContext | None,
        failures: Counter[str],
        *,
        plain: bool = False,
    ) -> None:
        super().__init__(config)
        self._failures = failures
        self._tls = tls
        self._plain = plain
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, sockets: list[socket.socket] | None) -> None:
        await self.lifespan.startup()
        self.servers = []
        for listener in sockets or ():
            accept = partial(self._accept, listener)
            self._keep(supervised("accepting connections", accept, self._failures))
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await end(*self._tasks)
        await super().shutdown(sockets)

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        """Take connections as they come; none is ever held by a future that a shutdown drops."""
        while True:
            await _readable(listener)
            try:
                for _ in range(ACCEPTED_AT_ONCE):
                    self._accepted(listener.accept()[0])
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ECONNABORTED):
                    raise
                log.warning("cannot accept connections", error=error.strerror)
                await asyncio.sleep(0.2)

    def _accepted(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = asyncio.create_task(self._serve_connection(connection))
        task.add_done_callback(partial(_close_if_cancelled, connection))
        self._keep(task)

    async def _serve_connection(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            context = self._tls
            if context is not None and self._plain:
                context = context if await _speaks_tls(connection) else None
            handshake = HANDSHAKE_SECONDS if context is not None else None
            await loop.connect_accepted_socket(
                self._protocol, connection, ssl=context, ssl_handshake_timeout=handshake
            )
        except (OSError, TimeoutError, ssl.SSLError):
            connection.close()  # the client went away, or does not speak what is served here

    def _protocol(self) -> asyncio.Protocol:
        protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol


async def _speaks_tls(connection: socket.socket) -> bool:
    """Look at the first byte of a connection without taking it."""
    async with asyncio.timeout(FIRST_BYTE_SECONDS):
        await _readable(connection)
    return connection.recv(1, socket.MSG_PEEK) == TLS_HANDSHAKE


async def _readable(waiting: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(waiting.fileno(), _wake, readable)
    try:
        await readable
    finally:
        loop.remove_reader(waiting.fileno())


def _close_if_cancelled(connection: socket.socket, task: asyncio.Task[None]) -> None:
    """Close what a task was given that may have been cancelled before it began."""
    if task.cancelled():
        connection.close()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def server_context(certificate: str, key: str, clients: Path | None = None) -> ssl.SSLContext:
    """Return a context that offers HTTP/1.1 over TLS 1.2 or newer.

    `clients` is the authority whose certificates clients may show instead of a token.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f'serving HTTPS with certificate "{certificate}" and key "{key}": '
            f"{error.strerror or error}; give a pair in PEM, or remove generated ones"
        ) from error
    if clients is not None:
        try:
            context.load_verify_locations(clients)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f'reading --client-ca-file "{clients}": {error.strerror or error}; give '
                "certificates in PEM"
            ) from error
        context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    return context

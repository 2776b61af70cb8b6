"""Carries extender calls: kept-alive connections, TLS, gzip, a deadline that holds, a size limit.

The scheduling cycle is serial and waits for its extenders; the driver runs it in a thread for that
reason, so calls are plain blocking sockets: no event loop and no hand-over between threads stands
between the cycle and the answer. `begin` sends a request and returns at once; what it returns waits
for the answer. So requests to several extenders are under way together (prioritize).

The deadline covers connecting, sending and the last byte of the answer: the time left is set on the
socket before every step, so an extender that drips one byte a second is cut off in time.

What it does not do: understand messages, or decide what a failure means (`client` does); proxies.
"""

import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httptools
import msgspec

from bayplan import packed, private
from bayplan.config.types import Extender, ExtenderTLSConfig
from bayplan.errors import ConfigError
from bayplan.extender.pairs import HEADER_LOW
from bayplan.framework.contract.extender import ExtenderError
from bayplan.trust import trusting

MAX_ANSWER = 256 * 1024 * 1024
CHUNK = 1 << 18
IDLE_PER_PLACE = 16
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Call(msgspec.Struct, frozen=True):
    """One request to be made; only one that may be made twice is repeated on a new connection."""

    url: str
    verb: str
    body: bytes
    timeout: float
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    repeatable: bool = True
    headers: str = ""
    """More header lines, each ended."""
    heard: Callable[[bytes], None] | None = None
    """Told the value of `Bayplan-Pair` in the answer, empty when it is not there."""


class RefusedError(ExtenderError):
    """The extender answered, but not with 200."""


def ssl_context(extender: Extender) -> ssl.SSLContext:
    """The TLS settings of one extender.

    As upstream does, `enableHTTPS` without a CA means that the certificate is not verified.
    """
    tls = extender.tls_config or ExtenderTLSConfig()
    has_ca = bool(tls.ca_data or tls.ca_file)
    try:
        context = trusting(
            file=None if tls.ca_data or not tls.ca_file else tls.ca_file,
            text=tls.ca_data.decode("ascii") if tls.ca_data else None,
        )
        if tls.insecure or (extender.enable_https and not has_ca):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        _load_client_certificate(context, tls)
    except (OSError, ssl.SSLError, UnicodeDecodeError) as cause:
        raise ConfigError(f'tlsConfig of extender "{extender.url_prefix}": {cause}') from cause
    return context


def _load_client_certificate(context: ssl.SSLContext, tls: ExtenderTLSConfig) -> None:
    if not (tls.cert_data or tls.cert_file):
        return
    with tempfile.TemporaryDirectory() as folder:
        cert, key = tls.cert_file, tls.key_file
        # OpenSSL reads client certificates from files only
        if tls.cert_data:
            cert = f"{folder}/tls.crt"
            Path(cert).write_bytes(tls.cert_data)
        if tls.key_data:
            key = f"{folder}/tls.key"
            private.write(Path(key), tls.key_data)
        context.load_cert_chain(cert, key or None)


class _Answer:
    """Takes what the parser finds."""

    def __init__(self, limit: int) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.parts: list[bytes] = []
        self.gzip = self.complete = self.measured = self.leaves_open = False
        self.pair = b""
        self._left = limit

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"content-encoding":
            self.gzip = value.lower() == b"gzip"
        elif name == HEADER_LOW:
            self.pair = value
        elif name in (b"content-length", b"transfer-encoding"):
            self.measured = True

    def on_body(self, part: bytes) -> None:
        self._left -= len(part)
        if self._left < 0:
            raise OverflowError
        self.parts.append(part)

    def on_message_complete(self) -> None:
        self.complete = True
        self.leaves_open = self.parser.should_keep_alive()  # afterwards it always says no

    @property
    def status(self) -> int:
        return int(self.parser.get_status_code())


class _Connection:
    """One socket to one place."""

    def __init__(self, call: Call, host: str, port: int, deadline: float) -> None:
        self.fresh = True
        plain = socket.create_connection((host, port), timeout=_left(deadline))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket: socket.socket = plain
        if call.tls is not None:
            try:
                self.socket = call.tls.wrap_socket(plain, server_hostname=call.server_name or host)
            except (OSError, ssl.SSLError):
                plain.close()
                raise

    def send(self, data: bytes, deadline: float) -> None:
        self.socket.settimeout(_left(deadline))
        self.socket.sendall(data)

    def receive(self, limit: int, deadline: float) -> _Answer:
        """Read one answer to its end."""
        answer = _Answer(limit)
        while not answer.complete:
            self.socket.settimeout(_left(deadline))
            data = self.socket.recv(CHUNK)
            if not data:
                if not self._ends_by_closing(answer):
                    raise ConnectionError("the connection was closed before the answer's end")
                break
            answer.parser.feed_data(data)
            self.fresh = True  # an answer has begun: a failure from here on is its own
        return answer

    @staticmethod
    def _ends_by_closing(answer: _Answer) -> bool:
        """Whether the answer told no length, as old or simple servers do: it ends here."""
        return answer.status != 0 and not answer.measured

    def close(self) -> None:
        self.socket.close()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class Caller:
    """Makes calls from any thread over kept-alive connections."""

    def __init__(self, max_answer: int = MAX_ANSWER) -> None:
        self._max_answer = max_answer
        self._idle: dict[tuple[str, int, int], list[_Connection]] = {}
        self._lock = threading.Lock()

    def begin(self, call: Call) -> Callable[[], bytes]:
        """Send a call now; the function returned waits for its answer or raises ExtenderError."""
        deadline = time.monotonic() + call.timeout
        try:
            connection = self._send(call, deadline)
        except (OSError, ValueError) as cause:
            problem = _explain(call, cause)

            def fail() -> bytes:
                raise problem

            return fail
        return lambda: self._wait(call, connection, deadline)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.close()

    def _send(self, call: Call, deadline: float, *, anew: bool = False) -> _Connection:
        host, port, request = _request(call)
        key = (host, port, id(call.tls))
        while True:
            connection = None if anew else self._take(key)
            if connection is None:
                connection = _Connection(call, host, port, deadline)
            try:
                connection.send(request, deadline)
            except TimeoutError:
                connection.close()
                raise
            except OSError:
                connection.close()
                if connection.fresh:
                    raise
                continue  # an idle connection that the other side had closed
            return connection

    def _wait(self, call: Call, connection: _Connection, deadline: float) -> bytes:
        try:
            try:
                answer = connection.receive(self._max_answer, deadline)
            except ConnectionError:
                if connection.fresh or not call.repeatable:
                    raise
                connection.close()
                connection = self._send(call, deadline, anew=True)
                answer = connection.receive(self._max_answer, deadline)
            body = self._body(call, answer)
        except ExtenderError:
            connection.close()
            raise
        except (OSError, ValueError, httptools.HttpParserError, packed.PackedError) as cause:
            connection.close()
            raise _explain(call, cause, self._max_answer) from cause
        self._give_back(call, connection, answer)
        return body

    @staticmethod
    def _body(call: Call, answer: _Answer) -> bytes:
        if call.heard is not None:
            call.heard(answer.pair)
        if answer.status != 200:
            raise RefusedError(
                f"failed {call.verb} with extender at URL {call.url}, code {answer.status}"
            )
        body = b"".join(answer.parts)
        return packed.unpack(body, MAX_ANSWER) if answer.gzip else body

    def _take(self, key: tuple[str, int, int]) -> _Connection | None:
        with self._lock:
            idle = self._idle.get(key)
            if not idle:
                return None
            connection = idle.pop()
        connection.fresh = False
        return connection

    def _give_back(self, call: Call, connection: _Connection, answer: _Answer) -> None:
        host, port, _ = _place(call)
        if not answer.leaves_open:
            connection.close()
            return
        with self._lock:
            idle = self._idle.setdefault((host, port, id(call.tls)), [])
            if len(idle) < IDLE_PER_PLACE:
                idle.append(connection)
                return
        connection.close()


def _place(call: Call) -> tuple[str, int, str]:
    url = urlsplit(call.url)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError(f'"{call.url}" is not an HTTP address')
    port = url.port or (443 if call.tls is not None else 80)
    return url.hostname, port, url.path + (f"?{url.query}" if url.query else "")


def _request(call: Call) -> tuple[str, int, bytes]:
    host, port, path = _place(call)
    shown = f"[{host}]" if ":" in host else host
    packed = "" if host in LOOPBACK else "Accept-Encoding: gzip\r\n"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {shown}:{port}\r\nContent-Type: application/json\r\n"
        f"{call.headers}{packed}Content-Length: {len(call.body)}\r\n\r\n"
    )
    return host, port, head.encode("latin-1") + call.body


def _explain(call: Call, cause: Exception, limit: int = MAX_ANSWER) -> ExtenderError:
    if isinstance(cause, TimeoutError):
        what = f"no whole answer within {call.timeout:g}s"
    elif isinstance(cause.__context__, OverflowError):
        what = f"the answer is larger than {limit} bytes"
    else:
        what = str(cause) or type(cause).__name__
    return ExtenderError(f"failed {call.verb} with extender at URL {call.url}: {what}")

"""Carries extender calls: kept-alive connections, TLS, gzip, a deadline that holds, a size limit.

The scheduling cycle is serial and waits for its extenders; the driver runs it in a thread for that
reason, so calls are plain blocking sockets: no event loop and no hand-over between threads stands
between the cycle and the answer. `begin` sends a request and returns at once; what it returns waits
for the answer, or looks whether it has come. So requests to several extenders (prioritize) and
about several pods are under way together, each on a connection of its own.

The deadline covers connecting, sending and the last byte of the answer: the time left is looked at
before every step, so an extender that drips one byte a second is cut off in time.

A kept connection that has ended meanwhile, or whose other side has vanished, is not used again:
a call that must not be made twice would fail on it.

What it does not do: understand messages, or decide what a failure means (`client` does); proxies.
"""

import contextlib
import itertools
import select
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

import httptools
import msgspec

from bayplan import packed, private, vanished
from bayplan.config.types import Extender, ExtenderTLSConfig
from bayplan.errors import ConfigError
from bayplan.framework.contract.extender import ExtenderError
from bayplan.trust import trusting

MAX_ANSWER = 256 * 1024 * 1024
CHUNK = 1 << 18
IDLE_PER_PLACE = 16
OURS = b"bayplan-"
LATE = 1.01
"""How much longer than the time left a step may take."""
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
    heard: Callable[[Mapping[bytes, bytes]], None] | None = None
    """Told the headers of the answer that begin with `Bayplan-`, in lower case."""


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
        self.said: dict[bytes, bytes] = {}
        """What only Bayplan's own say, by header."""
        self._left = limit

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"content-encoding":
            self.gzip = value.lower() == b"gzip"
        elif name in (b"content-length", b"transfer-encoding"):
            self.measured = True
        elif name.startswith(OURS):
            self.said[name] = value

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
        self._answer: _Answer | None = None
        """What has come of the answer that is awaited."""
        self._patience = _left(deadline)
        """What the socket's timeout is."""
        plain = socket.create_connection((host, port), timeout=self._patience)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        vanished.notice(plain)
        self.socket: socket.socket = plain
        if call.tls is not None:
            try:
                self.socket = call.tls.wrap_socket(plain, server_hostname=call.server_name or host)
            except (OSError, ssl.SSLError):
                plain.close()
                raise

    def send(self, data: bytes, deadline: float) -> None:
        self._wait_until(deadline)
        self.socket.sendall(data)

    def _wait_until(self, deadline: float) -> None:
        """Let the socket wait so long, or LATE longer.

        A change costs a system call, and the interpreter's lock, which a busy loop then has.
        """
        left = _left(deadline)
        if not left <= self._patience <= left * LATE:
            self.socket.settimeout(left)
            self._patience = left

    def receive(self, limit: int, deadline: float) -> _Answer:
        """Read one answer to its end."""
        answer = self._answer = self._answer or _Answer(limit)
        while not answer.complete:
            self._wait_until(deadline)
            if self._read(answer):
                break
        self._answer = None
        return answer

    def arrived(self, limit: int) -> bool:
        """Take in what has come, without waiting; whether the answer is there."""
        answer = self._answer = self._answer or _Answer(limit)
        if self._patience:
            self.socket.settimeout(0.0)
            self._patience = 0.0
        try:
            while not answer.complete:
                if self._read(answer):
                    return True
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        return True

    def _read(self, answer: _Answer) -> bool:
        """Feed what there is to the parser; whether the other side has ended."""
        data = self.socket.recv(CHUNK)
        if not data:
            if not self._ends_by_closing(answer):
                raise ConnectionError("the connection was closed before the answer's end")
            answer.complete = True
            return True
        answer.parser.feed_data(data)
        self.fresh = True  # an answer has begun: a failure from here on is its own
        return False

    @staticmethod
    def _ends_by_closing(answer: _Answer) -> bool:
        """Whether the answer told no length, as old or simple servers do: it ends here."""
        return answer.status != 0 and not answer.measured

    def ended(self) -> bool:
        """Say whether one that is idle can carry no call: then its end waits to be read."""
        looking = select.poll()
        looking.register(self.socket, select.POLLIN)
        return bool(looking.poll(0))

    def close(self) -> None:
        self.socket.close()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class Pending:
    """A call under way: either wait for its answer, once, or drop it."""

    def __init__(
        self, caller: "Caller", call: Call, deadline: float, sent: "_Connection | Exception"
    ) -> None:
        self._caller = caller
        self._call = call
        self._deadline = deadline
        self._connection = sent if isinstance(sent, _Connection) else None
        self._problem = sent if isinstance(sent, Exception) else None

    def ready(self) -> bool:
        """Whether waiting would end at once, be it with an answer or an error; never blocks."""
        if self._problem is not None or self._connection is None:
            return True
        try:
            arrived = self._connection.arrived(self._caller.max_answer)
        except (OSError, ValueError, httptools.HttpParserError) as problem:
            self._problem = problem
            return True
        return arrived or time.monotonic() >= self._deadline

    def __call__(self) -> bytes:
        """The answer; raises ExtenderError."""
        call, caller, connection = self._call, self._caller, self._connection
        self._connection = None
        if connection is None:
            assert self._problem is not None, "an answer is taken once"
            raise _explain(call, self._problem) from self._problem
        try:
            try:
                answer = self._receive(connection)
            except ConnectionError:
                if connection.fresh or not call.repeatable:
                    raise
                caller.give_up(connection)
                connection = caller.send(call, self._deadline, anew=True)
                answer = connection.receive(caller.max_answer, self._deadline)
            body = _body(call, answer)
        except ExtenderError:
            caller.give_up(connection)
            raise
        except (OSError, ValueError, httptools.HttpParserError, packed.PackedError) as cause:
            caller.give_up(connection)
            raise _explain(call, cause, caller.max_answer) from cause
        caller.give_back(call, connection, answer)
        return body

    def _receive(self, connection: _Connection) -> _Answer:
        if self._problem is not None:
            raise self._problem
        return connection.receive(self._caller.max_answer, self._deadline)

    def drop(self) -> None:
        """Nobody wants the answer: one that is there leaves its connection free."""
        connection = self._connection
        if connection is None:
            return
        if self.ready() and self._problem is None and time.monotonic() < self._deadline:
            with contextlib.suppress(ExtenderError):
                self()
        else:
            self._connection = None
            self._caller.give_up(connection)


class Caller:
    """Makes calls from any thread over kept-alive connections."""

    def __init__(self, max_answer: int = MAX_ANSWER) -> None:
        self.max_answer = max_answer
        self._idle: dict[tuple[str, int, int], list[_Connection]] = {}
        self._busy: set[_Connection] = set()
        self._lock = threading.Lock()

    def begin(self, call: Call) -> Pending:
        """Send a call now; what is returned waits for its answer."""
        deadline = time.monotonic() + call.timeout
        try:
            return Pending(self, call, deadline, self.send(call, deadline))
        except (OSError, ValueError) as cause:
            return Pending(self, call, deadline, cause)

    def close(self) -> None:
        """Close all connections; a call that waits for its answer fails."""
        with self._lock:
            idle, self._idle = self._idle, {}
            busy, self._busy = self._busy, set()
        for connection in (*busy, *itertools.chain(*idle.values())):
            connection.close()

    def give_up(self, connection: _Connection) -> None:
        """Close a connection that cannot be used again."""
        with self._lock:
            self._busy.discard(connection)
        connection.close()

    def send(self, call: Call, deadline: float, *, anew: bool = False) -> _Connection:
        """Send a request over a connection that is free, or a new one."""
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
                continue  # the other side has just closed it
            with self._lock:
                self._busy.add(connection)
            return connection

    def _take(self, key: tuple[str, int, int]) -> _Connection | None:
        while True:
            with self._lock:
                idle = self._idle.get(key)
                if not idle:
                    return None
                connection = idle.pop()
            if not connection.ended():
                connection.fresh = False
                return connection
            connection.close()

    def give_back(self, call: Call, connection: _Connection, answer: _Answer) -> None:
        """Keep a connection for the next call, unless the other side closes it."""
        host, port, _ = _place(call.url, secure=call.tls is not None)
        if not answer.leaves_open:
            self.give_up(connection)
            return
        with self._lock:
            self._busy.discard(connection)
            idle = self._idle.setdefault((host, port, id(call.tls)), [])
            if len(idle) < IDLE_PER_PLACE:
                idle.append(connection)
                return
        connection.close()


def _body(call: Call, answer: _Answer) -> bytes:
    if call.heard is not None:
        call.heard(answer.said)
    if answer.status != 200:
        raise RefusedError(
            f"failed {call.verb} with extender at URL {call.url}, code {answer.status}"
        )
    body = b"".join(answer.parts)
    return packed.unpack(body, MAX_ANSWER) if answer.gzip else body


@lru_cache(maxsize=64)
def _place(text: str, *, secure: bool) -> tuple[str, int, str]:
    url = urlsplit(text)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError(f'"{text}" is not an HTTP address')
    port = url.port or (443 if secure else 80)
    return url.hostname, port, url.path + (f"?{url.query}" if url.query else "")


def _request(call: Call) -> tuple[str, int, bytes]:
    host, port, path = _place(call.url, secure=call.tls is not None)
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

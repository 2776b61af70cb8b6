"""Carries extender calls: kept-alive connections, TLS, gzip, a deadline that holds, a size limit.

The scheduling cycle is serial and waits for its extenders, while the process around it (watches,
bindings, the leader's lease) must go on. So calls run on an event loop in a thread of their own and
the cycle blocks on the result; calls that were begun together (prioritize) share the wait.
The deadline covers connecting, sending and the last byte of the answer: an extender that drips one
byte a second is cut off in time.

What it does not do: understand messages, or decide what a failure means (`client` does).
"""

import asyncio
import ssl
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import aiohttp
import msgspec

from bayplan.config.types import Extender, ExtenderTLSConfig
from bayplan.errors import ConfigError
from bayplan.framework.extender import ExtenderError

MAX_ANSWER = 256 * 1024 * 1024
CONNECTIONS = 16


class Call(msgspec.Struct, frozen=True):
    """One request to be made."""

    url: str
    verb: str
    body: bytes
    timeout: float
    tls: ssl.SSLContext | None = None
    server_name: str = ""


def ssl_context(extender: Extender) -> ssl.SSLContext:
    """The TLS settings of one extender.

    As upstream does, `enableHTTPS` without a CA means that the certificate is not verified.
    """
    tls = extender.tls_config or ExtenderTLSConfig()
    has_ca = bool(tls.ca_data or tls.ca_file)
    try:
        context = ssl.create_default_context(
            cafile=None if tls.ca_data or not tls.ca_file else tls.ca_file,
            cadata=tls.ca_data.decode("ascii") if tls.ca_data else None,
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
            Path(key).touch(mode=0o600)
            Path(key).write_bytes(tls.key_data)
        context.load_cert_chain(cert, key or None)


class Caller:
    """Makes calls from any thread on a loop of its own."""

    def __init__(self, max_answer: int = MAX_ANSWER) -> None:
        self._max_answer = max_answer
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: aiohttp.ClientSession | None = None
        self._lock = threading.Lock()

    def begin(self, call: Call) -> Callable[[], bytes]:
        """Send a call now; the function returned waits for its answer or raises ExtenderError."""
        loop = self._running_loop()
        return asyncio.run_coroutine_threadsafe(self._one(call), loop).result

    def close(self) -> None:
        """Close connections and end the thread."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is None:
            return
        if self._session is not None:
            asyncio.run_coroutine_threadsafe(self._session.close(), loop).result()
            self._session = None
        loop.call_soon_threadsafe(loop.stop)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run, args=(loop,), name="extenders", daemon=True).start()
            return self._loop

    def _connections(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit_per_host=CONNECTIONS, keepalive_timeout=60)
            self._session = aiohttp.ClientSession(
                connector=connector, headers={"Content-Type": "application/json"}
            )
        return self._session

    async def _one(self, call: Call) -> bytes:
        try:
            async with asyncio.timeout(call.timeout):
                return await self._post(self._connections(), call)
        except TimeoutError:
            raise ExtenderError(
                f"failed {call.verb} with extender at URL {call.url}: "
                f"no whole answer within {call.timeout:g}s"
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as cause:
            raise ExtenderError(
                f"failed {call.verb} with extender at URL {call.url}: {cause}"
            ) from cause

    async def _post(self, session: aiohttp.ClientSession, call: Call) -> bytes:
        async with session.post(
            call.url,
            data=call.body,
            ssl=call.tls or True,
            server_hostname=call.server_name or None,
            allow_redirects=False,
        ) as answer:
            if answer.status != 200:
                raise ExtenderError(
                    f"failed {call.verb} with extender at URL {call.url}, code {answer.status}"
                )
            parts: list[bytes] = []
            size = 0
            async for part in answer.content.iter_any():
                size += len(part)
                if size > self._max_answer:
                    raise ExtenderError(
                        f"failed {call.verb} with extender at URL {call.url}: "
                        f"the answer is larger than {self._max_answer} bytes"
                    )
                parts.append(part)
            return b"".join(parts)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()

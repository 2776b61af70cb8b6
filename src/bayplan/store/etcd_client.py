"""Speaks HTTP with etcd's JSON gateway: one request at a time to one of several endpoints.

A connection that was refused is tried again, at the next endpoint, until a deadline. A request
that broke off later is only repeated when that cannot do harm (`safe=True`): for a write nobody
knows whether it happened, and the caller must hear that.
"""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import TypeVar

import aiohttp
import msgspec

from bayplan.errors import ConfigError, reason
from bayplan.store.errors import Full, StoreError, TooLarge, Unavailable
from bayplan.store.etcd_wire import ErrorAnswer, Json, WatchAnswer, WatchResult
from bayplan.trust import trusting

T = TypeVar("T")
FIRST_PAUSE = 0.05
LAST_PAUSE = 1.0
LARGE = 1 << 20
# etcd answers these while it has no leader; the request may or may not have been taken.
_TRANSIENT = ("no leader", "leader changed", "timed out", "unavailable", "connection", "stopped")


def tls_context(
    authority: Path | None, certificate: Path | None, key: Path | None
) -> ssl.SSLContext | None:
    """Return how to trust etcd and to show it a certificate, None when no file is named."""
    if (certificate is None) != (key is None):
        raise ConfigError("--etcd-certfile and --etcd-keyfile must be given together")
    if authority is None and certificate is None:
        return None
    try:
        context = trusting(file=authority)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        names = ", ".join(str(path) for path in (authority, certificate, key) if path)
        raise ConfigError(
            f"reading etcd's certificates ({names}): {error}; they must be PEM files"
        ) from error
    return context


def _abort(response: aiohttp.ClientResponse) -> None:
    """End a stream's connection at once: over TLS a farewell would outlive the loop."""
    transport = response.connection.transport if response.connection is not None else None
    if transport is not None:
        transport.abort()


LOOK = "is it running? --etcd-servers says where"
NO_ETCD = "does not answer as etcd; check --etcd-servers"


class Refused(StoreError):
    """etcd understood and said no; the text is its own."""


class EtcdClient:
    """A session with an etcd cluster.

    `deadline` is how long a request is tried, `silence` how long a watch may say nothing, both in
    seconds.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        tls: ssl.SSLContext | None = None,
        deadline: float = 5.0,
        silence: float = 75.0,
    ) -> None:
        if not endpoints:
            raise StoreError("opening etcd: no endpoint given")
        self._endpoints = [endpoint.rstrip("/") for endpoint in endpoints]
        self._at = 0
        self._deadline = deadline
        self._watch_timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=deadline, sock_read=silence
        )
        self._encode = msgspec.json.Encoder().encode
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=64, ssl=tls if tls is not None else True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=deadline),
            read_bufsize=1 << 20,
        )

    async def call(self, path: str, body: Json, answer: type[T], *, safe: bool) -> T:
        """Post a request and decode its answer. Raises `Unavailable` and `Refused`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._deadline
        pause = FIRST_PAUSE
        while True:
            try:
                said = await self._post(path, body)
                return msgspec.json.decode(said, type=answer, strict=False)
            except (msgspec.DecodeError, UnicodeDecodeError, aiohttp.ClientResponseError) as error:
                raise Refused(f"{self._endpoint()} {NO_ETCD}") from error
            except aiohttp.ClientConnectorError as error:
                problem: Exception = error  # nothing was sent
            except (aiohttp.ClientError, OSError, TimeoutError, Unavailable) as error:
                if not safe:
                    raise Unavailable(f"writing to etcd: outcome unknown: {error}") from error
                problem = error
            self._at += 1
            if loop.time() + pause > until:
                raise Unavailable(self._silence(problem)) from problem
            await asyncio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE)

    def _silence(self, problem: Exception) -> str:
        """Why no etcd answers, and what to look at."""
        if not isinstance(problem, aiohttp.ClientConnectorError):
            return f"calling etcd at {self._endpoint()}: {problem}; {LOOK}"
        where = ", ".join(self._endpoints)
        why = reason(problem.os_error)
        return f"calling etcd at {where}: {why}; {LOOK}"

    async def watch(self, body: Json) -> AsyncGenerator[WatchResult, None]:
        """Open one watch stream and yield what it says until it breaks."""
        decoder = msgspec.json.Decoder(WatchAnswer, strict=False)
        try:
            async with self._session.post(
                self._endpoint() + "/v3/watch",
                data=self._encode({"createRequest": body}),
                timeout=self._watch_timeout,
            ) as response:
                rest = b""
                try:
                    async for chunk in response.content.iter_any():
                        *lines, rest = (
                            (rest + chunk).split(b"\n") if b"\n" in chunk else (rest + chunk,)
                        )
                        for line in lines:
                            answer = decoder.decode(line)
                            if answer.result is None:
                                raise Unavailable(f"watching etcd: {answer.error}")
                            yield answer.result
                finally:
                    _abort(response)
        except (aiohttp.ClientError, OSError) as error:
            self._at += 1
            raise Unavailable(f"watching etcd: {error}") from error

    async def close(self) -> None:
        if self._session.connector is not None:  # over TLS a farewell would outlive the loop
            await self._session.connector.close(abort_ssl=True)
        await self._session.close()

    def _endpoint(self) -> str:
        return self._endpoints[self._at % len(self._endpoints)]

    async def _post(self, path: str, body: Json) -> bytes:
        url = self._endpoint() + path
        async with asyncio.timeout(self._deadline * 2):
            data: bytes = self._encode(body)
            # aiohttp sends large bytes in one piece and warns; a file it sends in parts.
            payload = data if len(data) < LARGE else io.BytesIO(data)
            async with self._session.post(url, data=payload) as response:
                data = await response.read()
        if response.status == 200:
            return data
        text = _message(data) or f"HTTP {response.status}"
        if response.status == 404 and not data.startswith(b"{"):  # etcd says so of leases, in JSON
            raise Refused(f"{self._endpoint()} {NO_ETCD}")
        if "database space exceeded" in text:
            raise Full(f"etcd answered: {text}")
        if "too large" in text or "larger than max" in text:
            raise TooLarge(f"etcd answered: {text}")
        if response.status >= 500 or any(word in text for word in _TRANSIENT):
            raise Unavailable(f"etcd answered: {text}")
        refused = Refused(f"etcd answered: {text}")
        if response.status in (401, 403):
            refused.remedy = "check the certificates that the --etcd-… flags name"
        raise refused


def _message(data: bytes) -> str:
    try:
        answer = msgspec.json.decode(data, type=ErrorAnswer, strict=False)
    except msgspec.DecodeError:
        return data[:200].decode(errors="replace")
    return answer.message or str(answer.error)

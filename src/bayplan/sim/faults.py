"""Faults on the way between a simulated scheduler and its API server, by a seeded coin.

`rate` of the requests fail: refused, answered with an error, or carried out although the answer is
lost. `delay` is added to every request. Both can be changed while the scenario runs.
"""

import asyncio
import json
import random
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from bayplan.client import Response, StreamResponse, Transport, TransportError

CODES = (409, 429, 500, 503)


class FaultyTransport:
    """Passes requests on, except when it does not."""

    def __init__(self, inner: Transport, rng: random.Random) -> None:
        self._inner = inner
        self._rng = rng
        self.rate = 0.0
        self.delay = 0.0

    async def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float | None,
    ) -> Response:
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.rate and self._rng.random() < self.rate:
            return await self._fail(method, target, headers, body, timeout)
        return await self._inner.request(method, target, headers, body, timeout)

    async def _fail(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float | None,
    ) -> Response:
        fault = self._rng.randrange(3)
        if fault == 0:
            raise TransportError("simulated: connection refused")
        if fault == 1:
            await self._inner.request(method, target, headers, body, timeout)
            raise TransportError("simulated: the answer was lost")
        code = self._rng.choice(CODES)
        status = {"kind": "Status", "code": code, "message": "simulated fault"}
        return Response(code, {}, json.dumps(status).encode())

    def stream(
        self, method: str, target: str, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[StreamResponse]:
        return self._inner.stream(method, target, headers)

    async def refresh_credentials(self) -> bool:
        return False

    async def close(self) -> None:
        await self._inner.close()

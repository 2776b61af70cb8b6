"""What can be broken in a scenario, and the transport between a scheduler and its API server that
does so by a seeded coin.

`rate` of the requests fail: refused, answered with an error, or carried out although the answer is
lost. `delay` is added to every request. Both can be changed while the scenario runs.
"""

import asyncio
import json
import random
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import NoReturn, Protocol

from bayplan.client import Response, StreamResponse, Transport, TransportError
from bayplan.sim.errors import ScenarioError

CODES = (409, 429, 500, 503)
GRACE = 40.0  # after which a silent node counts as lost


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


class Faults(Protocol):
    """What a scenario can break."""

    async def lose_node(self, name: str, *, after: float = GRACE) -> None:
        """A node's kubelet falls silent; `after` seconds later the node counts as lost."""

    async def bring_back(self, name: str) -> None:
        """A lost node's kubelet speaks again."""

    def api_errors(self, rate: float) -> None:
        """From now on that share of the scheduler's requests fails; 0 ends it."""

    def slow_api(self, delay: float) -> None:
        """From now on every request of the scheduler takes that long; 0 ends it."""

    def slow_extender(self, delay: float, name: str = "") -> None:
        """From now on extenders (or the named one) take that long to answer; 0 ends it."""

    async def restart_scheduler(self, down: float = 0.0) -> None:
        """End the scheduler without warning and start it again `down` seconds later."""

    async def lose_lease(self, duration: float = 15.0) -> None:
        """Somebody else holds the scheduler's lease for that long; needs `elect`."""


class NoFaults:
    """On a real cluster nothing is broken on purpose."""

    def __getattr__(self, name: str) -> NoReturn:
        raise ScenarioError(
            f'fault "{name}" needs a simulated cluster; run the scenario without --against'
        )

"""client-go's rate limit: a bucket of `burst` tokens, refilled with `qps` a second.

Callers are served in the order in which they came, but for those that said they may stand behind
others: of these one has its turn after every SHARE of the others, as long as there are others, so
none waits for ever. An idle bucket costs one subtraction. The clock is that of the running event
loop, hence virtual on a virtual-time loop. `qps <= 0` means no limit.
"""

from __future__ import annotations

import asyncio
from collections import deque

SHARE = 4
ALMOST = 1e-9  # what a clock's rounding may leave of a token


class RateLimiter:
    """Delays callers so that no more than `burst + qps * t` pass in any `t` seconds."""

    def __init__(self, qps: float, burst: int) -> None:
        self.qps = qps
        self.burst = max(burst, 1)
        self._tokens = float(self.burst)
        self._at: float | None = None
        self._first: deque[asyncio.Future[None]] = deque()
        self._behind: deque[asyncio.Future[None]] = deque()
        self._passed = 0  # of those that stand in front, since one that stands behind had its turn
        self._armed = False

    async def acquire(self, *, behind: bool = False) -> None:
        """Return when the caller may send its request; `behind`: others may go first."""
        if self.qps <= 0:
            return
        self._refill()
        if self._tokens >= 1.0 - ALMOST and not self._first and not self._behind:
            self._tokens -= 1.0
            return
        queue = self._behind if behind else self._first
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self._arm()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # its turn had come and is another's now
                self._tokens += 1.0
                self._give()
            elif turn in queue:
                queue.remove(turn)
            raise

    def _refill(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._at is not None:
            self._tokens = min(self.burst, self._tokens + (now - self._at) * self.qps)
        self._at = now

    def _arm(self) -> None:
        if self._armed or not (self._first or self._behind):
            return
        self._armed = True
        delay = max(1.0 - self._tokens, 0.0) / self.qps
        asyncio.get_running_loop().call_later(delay, self._due)

    def _due(self) -> None:
        self._armed = False
        self._refill()
        self._give()

    def _give(self) -> None:
        while self._tokens >= 1.0 - ALMOST and (self._first or self._behind):
            turn = self._next()
            if not turn.done():
                self._tokens -= 1.0
                turn.set_result(None)
        self._arm()

    def _next(self) -> asyncio.Future[None]:
        if self._first and (self._passed < SHARE or not self._behind):
            self._passed += 1
            return self._first.popleft()
        self._passed = 0
        return self._behind.popleft()

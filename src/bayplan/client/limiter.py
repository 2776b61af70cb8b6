"""client-go's rate limit: a bucket of `burst` tokens, refilled with `qps` a second.

Callers are served in the order in which they came: each reserves its token at once and sleeps until
it is due, so no waiter can overtake another and an idle bucket costs one subtraction. The clock is
that of the running event loop, hence virtual on a virtual-time loop. `qps <= 0` means no limit.
"""

from __future__ import annotations

import asyncio


class RateLimiter:
    """Delays callers so that no more than `burst + qps * t` pass in any `t` seconds."""

    def __init__(self, qps: float, burst: int) -> None:
        self.qps = qps
        self.burst = max(burst, 1)
        self._tokens = float(self.burst)
        self._at: float | None = None

    async def acquire(self) -> None:
        """Return when the caller may send its request."""
        if self.qps <= 0:
            return
        now = asyncio.get_running_loop().time()
        if self._at is not None:
            self._tokens = min(self.burst, self._tokens + (now - self._at) * self.qps)
        self._at = now
        self._tokens -= 1.0
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / self.qps)

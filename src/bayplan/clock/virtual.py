"""An event loop whose clock moves only when nothing else is left to do.

`asyncio.sleep(3600)` returns at once, and everything that happens "meanwhile" happens first, in
order. Code that takes its time from the loop (`loop.time()`, `asyncio.sleep`, `asyncio.timeout`)
runs unchanged. Sockets and threads work, but the clock does not wait for them: keep them out of
runs that must be deterministic (`client.AsgiTransport` needs neither).

The clock takes exactly the times that timers were set for, so that equal sums of delays are equal
moments. `call_idle` runs something when all else of a moment is done, before the clock moves: what
it sees does not depend on how many turns of the loop others needed.

    run_virtual(main())            # like asyncio.run
"""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar

T = TypeVar("T")

_LOOK = 64
"""Sockets are asked for once in so many turns although there is work, so that none starves."""
_MANY = 100
"""So many cancelled timers are left where they are."""
_DAY = 86400.0
"""A loop never sleeps longer at once."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop on virtual time; it begins at 0.

    Its turn is its own: timers lie in the heap as tuples, equal times in the order in which they
    were set, and the system is asked only if somebody may have written to the loop. In a long
    simulation that is half of what asyncio's turn costs.
    """

    virtual = True
    """Tells it from loops on real time without loading this module."""

    def __init__(self) -> None:
        self._now = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._set = self._cancelled = 0
        """How many timers have been set, and how many of those that wait are cancelled."""
        self._idle: deque[Callable[[], None]] = deque()
        self._last: deque[Callable[[], None]] = deque()
        self._turns = 0
        self.knocked = False
        """Whether a thread or a signal may have written to the loop's own pipe."""
        self._met = 0
        """How often a socket was given to the loop, its own pipe included."""
        self._ready: deque[asyncio.Handle]  # asyncio's own, as are the next ones
        self._closed: bool
        self._debug: bool
        self._stopping: bool
        self._selector: selectors.BaseSelector
        super().__init__()

    def time(self) -> float:
        return self._now

    def _write_to_self(self) -> None:
        self.knocked = True
        super()._write_to_self()  # type: ignore[misc]

    def _add_reader(self, *given: Any) -> asyncio.Handle:
        self._met += 1
        return super()._add_reader(*given)  # type: ignore[misc,no-any-return]

    def _add_writer(self, *given: Any) -> asyncio.Handle:
        self._met += 1
        return super()._add_writer(*given)  # type: ignore[misc,no-any-return]

    # -- callbacks

    def call_soon(  # type: ignore[override]  # as `call_at`
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if self._debug:
            return super().call_soon(callback, *args, context=context)
        if self._closed:
            self._check_closed()  # type: ignore[attr-defined]
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]  # asyncio ties arguments to the callback's
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if self._closed:
            self._check_closed()  # type: ignore[attr-defined]
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._set += 1
        heappush(self._timers, (when, self._set, timer))
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if handle._scheduled:  # type: ignore[attr-defined]
            self._cancelled += 1
            if self._cancelled > max(_MANY, len(self._timers) // 2):
                # The one that is being cancelled does not say so yet; it stays for once.
                self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
                heapify(self._timers)
                self._cancelled = 1

    def _due(self) -> None:
        """Let the timers that ring now be called."""
        timers, end = self._timers, self._now + self._clock_resolution  # type: ignore[attr-defined]
        while timers and timers[0][0] < end:
            self._ready.append(self._next_timer())

    def _next_timer(self) -> asyncio.TimerHandle:
        timer = heappop(self._timers)[2]
        timer._scheduled = False  # type: ignore[attr-defined]
        self._cancelled -= timer.cancelled()
        return timer

    # -- turns

    def _run_once(self) -> None:
        """One turn, instead of asyncio's."""
        ready = self._ready
        self._turns += 1
        if not ready and not self._stopping:
            self._wait()
        elif self._turns % _LOOK == 0:
            self._ask(0)
        timers = self._timers
        if timers and timers[0][0] < self._now + self._clock_resolution:  # type: ignore[attr-defined]
            self._due()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
        handle = None  # type: ignore[assignment]  # an exception would hold it, and it that

    def _wait(self) -> None:
        """Nothing is left to do: hear who knocked, go on with an idle callback, or pass time."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            self._next_timer()
        outside = self.knocked or self._turns % _LOOK == 0 or not timers
        # Beside its own pipe, most loops never have a socket.
        if outside or (self._met > 1 and len(self._selector.get_map()) > 1):
            self.knocked = False
            if self._ask(0):
                return
        if self.run_idle():
            return
        if not timers:
            self._ask(None)  # only a thread or a signal can wake the loop
            return
        self.pass_time(min(max(0.0, timers[0][0] - self._now), _DAY))

    def _ask(self, timeout: float | None) -> bool:
        """Ask the system who wrote; whether anybody did."""
        found = self._selector.select(timeout)
        self._process_events(found)  # type: ignore[attr-defined]
        return bool(found)

    def call_idle(self, callback: Callable[[], None], *, last: bool = False) -> None:
        """Call once, when nothing else is left to do at this moment.

        Several are called in order, each when all that follows from the one before is done; those
        that want to be `last` after all others.
        """
        (self._last if last else self._idle).append(callback)

    def run_idle(self) -> bool:
        """Start the next idle callback, if there is one."""
        waiting = self._idle or self._last
        if not waiting:
            return False
        self.call_soon(waiting.popleft())
        return True

    def pass_time(self, timeout: float) -> None:
        """Move the clock to the next timer: to its time, not by a difference that rounds."""
        timers = self._timers
        due = self._now + timeout
        when = timers[0][0] if timers else due
        self._now = when if when - self._now <= timeout else due


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a new virtual-time loop and return its result."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


async def rest(*, last: bool = False) -> None:
    """Return when nothing else is left to do at this moment; on other loops, after one turn."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        await asyncio.sleep(0)
        return
    future: asyncio.Future[None] = loop.create_future()
    loop.call_idle(lambda: None if future.done() else future.set_result(None), last=last)
    await future

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
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Never waits: the time that the loop would have slept is added to its clock instead."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # Asking the system is most of the cost of a turn; in a simulation nobody writes there.
        alone = not self._loop.knocked and len(self.get_map()) == 1  # but for the loop's own pipe
        ready: list[tuple[selectors.SelectorKey, int]] = []
        if timeout is None or self._loop.look_outside() or (timeout and not alone):
            self._loop.knocked = False
            ready = super().select(0)
        if ready or timeout == 0 or self._loop.run_idle():
            return ready
        if timeout is None:
            # Nothing is planned: only a thread or a signal can wake the loop.
            return list(super().select(None))
        self._loop.pass_time(timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop on virtual time; it begins at 0."""

    def __init__(self) -> None:
        self._now = 0.0
        self._idle: deque[Callable[[], None]] = deque()
        self._last: deque[Callable[[], None]] = deque()
        self._turns = 0
        self.knocked = False
        """Whether a thread or a signal may have written to the loop's own pipe."""
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self._now

    def _write_to_self(self) -> None:
        self.knocked = True
        super()._write_to_self()  # type: ignore[misc]

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

    def look_outside(self) -> bool:
        """Whether to ask for sockets although there is work: now and then, so none starves."""
        self._turns += 1
        return self._turns % 64 == 0

    def pass_time(self, timeout: float) -> None:
        """Move the clock to the next timer: to its time, not by a difference that rounds."""
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        due = self._now + timeout
        when = timers[0].when() if timers else due
        # A loop never sleeps longer than a day at once.
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

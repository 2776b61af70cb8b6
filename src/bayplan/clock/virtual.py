"""An event loop whose clock moves only when nothing else is left to do.

`asyncio.sleep(3600)` returns at once, and everything that happens "meanwhile" happens first, in
order. Code that takes its time from the loop (`loop.time()`, `asyncio.sleep`, `asyncio.timeout`)
runs unchanged. Sockets and threads work, but the clock does not wait for them: keep them out of
runs that must be deterministic (`client.AsgiTransport` needs neither).

    run_virtual(main())            # like asyncio.run
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Never waits: the time that the loop would have slept is added to its clock instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            # Nothing is planned: only a thread or a signal can wake the loop.
            return list(super().select(None))
        self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop on virtual time; it begins at 0."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a new virtual-time loop and return its result."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)

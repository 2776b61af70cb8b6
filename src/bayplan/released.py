"""Gives memory of connections that have closed back to the system.

A connection takes tens of kilobytes, with TLS and what waits to be sent, in pieces that the C
library keeps for later when they are freed. Where many have closed it is asked to return them,
in a thread, because that takes a while. Elsewhere than with glibc nothing is done.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

MANY = 256  # closed connections
SECONDS = 1.0  # from the first moment that there are many


def trim() -> None:
    import ctypes

    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        give_back(0)


class Released:
    """Counts connections that have closed."""

    def __init__(self, trim: Callable[[], None] = trim) -> None:
        self._trim = trim
        self._closed = 0
        self._due = False

    def one(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note that a connection has closed."""
        self._closed += 1
        if self._closed >= MANY and not self._due:
            self._due = True
            loop.call_later(SECONDS, self._start)

    def _start(self) -> None:
        self._closed, self._due = 0, False
        threading.Thread(target=self._trim, name="trim", daemon=True).start()


RELEASED = Released()

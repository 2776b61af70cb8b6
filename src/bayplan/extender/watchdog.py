"""Tells where a slow function of an extender stands while a scheduler waits for it.

A plain function runs in a thread and is looked at while it runs. A coroutine is looked at where it
waits; one that never lets go of the loop can only be told about when it has ended.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Watched:
    """One call under watch; a thread that works for it says so by `here`."""

    def __init__(self) -> None:
        self._thread = 0
        self._task = asyncio.current_task()

    def here(self) -> None:
        self._thread = threading.get_ident()

    def place(self) -> str:
        """File, line and function at which the call is now."""
        frame: FrameType | None = None
        if self._thread:
            frame = sys._current_frames().get(self._thread)
        elif self._task is not None and (stack := self._task.get_stack()):
            frame = stack[-1]
        if frame is None:
            return "somewhere"
        return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"


class Watchdog:
    """Calls `tell` with the verb, seconds and place of every call that takes too long."""

    def __init__(self, seconds: float, tell: Callable[[str, float, str], None]) -> None:
        self.seconds = seconds
        self._tell = tell

    @contextmanager
    def watch(self, verb: str) -> Iterator[Watched]:
        """Watch one call; told once at most."""
        call = Watched()
        told = False

        def tell(place: str) -> None:
            nonlocal told
            if not told:
                told = True
                self._tell(verb, time.monotonic() - start, place)

        start = time.monotonic()
        timer = asyncio.get_running_loop().call_later(self.seconds, lambda: tell(call.place()))
        try:
            yield call
        finally:
            timer.cancel()
            if time.monotonic() - start > self.seconds:
                tell("its end; the event loop was held")

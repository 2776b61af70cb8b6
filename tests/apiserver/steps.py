"""How long single steps of the event loop, and single calls into C, take; in yardsticks.

Without collections of garbage, because those of a test process go through everything that tests
ever loaded.
"""

import asyncio
import contextlib
import gc
import sys
import threading
import time
from asyncio import events
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.effort import yardstick

MOST = 3  # yardsticks that a step may take


class Steps:
    """The longest step while the block ran; known when it has ended."""

    def __init__(self) -> None:
        self.longest = 0.0


@contextlib.contextmanager
def measured() -> Iterator[Steps]:
    steps, run, longest = Steps(), events.Handle._run, 0.0

    def timed(handle: asyncio.Handle) -> None:
        nonlocal longest
        begun = time.thread_time()
        run(handle)
        longest = max(longest, time.thread_time() - begun)

    gc.collect()
    gc.disable()
    before = yardstick()
    events.Handle._run = timed  # type: ignore[method-assign]
    try:
        yield steps
    finally:
        events.Handle._run = run  # type: ignore[method-assign]
        steps.longest = longest / max(before, yardstick())
        gc.enable()


@contextlib.contextmanager
def calls() -> Iterator[list[Any]]:
    """What becomes the longest time in C of this thread and its new ones, in yardsticks.

    Where C calls Python, as `sum` does with a generator, others have their turns.
    """
    own, longest = threading.local(), [(0.0, "")]
    found: list[Any] = []

    def note(frame: object, event: str, called: object) -> None:
        if event in ("c_call", "call", "return"):
            own.begun = time.thread_time()
        else:
            spent = time.thread_time() - getattr(own, "begun", time.thread_time())
            if spent > longest[0][0]:
                longest[0] = spent, str(called)

    before = yardstick()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        seconds, called = longest[0]
        found.extend((seconds / max(before, yardstick()), called))

"""How long single steps of the event loop take, in yardsticks; loops of other threads not.

Without collections of garbage, because those of a test process go through everything that tests
ever loaded.
"""

import asyncio
import contextlib
import gc
import threading
import time
from asyncio import events
from collections.abc import Iterator

from tests.effort import yardstick

MOST = 3  # yardsticks that a step may take


class Steps:
    """The longest step while the block ran; known when it has ended."""

    def __init__(self) -> None:
        self.longest = 0.0


@contextlib.contextmanager
def measured() -> Iterator[Steps]:
    steps, run, longest = Steps(), events.Handle._run, 0.0
    own = threading.get_ident()

    def timed(handle: asyncio.Handle) -> None:
        nonlocal longest
        if threading.get_ident() != own:
            return run(handle)
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

"""How long single steps of the event loop take, in CPU time of its thread.

CPU time, because the machine may be busy; without collections of garbage, because those of a test
process go through everything that tests ever loaded.
"""

import asyncio
import contextlib
import gc
import time
from asyncio import events
from collections.abc import Iterator


class Steps:
    """The longest step while the block runs."""

    def __init__(self) -> None:
        self.longest = 0.0


@contextlib.contextmanager
def measured() -> Iterator[Steps]:
    steps, run = Steps(), events.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        begun = time.thread_time()
        run(handle)
        steps.longest = max(steps.longest, time.thread_time() - begun)

    gc.collect()
    gc.disable()
    events.Handle._run = timed  # type: ignore[method-assign]
    try:
        yield steps
    finally:
        events.Handle._run = run  # type: ignore[method-assign]
        gc.enable()

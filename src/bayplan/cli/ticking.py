"""Shows that something long goes on: a line on stderr every few seconds until it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY = 5.0


@contextmanager
def ticking(say: Callable[[str], None], every: float = EVERY) -> Iterator[None]:
    """Say how long the block has been running, from a thread: the block may hold this one."""
    ended, begin = threading.Event(), time.monotonic()

    def tick() -> None:
        while not ended.wait(every):
            say(f"running for {time.monotonic() - begin:.0f} s")

    thread = threading.Thread(target=tick, daemon=True, name="ticking")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()

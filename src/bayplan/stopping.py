"""SIGINT and SIGTERM end the process within its grace, whatever goes on in it or at its peers.

The signal asks for an orderly stop. Should that take longer than the grace, or should the event
loop never come to it, a thread ends the process: what was acknowledged is on disk by then. A second
signal ends it at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from types import FrameType

GRACE_SECONDS = 6.0
STORE_GRACE = 10.0  # of who has a store to close
KILLED = 128


def stop_on_signals(stopped: asyncio.Event, grace: float = GRACE_SECONDS) -> None:
    """Set `stopped` at a signal; end the process if it is still there `grace` seconds later."""
    loop = asyncio.get_running_loop()
    asked = threading.Event()

    def handle(number: int, frame: FrameType | None = None) -> None:
        # The handler itself runs between two instructions, also while a task holds the loop.
        if asked.is_set():
            os._exit(KILLED + number)
        asked.set()
        end = threading.Timer(grace, os._exit, (KILLED + number,))
        end.daemon = True
        end.start()
        loop.call_soon_threadsafe(stopped.set)

    for number in (signal.SIGINT, signal.SIGTERM):
        # The loop's own handler makes it wake up; ours replaces what it would call.
        loop.add_signal_handler(number, stopped.set)
        signal.signal(number, handle)
        signal.siginterrupt(number, False)

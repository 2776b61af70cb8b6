"""Watches the event loop: how long a single step kept everything else waiting.

A tick is due twenty times a second; the CPU time that this thread spent past the due moment is what
somebody else's step took. CPU time, not wall time: a busy machine is not our fault.
"""

from __future__ import annotations

import asyncio
import time

PERIOD = 0.05
LONG = 0.05  # seconds; no request should hold the loop longer


class Watchdog:
    """Counts steps that held the loop for too long."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.long_steps = 0

    def held(self, seconds: float) -> None:
        """Note that one step took this long."""
        self.longest = max(self.longest, seconds)
        if seconds > LONG:
            self.long_steps += 1

    async def run(self) -> None:
        """Watch until cancelled, by a timer: a task would cost an idle server more."""
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle | None = None

        def tick(due: float, used: float) -> None:
            nonlocal timer
            now, spent = loop.time(), time.thread_time()
            if now - due > LONG:
                self.held(min(now - due, spent - used))
            timer = loop.call_later(PERIOD, tick, now + PERIOD, spent)

        tick(loop.time(), 0.0)
        try:
            await loop.create_future()
        finally:
            if timer is not None:
                timer.cancel()

    def metrics(self) -> str:
        return (
            "# HELP bayplan_apiserver_loop_held_seconds_max Longest step of the event loop.\n"
            "# TYPE bayplan_apiserver_loop_held_seconds_max gauge\n"
            f"bayplan_apiserver_loop_held_seconds_max {self.longest:.6f}\n"
            "# HELP bayplan_apiserver_loop_long_steps_total Steps of more than 50 ms.\n"
            "# TYPE bayplan_apiserver_loop_long_steps_total counter\n"
            f"bayplan_apiserver_loop_long_steps_total {self.long_steps}\n"
        )

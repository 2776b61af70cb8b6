"""Background work that goes on until it is done or cancelled, whatever it meets.

An exception is logged, counted and followed by a pause and a new beginning; a bare task would be
gone from then on, and nobody would know. Threads, which nobody can cancel, run to their end.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import structlog

T = TypeVar("T")

log = structlog.get_logger(__name__)
FIRST_PAUSE, LAST_PAUSE = 1.0, 60.0


def supervised(
    name: str, work: Callable[[], Awaitable[object]], failures: Counter[str]
) -> asyncio.Task[None]:
    """Run work in a task of its own; `failures` counts how often it failed, by name."""
    return asyncio.create_task(_keep(name, work, failures), name=name)


async def _keep(name: str, work: Callable[[], Awaitable[object]], failures: Counter[str]) -> None:
    pause = FIRST_PAUSE
    while True:
        try:
            await work()
            return
        except Exception:
            failures[name] += 1
            log.exception("background work failed, starting it again", work=name, pause=pause)
        await asyncio.sleep(pause)
        pause = min(pause * 2, LAST_PAUSE)


async def end(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks and wait until they are over."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def to_its_end(work: Callable[[], T], drop: Callable[[T], object] | None = None) -> T:
    """Call `work` in a thread; who is cancelled meanwhile leaves when the thread is done.

    So whatever the caller holds, a lock or an object, is held while the thread uses it. `drop` is
    given what nobody takes any more.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():  # who is cancelled a second time waits as well
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if running.exception() is None and drop is not None:
            drop(running.result())
        raise

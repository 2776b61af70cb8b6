"""How long single steps of the event loop take, in work and not in seconds.

A second is a lot of work on one machine and little on another, or a moment later on the same one.
So a step's CPU time is told in yardsticks: the CPU time that a fixed piece of work takes in the
same thread right before and after. Without collections of garbage, because those of a test process
go through everything that tests ever loaded.
"""

import asyncio
import contextlib
import gc
import json
import time
from asyncio import events
from collections.abc import Iterator

import msgspec

MOST = 3  # yardsticks that a step may take, each about 10 ms on a machine of today
_WORK = json.dumps({f"k{n}": {"name": f"n{n}", "value": [{}, n, "1"]} for n in range(5_000)})


class Steps:
    """The longest step while the block ran, in yardsticks; known when it has ended."""

    def __init__(self) -> None:
        self.longest = 0.0


def yardstick() -> float:
    """Do what requests do to objects, of 5,000 parts: read, look at, write, free."""
    begun = time.thread_time()
    made = msgspec.json.decode(_WORK)
    _walk(made)
    msgspec.json.encode(made)
    del made
    return time.thread_time() - begun


def _walk(value: object) -> int:
    if isinstance(value, dict):
        return sum(_walk(each) for each in value.values())
    if isinstance(value, list):
        return sum(map(_walk, value))
    return 1


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

"""What work costs, told in other work and not in seconds.

A second is a lot of work on one machine and little on another, or a moment later on the same one.
So CPU time is told in yardsticks: the CPU time that a fixed piece of work takes in the same thread,
right before and right after. CPU time, because others have their turns on a busy machine.
"""

import contextlib
import json
import time
from collections.abc import Iterator

import msgspec

_WORK = json.dumps({f"k{n}": {"name": f"n{n}", "value": [{}, n, "1"]} for n in range(5_000)})


def yardstick() -> float:
    """Read, look at, write and free an object of 5,000 parts: 10 ms on a machine of today."""
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
def at_most(yardsticks: float) -> Iterator[None]:
    """Fail where what the block does in this thread takes more work."""
    before, begun = yardstick(), time.thread_time()
    yield
    spent = time.thread_time() - begun
    assert spent / max(before, yardstick()) < yardsticks

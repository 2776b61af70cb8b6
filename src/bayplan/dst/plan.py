"""What a seed makes happen: a list of steps, each with its moment and its own source of chance.

First a story of work and faults, then, when all is healed, an aftermath of work alone: who came
out of it deaf shows that only when there is something to hear. A step draws its details from
`salt` when it runs, so leaving one out does not change the others: that is what lets a failing run
be shrunk.
"""

from __future__ import annotations

import math
import random

import msgspec

SECONDS = 60.0
STEPS = 36
AFTER_SECONDS = 20.0
AFTER_STEPS = 6
THOROUGH = 8
"""Every so many seeds the story is LONG times as long, and all of the calm is waited for."""
LONG = 3
WORK = {
    "pods": 12,
    "deployment": 3,
    "scale": 3,
    "delete": 5,
    "node": 3,
    "rogue": 6,
    "register": 12,
    "allocate": 8,
    "settle": 6,
    "job": 2,
}
FAULTS = {
    "loss": 3,
    "delay": 2,
    "errors": 2,
    "partition": 4,
    "crash_api": 4,
    "crash_scheduler": 3,
    "crash_controllers": 2,
    "crash_global": 2,
    "clock": 3,
    "silence": 2,
    "disk_full": 2,
    "disk_errors": 3,
    "disk_slow": 2,
    "extender": 2,
}


class Step(msgspec.Struct, frozen=True):
    """One thing that happens."""

    at: float
    what: str
    salt: int


def thorough(seed: int) -> bool:
    """Say whether a seed is one of those with a long story."""
    return seed % THOROUGH == 0


def healed_at(seed: int) -> float:
    """Return when the story ends and the aftermath begins, by the moments of steps."""
    return SECONDS * (LONG if thorough(seed) else 1)


def plan(seed: int) -> list[Step]:
    """Return what happens in a run: its story and its aftermath."""
    times = LONG if thorough(seed) else 1
    story = random.Random(f"{seed}/plan"), WORK | FAULTS, STEPS * times, SECONDS * times
    after = random.Random(f"{seed}/after"), WORK, AFTER_STEPS * times, AFTER_SECONDS * times
    return _steps(*story) + _steps(*after, begin=healed_at(seed))


def _steps(
    rng: random.Random, kinds: dict[str, int], count: int, seconds: float, begin: float = 0.0
) -> list[Step]:
    moments = sorted(begin + rng.random() * seconds for _ in range(count))
    names = rng.choices(list(kinds), list(kinds.values()), k=count)
    return [
        Step(math.floor(at * 1000) / 1000, name, rng.getrandbits(32))
        for at, name in zip(moments, names, strict=True)
    ]

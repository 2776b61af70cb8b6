"""What a seed makes happen: a list of steps, each with its moment and its own source of chance.

A step draws its details from `salt` when it runs, so leaving one out does not change the others:
that is what lets a failing run be shrunk.
"""

from __future__ import annotations

import random

import msgspec

SECONDS = 60.0
STEPS = 36
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


def plan(seed: int) -> list[Step]:
    """Return what happens in a run."""
    rng = random.Random(f"{seed}/plan")
    kinds = WORK | FAULTS
    moments = sorted(rng.random() * SECONDS for _ in range(STEPS))
    names = rng.choices(list(kinds), list(kinds.values()), k=STEPS)
    return [
        Step(round(at, 3), name, rng.getrandbits(32))
        for at, name in zip(moments, names, strict=True)
    ]

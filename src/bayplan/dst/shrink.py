"""Finds the few steps of a failing run that matter (Zeller's delta debugging)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bayplan.dst.plan import Step

RUNS = 120  # at most; a shrunk trace is for reading, not for beauty


def shrink(
    steps: Sequence[Step], fails: Callable[[Sequence[Step]], bool], runs: int = RUNS
) -> list[Step]:
    """Return steps of which none can be left out, as far as `runs` tries tell."""
    kept, size = list(steps), max(1, len(steps) // 2)
    while runs > 0:
        for at in range(0, len(kept), size):
            fewer = kept[:at] + kept[at + size :]
            runs -= 1
            if fails(fewer):
                kept = fewer
                break
            if runs <= 0:
                break
        else:
            if size == 1:
                break
            size = max(1, size // 2)
    return kept

"""Whether a history of concurrent operations could have happened one after the other.

Wing and Gong's search with Lowe's memory: take any operation that began before every open one had
ended, let it happen, go on; remember what was tried. An operation whose outcome nobody knows (its
answer was lost, its process died) may have happened at any time after it began, or never.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

S = TypeVar("S", bound=Hashable)


class Operation(NamedTuple, Generic[S]):
    """What somebody asked for and saw; `end` is infinite when the outcome is not known."""

    begin: float
    end: float
    step: Callable[[S], S | None]
    """The state after it in this state, or None where what was seen could not have been seen."""
    text: str = ""


def linearizable(history: Sequence[Operation[S]], initial: S) -> bool:
    """Tell whether there is an order that explains everything."""
    known = sum(1 << n for n, operation in enumerate(history) if operation.end < math.inf)
    tried: set[tuple[int, S]] = set()
    stack: list[tuple[int, S]] = [(0, initial)]
    while stack:
        done, state = stack.pop()
        if done & known == known:
            return True
        if (done, state) in tried:
            continue
        tried.add((done, state))
        open_ = [n for n in range(len(history)) if not done >> n & 1]
        first_end = min(history[n].end for n in open_)
        for n in open_:
            if history[n].begin <= first_end:
                after = history[n].step(state)
                if after is not None:
                    stack.append((done | 1 << n, after))
    return False

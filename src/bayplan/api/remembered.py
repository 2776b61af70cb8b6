"""Remembers what was made of short texts, which come again; long ones are made anew each time.

`lru_cache` bounds how many answers it keeps, not how many bytes: thousands of megabytes, if a
stranger may write the texts. With this the bound is `maxsize` texts of `LONGEST` characters.
It does not look into other arguments: those must be few by their nature.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

K = TypeVar("K")
P = ParamSpec("P")
T = TypeVar("T")
LONGEST = 256


def remembered(
    maxsize: int,
) -> Callable[[Callable[Concatenate[K, P], T]], Callable[Concatenate[K, P], T]]:
    """Keep the newest answers of a pure function whose first argument is a text or a number."""

    def wrap(work: Callable[Concatenate[K, P], T]) -> Callable[Concatenate[K, P], T]:
        kept = lru_cache(maxsize)(work)

        @wraps(work)
        def answer(text: K, /, *more: P.args, **named: P.kwargs) -> T:
            if isinstance(text, str | bytes) and len(text) > LONGEST:
                return work(text, *more, **named)
            return kept(text, *more, **named)  # type: ignore[arg-type]  # texts can be hashed

        return answer

    return wrap

"""Where a value is in an object, as text only when somebody asks.

A key of a map may be as long as a body, and what it holds as many: a path that is written out for
each of those would cost the product. So a walk carries steps, and only what it complains about is
written, as much as there is room for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

MOST_SHOWN = 1 << 20  # characters of a list of places


class Place(NamedTuple):
    """One step below another place: an index, or a key as it is written there."""

    outer: Place | str
    step: str | int

    def __str__(self) -> str:
        parts: list[str] = []
        here: Place | str = self
        while isinstance(here, Place):
            parts.append(here.step if isinstance(here.step, str) else f"[{here.step}]")
            here = here.outer
        return "".join([here, *reversed(parts)])


def below(place: Place | str, key: str) -> Place:
    """Return the place of a field."""
    return Place(place, f".{key}" if place else key)


def shown(places: Iterable[Place | str]) -> list[str]:
    """Return the texts of places, but no more when they have become long."""
    texts: list[str] = []
    length = 0
    for place in places:
        if length > MOST_SHOWN:
            break
        texts.append(str(place))
        length += len(texts[-1])
    return texts

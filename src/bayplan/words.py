"""Words in messages for people: counted nouns, columns, and what a misspelt name may mean."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence


def plural(count: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], indent: str = "  ", gap: int = 3
) -> Iterator[str]:
    """Columns as kubectl prints them."""
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield f"{indent}{(' ' * gap).join(cells)}".rstrip()


def did_you_mean(name: str, known: Iterable[str], alike: float = 0.5) -> str:
    """`; did you mean a or b?`, to be added to a message; empty if nothing is near.

    Half is enough for objects, `other/web` means `default/web`; of many names ask for more.
    """
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=alike)
    return f"; did you mean {' or '.join(near)}?" if near else ""

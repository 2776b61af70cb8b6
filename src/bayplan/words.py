"""Words in messages for people: counted nouns, columns, and what a misspelt name may mean.

On a terminal lines and columns are folded to its width. In a file or pipe sentences are folded at
100 columns and tables stay a line a row, for `grep` and `awk`.
"""

from __future__ import annotations

import difflib
import itertools
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence

WIDTH, NARROWEST = 100, 40


def plural(count: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], indent: str = "  ", gap: int = 3
) -> Iterator[str]:
    """Columns as kubectl prints them; on a terminal too narrow for them, cells are folded."""
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if room := terminal_width():
        room -= len(indent) + gap * (len(head) - 1)
        least = [max(map(_longest_word, column)) for column in zip(*lines, strict=True)]
        widths = _narrowed(widths, least, room)
    for line in lines:
        folded = [_fold(cell, width) for cell, width in zip(line, widths, strict=True)]
        for parts in itertools.zip_longest(*folded, fillvalue=""):
            cells = (part.ljust(width) for part, width in zip(parts, widths, strict=True))
            yield f"{indent}{(' ' * gap).join(cells)}".rstrip()


def _narrowed(widths: list[int], least: list[int], room: int) -> list[int]:
    """Widths that fit, taken from the widest columns; as they are if whole words need more."""
    if sum(least) > room:
        return widths
    found = list(widths)
    while sum(found) > room:
        wide = [at for at, width in enumerate(found) if width > least[at]]
        found[max(wide, key=lambda at: found[at])] -= 1
    return found


def _longest_word(cell: str) -> int:
    return max(map(len, cell.split()), default=0)


def _fold(text: str, width: int) -> list[str]:
    if len(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def wrapped(text: str, first: str = "", rest: str | None = None, most: int = WIDTH) -> list[str]:
    """A sentence in lines that begin with `first` and then `rest`; no word is cut."""
    return textwrap.wrap(
        text,
        min(most, terminal_width() or most),
        initial_indent=first,
        subsequent_indent=first if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]


def terminal_width() -> int:
    """The columns of the terminal that is printed to; 0 if it is a file or a pipe."""
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
    except (AttributeError, OSError, ValueError):
        return 0
    return max(columns, NARROWEST) if columns else 0


def did_you_mean(name: str, known: Iterable[str], alike: float = 0.5) -> str:
    """`; did you mean a or b?`, to be added to a message; empty if nothing is near.

    Half is enough for objects, `other/web` means `default/web`; of many names ask for more.
    """
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=alike)
    return f"; did you mean {' or '.join(near)}?" if near else ""

"""`"%d of %s".format([…])`: the clauses s, d, f, e, b, x, X and o."""

from __future__ import annotations

import json
import re
from typing import Any

from bayplan.cel import times
from bayplan.cel.errors import EvaluationError
from bayplan.cel.types import Type
from bayplan.cel.values import Duration, Timestamp, Uint, kind_name

_CLAUSE = re.compile(r"%(?:(%)|(?:\.(\d+))?(.)?)", re.DOTALL)


def format_string(text: str, items: list[Any]) -> str:
    """Fill the clauses of a text; raises EvaluationError."""
    used = 0

    def fill(match: re.Match[str]) -> str:
        nonlocal used
        if match[1]:
            return "%"
        if used >= len(items):
            raise EvaluationError(f"index {used} out of range")
        used += 1
        return _clause(match[3] or "", match[2], items[used - 1])

    return _CLAUSE.sub(fill, text)


def _clause(letter: str, precision: str | None, item: Any) -> str:
    whole = type(item) in (int, Uint)
    if letter == "s":
        return show(item)
    if letter == "d" and (whole or type(item) is float):
        return str(int(item)) if whole else show(item)
    if letter in ("f", "e") and (type(item) is float or whole):
        return f"{float(item):.{int(precision or 6)}{letter}}"
    if letter in ("b", "o") and whole:
        return f"{int(item):{letter}}"
    if letter == "b" and type(item) is bool:
        return "1" if item else "0"
    if letter in ("x", "X"):
        shown = _hexadecimal(item)
        if shown is not None:
            return shown.upper() if letter == "X" else shown
    if letter not in tuple("sdfebxXo"):
        raise EvaluationError(
            f'could not parse formatting clause: unrecognized formatting clause "{letter}"'
        )
    raise EvaluationError(f"error during formatting: {_WORDS[letter]}, was given {kind_name(item)}")


_WORDS = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
    "types, durations, and timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "X": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}


def _hexadecimal(item: Any) -> str | None:
    if type(item) in (int, Uint):
        return f"{int(item):x}"
    if type(item) is str:
        return str(item.encode().hex())
    return item.hex() if type(item) is bytes else None


def show(item: Any) -> str:
    """A value as %s shows it."""
    if type(item) is str:
        return item
    if item is None or type(item) is bool:
        return json.dumps(item)
    if type(item) in (int, Uint):
        return str(int(item))
    if type(item) is float:
        from bayplan.cel.standard import show_double

        return show_double(item).replace("+Inf", "Infinity").replace("-Inf", "-Infinity")
    if type(item) is bytes:
        return item.decode(errors="replace")
    if isinstance(item, Duration):
        return times.show_duration(item)
    if isinstance(item, Timestamp):
        return times.show_timestamp(item)
    if isinstance(item, Type):
        return item.name
    if isinstance(item, list):
        return "[" + ", ".join(map(show, item)) + "]"
    if isinstance(item, dict):
        pairs = sorted((show(key), show(value)) for key, value in item.items())
        return "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
    raise EvaluationError(f"error during formatting: {_WORDS['s']}, was given {kind_name(item)}")

"""`"%d of %s".format([…])`: the clauses s, d, f, e, b, x, X and o.

Follows the formatter of upstream's version 2 of the strings library, which groups thousands in
`%f` and writes `%e` with a power of ten.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from bayplan.cel import times
from bayplan.cel.errors import EvaluationError, Problems
from bayplan.cel.syntax import Call, ListNode, Literal, Node
from bayplan.cel.types import Type
from bayplan.cel.values import Duration, Timestamp, Uint, check_unfolded, kind_name

_CLAUSE = re.compile(r"%(?:(%)|(?:\.(\d+))?(.)?)", re.DOTALL)
_HIGH = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
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
_TAKES = {
    "d": ("int", "uint"),
    "f": ("double", "string"),
    "e": ("double", "string"),
    "b": ("int", "uint", "bool"),
    "x": ("int", "uint", "string", "bytes"),
    "X": ("int", "uint", "string", "bytes"),
    "o": ("int", "uint"),
}
_MOST_DIGITS = 4  # that a precision is written with
_NUMBERS = ("NaN", "Infinity", "-Infinity")


def format_string(text: str, items: list[Any]) -> str:
    """Fill the clauses of a text; raises EvaluationError."""
    check_unfolded(items)
    used = 0

    def fill(match: re.Match[str]) -> str:
        nonlocal used
        if match[1]:
            return "%"
        _known(match[3])
        if used >= len(items):
            raise EvaluationError(f"index {used} out of range")
        used += 1
        return _clause(match[3], match[2], items[used - 1])

    return _CLAUSE.sub(fill, text)


def check_format(node: Call, types: Mapping[Node, Type], problems: Problems) -> None:
    """Note what cannot be formatted, where text and items are written out."""
    text, items = node.target, node.args[0] if node.args else None
    if not isinstance(text, Literal) or not isinstance(items, ListNode):
        return
    used = 0
    for match in _CLAUSE.finditer(text.value):
        if match[1]:
            continue
        try:
            _known(match[3])
        except EvaluationError as problem:
            problems.add(node.offset, str(problem))
            return
        if used >= len(items.items):
            problems.add(node.offset, f"index {used} out of range")
            return
        item = items.items[used]
        used += 1
        kind, wanted = types[item].kind, _TAKES.get(match[3])
        if wanted and kind not in (*wanted, "dyn", "any", "param"):
            words = f"error during formatting: {_WORDS[match[3]]}, was given {types[item]}"
            problems.add(item.offset, words)


def _known(letter: str | None) -> None:
    if letter not in _WORDS:
        raise EvaluationError(
            f'could not parse formatting clause: unrecognized formatting clause "{letter or ""}"'
        )


def _clause(letter: str, precision: str | None, item: Any) -> str:
    if letter == "s":
        return show(item)
    whole = type(item) in (int, Uint)
    if letter in "dob" and whole:
        return f"{int(item):{letter}}"
    if letter == "b" and type(item) is bool:
        return "1" if item else "0"
    if letter in "fe" and (type(item) is float or item in _NUMBERS):
        number = float(item)
        if not math.isfinite(number):
            return "NaN" if math.isnan(number) else ("∞" if number > 0 else "-∞")
        if letter == "e":
            return _scientific(number)
        if len(precision or "") > _MOST_DIGITS:
            raise EvaluationError(f"error during formatting: precision {precision} is too large")
        return f"{number:,.{int(precision or 6)}f}"
    if letter in "xX":
        shown = _hexadecimal(item)
        if shown is not None:
            return shown.upper() if letter == "X" else shown
    raise EvaluationError(f"error during formatting: {_WORDS[letter]}, was given {kind_name(item)}")


def _scientific(number: float) -> str:
    digits, _, power = f"{number:.6e}".partition("e")
    return f"{digits}×10{power.lstrip('+').translate(_HIGH)}"


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

        return show_double(item)
    if type(item) is bytes:
        return item.decode(errors="replace")
    if isinstance(item, Duration):
        return times.show_duration(item)
    if isinstance(item, Timestamp):
        return times.show_timestamp(item)
    if isinstance(item, Type):
        return item.name
    if isinstance(item, list):
        return "[" + ", ".join(map(_inside, item)) + "]"
    if isinstance(item, dict):
        pairs = sorted((_inside(key), _inside(value)) for key, value in item.items())
        return "{" + ", ".join(f"{key}:{value}" for key, value in pairs) + "}"
    raise EvaluationError(f"error during formatting: {_WORDS['s']}, was given {kind_name(item)}")


def _inside(item: Any) -> str:
    """A value in a list or map, as CEL would write it."""
    if type(item) is str:
        return json.dumps(item, ensure_ascii=False)
    if type(item) is bytes:
        return "b" + json.dumps(item.decode(errors="replace"), ensure_ascii=False)
    if type(item) is float:
        return f"{item:.6f}"
    if isinstance(item, Duration | Timestamp):
        return f'{"duration" if isinstance(item, Duration) else "timestamp"}("{show(item)}")'
    return f"type({item.name})" if isinstance(item, Type) else show(item)

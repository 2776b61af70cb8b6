"""The types of CEL: what a checker may assign to what, and how types are written in messages.

A `Type` is a value. Struct types carry only their name; the environment knows their fields. Type
parameters of overloads (`A`) are replaced by fresh variables and bound in a mapping while an
expression is checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MOST_PARTS = 256  # of one type; more than anybody writes, but `.map(x, {x: x})` doubles them


@dataclass(frozen=True, slots=True)
class Type:
    """One type: `kind` decides the rules, `name` is how it is written."""

    kind: str
    name: str
    params: tuple[Type, ...] = ()
    size: int = field(default=1, init=False, compare=False, repr=False)
    open: bool = field(default=False, init=False, compare=False, repr=False)
    """Whether a type parameter is in it; nothing is substituted in one that is closed."""

    def __post_init__(self) -> None:
        """Count the parts. Raises RecursionError, as an expression does that is nested too deep."""
        if self.params:
            size = 1 + sum(each.size for each in self.params)
            if size > MOST_PARTS:
                raise RecursionError("a type of too many parts")
            object.__setattr__(self, "size", size)
        if self.kind == "param" or any(each.open for each in self.params):
            object.__setattr__(self, "open", True)

    def __str__(self) -> str:
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(map(str, self.params))})"


BOOL = Type("bool", "bool")
INT = Type("int", "int")
UINT = Type("uint", "uint")
DOUBLE = Type("double", "double")
STRING = Type("string", "string")
BYTES = Type("bytes", "bytes")
NULL = Type("null_type", "null")
DYN = Type("dyn", "dyn")
ANY = Type("any", "any")
ERROR = Type("error", "!error!")
DURATION = Type("duration", "duration")
TIMESTAMP = Type("timestamp", "timestamp")
TYPE = Type("type", "type")

SIMPLE = {
    each.name: each
    for each in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, DYN, ANY, DURATION, TIMESTAMP, TYPE)
}
Mapping = dict[Type, Type]


class Attempt(Mapping):
    """What is bound on trial, over what was bound before."""

    def __init__(self, known: Mapping) -> None:
        super().__init__()
        self._known = known

    def get(self, wanted: Type, default: Any = None) -> Any:
        found = super().get(wanted)
        return self._known.get(wanted, default) if found is None else found


def list_of(item: Type) -> Type:
    return Type("list", "list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def type_of(inner: Type) -> Type:
    return Type("type", "type", (inner,))


def optional_of(inner: Type) -> Type:
    return Type("opaque", "optional_type", (inner,))


def struct(name: str) -> Type:
    return Type("struct", name)


def opaque(name: str) -> Type:
    return Type("opaque", name)


def parameter(name: str) -> Type:
    return Type("param", name)


def is_dyn(given: Type) -> bool:
    return given.kind in ("dyn", "any")


def unwrap_optional(given: Type) -> tuple[Type, bool]:
    if given.kind == "opaque" and given.name == "optional_type":
        return given.params[0], True
    return given, False


_NULLABLE = ("opaque", "struct", "any", "duration", "timestamp")
_EXACT = ("bool", "bytes", "double", "int", "string", "uint", "struct", "duration", "timestamp")


def assignable(mapping: Mapping, first: Type, second: Type) -> bool:
    """Whether the types unify; binds parameters in the mapping, also when they do not."""
    if first is second or first == second:
        return True
    if second.kind == "param":
        valid, known = _substitutes(mapping, first, second)
        if known or valid:
            return valid
        return False
    if first.kind == "param":
        return _substitutes(mapping, second, first)[0]
    if is_dyn(first) or is_dyn(second) or first.kind == "error" or second.kind == "error":
        return True
    if first.kind == "null_type":
        return second.kind in _NULLABLE
    if second.kind == "null_type":
        return first.kind in _NULLABLE
    if first.kind in _EXACT:
        return first == second
    if first.kind == "type":
        return second.kind == "type"
    return (first.kind, first.name) == (second.kind, second.name) and all_assignable(
        mapping, first.params, second.params
    )


def all_assignable(mapping: Mapping, first: tuple[Type, ...], second: tuple[Type, ...]) -> bool:
    return len(first) == len(second) and all(
        assignable(mapping, a, b) for a, b in zip(first, second, strict=True)
    )


def _substitutes(mapping: Mapping, given: Type, variable: Type) -> tuple[bool, bool]:
    """Whether the type may stand for the variable, and whether one stood for it before."""
    bound = mapping.get(variable)
    if bound is not None:
        if bound == given:
            return True, True
        if assignable(mapping, given, bound):
            chosen = most_general(given, bound)
            if _absent(mapping, variable, chosen):
                mapping[variable] = chosen
            return True, True
        return False, True
    if _absent(mapping, variable, given):
        mapping[variable] = given
        return True, False
    return False, False


def _absent(mapping: Mapping, wanted: Type, within: Type) -> bool:
    """The occurs check: the type is no part of the other."""
    if not within.open:
        return True
    if wanted == within:
        return False
    if within.kind == "param":
        bound = mapping.get(within)
        return bound is None or _absent(mapping, wanted, bound)
    return all(_absent(mapping, wanted, each) for each in within.params)


def most_general(first: Type, second: Type) -> Type:
    return first if _less_specific(first, second) else second


def _less_specific(first: Type, second: Type) -> bool:
    if first is second:
        return True
    if is_dyn(first) or first.kind == "param":
        return True
    if is_dyn(second) or second.kind == "param":
        return False
    if first.kind == second.kind and first.name == second.name:
        return all(map(_less_specific, first.params, second.params))
    return first == second


def substitute(mapping: Mapping, given: Type, *, to_dyn: bool = False) -> Type:
    """Replace bound parameters; the rest become `dyn` if asked."""
    if not given.open:
        return given
    if given.kind == "param":
        bound = mapping.get(given)
        if bound is not None:
            return substitute(mapping, bound, to_dyn=to_dyn)
        return DYN if to_dyn else given
    params = tuple(substitute(mapping, each, to_dyn=to_dyn) for each in given.params)
    return Type(given.kind, given.name, params)


def parse_type(text: str, known: dict[str, Type]) -> Type:
    """Read `list(map(string, A))`; a single capital letter is a parameter."""
    text = text.strip()
    if "(" not in text:
        if len(text) == 1 and text.isupper():
            return parameter(text)
        return known[text]
    head, inner = text[: text.index("(")], text[text.index("(") + 1 : -1]
    params = tuple(parse_type(part, known) for part in split_top(inner))
    if head == "optional":
        return optional_of(*params)
    return Type(head, head, params)


def split_top(text: str) -> list[str]:
    """Split at commas that are in no parentheses."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [part for part in parts if part.strip()]

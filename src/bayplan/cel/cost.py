"""What a call costs while it runs, by upstream's rules.

Costs are a promise to whoever wrote an expression: the same one must be stopped at the same place
on every server, so the numbers here follow upstream's, also where they look odd.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from bayplan.cel.kubernetes import FORMATS
from bayplan.cel.values import Cidr, Format, Ip, Quantity, Semver, Url, size

PER_CALL_LIMIT = 1_000_000
BUDGET = 10_000_000
MATCH_BUDGET = 2_500_000
TEXT_PER_COST = 100  # characters made; upstream counts what `format` and `replace` read only
LIST_BASE, MAP_BASE, STRUCT_BASE = 10, 30, 40
Counter = Callable[[str, list[Any], Any], int]


def text_cost(length: float, factor: float = 0.1) -> int:
    return ceil(length * factor)


def pattern_cost(text: int, pattern: int) -> int:
    return ceil((1.0 + text) * 0.1) * ceil(pattern * 0.25)


def selector_cost(length: int) -> int:
    return LIST_BASE + text_cost(length) + ceil(ceil(length * 0.5) * (LIST_BASE + STRUCT_BASE))


def traversal(value: Any, seen: dict[int, int] | None = None) -> int:
    if isinstance(value, str):
        return int(len(value.encode()) * 0.1)
    if isinstance(value, bytes):
        return int(len(value) * 0.1)
    if not isinstance(value, list | dict):
        return 1
    seen = {} if seen is None else seen  # a part may stand in many places
    if id(value) not in seen:
        inner = value if isinstance(value, list) else [*value, *value.values()]
        seen[id(value)] = sum(traversal(item, seen) for item in inner)
    return seen[id(value)]


def _first(factor: float) -> Counter:
    return lambda name, args, result: text_cost(size(args[0]), factor)


def _fixed(cost: int) -> Counter:
    return lambda name, args, result: cost


def _ip(name: str, args: list[Any], result: Any) -> int:
    return 1 if name == "cidr_ip" else text_cost(size(args[0]))


def _contains(name: str, args: list[Any], result: Any) -> int:
    cost = text_cost(2 * size(args[0]))
    if "contains_cidr" in name:
        cost += text_cost(size(args[0])) + 1
    return cost + (text_cost(size(args[1])) if name.endswith("_string") else 0)


def _validate(name: str, args: list[Any], result: Any) -> int:
    longest = FORMATS[args[0].name][0] if isinstance(args[0], Format) else 0
    return pattern_cost(size(args[1]), longest)


def _smaller(name: str, args: list[Any], result: Any) -> int:
    return text_cost(min(size(args[0]), size(args[1])))


def _equals(name: str, args: list[Any], result: Any) -> int:
    if isinstance(args[0], Quantity | Ip | Cidr | Format | Url | Semver):
        return 1
    return _smaller(name, args, result)


def _sets(both_ways: bool) -> Counter:
    def count(name: str, args: list[Any], result: Any) -> int:
        cost = 1 + size(args[0]) * size(args[1]) * (2 if both_ways else 1)
        return cost

    return count


def _allocated(factor: float, length: float) -> int:
    return int(length * factor) + 1 + LIST_BASE


def _compared(at: int) -> Counter:
    """Every item is compared with every other."""

    def count(name: str, args: list[Any], result: Any) -> int:
        items = args[at]
        factor = 2.1 if items and isinstance(items[0], str | bytes) else 2.0
        return _allocated(factor, len(items) ** 2)

    return count


def _flatten(name: str, args: list[Any], result: Any) -> int:
    return _allocated(args[1] if len(args) == 2 else 1, size(args[0]))


def _produced(name: str, args: list[Any], result: Any) -> int:
    return _allocated(1, size(result))


# By function, whatever the overload.
_BY_FUNCTION: dict[str, Counter] = {
    "check": _fixed(350_000),
    "format.named": _fixed(1),
    **{
        name: lambda name, args, result: selector_cost(size(args[1]))
        for name in ("fieldSelector", "labelSelector")
    },
    **{
        name: lambda name, args, result: traversal(args[0])
        for name in ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf")
    },
    **dict.fromkeys(
        ("url", "lowerAscii", "upperAscii", "substring", "trim", "jsonpatch.escapeKey"), _first(0.1)
    ),
    **dict.fromkeys(("cidr", "isIP", "isCIDR"), _first(0.1)),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _first(0.1)),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _first(0.2)),
    "join": lambda name, args, result: text_cost(size(result), 0.2),
    **{
        name: lambda name, args, result: pattern_cost(size(args[0]), size(args[1]))
        for name in ("find", "findAll")
    },
    "ip": _ip,
    "containsIP": _contains,
    "containsCIDR": _contains,
    "validate": _validate,
    "_==_": _equals,
}
_BY_OVERLOAD: dict[str, Counter] = {
    **dict.fromkeys(
        ("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string"),
        _first(0.1),
    ),
    **dict.fromkeys(("strings_quote", "string_format"), _first(0.1)),
    "in_list": lambda name, args, result: size(args[1]),
    "not_equals": _smaller,
    **{
        f"{word}_{kind}": _smaller
        for word in ("less", "less_equals", "greater", "greater_equals")
        for kind in ("string", "bytes")
    },
    **{
        name: lambda name, args, result: text_cost(size(args[0]) + size(args[1]))
        for name in ("add_string", "add_bytes")
    },
    "matches_string": lambda name, args, result: pattern_cost(size(args[0]), size(args[1])),
    "contains_string": lambda name, args, result: (
        text_cost(size(args[0])) * text_cost(size(args[1]))
    ),
    "list_sets_contains_list": _sets(False),
    "list_sets_intersects_list": _sets(False),
    "list_sets_equivalent_list": _sets(True),
}


def counter(function: str, overload: str) -> Counter | None:
    """How a call is counted; None means that it costs 1."""
    if overload.endswith("_sort") or overload == "list_distinct":
        return _compared(0)
    if overload.endswith("_sortByAssociatedKeys"):
        return _compared(1)
    return _LISTS.get(overload) or _BY_FUNCTION.get(function) or _BY_OVERLOAD.get(overload)


_LISTS: dict[str, Counter] = {
    **dict.fromkeys(("list_slice", "lists_range", "list_reverse"), _produced),
    **dict.fromkeys(("list_flatten", "list_flatten_int"), _flatten),
}

"""What expressions calculate with, where Python has no type of its own, and equality and order.

int, float, bool, str, bytes, None, list and dict stand for themselves. `equal` and `compare` are
CEL's: numbers of different types compare by value, everything else only with its own kind.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import total_ordering
from typing import Any
from urllib.parse import SplitResult

from bayplan.cel.errors import CostExceeded, EvaluationError
from bayplan.cel.types import Type

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Interface | ipaddress.IPv6Interface


class Uint(int):
    """An unsigned integer."""


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    nanos: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """Nanoseconds since 1970."""

    nanos: int


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing; `empty` says so, since None is a value."""

    value: Any = None
    empty: bool = False


NONE = Optional(None, True)


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount as Kubernetes writes it; ordered by value."""

    nanos: int


@dataclass(frozen=True, slots=True)
class Url:
    parts: SplitResult
    text: str


@dataclass(frozen=True, slots=True)
class Format:
    name: str


@dataclass(frozen=True, slots=True)
class Ip:
    address: Address


@dataclass(frozen=True, slots=True)
class Cidr:
    network: Network


_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


@total_ordering
class Semver:
    """A semantic version; ordered as semver.org says, build metadata ignored."""

    __slots__ = ("key",)

    def __init__(self, key: tuple[Any, ...]) -> None:
        self.key = key

    @classmethod
    def parse(cls, text: str) -> Semver | None:
        match = _VERSION.fullmatch(text)
        if match is None:
            return None
        *numbers, before = match.groups()
        words = (before or "").split(".") if before is not None else []
        if any(each.isdigit() and len(each) > 20 for each in (*numbers, *words)):
            return None  # beyond 64 bits
        if any(word.isdigit() and len(word) > 1 and word[0] == "0" for word in words):
            return None
        # A release comes after its pre-releases; numbers come before words.
        order = tuple((0, int(w), "") if w.isdigit() else (1, 0, w) for w in words)
        return cls((*map(int, numbers), before is None, order))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.key == other.key

    def __lt__(self, other: Semver) -> bool:
        return bool(self.key < other.key)

    def __hash__(self) -> int:
        return hash(self.key)


class SetList(list[Any]):
    """A list of a schema with `x-kubernetes-list-type: set`: its order means nothing."""


class MapList(list[Any]):
    """A list of a schema with `x-kubernetes-list-type: map`; `keys` tell the items apart."""

    keys: tuple[str, ...] = ()

    def key(self, item: Any) -> tuple[Any, ...]:
        return tuple(item.get(name) for name in self.keys)


_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    SetList: "list",
    MapList: "list",
    dict: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Optional: "optional_type",
    Type: "type",
    Quantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    Url: "kubernetes.URL",
    Format: "kubernetes.NamedFormat",
    Ip: "net.IP",
    Cidr: "net.CIDR",
}


def kind_name(value: Any) -> str:
    """How messages name the type of a value."""
    found = _NAMES.get(type(value))
    if found is not None:
        return found
    return "map" if isinstance(value, dict) else getattr(value, "cel_type", type(value).__name__)


def go_type(value: Any) -> str:
    """How Go names the type of a value in a few of upstream's messages."""
    return f"types.{kind_name(value).rpartition('.')[2].capitalize()}"


def _number(value: Any) -> bool:
    return type(value) in (int, float, Uint)


MOST_UNFOLDED = 1_000_000
_Seen = dict[tuple[int, int], bool]


def equal(a: Any, b: Any, seen: _Seen | None = None) -> bool:
    """Whether two values are equal; never fails.

    What `.map(x, [x, x])` made is small but unfolds without end: no pair is compared twice.
    """
    kind = type(a)
    if kind is type(b) and kind in (str, int, bool, float, bytes):
        return bool(a == b)
    if _number(a) and _number(b):
        return bool(a == b)
    for compared in (list, dict, Optional):
        if isinstance(a, compared) and isinstance(b, compared):
            seen = {} if seen is None else seen
            found = seen.get((id(a), id(b)))
            if found is None:
                found = seen[id(a), id(b)] = _EQUAL[compared](a, b, seen)
            return found
    return kind is type(b) and bool(a == b)


def _equal_lists(a: list[Any], b: list[Any], seen: _Seen) -> bool:
    if len(a) != len(b):
        return False
    if isinstance(a, SetList):
        return all(contains(b, item) for item in a) and all(contains(a, item) for item in b)
    if isinstance(a, MapList):
        others = {a.key(item): item for item in b if isinstance(item, dict)}
        return all(a.key(item) in others and equal(item, others[a.key(item)], seen) for item in a)
    return all(equal(x, y, seen) for x, y in zip(a, b, strict=True))


def _equal_maps(a: dict[Any, Any], b: dict[Any, Any], seen: _Seen) -> bool:
    return len(a) == len(b) and all(key in b and equal(a[key], b[key], seen) for key in a)


def _equal_optionals(a: Optional, b: Optional, seen: _Seen) -> bool:
    return a.empty == b.empty and (a.empty or equal(a.value, b.value, seen))


_EQUAL: dict[type, Callable[[Any, Any, _Seen], bool]] = {
    list: _equal_lists,
    dict: _equal_maps,
    Optional: _equal_optionals,
}


def check_unfolded(value: Any) -> None:
    """Refuse to write out what is small only because its parts stand in many places."""
    if _unfolded(value) > MOST_UNFOLDED:
        raise CostExceeded


def _unfolded(value: Any, seen: dict[int, float] | None = None) -> float:
    """Count the parts of a value, again wherever one stands; a hundred characters are one."""
    if isinstance(value, Optional):
        return 1 if value.empty else _unfolded(value.value, seen)
    if not isinstance(value, list | dict):
        return 1 + len(value) / 100 if isinstance(value, str | bytes) else 1
    seen = {} if seen is None else seen
    if id(value) not in seen:
        inner = value if isinstance(value, list) else [*value, *value.values()]
        seen[id(value)] = 1 + sum(_unfolded(item, seen) for item in inner)
    return seen[id(value)]


def contains(items: list[Any], wanted: Any) -> bool:
    seen: _Seen = {}
    return any(equal(item, wanted, seen) for item in items)


_ORDERED = (bool, str, bytes, Duration, Timestamp)


def compare(a: Any, b: Any) -> int:
    """-1, 0 or 1; raises EvaluationError if there is no order."""
    if _number(a) and _number(b):
        if math.isnan(a) or math.isnan(b):
            raise EvaluationError("NaN values cannot be ordered")
    elif type(a) is not type(b) or type(a) not in _ORDERED:
        raise EvaluationError("no such overload")
    if type(a) is str:
        a, b = a.encode("utf-8", "surrogatepass"), b.encode("utf-8", "surrogatepass")
    return int(a > b) - int(a < b)


def size(value: Any) -> int:
    """The size that costs are counted by: 1 for what has none."""
    if isinstance(value, str | list | dict | bytes):
        return len(value)
    if isinstance(value, Ip):
        return len(value.address.packed)
    if isinstance(value, Cidr):
        return len(value.network.ip.packed)
    if isinstance(value, Optional) and not value.empty:
        return size(value.value)
    return 1

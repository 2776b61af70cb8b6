"""Where functions are declared: a signature in CEL's words and what it does in Python.

    @overload("contains", "contains_string", "string.(string) bool")

A leading `type.` makes it a method. A library is a dict from names to overloads; an environment
is a few libraries joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from bayplan.cel import types
from bayplan.cel.types import Type, parse_type, split_top
from bayplan.cel.values import (
    Cidr,
    Duration,
    Format,
    Ip,
    Optional,
    Quantity,
    Semver,
    Timestamp,
    Uint,
    Url,
)

Function = Callable[..., Any]

# Types of Kubernetes' libraries. Upstream declares most as structs; equality costs differ by that.
KNOWN: dict[str, Type] = {
    **types.SIMPLE,
    "null": types.NULL,
    "quantity": types.struct("kubernetes.Quantity"),
    "semver": types.struct("kubernetes.Semver"),
    "url": types.struct("kubernetes.URL"),
    "format": types.struct("kubernetes.NamedFormat"),
    "ip": types.opaque("net.IP"),
    "cidr": types.opaque("net.CIDR"),
    "authorizer": types.struct("kubernetes.authorization.Authorizer"),
    "pathcheck": types.struct("kubernetes.authorization.PathCheck"),
    "groupcheck": types.struct("kubernetes.authorization.GroupCheck"),
    "resourcecheck": types.struct("kubernetes.authorization.ResourceCheck"),
    "decision": types.struct("kubernetes.authorization.Decision"),
}
_CLASSES: dict[str, type] = {
    "kubernetes.Quantity": Quantity,
    "kubernetes.Semver": Semver,
    "kubernetes.URL": Url,
    "kubernetes.NamedFormat": Format,
    "net.IP": Ip,
    "net.CIDR": Cidr,
    "optional_type": Optional,
}
_BY_KIND: dict[str, type | tuple[type, ...]] = {
    "list": list,
    "map": dict,
    "duration": Duration,
    "timestamp": Timestamp,
    "type": Type,
}
_EXACT: dict[str, type] = {
    "bool": bool,
    "int": int,
    "uint": Uint,
    "double": float,
    "string": str,
    "bytes": bytes,
}


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function."""

    function: str
    id: str
    args: tuple[Type, ...]
    result: Type
    method: bool
    run: Function

    def fits(self, values: list[Any]) -> bool:
        """Whether it takes these values."""
        return len(values) == len(self.args) and all(
            has_type(value, wanted) for value, wanted in zip(values, self.args, strict=True)
        )


Library = dict[str, list[Overload]]


def has_type(value: Any, wanted: Type) -> bool:
    exact = _EXACT.get(wanted.kind)
    if exact is not None:
        return type(value) is exact
    known = _BY_KIND.get(wanted.kind) or _CLASSES.get(wanted.name)
    if known is not None:
        return isinstance(value, known)
    if wanted.kind == "struct":
        return getattr(value, "cel_type", None) == wanted.name
    return True


def signature(text: str) -> tuple[tuple[Type, ...], Type, bool]:
    """Read `string.(string) bool` or `(int, int) int`."""
    start = text.index(".(") + 1 if ".(" in text else 0
    end = _closing(text, start)
    args = [parse_type(part, KNOWN) for part in split_top(text[start + 1 : end])]
    if start:
        args.insert(0, parse_type(text[: start - 1], KNOWN))
    return tuple(args), parse_type(text[end + 1 :], KNOWN), bool(start)


def _closing(text: str, start: int) -> int:
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at
    raise ValueError(text)


class Declaring:
    """Collects the overloads of one library."""

    def __init__(self) -> None:
        self.library: Library = {}

    def add(self, function: str, name: str, text: str, run: Function) -> None:
        args, result, method = signature(text)
        made = Overload(function, name, args, result, method, run)
        self.library.setdefault(function, []).append(made)

    def overload(self, function: str, name: str, text: str) -> Callable[[Function], Function]:
        def keep(run: Function) -> Function:
            self.add(function, name, text, run)
            return run

        return keep


def join(libraries: Iterable[Library]) -> Library:
    joined: Library = {}
    for library in libraries:
        for name, overloads in library.items():
            joined.setdefault(name, []).extend(overloads)
    return joined

"""What an expression may cost at most, before it ever runs.

Sizes and costs are ranges `(least, most)`, with 2⁶⁴-1 for "no bound". Sizes of variables come from
the declarations of a schema, found by the path that leads to a part (`self`, `items`, `@items`).
Follows upstream's estimator, since definitions are refused by its figures.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from bayplan.cel.checker import Checker
from bayplan.cel.cost import LIST_BASE, MAP_BASE, STRUCT_BASE
from bayplan.cel.syntax import (
    Call,
    Fold,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    StructNode,
)
from bayplan.cel.types import Type

LIMIT = 2**64 - 1
Range = tuple[int, int]
UNKNOWN: Range = (0, LIMIT)
ONE: Range = (1, 1)
ZERO: Range = (0, 0)
Path = tuple[str, ...] | None
SizeOf = Callable[[tuple[str, ...]], int | None]


def plus(a: Range, b: Range) -> Range:
    return min(a[0] + b[0], LIMIT), min(a[1] + b[1], LIMIT)


def times(a: Range, b: Range) -> Range:
    return min(a[0] * b[0], LIMIT), min(a[1] * b[1], LIMIT)


def factor(a: Range, by: float) -> Range:
    return _scaled(a[0], by), _scaled(a[1], by)


def _scaled(value: int, by: float) -> int:
    return min(ceil(float(value) * by), LIMIT)


def union(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


class Entries:
    """How large the keys and values of a list or map that was written out are."""

    def __init__(self, kind: str, key: Range, value: Range) -> None:
        self.kind, self.key, self.value = kind, key, value


def _union(a: Entries | None, b: Entries | None) -> Entries | None:
    if a is None or b is None:
        return None
    return Entries(a.kind, union(a.key, b.key), union(a.value, b.value))


class _Local:
    def __init__(self, path: Path, size: Range | None, entries: Entries | None) -> None:
        self.path, self.size, self.entries = path, size, entries


class Estimator:
    """Estimates one checked expression."""

    def __init__(self, checked: Checker, size_of: SizeOf) -> None:
        self.checked = checked
        self.size_of = size_of
        self.paths: dict[Node, Path] = {}
        self.sizes: dict[Node, Range] = {}
        self.entries: dict[Node, Entries] = {}
        self.locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> Range:
        name = self.checked.names.get(node)
        if name is not None:
            return self._ident(node, name)
        return _COSTS[type(node)](self, node)

    def _ident(self, node: Node, name: str) -> Range:
        stack = self.locals.get(name)
        self.paths[node] = stack[-1].path if stack else (name,)
        return ONE

    def _select(self, node: Select) -> Range:
        cost = self.cost(node.operand)
        if node.test:
            return cost
        if self.checked.types[node.operand].kind in ("map", "struct", "param"):
            cost = plus(cost, ONE)
        self.paths[node] = self._join(node.operand, node.field)
        return cost

    def _join(self, node: Node, step: str) -> Path:
        return (*(self.path(node) or ()), step)

    def path(self, node: Node) -> Path:
        if isinstance(node, Ident):
            stack = self.locals.get(node.name)
            if stack:
                return stack[-1].path
        return self.paths.get(node)

    def size(self, node: Node) -> Range | None:
        """How large a value is; None if nothing is known."""
        found = self.sizes.get(node)
        if found is not None:
            return found
        written = _written(node)
        if written is not None:
            return written
        path = self.path(node)
        if path:
            most = self.size_of(path)
            if most is not None:
                self.sizes[node] = (0, most)
                return 0, most
        if self.checked.types[node].kind in _FIXED:
            return ONE
        if isinstance(node, Ident):
            stack = self.locals.get(node.name)
            if stack:
                return stack[-1].size
        return None

    def bound(self, node: Node) -> Range:
        found = self.size(node)
        return UNKNOWN if found is None else found

    def entry(self, node: Node) -> Entries | None:
        found = self.entries.get(node)
        if found is None and isinstance(node, Ident):
            stack = self.locals.get(node.name)
            return stack[-1].entries if stack else None
        return found

    def item_size(self, node: Node) -> tuple[Type, Range] | None:
        """The type and size of a list's items; None if this is no list."""
        params = self.checked.types[node].params
        if not params:
            return None
        path = self._join(node, "@items") if self.path(node) is not None else None
        most = self.size_of(path) if path else None
        return params[0], UNKNOWN if most is None else (0, most)

    def _list(self, node: ListNode) -> Range:
        cost, item = ZERO, (LIMIT if node.items else 0, 0)
        for each in node.items:
            cost = plus(cost, self.cost(each))
            item = union(item, self.bound(each))
        self.entries[node] = Entries("list", ONE, item)
        return plus(cost, (LIST_BASE, LIST_BASE))

    def _map(self, node: MapNode) -> Range:
        cost = ZERO
        key = value = (LIMIT if node.entries else 0, 0)
        for key_node, value_node, _ in node.entries:
            cost = plus(plus(cost, self.cost(key_node)), self.cost(value_node))
            key, value = union(key, self.bound(key_node)), union(value, self.bound(value_node))
        self.entries[node] = Entries("map", key, value)
        return plus(cost, (MAP_BASE, MAP_BASE))

    def _struct(self, node: StructNode) -> Range:
        cost = (STRUCT_BASE, STRUCT_BASE)
        for _, value, _, _ in node.fields:
            cost = plus(cost, self.cost(value))
        return cost

    def _fold(self, node: Fold) -> Range:
        if isinstance(node.condition, Literal) and node.condition.value is False:
            return self._let(node)
        cost = plus(self.cost(node.range), self.cost(node.init))
        self._push(node.accu, self.path(node.init), self.size(node.init), self.entry(node.init))
        self._push_variables(node)
        each = plus(self.cost(node.condition), self.cost(node.step))
        for name in (node.var, node.var2):
            if name:
                self.locals[name].pop()
        cost = plus(cost, self.cost(node.result))
        self.locals[node.accu].pop()
        count = self.bound(node.range)
        cost = plus(cost, times(count, each))
        if isinstance(node.init, Literal):
            found = self.size(node.init)
            if found is not None:
                self.sizes[node] = found
        elif isinstance(node.init, ListNode | MapNode):
            self.sizes[node] = count
            entries = self.entry(node.step)
            if entries is not None:
                self.entries[node] = entries
        return cost

    def _let(self, node: Fold) -> Range:
        cost = plus(self.cost(node.range), self.cost(node.init))
        self._push(node.accu, self.path(node.init), self.size(node.init), self.entry(node.init))
        cost = plus(cost, self.cost(node.result))
        self.locals[node.accu].pop()
        self._copy(node, node.result)
        return cost

    def _copy(self, node: Node, source: Node) -> None:
        found, entries = self.size(source), self.entry(source)
        if found is not None:
            self.sizes[node] = found
        if entries is not None:
            self.entries[node] = entries

    def _push(self, name: str, path: Path, size: Range | None, entries: Entries | None) -> None:
        self.locals.setdefault(name, []).append(_Local(path, size, entries))

    def _push_variables(self, node: Fold) -> None:
        entries = self.entry(node.range)
        kind = entries.kind if entries else self.checked.types[node.range].kind
        is_list = kind == "list"
        key_size, value_size = (entries.key, entries.value) if entries else (None, None)
        keys, values = ("@indices", "@items") if is_list else ("@keys", "@values")
        if node.var2:
            self._push(node.var, self._join(node.range, keys), key_size, None)
            self._push(node.var2, self._join(node.range, values), value_size, None)
        elif is_list:
            self._push(node.var, self._join(node.range, "@items"), value_size, None)
        else:
            self._push(node.var, self._join(node.range, "@keys"), key_size, None)

    def _call(self, node: Call) -> Range:
        if node.function == "dyn":
            cost = plus(ONE, self.cost(node.args[0]))
            self._copy(node, node.args[0])
            return cost
        args = [self.cost(each) for each in node.args]
        target = ZERO if node.target is None else self.cost(node.target)
        overloads = self.checked.overloads.get(node) or []
        if not overloads:
            return ZERO
        least, most, result = LIMIT, 0, None
        for overload in overloads:
            found, size = self._function(node, overload.id, args)
            least, most = union((least, most), found)
            if size is not None:
                result = size if result is None else union(result, size)
            if overload.id in ("index_list", "index_map"):
                entries = self.entry(node.args[0])
                result = entries.value if entries else None
                step = "@items" if overload.id == "index_list" else "@values"
                self.paths[node] = self._join(node.args[0], step)
            if result is None:
                result = self.size(node)
        if result is not None:
            self.sizes[node] = result
        return plus(target, (least, most))

    def _function(self, node: Call, overload: str, args: list[Range]) -> tuple[Range, Range | None]:
        from bayplan.cel.estimate_calls import estimate_call

        if overload in ("logical_and", "logical_or"):
            return (args[0][0], plus(args[0], args[1])[1]), None
        if overload == "conditional":
            size = union(self.bound(node.args[1]), self.bound(node.args[2]))
            entries = _union(self.entry(node.args[1]), self.entry(node.args[2]))
            if entries is not None:
                self.entries[node] = entries
            return plus(args[0], union(args[1], args[2])), size
        total = ZERO
        for each in args:
            total = plus(total, each)
        cost, result = estimate_call(self, node, overload)
        return plus(cost, total), result


_FIXED = ("bool", "double", "duration", "int", "timestamp", "uint", "null_type", "any", "type")


def _written(node: Node) -> Range | None:
    """The size of what stands in the text itself."""
    if isinstance(node, Literal):
        length = len(node.value) if isinstance(node.value, str | bytes) else 1
    elif isinstance(node, ListNode):
        length = len(node.items)
    elif isinstance(node, MapNode):
        length = len(node.entries)
    else:
        return None
    return length, length


_COSTS: dict[type, Callable[[Estimator, Any], Range]] = {
    Literal: lambda estimator, node: ZERO,
    Ident: lambda estimator, node: estimator._ident(node, node.name),
    Select: Estimator._select,
    Call: Estimator._call,
    ListNode: Estimator._list,
    MapNode: Estimator._map,
    StructNode: Estimator._struct,
    Fold: Estimator._fold,
}

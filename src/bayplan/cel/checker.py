"""Gives every part of an expression a type, resolves functions, and notes what does not fit.

Follows upstream's checker: same order, same substitutions, same words. Results are in `types` and
`overloads`, keyed by the node itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.api.patterns import PatternError, compile_pattern
from bayplan.cel import times
from bayplan.cel import types as t
from bayplan.cel.errors import EvaluationError, Problems
from bayplan.cel.formatting import check_format
from bayplan.cel.overloads import Library, Overload
from bayplan.cel.standard import TYPE_NAMES
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
from bayplan.cel.values import Uint

Structs = dict[str, dict[str, Type]]
_LITERALS: dict[type, Type] = {
    bool: t.BOOL,
    int: t.INT,
    Uint: t.UINT,
    float: t.DOUBLE,
    str: t.STRING,
    bytes: t.BYTES,
    type(None): t.NULL,
}


def qualified_name(node: Node) -> str | None:
    """`a.b.c`, if the node is nothing but names and dots."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.test:
        before = qualified_name(node.operand)
        return None if before is None else f"{before}.{node.field}"
    return None


class Checker:
    """One expression in one environment."""

    def __init__(
        self, library: Library, structs: Structs, variables: dict[str, Type], problems: Problems
    ) -> None:
        self.library = library
        self.structs = structs
        self.scopes: list[dict[str, Type]] = [variables]
        self.problems = problems
        self.mapping: t.Mapping = {}
        self.types: dict[Node, Type] = {}
        self.overloads: dict[Node, list[Overload]] = {}
        self.names: dict[Node, str] = {}
        self._fresh = 0

    def check(self, node: Node) -> None:
        _CHECKS[type(node)](self, node)

    def finish(self) -> None:
        """Replace what stayed open by `dyn`."""
        for node, given in self.types.items():
            self.types[node] = t.substitute(self.mapping, given, to_dyn=True)

    def _variable(self) -> Type:
        self._fresh += 1
        return t.parameter(f"_var{self._fresh - 1}")

    def _lookup(self, name: str) -> Type | None:
        name = name.removeprefix(".")
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        if name in TYPE_NAMES:
            return TYPE_NAMES[name]
        return t.type_of(t.struct(name)) if name in self.structs else None

    def assignable(self, first: Type, second: Type) -> bool:
        return self._all_assignable((first,), (second,))

    def _all_assignable(self, first: tuple[Type, ...], second: tuple[Type, ...]) -> bool:
        attempt = t.Attempt(self.mapping)
        if not t.all_assignable(attempt, first, second):
            return False
        self.mapping |= attempt
        return True

    def _undeclared(self, node: Node, name: str) -> None:
        self.types[node] = t.ERROR
        self.problems.add(node.offset, f"undeclared reference to '{name}' (in container '')")

    def _mismatch(self, node: Node, expected: Type, found: Type) -> None:
        self.problems.add(
            node.offset,
            f"expected type '{t.substitute(self.mapping, expected)}' but found "
            f"'{t.substitute(self.mapping, found)}'",
        )

    def _literal(self, node: Literal) -> None:
        self.types[node] = _LITERALS[type(node.value)]

    def _ident(self, node: Ident) -> None:
        found = self._lookup(node.name)
        if found is None:
            self._undeclared(node, node.name.removeprefix("."))
            return
        self.types[node] = found
        self.names[node] = node.name.removeprefix(".")

    def _select(self, node: Select) -> None:
        name = qualified_name(node)
        found = self._lookup(name) if name else None
        if found is not None and name:
            self.types[node] = found
            self.names[node] = name
            return
        result = self._field(node, node.operand, node.field, optional=False)
        self.types[node] = t.BOOL if node.test else t.substitute(self.mapping, result)

    def _field(self, node: Node, operand: Node, field: str, *, optional: bool) -> Type:
        self.check(operand)
        target, inside = t.unwrap_optional(t.substitute(self.mapping, self.types[operand]))
        result = t.DYN
        if target.kind == "map":
            result = target.params[1]
        elif target.kind == "struct":
            found = self.structs.get(target.name, {}).get(field)
            if found is None:
                self.problems.add(node.offset, f"undefined field '{field}'")
                found = t.ERROR
            result = found
        elif target.kind == "param":
            self.assignable(t.DYN, target)
        elif not t.is_dyn(target) and target.kind != "error":
            self.problems.add(node.offset, f"type '{target}' does not support field selection")
        return t.optional_of(result) if inside or optional else result

    def _call(self, node: Call) -> None:
        if node.function == "_?._":
            field = node.args[1]
            assert isinstance(field, Literal)
            result = self._field(node, node.args[0], field.value, optional=True)
            self.types[field] = t.STRING
            self.types[node] = t.substitute(self.mapping, result)
            self.overloads[node] = self.library["_?._"]
            return
        for each in node.args:
            self.check(each)
        if node.target is not None:
            prefix = qualified_name(node.target)
            if prefix is not None and f"{prefix}.{node.function}" in self.library:
                node.function, node.target = f"{prefix}.{node.function}", None
            else:
                self.check(node.target)
        name = node.function.removeprefix(".")
        if name not in self.library:
            self._undeclared(node, name)
            return
        self._resolve(node, name)

    def _resolve(self, node: Call, name: str) -> None:
        nodes = node.args if node.target is None else [node.target, *node.args]
        given = tuple(self.types[each] for each in nodes)
        if name in ("_&&_", "_||_"):
            self._logic(node, nodes, given, name)
            return
        result: Type | None = None
        fitting = []
        for overload in self.library[name]:
            if overload.method is not (node.target is not None):
                continue
            args, produced = self._instance(overload)
            if self._all_assignable(given, args):
                fitting.append(overload)
                found = t.substitute(self.mapping, produced)
                if result is None:
                    result = found
                elif not t.is_dyn(result) and found != result:
                    result = t.DYN
        if result is None:
            shown = [str(t.substitute(self.mapping, each, to_dyn=True)) for each in given]
            target = f"{shown.pop(0)}." if node.target is not None else ""
            self.problems.add(
                node.offset,
                f"found no matching overload for '{name}' applied to "
                f"'{target}({', '.join(shown)})'",
            )
            result = t.ERROR
        self.types[node] = result
        self.overloads[node] = fitting

    def _logic(self, node: Call, nodes: list[Node], given: tuple[Type, ...], name: str) -> None:
        wrong = False
        for each, found in zip(nodes, given, strict=True):
            if not self.assignable(found, t.BOOL):
                self._mismatch(each, t.BOOL, found)
                wrong = True
        self.types[node] = t.ERROR if wrong else t.BOOL
        self.overloads[node] = self.library[name]

    def _instance(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        """The overload's types with fresh variables for its parameters."""
        fresh: t.Mapping = {}
        for each in (*overload.args, overload.result):
            for name in _parameters(each):
                if name not in fresh:
                    fresh[name] = self._variable()
        args = tuple(t.substitute(fresh, each) for each in overload.args)
        return args, t.substitute(fresh, overload.result)

    def _list(self, node: ListNode) -> None:
        item: Type | None = None
        for at, each in enumerate(node.items):
            self.check(each)
            found = self._entry(each, at in node.optional)
            item = self._join(each, item, found)
        self.types[node] = t.list_of(item or self._variable())

    def _entry(self, node: Node, optional: bool) -> Type:
        found = self.types[node]
        if not optional:
            return found
        inner, inside = t.unwrap_optional(found)
        if not inside and not t.is_dyn(inner):
            self._mismatch(node, t.optional_of(inner), inner)
        return inner

    def _join(self, node: Node, before: Type | None, found: Type) -> Type:
        if before is None:
            return found
        if self.assignable(before, found):
            return t.most_general(before, found)
        return t.DYN

    def _map(self, node: MapNode) -> None:
        key: Type | None = None
        value: Type | None = None
        for key_node, value_node, optional in node.entries:
            self.check(key_node)
            key = self._join(key_node, key, self.types[key_node])
            self.check(value_node)
            value = self._join(value_node, value, self._entry(value_node, optional))
        self.types[node] = t.map_of(key or self._variable(), value or self._variable())

    def _struct(self, node: StructNode) -> None:
        name = node.name.removeprefix(".")
        if name not in self.structs:
            self._undeclared(node, name)
            return
        self.types[node] = t.struct(name)
        for field, value, optional, offset in node.fields:
            self.check(value)
            wanted = self.structs[name].get(field)
            if wanted is None:
                self.problems.add(offset, f"undefined field '{field}'")
                continue
            found = self._entry(value, optional)
            if not self.assignable(wanted, found):
                self.problems.add(
                    offset,
                    f"expected type of field '{field}' is '{wanted}' but provided type is "
                    f"'{t.substitute(self.mapping, found)}'",
                )

    def _fold(self, node: Fold) -> None:
        self.check(node.range)
        self.check(node.init)
        ranged = t.substitute(self.mapping, self.types[node.range])
        accu = self.types[node.init]
        self.scopes.append({node.accu: accu})
        self.scopes.append(self._iterated(node, ranged))
        self.check(node.condition)
        self._assert(node.condition, t.BOOL)
        self.check(node.step)
        self._assert(node.step, accu)
        self.scopes.pop()
        self.check(node.result)
        self.scopes.pop()
        self.types[node] = t.substitute(self.mapping, self.types[node.result])

    def _iterated(self, node: Fold, ranged: Type) -> dict[str, Type]:
        first = second = t.DYN
        if ranged.kind == "list":
            first, second = (t.INT if node.var2 else ranged.params[0]), ranged.params[0]
        elif ranged.kind == "map":
            first, second = ranged.params
        elif t.is_dyn(ranged) or ranged.kind in ("error", "param"):
            self.assignable(t.DYN, ranged)
        else:
            self.problems.add(
                node.range.offset,
                f"expression of type '{ranged}' cannot be range of a comprehension (must be list, "
                "map, or dynamic)",
            )
            first = second = t.ERROR
        return {node.var: first, node.var2: second} if node.var2 else {node.var: first}

    def _assert(self, node: Node, wanted: Type) -> None:
        if not self.assignable(wanted, self.types[node]):
            self._mismatch(node, wanted, self.types[node])

    def validate_literals(self) -> None:
        """Texts that are read while evaluating must be readable: patterns, times."""
        exempt: set[Node] = set()
        for node in self.types:
            if isinstance(node, Call) and node.function == "format":
                exempt.update(*map(_containers, node.args))
                check_format(node, self.types, self.problems)
        for node in self.types:
            if isinstance(node, Call):
                _validate_call(node, self.problems)
            elif isinstance(node, ListNode | MapNode) and node not in exempt:
                self._homogeneous(node)

    def _homogeneous(self, node: ListNode | MapNode) -> None:
        parts = node.items if isinstance(node, ListNode) else [e[1] for e in node.entries]
        first: Type | None = None
        for each in parts:
            found = t.unwrap_optional(t.substitute(self.mapping, self.types[each], to_dyn=True))[0]
            if first is None or t.is_dyn(first):
                first = found
            elif found != first and not t.is_dyn(found):
                self.problems.add(
                    each.offset,
                    f"expected type '{first}' but found '{found}'",
                )


def _containers(node: Node) -> list[Node]:
    """The lists and maps that are written out in a part; `format` may mix what it is given."""
    if isinstance(node, ListNode):
        return [node, *(found for each in node.items for found in _containers(each))]
    if isinstance(node, MapNode):
        return [node, *(found for _, value, _ in node.entries for found in _containers(value))]
    return []


def _parameters(given: Type) -> list[Type]:
    if given.kind == "param":
        return [given]
    return [found for each in given.params for found in _parameters(each)]


_READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "duration": (times.parse_duration, "invalid duration argument"),
    "timestamp": (times.parse_timestamp, "invalid timestamp argument"),
}


def _validate_call(node: Call, problems: Problems) -> None:
    if node.function == "matches" and node.args:
        pattern = node.args[-1]
        if isinstance(pattern, Literal) and isinstance(pattern.value, str):
            try:
                compile_pattern(pattern.value)
            except PatternError:
                problems.add(pattern.offset, "invalid matches argument")
    reader = _READERS.get(node.function)
    if reader is None or node.target is not None or len(node.args) != 1:
        return
    given = node.args[0]
    if isinstance(given, Literal) and isinstance(given.value, str):
        try:
            reader[0](given.value)
        except EvaluationError:
            problems.add(given.offset, reader[1])


_CHECKS: dict[type, Callable[[Checker, Any], None]] = {
    Literal: Checker._literal,
    Ident: Checker._ident,
    Select: Checker._select,
    Call: Checker._call,
    ListNode: Checker._list,
    MapNode: Checker._map,
    StructNode: Checker._struct,
    Fold: Checker._fold,
}

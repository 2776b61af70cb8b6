"""Makes a checked expression runnable: a tree of functions of the variables.

Every step adds its cost to the frame; calls and rounds of a loop look whether the limit is passed.
As in CEL, `&&` and `||` ignore a failure on one side if the other side decides, and a loop carries
a failure along until it is known whether it matters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.cel import types as t
from bayplan.cel.checker import Checker
from bayplan.cel.cost import (
    LIST_BASE,
    MAP_BASE,
    STRUCT_BASE,
    TEXT_PER_COST,
    Counter,
    counter,
)
from bayplan.cel.errors import CostExceeded, EvaluationError
from bayplan.cel.overloads import Function, Overload
from bayplan.cel.standard import TYPE_NAMES, Growing, find, optional_index, shown_key
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
from bayplan.cel.values import NONE, Optional, Uint, contains, go_type, kind_name


class Frame:
    """The variables of one evaluation and what it has cost so far."""

    __slots__ = ("cost", "limit", "variables")

    def __init__(self, variables: dict[str, Any], limit: int) -> None:
        self.variables = variables
        self.cost = 0
        self.limit = limit

    def spend(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self.limit:
            raise CostExceeded


Run = Callable[[Frame], Any]


class Builder:
    """Turns nodes into functions, with what the checker found."""

    def __init__(self, checked: Checker, unescape: Callable[[str], str]) -> None:
        self.checked = checked
        self.unescape = unescape

    def build(self, node: Node) -> Run:
        constant = self._constant(node)
        if constant is not _NOTHING:
            return lambda frame: constant
        name = self.checked.names.get(node)
        if name is not None:
            return self._named(name)
        return _BUILDERS[type(node)](self, node)

    def _constant(self, node: Node) -> Any:
        """The value of what can be known before it runs, and therefore costs nothing."""
        if isinstance(node, Literal):
            return node.value
        if isinstance(node, ListNode) and not node.optional:
            items = [self._constant(each) for each in node.items]
            return _NOTHING if any(each is _NOTHING for each in items) else items
        if isinstance(node, MapNode) and not any(optional for _, _, optional in node.entries):
            made: dict[Any, Any] = {}
            for key_node, value_node, _ in node.entries:
                key, value = self._constant(key_node), self._constant(value_node)
                if key is _NOTHING or value is _NOTHING:
                    return _NOTHING
                _put(made, key, value, False)
            return made
        if isinstance(node, Call) and node.target is None and node.function in _CONVERSIONS:
            value = self._constant(node.args[0])
            for overload in () if value is _NOTHING else self.checked.overloads[node]:
                if overload.fits([value]):
                    return overload.run(value)
        return _NOTHING

    def _attribute(self, node: Node) -> bool:
        """Whether a part names a value; upstream counts those in another way."""
        if node in self.checked.names:
            return True
        if isinstance(node, Select):
            return not node.test
        return isinstance(node, Call) and node.function in _ATTRIBUTES

    def _free_head(self, node: Node) -> Run:
        """A part that costs one less if it is a name."""
        run = self.build(node)
        if not self._attribute(node):
            return run

        def cheaper(frame: Frame) -> Any:
            frame.cost -= 1
            return run(frame)

        return cheaper

    def _operand(self, node: Node) -> Run:
        """What a field or item is taken of; it costs one more if it is calculated."""
        run = self.build(node)
        if self._attribute(node):
            return run

        def dearer(frame: Frame) -> Any:
            found = run(frame)
            frame.cost += 1
            return found

        return dearer

    def _named(self, name: str) -> Run:
        constant = TYPE_NAMES.get(name)
        if constant is not None and not any(name in scope for scope in self.checked.scopes):
            shown = constant.params[0]
            made = t.Type("type", _RUNTIME_NAMES.get(shown.kind, shown.name))
            return lambda frame: made

        def run(frame: Frame) -> Any:
            frame.cost += 1
            try:
                found = frame.variables[name]
            except KeyError:
                raise EvaluationError(f"no such attribute(s): {name}") from None
            if found.__class__ is _Failure:
                raise found.error
            return found

        return run

    def _literal(self, node: Literal) -> Run:
        value = node.value
        return lambda frame: value

    def _select(self, node: Select) -> Run:
        operand = self._operand(node.operand)
        kind = self.checked.types[node.operand]
        inner = t.unwrap_optional(kind)[0]
        field = self.unescape(node.field) if inner.kind == "struct" else node.field
        typed = inner.kind == "struct"
        if node.test:
            return _presence(operand, field, typed)

        def run(frame: Frame) -> Any:
            value = operand(frame)
            frame.cost += 1
            if value.__class__ is dict:
                found = value.get(field)
                if found is not None:
                    return found
            return _get_field(value, field, typed)

        return run

    def _list(self, node: ListNode) -> Run:
        items = [self.build(each) for each in node.items]
        optional = node.optional

        def run(frame: Frame) -> Any:
            made = [item(frame) for item in items]
            frame.spend(LIST_BASE)
            if optional:
                return _without_missing(made, optional)
            return made

        return run

    def _map(self, node: MapNode) -> Run:
        entries = [(self.build(key), self.build(value), opt) for key, value, opt in node.entries]

        def run(frame: Frame) -> Any:
            made: dict[Any, Any] = {}
            for key, value, optional in entries:
                _put(made, key(frame), value(frame), optional)
            frame.spend(MAP_BASE)
            return made

        return run

    def _struct(self, node: StructNode) -> Run:
        fields = [(name, self.build(value), opt) for name, value, opt, _ in node.fields]

        def run(frame: Frame) -> Any:
            made: dict[Any, Any] = {}
            for name, value, optional in fields:
                _put(made, self.unescape(name), value(frame), optional)
            frame.spend(STRUCT_BASE)
            return made

        return run

    def _call(self, node: Call) -> Run:
        special = _SPECIAL.get(node.function)
        nodes = node.args if node.target is None else [node.target, *node.args]
        if special is not None:
            return special(self, node)
        if node.function == "_[_]":
            args = [self._operand(nodes[0]), self._free_head(nodes[1])]
        else:
            args = [self.build(each) for each in nodes]
        overloads = self.checked.overloads[node]
        if len(overloads) == 1 and self._certain(nodes, overloads[0]):
            return _direct(overloads[0], args)
        return _dispatched(node, overloads, args)

    def _certain(self, nodes: list[Node], overload: Overload) -> bool:
        """Whether the types are known before it runs."""
        return all(
            not t.is_dyn(self.checked.types[each]) or wanted.kind in ("dyn", "any", "param")
            for each, wanted in zip(nodes, overload.args, strict=True)
        )

    def _fold(self, node: Fold) -> Run:
        ranged, init = self.build(node.range), self.build(node.init)
        condition, step, result = map(self.build, (node.condition, node.step, node.result))
        var, var2, accu = node.var, node.var2, node.accu
        grows, maps = isinstance(node.init, ListNode), isinstance(node.init, MapNode)

        def run(frame: Frame) -> Any:
            items = ranged(frame)
            if not isinstance(items, list | dict):
                raise EvaluationError(f"got '{go_type(items)}', expected iterable type")
            outer = frame.variables
            frame.variables = inner = dict(outer)
            try:
                start = init(frame)
                inner[accu] = Growing(start) if grows else dict(start) if maps else start
                for first, second in _rounds(items, bool(var2)):
                    inner[var] = first
                    if var2:
                        inner[var2] = second
                    if not condition(frame):
                        break
                    try:
                        inner[accu] = step(frame)
                    except CostExceeded:
                        raise
                    except EvaluationError as error:
                        inner[accu] = _Failure(error)
                    frame.spend(0)
                inner.pop(var, None)
                found = result(frame)
                return list(found) if found.__class__ is Growing else found
            finally:
                frame.variables = outer

        return run


_NOTHING = object()
_CONVERSIONS = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)
_ATTRIBUTES = ("_[_]", "_[?_]", "_?._", "_?_:_")


class _Failure:
    """What a loop has come to, if a round failed."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error


_RUNTIME_NAMES = {
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "list": "list",
    "map": "map",
    "null_type": "null_type",
}


def _rounds(items: Any, pairs: bool) -> Any:
    if isinstance(items, dict):
        return list(items.items())
    return list(enumerate(items)) if pairs else [(item, None) for item in items]


def _get_field(value: Any, field: str, typed: bool) -> Any:
    """A field; in an object with a schema, null is the same as nothing."""
    if isinstance(value, Optional):
        return value if value.empty else optional_index(value.value, field)
    found = value.get(field, NONE) if isinstance(value, dict) else NONE
    if found is NONE or (typed and found is None):
        raise EvaluationError(f"no such key: {field}")
    return found


def _presence(operand: Run, field: str, typed: bool) -> Run:
    def run(frame: Frame) -> bool:
        value = operand(frame)
        if isinstance(value, Optional):
            if value.empty:
                return False
            value = value.value
        if not isinstance(value, dict):
            raise EvaluationError(f"no such key: {field}")
        found = value.get(field, NONE)
        return found is not NONE and not (typed and found is None)

    return run


def _without_missing(items: list[Any], optional: set[int]) -> list[Any]:
    made = []
    for at, item in enumerate(items):
        if at not in optional:
            made.append(item)
        elif not isinstance(item, Optional):
            raise EvaluationError(
                f"cannot initialize optional list element from non-optional value {item}"
            )
        elif not item.empty:
            made.append(item.value)
    return made


def _put(made: dict[Any, Any], key: Any, value: Any, optional: bool) -> None:
    if type(key) not in (str, int, Uint, bool):
        raise EvaluationError(f"unsupported key type: {kind_name(key)}")
    if optional:
        if not isinstance(value, Optional):
            words = f"cannot initialize optional entry '{shown_key(key)}' from non-optional value"
            raise EvaluationError(f"{words} {value}")
        if value.empty:
            return
        value = value.value
    if find(made, key) is not NONE:
        raise EvaluationError("Failed with repeated key")
    made[key] = value


def _values(frame: Frame, args: list[Run]) -> list[Any]:
    """All arguments; if one fails the others are evaluated nevertheless, and the call counts."""
    values: list[Any] = []
    problem: EvaluationError | None = None
    for arg in args:
        try:
            values.append(arg(frame))
        except CostExceeded:
            raise
        except EvaluationError as error:
            problem = problem or error
    if problem is not None:
        frame.spend(1)
        raise problem
    return values


def _direct(overload: Overload, args: list[Run]) -> Run:
    function, name = overload.run, overload.id
    count = counter(overload.function, name)

    return lambda frame: _apply(frame, function, name, count, _values(frame, args))


def _apply(
    frame: Frame, function: Function, name: str, count: Counter | None, values: list[Any]
) -> Any:
    try:
        result = function(*values)
    except EvaluationError:
        frame.spend(1)
        raise
    cost = 1 if count is None else count(name, values, result)
    if type(result) is str and len(result) > cost * TEXT_PER_COST:
        cost = len(result) // TEXT_PER_COST
    frame.spend(cost)
    return result


def _dispatched(node: Call, overloads: list[Overload], args: list[Run]) -> Run:
    def run(frame: Frame) -> Any:
        values = _values(frame, args)
        for overload in overloads:
            if overload.fits(values):
                break
        else:
            frame.spend(1)
            if node.function == "_[_]":
                return _index_error(values)
            named = node.function[0] not in "_-!@"
            raise EvaluationError("no such overload" + (f": {node.function}" if named else ""))
        count = counter(overload.function, overload.id)
        return _apply(frame, overload.run, overload.id, count, values)

    return run


def _index_error(values: list[Any]) -> Any:
    container, key = values
    if isinstance(container, list):
        raise EvaluationError(f"unsupported index type '{kind_name(key)}' in list")
    raise EvaluationError(f"no such key: {shown_key(key)}")


def _in_constants(builder: Builder, node: Call) -> Run:
    """`x in [1, 2]`: upstream makes a set of the list, and asking it costs nothing."""
    known = builder._constant(node.args[1])
    if not isinstance(known, list):
        args = [builder.build(each) for each in node.args]
        overloads = builder.checked.overloads[node]
        if len(overloads) == 1 and builder._certain(node.args, overloads[0]):
            return _direct(overloads[0], args)
        return _dispatched(node, overloads, args)
    item = builder.build(node.args[0])
    return lambda frame: contains(known, item(frame))


def _condition(builder: Builder, node: Call) -> Run:
    test = builder.build(node.args[0])
    first, second = map(builder._free_head, node.args[1:])

    def run(frame: Frame) -> Any:
        chosen = test(frame)
        if chosen is True:
            return first(frame)
        if chosen is False:
            return second(frame)
        raise EvaluationError("no such overload")

    return run


def _deciding(verdict: bool) -> Callable[[Builder, Call], Run]:
    """`||` (verdict True) or `&&` (False)."""
    other = not verdict

    def make(builder: Builder, node: Call) -> Run:
        left, right = map(builder.build, node.args)

        def run(frame: Frame) -> Any:
            try:
                first = left(frame)
                if first is verdict:
                    return verdict
            except CostExceeded:
                raise
            except EvaluationError as error:
                if right(frame) is verdict:
                    return verdict
                raise error from None
            second = right(frame)
            if second is verdict:
                return verdict
            if first is other and second is other:
                return other
            raise EvaluationError("no such overload")

        return run

    return make


def _not_strictly_false(builder: Builder, node: Call) -> Run:
    inner = builder.build(node.args[0])

    def run(frame: Frame) -> bool:
        try:
            found = inner(frame)
        except CostExceeded:
            raise
        except EvaluationError:
            found = True
        frame.spend(1)
        return found is not False

    return run


def _optional_select(builder: Builder, node: Call) -> Run:
    operand = builder._operand(node.args[0])
    literal = node.args[1]
    assert isinstance(literal, Literal)
    kind = t.unwrap_optional(builder.checked.types[node.args[0]])[0].kind
    field = builder.unescape(literal.value) if kind == "struct" else literal.value

    def run(frame: Frame) -> Any:
        found = optional_index(operand(frame), field)
        if found.empty or (kind == "struct" and found.value is None):
            return NONE
        frame.cost += 1
        return found

    return run


def _optional_item(builder: Builder, node: Call) -> Run:
    operand, key = builder._operand(node.args[0]), builder._free_head(node.args[1])

    def run(frame: Frame) -> Any:
        found = optional_index(operand(frame), key(frame))
        frame.cost += not found.empty
        return found

    return run


def _or_else(unwrap: bool) -> Callable[[Builder, Call], Run]:
    """`a.or(b)` and `a.orValue(b)`: b is only asked if a is missing."""

    def make(builder: Builder, node: Call) -> Run:
        assert node.target is not None
        first, second = builder.build(node.target), builder.build(node.args[0])

        def run(frame: Frame) -> Any:
            value = first(frame)
            if not isinstance(value, Optional):
                raise EvaluationError("no such overload")
            if value.empty:
                return second(frame)
            return value.value if unwrap else value

        return run

    return make


_SPECIAL: dict[str, Callable[[Builder, Call], Run]] = {
    "_?_:_": _condition,
    "_||_": _deciding(True),
    "_&&_": _deciding(False),
    "@not_strictly_false": _not_strictly_false,
    "_?._": _optional_select,
    "_[?_]": _optional_item,
    "@in": _in_constants,
    "or": _or_else(False),
    "orValue": _or_else(True),
}
_BUILDERS: dict[type, Callable[[Builder, Any], Run]] = {
    Literal: Builder._literal,
    Ident: lambda builder, node: builder._named(node.name),
    Select: Builder._select,
    Call: Builder._call,
    ListNode: Builder._list,
    MapNode: Builder._map,
    StructNode: Builder._struct,
    Fold: Builder._fold,
}

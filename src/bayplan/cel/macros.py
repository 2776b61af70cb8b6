"""Expands macros into the comprehensions that they stand for, as upstream's parser does."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.cel.errors import Problems
from bayplan.cel.syntax import Call, Fold, Ident, ListNode, Literal, MapNode, Node, Select

ACCUMULATOR = "@result"
UNUSED = "#unused"


class _Wrong(Exception):
    """A macro has arguments that it cannot take."""


def expand_global(name: str, args: list[Node], offset: int, problems: Problems) -> Node | None:
    if name != "has" or len(args) != 1:
        return None
    given = args[0]
    if not isinstance(given, Select) or given.test:
        problems.add(given.offset, "invalid argument to has() macro")
        return given
    return Select(offset, given.operand, given.field, True)


def expand_member(
    name: str, target: Node, args: list[Node], offset: int, problems: Problems, bindings: bool
) -> Node | None:
    """Return what the macro stands for, or None if this is no macro."""
    if bindings and name == "bind" and isinstance(target, Ident) and target.name == "cel":
        make: _Maker | None = _bind if len(args) == 3 else None
    else:
        make = _MACROS.get((name, len(args)))
    if make is None:
        return None
    try:
        return make(offset, target, args)
    except _Wrong as wrong:
        node, message = wrong.args
        problems.add(node.offset, message)
        return Literal(offset, None)


_Maker = Callable[[int, Node, list[Node]], Node]


def _variable(node: Node) -> str:
    if not isinstance(node, Ident):
        raise _Wrong(node, "argument must be a simple name")
    if node.name in (ACCUMULATOR, "__result__"):
        raise _Wrong(node, "iteration variable overwrites accumulator variable")
    return node.name


def _split(args: list[Node], bodies: int) -> tuple[str, str, list[Node]]:
    """The one or two variables of a macro, and its other arguments."""
    if len(args) == bodies + 1:
        return _variable(args[0]), "", args[1:]
    first, second = _variable(args[0]), _variable(args[1])
    if first == second:
        raise _Wrong(args[1], f"duplicate variable name: {first}")
    return first, second, args[2:]


def _quantifier(
    offset: int, target: Node, args: list[Node], init: object, condition: Node, step: str
) -> Node:
    var, var2, (body,) = _split(args, 1)
    accu = Ident(offset, ACCUMULATOR)
    return Fold(
        offset,
        target,
        var,
        var2,
        ACCUMULATOR,
        Literal(offset, init),
        condition,
        Call(offset, step, [accu, body]),
        Ident(offset, ACCUMULATOR),
    )


def _all(offset: int, target: Node, args: list[Node]) -> Node:
    going_on = Call(offset, "@not_strictly_false", [Ident(offset, ACCUMULATOR)])
    return _quantifier(offset, target, args, True, going_on, "_&&_")


def _exists(offset: int, target: Node, args: list[Node]) -> Node:
    negated = Call(offset, "!_", [Ident(offset, ACCUMULATOR)])
    going_on = Call(offset, "@not_strictly_false", [negated])
    return _quantifier(offset, target, args, False, going_on, "_||_")


def _exists_one(offset: int, target: Node, args: list[Node]) -> Node:
    var, var2, (body,) = _split(args, 1)
    accu = Ident(offset, ACCUMULATOR)
    more = Call(offset, "_+_", [accu, Literal(offset, 1)])
    step = Call(offset, "_?_:_", [body, more, Ident(offset, ACCUMULATOR)])
    result = Call(offset, "_==_", [Ident(offset, ACCUMULATOR), Literal(offset, 1)])
    init, always = Literal(offset, 0), Literal(offset, True)
    return Fold(offset, target, var, var2, ACCUMULATOR, init, always, step, result)


def _collect(
    offset: int, target: Node, names: tuple[str, str], step: Node, only: Node | None, init: Node
) -> Node:
    if only is not None:
        step = Call(offset, "_?_:_", [only, step, Ident(offset, ACCUMULATOR)])
    always, result = Literal(offset, True), Ident(offset, ACCUMULATOR)
    return Fold(offset, target, *names, ACCUMULATOR, init, always, step, result)


def _appended(offset: int, item: Node) -> Node:
    return Call(offset, "_+_", [Ident(offset, ACCUMULATOR), ListNode(offset, [item])])


def _item(node: Node) -> str:
    if not isinstance(node, Ident):
        raise _Wrong(node, "argument is not an identifier")
    return _variable(node)


def _map(offset: int, target: Node, args: list[Node]) -> Node:
    names = (_item(args[0]), "")
    only = args[1] if len(args) == 3 else None
    step = _appended(offset, args[-1])
    return _collect(offset, target, names, step, only, ListNode(offset, []))


def _filter(offset: int, target: Node, args: list[Node]) -> Node:
    var = _item(args[0])
    step = _appended(offset, args[0])
    return _collect(offset, target, (var, ""), step, args[1], ListNode(offset, []))


def _transform(
    offset: int, target: Node, args: list[Node], make: Callable[[str, Node], Node], init: Node
) -> Node:
    var, var2, rest = _split(args[:2] + args[-1:], 1)
    only = args[2] if len(args) == 4 else None
    return _collect(offset, target, (var, var2), make(var, rest[0]), only, init)


def _transform_list(offset: int, target: Node, args: list[Node]) -> Node:
    return _transform(
        offset, target, args, lambda _, body: _appended(offset, body), ListNode(offset, [])
    )


def _transform_map(offset: int, target: Node, args: list[Node]) -> Node:
    def insert(var: str, body: Node) -> Node:
        inserted = [Ident(offset, ACCUMULATOR), Ident(offset, var), body]
        return Call(offset, "cel.@mapInsert", inserted)

    return _transform(offset, target, args, insert, MapNode(offset, []))


def _transform_entry(offset: int, target: Node, args: list[Node]) -> Node:
    def insert(_: str, body: Node) -> Node:
        return Call(offset, "cel.@mapInsert", [Ident(offset, ACCUMULATOR), body])

    return _transform(offset, target, args, insert, MapNode(offset, []))


def _let(offset: int, name: str, value: Node, body: Node) -> Node:
    """`name` stands for a value in the body: a comprehension over nothing."""
    return Fold(
        offset,
        ListNode(offset, []),
        UNUSED,
        "",
        name,
        value,
        Literal(offset, False),
        Ident(offset, name),
        body,
    )


def _bind(offset: int, target: Node, args: list[Node]) -> Node:
    if not isinstance(args[0], Ident):
        raise _Wrong(args[0], "cel.bind() variable names must be simple identifiers")
    return _let(offset, args[0].name, args[1], args[2])


def _sort_by(offset: int, target: Node, args: list[Node]) -> Node:
    if isinstance(target, Literal | MapNode):
        raise _Wrong(
            target,
            "sortBy can only be applied to a list, identifier, comprehension, call or select "
            "expression",
        )
    name = "@__sortBy_input__"
    keys = _map(offset, Ident(offset, name), args)
    call = Call(offset, "@sortByAssociatedKeys", [keys], Ident(offset, name))
    return _let(offset, name, target, call)


def _optional(offset: int, target: Node, args: list[Node], name: str) -> tuple[Node, Node, Node]:
    if not isinstance(args[0], Ident):
        raise _Wrong(args[0], f"{name}() variable name must be a simple identifier")
    has = Call(offset, "hasValue", [], target)
    body = _let(offset, args[0].name, Call(offset, "value", [], target), args[1])
    return has, body, Call(offset, "optional.none", [])


def _opt_map(offset: int, target: Node, args: list[Node]) -> Node:
    has, body, none = _optional(offset, target, args, "optMap")
    return Call(offset, "_?_:_", [has, Call(offset, "optional.of", [body]), none])


def _opt_flat_map(offset: int, target: Node, args: list[Node]) -> Node:
    has, body, none = _optional(offset, target, args, "optFlatMap")
    return Call(offset, "_?_:_", [has, body, none])


_MACROS: dict[tuple[str, int], _Maker] = {
    ("all", 2): _all,
    ("all", 3): _all,
    ("exists", 2): _exists,
    ("exists", 3): _exists,
    ("exists_one", 2): _exists_one,
    ("exists_one", 3): _exists_one,
    ("existsOne", 3): _exists_one,
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_entry,
    ("transformMapEntry", 4): _transform_entry,
    ("sortBy", 2): _sort_by,
    ("optMap", 2): _opt_map,
    ("optFlatMap", 2): _opt_flat_map,
}

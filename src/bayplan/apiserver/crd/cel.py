"""A small reader of the Common Expression Language, enough for usual validation rules.

Knows literals, fields, indexes, arithmetic, comparison, logic, `in`, `?:`, `has()`, `size()`, the
string methods, and the macros `all exists exists_one map filter`. Anything else raises
`Unsupported`, and whoever asked must not judge by such a rule. Types are those of JSON; there are
no timestamps, no protobuf messages.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from bayplan.api.patterns import PatternError, compile_pattern

LIMIT = 100_000  # steps that the rules of one request may take


class Budget:
    """What evaluation may still cost; shared by all rules of a request."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.left = limit

    def spend(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise CostExceeded(
                "validation failed due to running out of cost budget, no further validation rules "
                "will be run"
            )


class Scope(dict[str, Any]):
    """The variables of an expression, and what it may cost."""

    def __init__(self, variables: dict[str, Any], budget: Budget) -> None:
        super().__init__(variables)
        self.budget = budget

    def having(self, name: str, value: Any) -> Scope:
        inner = Scope(self, self.budget)
        inner[name] = value
        return inner


Node = Callable[[Scope], Any]
_TOKENS = re.compile(
    r"\s*(?:(?P<number>\d+\.\d+|\d+)u?|(?P<text>r?\"(?:\\.|[^\"\\])*\"|r?'(?:\\.|[^'\\])*')"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<op>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}]))"
)
MAX_LENGTH = 10_000
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class Unsupported(Exception):
    """The expression uses something that this reader does not know."""


class EvaluationError(Exception):
    """The expression is understood but cannot be evaluated on this value."""


class CostExceeded(EvaluationError):
    """The rules of a request cost more than they may."""


@lru_cache(maxsize=1024)
def compile_expression(text: str) -> Node:
    """Parse an expression into a function of its variables."""
    if len(text) > MAX_LENGTH:
        raise Unsupported("the expression is too long")
    parser = _Parser(_tokens(text))
    try:
        node = parser.ternary()
    except RecursionError:
        raise Unsupported("the expression is nested too deeply") from None
    if parser.peek() is not None:
        raise Unsupported(f"unexpected {parser.peek()!r}")
    return node


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKENS.match(text, at)
        if match is None or match.lastgroup is None:
            raise Unsupported(f"cannot read from {text[at : at + 10]!r} on")
        found.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return found


class _Parser:
    """Recursive descent; each method parses one level of precedence."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = tokens
        self.at = 0

    def peek(self) -> str | None:
        if self.at == len(self.tokens):
            return None
        kind, text = self.tokens[self.at]
        return text if kind in ("op", "name") else f"<{kind}>"

    def take(self, *wanted: str) -> str | None:
        found = self.peek()
        if found is None or found not in wanted:
            return None
        self.at += 1
        return found

    def expect(self, wanted: str) -> None:
        if self.take(wanted) is None:
            raise Unsupported(f"expected {wanted!r}")

    def ternary(self) -> Node:
        condition = self.either()
        if self.take("?") is None:
            return condition
        then = self.ternary()
        self.expect(":")
        other = self.ternary()
        return lambda scope: then(scope) if _true(condition(scope)) else other(scope)

    def either(self) -> Node:
        left = self.both()
        while self.take("||"):
            left = _or(left, self.both())
        return left

    def both(self) -> Node:
        left = self.relation()
        while self.take("&&"):
            left = _and(left, self.relation())
        return left

    def relation(self) -> Node:
        left = self.sum()
        while op := self.take("==", "!=", "<=", ">=", "<", ">", "in"):
            left = _binary(op, left, self.sum())
        return left

    def sum(self) -> Node:
        left = self.product()
        while op := self.take("+", "-"):
            left = _binary(op, left, self.product())
        return left

    def product(self) -> Node:
        left = self.unary()
        while op := self.take("*", "/", "%"):
            left = _binary(op, left, self.unary())
        return left

    def unary(self) -> Node:
        if self.take("!"):
            inner = self.unary()
            return lambda scope: not _true(inner(scope))
        if self.take("-"):
            inner = self.unary()
            return lambda scope: -inner(scope)
        return self.postfix()

    def postfix(self) -> Node:
        node = self.primary()
        while True:
            if self.take("."):
                node = self._member(node)
            elif self.take("["):
                key = self.ternary()
                self.expect("]")
                node = _index(node, key)
            else:
                return node

    def _member(self, target: Node) -> Node:
        name = self._name()
        if self.peek() != "(":
            return _field(target, name)
        self.expect("(")
        if name in _MACROS:
            variable = self._name()
            self.expect(",")
            body = self.ternary()
            self.expect(")")
            return _MACROS[name](target, variable, body)
        return _call(name, [target, *self._arguments()])

    def _name(self) -> str:
        if self.at == len(self.tokens) or self.tokens[self.at][0] != "name":
            raise Unsupported("expected a name")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def _arguments(self) -> list[Node]:
        found: list[Node] = []
        while self.take(")") is None:
            found.append(self.ternary())
            if self.peek() != ")":
                self.expect(",")
        return found

    def primary(self) -> Node:
        if self.at == len(self.tokens):
            raise Unsupported("unexpected end")
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            number = float(text) if "." in text else int(text)
            return lambda scope: number
        if kind == "text":
            string = _string(text)
            return lambda scope: string
        if kind == "name":
            return self._named(text)
        if text == "(":
            node = self.ternary()
            self.expect(")")
            return node
        if text == "[":
            items: list[Node] = []
            while self.take("]") is None:
                items.append(self.ternary())
                if self.peek() != "]":
                    self.expect(",")
            return lambda scope: [item(scope) for item in items]
        raise Unsupported(f"unexpected {text!r}")

    def _named(self, name: str) -> Node:
        constants = {"true": True, "false": False, "null": None}
        if name in constants:
            return lambda scope: constants[name]
        if self.peek() != "(":
            return lambda scope: _variable(scope, name)
        self.expect("(")
        if name == "has":
            return self._has()
        return _call(name, self._arguments())

    def _has(self) -> Node:
        node = self.postfix()
        self.expect(")")

        def present(scope: Scope) -> bool:
            try:
                node(scope)
            except EvaluationError:
                return False
            return True

        return present


def _string(text: str) -> str:
    if text.startswith("r"):
        return text[2:-1]
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1])


def _variable(scope: Scope, name: str) -> Any:
    if name not in scope:
        raise Unsupported(f"unknown name {name!r}")
    return scope[name]


def _true(value: Any) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError("no such overload")
    return value


def _or(left: Node, right: Node) -> Node:
    return lambda scope: _true(left(scope)) or _true(right(scope))


def _and(left: Node, right: Node) -> Node:
    return lambda scope: _true(left(scope)) and _true(right(scope))


def _numbers(operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Calculate with two numbers; integers must stay in 64 bits."""

    def calculate(a: Any, b: Any) -> Any:
        whole = type(a) is int and type(b) is int
        if not whole and not (type(a) in (int, float) and type(b) in (int, float)):
            raise EvaluationError("no such overload")
        result = operate(a, b)
        if whole and not -(2**63) <= result < 2**63:
            raise EvaluationError("integer overflow")
        return result

    return calculate


def _add(a: Any, b: Any) -> Any:
    if type(a) is type(b) and type(a) in (str, list):
        return a + b
    return _numbers(operator.add)(a, b)


def _divide(a: Any, b: Any) -> Any:
    if type(a) is float or type(b) is float:
        return a / b
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda a, b: a in b,
    "+": _add,
    "-": _numbers(operator.sub),
    "*": _numbers(operator.mul),
    "/": _numbers(_divide),
    "%": _numbers(lambda a, b: a - b * _divide(a, b)),
}


def _weight(value: Any) -> int:
    """Return the steps that looking at all of a value takes."""
    if type(value) is str:
        return len(value) // 10
    if type(value) is list:
        return sum(map(_weight, value)) + len(value)
    if type(value) is dict:
        return sum(map(_weight, value.values())) + len(value)
    return 0


def _binary(op: str, left: Node, right: Node) -> Node:
    operate = _OPERATORS[op]

    def evaluate(scope: Scope) -> Any:
        a, b = left(scope), right(scope)
        scope.budget.spend(1 + _weight(a) + _weight(b))
        try:
            return operate(a, b)
        except (TypeError, ZeroDivisionError) as error:
            raise EvaluationError(str(error)) from error

    return evaluate


def _field(target: Node, name: str) -> Node:
    # `__namespace__` is how CEL writes a field whose name is one of its own words.
    plain = name[2:-2] if name.startswith("__") and name.endswith("__") else name

    def evaluate(scope: Scope) -> Any:
        value = target(scope)
        scope.budget.spend(1)
        if not isinstance(value, dict) or plain not in value:
            raise EvaluationError(f"no such key: {plain}")
        return value[plain]

    return evaluate


def _index(target: Node, key: Node) -> Node:
    def evaluate(scope: Scope) -> Any:
        value, at = target(scope), key(scope)
        scope.budget.spend(1)
        try:
            return value[at]
        except (KeyError, IndexError, TypeError) as error:
            raise EvaluationError(f"no such key: {at}") from error

    return evaluate


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "size": len,
    "string": lambda v: ("true" if v else "false") if isinstance(v, bool) else str(v),
    "int": int,
    "double": float,
    "startsWith": lambda s, p: s.startswith(p),
    "endsWith": lambda s, p: s.endswith(p),
    "contains": lambda s, p: p in s,
    "matches": lambda s, p: compile_pattern(p).search(s) is not None,
    "lowerAscii": lambda s: s.lower(),
    "upperAscii": lambda s: s.upper(),
    "trim": lambda s: s.strip(),
    "split": lambda s, sep: s.split(sep),
    "join": lambda items, sep="": sep.join(items),
    "indexOf": lambda s, p: s.find(p),
    "replace": lambda s, a, b: s.replace(a, b),
    "isSorted": lambda items: items == sorted(items),
    "sum": sum,
    "min": min,
    "max": max,
}


def _call(name: str, arguments: list[Node]) -> Node:
    function = _FUNCTIONS.get(name)
    if function is None:
        raise Unsupported(f"unknown function {name!r}")

    def evaluate(scope: Scope) -> Any:
        values = [argument(scope) for argument in arguments]
        scope.budget.spend(1 + sum(map(_weight, values)))
        if name == "replace" and all(type(value) is str for value in values):
            scope.budget.spend(values[0].count(values[1]) * len(values[2]) // 10)
        try:
            return function(*values)
        except (TypeError, ValueError, AttributeError, PatternError) as error:
            raise EvaluationError(f"{name}: {error}") from error

    return evaluate


def _loop(
    target: Node, variable: str, body: Node, finish: Callable[[list[Any], list[Any]], Any]
) -> Node:
    def evaluate(scope: Scope) -> Any:
        items = target(scope)
        if not isinstance(items, list | dict):
            raise EvaluationError("no such overload")
        scope.budget.spend(len(items))
        found = list(items)
        return finish(found, [body(_step(scope, variable, item)) for item in found])

    return evaluate


def _step(scope: Scope, variable: str, item: Any) -> Scope:
    scope.budget.spend(2)
    return scope.having(variable, item)


_Macro = Callable[[Node, str, Node], Node]
_MACROS: dict[str, _Macro] = {
    "all": lambda t, v, b: _loop(t, v, b, lambda items, results: all(results)),
    "exists": lambda t, v, b: _loop(t, v, b, lambda items, results: any(results)),
    "exists_one": lambda t, v, b: _loop(t, v, b, lambda items, results: results.count(True) == 1),
    "map": lambda t, v, b: _loop(t, v, b, lambda items, results: results),
    "filter": lambda t, v, b: _loop(
        t, v, b, lambda items, results: [i for i, keep in zip(items, results, strict=True) if keep]
    ),
}

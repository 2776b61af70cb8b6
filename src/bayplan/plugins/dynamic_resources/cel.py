"""A small, safe evaluator for the part of CEL that device selectors use.

Supports literals, lists, `device.driver`, `device.attributes["domain"].name`,
`device.capacity["domain"].name`, `device.allowMultipleAllocations`, comparisons, `in`, arithmetic
on numbers, `&& || !`, `? :`, `has(…)`, `quantity("…")` with compareTo, isGreaterThan, isLessThan,
`semver("…")` with the same, and startsWith, endsWith, contains, matches, size, lowerAscii of
strings. An expression is parsed once to a tree of functions; nothing of it is ever run as Python.

As in CEL, `&&` and `||` ignore an error on one side if the other side decides. Macros over lists
(`exists`, `all`, `map`, …), `cel.bind` and the network and date libraries are not supported: using
them is an error that names the expression.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from bayplan.api import quantity
from bayplan.api.patterns import PatternError, compile_pattern
from bayplan.errors import BayplanError
from bayplan.plugins.dynamic_resources.cel_values import CelQuantity, CelVersion


class CelError(BayplanError):
    """An expression cannot be parsed, or fails on a device."""


Environment = Mapping[str, Any]
Evaluate = Callable[[Environment], Any]

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>\d+\.\d+(?:[eE][+-]?\d+)?|0x[0-9a-fA-F]+|\d+u?)
    | (?P<string>r?"(?:[^"\\]|\\.)*"|r?'(?:[^'\\]|\\.)*')
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<symbol>&&|\|\||==|!=|<=|>=|[-+*/%!<>()\[\],.?:])
    )""",
    re.VERBOSE,
)
_CONSTANTS = {"true": True, "false": False, "null": None}
_MAX_LENGTH = 10 * 1024


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise CelError(f'parsing CEL expression "{text}": cannot read "{text[position:]}"')
        found.append((match.lastgroup, match.group(match.lastgroup)))
        position = match.end()
    return found


class _Parser:
    """Recursive descent, one method a precedence level."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.at = 0

    def parse(self) -> Evaluate:
        tree = self.ternary()
        if self.at != len(self.tokens):
            raise self.problem()
        return tree

    def problem(self) -> CelError:
        found = self.tokens[self.at][1] if self.at < len(self.tokens) else "the end"
        return CelError(f'parsing CEL expression "{self.text}": unexpected {found}')

    def take(self, *symbols: str) -> str:
        """Consume one of the symbols, or nothing."""
        if self.at < len(self.tokens):
            kind, value = self.tokens[self.at]
            if kind in ("symbol", "name") and value in symbols:
                self.at += 1
                return value
        return ""

    def expect(self, symbol: str) -> None:
        if not self.take(symbol):
            raise self.problem()

    def ternary(self) -> Evaluate:
        test = self.either()
        if not self.take("?"):
            return test
        first = self.ternary()
        self.expect(":")
        second = self.ternary()
        return lambda env: first(env) if _boolean(test(env)) else second(env)

    def either(self) -> Evaluate:
        left = self.both()
        while self.take("||"):
            left = _decides(True, left, self.both())
        return left

    def both(self) -> Evaluate:
        left = self.relation()
        while self.take("&&"):
            left = _decides(False, left, self.relation())
        return left

    def relation(self) -> Evaluate:
        left = self.sum()
        while symbol := self.take("==", "!=", "<=", ">=", "<", ">", "in"):
            left = _binary(_RELATIONS[symbol], left, self.sum())
        return left

    def sum(self) -> Evaluate:
        left = self.product()
        while symbol := self.take("+", "-"):
            left = _binary(_ARITHMETIC[symbol], left, self.product())
        return left

    def product(self) -> Evaluate:
        left = self.unary()
        while symbol := self.take("*", "/", "%"):
            left = _binary(_ARITHMETIC[symbol], left, self.unary())
        return left

    def unary(self) -> Evaluate:
        if self.take("!"):
            inner = self.unary()
            return lambda env: not _boolean(inner(env))
        if self.take("-"):
            inner = self.unary()
            return lambda env: -_number(inner(env))
        return self.postfix(self.primary())

    def postfix(self, value: Evaluate) -> Evaluate:
        while True:
            if self.take("."):
                name = self.name()
                value = self.call(value, name) if self.take("(") else _member(value, name)
            elif self.take("["):
                key = self.ternary()
                self.expect("]")
                value = _binary(_index, value, key)
            else:
                return value

    def name(self) -> str:
        if self.at >= len(self.tokens) or self.tokens[self.at][0] != "name":
            raise self.problem()
        self.at += 1
        return self.tokens[self.at - 1][1]

    def arguments(self, end: str = ")") -> list[Evaluate]:
        found: list[Evaluate] = []
        if self.take(end):
            return found
        while True:
            found.append(self.ternary())
            if self.take(end):
                return found
            self.expect(",")

    def call(self, target: Evaluate, name: str) -> Evaluate:
        method = _METHODS.get(name)
        if method is None:
            raise CelError(f'parsing CEL expression "{self.text}": {name}() is not supported')
        arguments = self.arguments()
        return lambda env: method(target(env), *(argument(env) for argument in arguments))

    def primary(self) -> Evaluate:
        if self.take("("):
            inner = self.ternary()
            self.expect(")")
            return inner
        if self.take("["):
            items = self.arguments("]")
            return lambda env: [item(env) for item in items]
        if self.at >= len(self.tokens):
            raise self.problem()
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return _constant(_parse_number(text))
        if kind == "string":
            return _constant(_unquote(text))
        if kind == "name":
            return self.identifier(text)
        self.at -= 1
        raise self.problem()

    def identifier(self, name: str) -> Evaluate:
        if name in _CONSTANTS:
            return _constant(_CONSTANTS[name])
        if self.take("("):
            return self.function(name)
        if name != "device":
            self.at -= 1
            raise self.problem()
        return lambda env: env[name]

    def function(self, name: str) -> Evaluate:
        arguments = self.arguments()
        if name == "has" and len(arguments) == 1:
            return _has(arguments[0])
        function = _FUNCTIONS.get(name)
        if function is None or len(arguments) != 1:
            raise CelError(f'parsing CEL expression "{self.text}": {name}() is not supported')
        return lambda env: function(arguments[0](env))


def _constant(value: Any) -> Evaluate:
    return lambda env: value


def _parse_number(text: str) -> int | float:
    if text.startswith("0x"):
        return int(text, 16)
    return float(text) if "." in text else int(text.rstrip("u"))


def _unquote(text: str) -> str:
    if text.startswith("r"):
        return text[2:-1]
    escapes = {"n": "\n", "t": "\t", "r": "\r"}
    return re.sub(r"\\(.)", lambda m: escapes.get(m.group(1), m.group(1)), text[1:-1])


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError(f"no such overload: {_kind(value)} where bool is needed")
    return value


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CelError(f"no such overload: {_kind(value)} where a number is needed")
    return value


def _kind(value: Any) -> str:
    return type(value).__name__


def _decides(verdict: bool, left: Evaluate, right: Evaluate) -> Evaluate:
    """`||` (verdict True) or `&&` (False): one side may decide although the other fails."""

    def evaluate(env: Environment) -> bool:
        problem: CelError | None = None
        for side in (left, right):
            try:
                if _boolean(side(env)) is verdict:
                    return verdict
            except CelError as found:
                problem = problem or found
        if problem is not None:
            raise problem
        return not verdict

    return evaluate


def _binary(apply: Callable[[Any, Any], Any], left: Evaluate, right: Evaluate) -> Evaluate:
    return lambda env: apply(left(env), right(env))


def _comparable(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return isinstance(a, bool) and isinstance(b, bool)
    numbers = isinstance(a, int | float) and isinstance(b, int | float)
    return numbers or type(a) is type(b)


def _equal(a: Any, b: Any) -> bool:
    return _comparable(a, b) and bool(a == b)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def apply(a: Any, b: Any) -> bool:
        if not _comparable(a, b) or isinstance(a, list | Mapping):
            raise CelError(f"no such overload: comparing {_kind(a)} with {_kind(b)}")
        return compare(a, b)

    return apply


def _inside(item: Any, container: Any) -> bool:
    if isinstance(container, list):
        return any(_equal(item, other) for other in container)
    if isinstance(container, Mapping):
        return item in container
    raise CelError(f"no such overload: in {_kind(container)}")


def _calculate(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def calculate(a: Any, b: Any) -> Any:
        if apply is operator.add and isinstance(a, str) and isinstance(b, str):
            return a + b
        try:
            return apply(_number(a), _number(b))
        except ZeroDivisionError:
            raise CelError("division by zero") from None

    return calculate


def _divide(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        quotient = abs(a) // abs(b)
        return quotient if (a >= 0) == (b >= 0) else -quotient
    return a / b


def _remainder(a: Any, b: Any) -> Any:
    return a - b * _divide(a, b)


def _index(container: Any, key: Any) -> Any:
    if isinstance(container, list) and isinstance(key, int) and 0 <= key < len(container):
        return container[key]
    if isinstance(container, Mapping):
        found = container.get(key, _MISSING)
        if found is not _MISSING:
            return found
    raise CelError(f"no such key: {key}")


_MISSING = object()


def _member(value: Evaluate, name: str) -> Evaluate:
    return lambda env: _index(value(env), name)


def _has(argument: Evaluate) -> Evaluate:
    def evaluate(env: Environment) -> bool:
        try:
            argument(env)
        except CelError:
            return False
        return True

    return evaluate


def _make_quantity(text: Any) -> CelQuantity:
    try:
        return CelQuantity(quantity.nanos(text))
    except (quantity.QuantityError, TypeError) as problem:
        raise CelError(str(problem)) from problem


def _make_version(text: Any) -> CelVersion:
    version = CelVersion.parse(text) if isinstance(text, str) else None
    if version is None:
        raise CelError(f'parsing version "{text}": not a semantic version')
    return version


def _compare_to(a: Any, b: Any) -> int:
    _check_ordered(a, b)
    return int(a > b) - int(a < b)


def _check_ordered(a: Any, b: Any) -> None:
    if not isinstance(a, CelQuantity | CelVersion) or type(a) is not type(b):
        raise CelError(f"no such overload: comparing {_kind(a)} with {_kind(b)}")


def _text(apply: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    def method(value: Any, argument: Any) -> bool:
        if not isinstance(value, str) or not isinstance(argument, str):
            raise CelError(f"no such overload: {_kind(value)} with {_kind(argument)}")
        return apply(value, argument)

    return method


def _matches(value: str, pattern: str) -> bool:
    try:
        return compile_pattern(pattern).search(value) is not None
    except PatternError as problem:
        raise CelError(f'parsing pattern "{pattern}": {problem}') from problem


def _size(value: Any) -> int:
    if not isinstance(value, str | list | Mapping):
        raise CelError(f"no such overload: size of {_kind(value)}")
    return len(value)


def _lower(value: Any) -> str:
    if not isinstance(value, str):
        raise CelError(f"no such overload: lowerAscii of {_kind(value)}")
    return value.lower()


_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "!=": lambda a, b: not _equal(a, b),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "in": _inside,
}
_ARITHMETIC = {
    "+": _calculate(operator.add),
    "-": _calculate(operator.sub),
    "*": _calculate(operator.mul),
    "/": _calculate(_divide),
    "%": _calculate(_remainder),
}
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "quantity": _make_quantity,
    "semver": _make_version,
    "size": _size,
}
_METHODS: dict[str, Callable[..., Any]] = {
    "compareTo": _compare_to,
    "isGreaterThan": lambda a, b: _compare_to(a, b) > 0,
    "isLessThan": lambda a, b: _compare_to(a, b) < 0,
    "startsWith": _text(str.startswith),
    "endsWith": _text(str.endswith),
    "contains": _text(operator.contains),
    "matches": _text(_matches),
    "size": _size,
    "lowerAscii": _lower,
}


@lru_cache(maxsize=1024)
def compile_expression(text: str) -> Evaluate:
    """Parse an expression; raises CelError."""
    if len(text) > _MAX_LENGTH:
        raise CelError(f"parsing CEL expression: longer than {_MAX_LENGTH} characters")
    return _Parser(text).parse()


def matches(text: str, device: Mapping[str, Any]) -> bool:
    """Evaluate a selector on a device; raises CelError."""
    result = compile_expression(text)({"device": device})
    if not isinstance(result, bool):
        raise CelError(f'CEL expression "{text}" gives {_kind(result)}, not bool')
    return result

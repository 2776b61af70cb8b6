"""Label selectors, compiled once and matched many times, and their query-string form.

`compile_selector` turns a LabelSelector into a `Selector`: requirements in a fixed order, so equal
selectors compare and hash equal whatever order they were written in. That makes them usable as
keys of interned state. A missing selector becomes NOTHING, an empty one EVERYTHING.
`parse_selector` reads the text form of `labelSelector=` queries. Node selectors are next door, in
`node_selectors`.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from bayplan.api.meta import LabelSelector
from bayplan.api.names import label_value, qualified_name
from bayplan.errors import DecodeError

IN = "In"
NOT_IN = "NotIn"
EXISTS = "Exists"
DOES_NOT_EXIST = "DoesNotExist"
GREATER = "Gt"
LESS = "Lt"

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64 = range(-(2**63), 2**63)


class SelectorError(DecodeError):
    """A selector cannot be understood."""


class Requirement(msgspec.Struct, frozen=True, gc=False, order=True):
    """One condition on a label. Values are sorted and distinct."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        found = labels.get(self.key)
        operator = self.operator
        if operator == IN:
            return found is not None and found in self.values
        if operator == NOT_IN:
            return found is None or found not in self.values
        if operator == EXISTS:
            return found is not None
        if operator == DOES_NOT_EXIST:
            return found is None
        number = parse_int64(found) if found is not None else None
        if number is None:
            return False
        bound = int(self.values[0])
        return number > bound if operator == GREATER else number < bound


class Selector(msgspec.Struct, frozen=True, gc=False):
    """Requirements that must all hold; `nothing` matches no labels at all."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    @property
    def empty(self) -> bool:
        """Whether every label set matches because nothing is required."""
        return not self.requirements and not self.nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.nothing:
            return False
        return all(requirement.matches(labels) for requirement in self.requirements)

    def and_also(self, more: Iterable[Requirement]) -> "Selector":
        """Return this selector with more requirements; NOTHING stays NOTHING."""
        if self.nothing:
            return self
        return Selector(tuple(sorted({*self.requirements, *more})))


EVERYTHING = Selector()
NOTHING = Selector(nothing=True)


def parse_int64(text: str) -> int | None:
    """Parse a decimal integer as Go's ParseInt does; None when it is not one."""
    if not _INTEGER.fullmatch(text) or len(text.lstrip("+-0")) > 19:
        return None
    number = int(text)
    return number if number in _INT64 else None


MANY_VALUES = 64


def requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    """Check and build one requirement; raises SelectorError."""
    if len(values) > MANY_VALUES:
        return _requirement.__wrapped__(key, operator, values)
    return _requirement(key, operator, values)


@lru_cache(maxsize=65536)  # only what is valid, so keys and values are short
def _requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    problems = _key_problems(key, "key")
    if operator in (IN, NOT_IN):
        if not values:
            problems.append(_invalid("values", None, f"{_SETS} values set can't be empty"))
    elif operator in (EXISTS, DOES_NOT_EXIST):
        if values:
            problems.append(_invalid("values", values, _NO_VALUES))
    elif operator in (GREATER, LESS):
        if len(values) != 1:
            problems.append(_invalid("values", values, f"{_NUMBERS} exactly one value is required"))
        problems += [
            _invalid(f"values[{i}]", value, f"{_NUMBERS} the value must be an integer")
            for i, value in enumerate(values)
            if parse_int64(value) is None
        ]
    else:
        raise _bad_operator(key, operator)
    problems += [
        _invalid(f"values[{i}][{key}]", value, "; ".join(wrong))
        for i, value in enumerate(values)
        if (wrong := label_value(value))
    ]
    if problems:
        raise SelectorError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return Requirement(key, operator, tuple(sorted(set(values))))


_SETS = "for 'in', 'notin' operators,"
_NUMBERS = "for 'Gt', 'Lt' operators,"
_NO_VALUES = "values set must be empty for exists and does not exist"


def _invalid(path: str, value: object, text: str) -> str:
    return f"{path}: Invalid value: {msgspec.json.encode(value).decode()}: {text}"


def _key_problems(key: str, path: str) -> list[str]:
    wrong = qualified_name(key)
    return [_invalid(path, key, "; ".join(wrong))] if wrong else []


def _bad_operator(key: str, operator: str) -> SelectorError:
    return SelectorError(f'key "{key}": "{operator}" is not a valid label selector operator')


def from_map(labels: Mapping[str, str] | None) -> Selector:
    """Compile a plain map, as services have; a missing map selects nothing."""
    if labels is None:
        return NOTHING
    return Selector(tuple(sorted(Requirement(k, IN, (v,)) for k, v in labels.items())))


def compile_selector(selector: LabelSelector | None) -> Selector:
    """Compile a label selector; raises SelectorError."""
    if selector is None:
        return NOTHING
    found = {requirement(key, IN, (value,)) for key, value in selector.match_labels.items()}
    for item in selector.match_expressions:
        if item.operator in (GREATER, LESS):
            raise _bad_operator(item.key, item.operator)
        found.add(requirement(item.key, item.operator, item.values))
    return Selector(tuple(sorted(found))) if found else EVERYTHING


_TOKEN = re.compile(r"==|!=|[=!,()<>]|[^ \t\r\n=!,()<>]+")
_SYMBOLS = frozenset(("==", "!=", "=", "!", ",", "(", ")", ">", "<", ""))  # "" is the end
_OPERATORS = {"=": IN, "==": IN, "!=": NOT_IN, ">": GREATER, "<": LESS}
_SET_OPERATORS = {"in": IN, "notin": NOT_IN}


def parse_selector(text: str) -> Selector:
    """Parse the text form of a selector: `a=b, c!=d, e in (x, y), f notin (z), g, !h, i>1`.

    Raises SelectorError, with upstream's words.
    """
    tokens = [*_TOKEN.findall(text), ""]
    if len(tokens) == 1:
        return EVERYTHING
    _expect(tokens[0], "!, identifier, or 'end of string'", _begins(tokens[0]))
    found: set[Requirement] = set()
    at = 0
    while True:
        try:
            item, at = _parse_requirement(tokens, at)
        except SelectorError as error:
            raise SelectorError(f"unable to parse requirement: {error}") from error
        found.add(item)
        if not tokens[at]:
            return Selector(tuple(sorted(found)))
        _expect(tokens[at], "',' or 'end of string'", tokens[at] == ",")
        at += 1
        _expect(tokens[at], "identifier after ','", _begins(tokens[at]))


def _begins(token: str) -> bool:
    return token == "!" or token not in _SYMBOLS


def _expect(token: str, wanted: str, there: bool) -> None:
    if not there:
        raise SelectorError(f"found '{token}', expected: {wanted}")


def _parse_requirement(tokens: list[str], at: int) -> tuple[Requirement, int]:
    negated = tokens[at] == "!"
    at += negated
    key = tokens[at]
    _expect(key, "identifier", key not in _SYMBOLS)
    if problems := _key_problems(key, "<nil>"):
        raise SelectorError(problems[0])
    at += 1
    word = tokens[at]
    if negated or word in ("", ","):
        return requirement(key, DOES_NOT_EXIST if negated else EXISTS, ()), at
    at += 1
    if word in _SET_OPERATORS:
        values, at = _parse_values(tokens, at)
        return requirement(key, _SET_OPERATORS[word], values), at
    _expect(word, "in, notin, =, ==, !=, gt, lt", word in _OPERATORS)
    value = ""
    if tokens[at] not in ("", ","):
        _expect(tokens[at], "identifier", tokens[at] not in _SYMBOLS)
        value, at = tokens[at], at + 1
    return requirement(key, _OPERATORS[word], (value,)), at


def _parse_values(tokens: list[str], at: int) -> tuple[tuple[str, ...], int]:
    if tokens[at] != "(":
        raise SelectorError(f"found '{tokens[at]}' expected: '('")
    values: list[str] = []
    at += 1
    expected = "',', ')' or identifier"
    while True:
        value = "" if tokens[at] in (",", ")") else tokens[at]
        _expect(tokens[at], expected, tokens[at] in (",", ")") or value not in _SYMBOLS)
        values.append(value)
        at += bool(value)
        _expect(tokens[at], "',' or ')'", tokens[at] in (",", ")"))
        at += 1
        if tokens[at - 1] == ")":
            return tuple(sorted(set(values))), at
        expected = "',', or identifier"

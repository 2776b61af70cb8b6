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
from bayplan.api.remembered import remembered
from bayplan.errors import DecodeError

IN = "In"
NOT_IN = "NotIn"
EXISTS = "Exists"
DOES_NOT_EXIST = "DoesNotExist"
GREATER = "Gt"
LESS = "Lt"

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_DNS_LABEL}(\.{_DNS_LABEL})*", re.ASCII)
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


@remembered(65536)
def label_key_problem(key: str) -> str:
    """Return what is wrong with a label key, or an empty text."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        return "prefix part must be a lower-case DNS subdomain of at most 253 characters"
    if not name or len(name) > 63 or not _NAME.fullmatch(name):
        return (
            "name part must be 1 to 63 alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character"
        )
    return ""


@remembered(65536)
def label_value_problem(value: str) -> str:
    """Return what is wrong with a label value, or an empty text."""
    if value and (len(value) > 63 or not _NAME.fullmatch(value)):
        return (
            "a valid label must be an empty string or at most 63 alphanumeric characters, "
            "'-', '_' or '.', and must start and end with an alphanumeric character"
        )
    return ""


MANY_VALUES = 64


def requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    """Check and build one requirement; raises SelectorError."""
    if len(values) > MANY_VALUES:
        return _requirement.__wrapped__(key, operator, values)
    return _requirement(key, operator, values)


@lru_cache(maxsize=65536)  # only what is valid, so keys and values are short
def _requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    if problem := label_key_problem(key):
        raise SelectorError(f'selector key "{key}": {problem}')
    if operator in (IN, NOT_IN):
        if not values:
            raise SelectorError(
                f"selector key \"{key}\": for 'in', 'notin' operators, values set can't be empty"
            )
    elif operator in (EXISTS, DOES_NOT_EXIST):
        if values:
            raise SelectorError(f'selector key "{key}": values set must be empty for {operator}')
    elif operator in (GREATER, LESS):
        if len(values) != 1 or parse_int64(values[0]) is None:
            raise SelectorError(
                f"selector key \"{key}\": for 'Gt', 'Lt' operators, exactly one integer is required"
            )
    else:
        raise _bad_operator(key, operator)
    for value in values:
        if problem := label_value_problem(value):
            raise SelectorError(f'selector key "{key}", value "{value}": {problem}')
    return Requirement(key, operator, tuple(sorted(set(values))))


def _bad_operator(key: str, operator: str) -> SelectorError:
    return SelectorError(
        f'selector key "{key}": "{operator}" is not a valid label selector operator'
    )


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


_TOKEN = re.compile(r"\s*(==|!=|=|!|,|\(|\)|>|<|[^\s=!,()<>]+)\s*")


def parse_selector(text: str) -> Selector:
    """Parse the text form of a selector: `a=b, c!=d, e in (x, y), f notin (z), g, !h, i>1`."""
    tokens = _tokens(text)
    if not tokens:
        return EVERYTHING
    found: set[Requirement] = set()
    position = 0
    while True:
        item, position = _parse_requirement(tokens, position, text)
        found.add(item)
        if position == len(tokens):
            return Selector(tuple(sorted(found)))
        if tokens[position] != ",":
            raise _unexpected(tokens, position, text)
        position += 1


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    position = 0
    stripped = text.strip()
    while position < len(stripped):
        match = _TOKEN.match(stripped, position)
        if match is None:
            raise SelectorError(f'parsing selector "{text}": cannot read "{stripped[position:]}"')
        tokens.append(match.group(1))
        position = match.end()
    return tokens


_SYMBOLS = frozenset(("==", "!=", "=", "!", ",", "(", ")", ">", "<"))
_OPERATORS = {"=": IN, "==": IN, "!=": NOT_IN, ">": GREATER, "<": LESS}
_SET_OPERATORS = {"in": IN, "notin": NOT_IN}


def _parse_requirement(tokens: list[str], at: int, text: str) -> tuple[Requirement, int]:
    negated = tokens[at : at + 1] == ["!"]
    at += negated
    if at >= len(tokens) or tokens[at] in _SYMBOLS:
        raise _unexpected(tokens, at, text)
    key = tokens[at]
    at += 1
    if negated or at == len(tokens) or tokens[at] == ",":
        return requirement(key, DOES_NOT_EXIST if negated else EXISTS, ()), at
    word = tokens[at]
    if word in _SET_OPERATORS:
        values, at = _parse_values(tokens, at + 1, text)
        return requirement(key, _SET_OPERATORS[word], values), at
    if word not in _OPERATORS:
        raise _unexpected(tokens, at, text)
    at += 1
    value = ""
    if at < len(tokens) and tokens[at] != ",":
        if tokens[at] in _SYMBOLS:
            raise SelectorError(f"found '{tokens[at]}', expected: identifier")
        value, at = tokens[at], at + 1
    return requirement(key, _OPERATORS[word], (value,)), at


def _parse_values(tokens: list[str], at: int, text: str) -> tuple[tuple[str, ...], int]:
    if at >= len(tokens) or tokens[at] != "(":
        raise _unexpected(tokens, at, text)
    values: list[str] = []
    pending = ""
    at += 1
    while at < len(tokens):
        word = tokens[at]
        at += 1
        if word == ")":
            return (*values, pending), at
        if word == ",":
            values.append(pending)
            pending = ""
        elif word in _SYMBOLS or pending:
            raise _unexpected(tokens, at - 1, text)
        else:
            pending = word
    raise _unexpected(tokens, at, text)


def _unexpected(tokens: list[str], at: int, text: str) -> SelectorError:
    found = f'found "{tokens[at]}"' if at < len(tokens) else "found the end"
    return SelectorError(
        f'parsing selector "{text}": {found}, '
        "expected a key, an operator (=, ==, !=, in, notin, <, >) or values"
    )

"""Reads the text of an expression into a tree.

Recursive descent over CEL's grammar with optional syntax (`a.?b`, `a[?b]`, `{?k: v}`). Macros are
expanded while parsing, so what follows knows six kinds of nodes only. Texts and nesting are
bounded. Places of nodes are those that upstream's parser gives them, since messages show them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from bayplan.cel.errors import Problems
from bayplan.cel.values import Uint

MAX_DEPTH = 200


@dataclass(slots=True, eq=False)
class Node:
    """A part of an expression, and where it stands."""

    offset: int


@dataclass(slots=True, eq=False)
class Literal(Node):
    value: Any


@dataclass(slots=True, eq=False)
class Ident(Node):
    name: str


@dataclass(slots=True, eq=False)
class Select(Node):
    operand: Node
    field: str
    test: bool = False


@dataclass(slots=True, eq=False)
class Call(Node):
    function: str
    args: list[Node]
    target: Node | None = None


@dataclass(slots=True, eq=False)
class ListNode(Node):
    items: list[Node]
    optional: set[int] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class MapNode(Node):
    entries: list[tuple[Node, Node, bool]]


@dataclass(slots=True, eq=False)
class StructNode(Node):
    name: str
    fields: list[tuple[str, Node, bool, int]]


@dataclass(slots=True, eq=False)
class Fold(Node):
    """A comprehension: what all macros over lists and maps become."""

    range: Node
    var: str
    var2: str
    accu: str
    init: Node
    condition: Node
    step: Node
    result: Node


_TOKEN = re.compile(
    r"""(?P<space>(?:[\ \t\r\n\f]+|//[^\n]*)+)
    | (?P<float>(?:\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?))
    | (?P<uint>(?:0x[0-9a-fA-F]+|\d+)[uU])
    | (?P<int>0x[0-9a-fA-F]+|\d+)
    | (?P<string>(?:[rR][bB]|[bB][rR]|[rRbB])?(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}
        |"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*'))
    | (?P<raw>[rR](?:"[^"\n\r]*"|'[^'\n\r]*'))
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<quoted>`[A-Za-z0-9_.\-/ ]+`)
    | (?P<symbol>&&|\|\||==|!=|<=|>=|[-+*/%!<>()\[\]{},.?:=])
    """,
    re.VERBOSE | re.DOTALL,
)
_RAW = re.compile(r"""(?:[rR][bB]?|[bB][rR])(?:"[^"\n\r]*"|'[^'\n\r]*')""")
RESERVED = frozenset(
    (
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "namespace",
        "package",
        "return",
        "var",
        "void",
        "while",
    )
)
_RELATIONS = ("==", "!=", "<=", ">=", "<", ">", "in")
_OPERAND = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING,"
    " BYTES, IDENTIFIER}"
)


class _Stop(Exception):
    """The text cannot be read any further."""


@dataclass(slots=True)
class _Token:
    kind: str
    text: str
    offset: int


def parse(text: str, problems: Problems, bindings: bool = False) -> Node | None:
    """Return the tree, or None with the problems noted."""
    parser = _Parser(text, problems, bindings)
    try:
        tree = parser.expression()
        if parser.token.kind != "end":
            alone = parser.tokens[parser.at + 1].kind == "end"  # without it, all would be well
            found = "extraneous" if alone else "mismatched"
            parser.fail(f"{found} input '{parser.token.text}' expecting <EOF>")
    except _Stop:
        return None
    return None if problems.found else tree


class _Parser:
    """One method a level of precedence."""

    def __init__(self, text: str, problems: Problems, bindings: bool) -> None:
        self.problems = problems
        self.bindings = bindings
        self.tokens = _tokens(text, problems)
        self.at = 0
        self.depth = 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def fail(self, message: str, token: _Token | None = None) -> None:
        self.problems.add((token or self.token).offset, f"Syntax error: {message}")
        raise _Stop

    def take(self, *symbols: str) -> _Token | None:
        token = self.token
        if token.kind in ("symbol", "name") and token.text in symbols:
            self.at += 1
            return token
        return None

    def expect(self, symbol: str) -> _Token:
        token = self.take(symbol)
        if token is None:
            found = "<EOF>" if self.token.kind == "end" else self.token.text
            missing = symbol in (":", ")") and self.tokens[self.at - 1].text != "?"
            if symbol == ",":
                self.fail(f"extraneous input '{found}' expecting {{']', ','}}")
            elif missing and not (symbol == ":" and self.token.kind == "end"):
                self.fail(f"missing '{symbol}' at '{found}'")
            self.fail(f"mismatched input '{found}' expecting '{symbol}'")
        assert token is not None
        return token

    def expression(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.problems.add(-1, f"expression recursion limit exceeded: {MAX_DEPTH}")
            raise _Stop
        first = self.either()
        question = self.take("?")
        if question is not None:
            second = self.either()
            self.expect(":")
            third = self.expression()
            first = Call(question.offset, "_?_:_", [first, second, third])
        self.depth -= 1
        return first

    def either(self) -> Node:
        return self._chain("||", "_||_", self.both)

    def both(self) -> Node:
        return self._chain("&&", "_&&_", self.relation)

    def _chain(self, symbol: str, name: str, inner: Any) -> Node:
        terms, places = [inner()], []
        while token := self.take(symbol):
            places.append(token.offset)
            terms.append(inner())
        return _balance(name, terms, places)

    def relation(self) -> Node:
        left = self.sum()
        while token := self.take(*_RELATIONS):
            name = "@in" if token.text == "in" else f"_{token.text}_"
            left = Call(token.offset, name, [left, self.sum()])
        return left

    def sum(self) -> Node:
        left = self.product()
        while token := self.take("+", "-"):
            left = Call(token.offset, f"_{token.text}_", [left, self.product()])
        return left

    def product(self) -> Node:
        left = self.unary()
        while token := self.take("*", "/", "%"):
            left = Call(token.offset, f"_{token.text}_", [left, self.unary()])
        return left

    def unary(self) -> Node:
        start = self.token
        if start.text not in ("!", "-") or start.kind != "symbol":
            return self.member(self.primary())
        count = 0
        while self.take(start.text):
            count += 1
        if start.text == "-" and count % 2 and self.token.kind in ("int", "float"):
            number = self.token
            self.at += 1
            return self.member(_number(number, self.problems, start.offset, negative=True))
        inner = self.member(self.primary())
        return Call(start.offset, f"{start.text}_", [inner]) if count % 2 else inner

    def member(self, node: Node) -> Node:
        while True:
            if dot := self.take("."):
                node = self._selected(node, dot)
            elif bracket := self.take("["):
                optional = self.take("?")
                key = self.expression()
                self.expect("]")
                node = Call(bracket.offset, "_[?_]" if optional else "_[_]", [node, key])
            else:
                return node

    def _selected(self, node: Node, dot: _Token) -> Node:
        optional = self.take("?")
        name = self.name()
        if optional:
            return Call(dot.offset, "_?._", [node, Literal(dot.offset, name.text)])
        opened = self.take("(") if name.kind == "name" else None
        if opened is None:
            return Select(dot.offset, node, name.text)
        args = self.arguments(")")
        from bayplan.cel.macros import expand_member

        found = expand_member(name.text, node, args, opened.offset, self.problems, self.bindings)
        return found or Call(opened.offset, name.text, args, node)

    def name(self) -> _Token:
        token = self.token
        if token.kind == "quoted":
            self.at += 1
            return _Token("quoted", token.text[1:-1], token.offset)
        if token.kind != "name" or token.text in ("true", "false", "null", "in"):
            text = "<EOF>" if token.kind == "end" else token.text
            self.fail(f"no viable alternative at input '.{text}'")
        self.at += 1
        return token

    def arguments(self, end: str) -> list[Node]:
        found: list[Node] = []
        if self.take(end):
            return found
        while True:
            found.append(self.expression())
            if self.take(end):
                return found
            self.expect(",") if self.token.text == "," else self.expect(end)

    def primary(self) -> Node:
        token = self.token
        self.at += 1
        if token.kind in ("int", "uint", "float"):
            return _number(token, self.problems)
        if token.kind == "string":
            return _string(token, self.problems)
        if token.text == "(" and token.kind == "symbol":
            inner = self.expression()
            self.expect(")")
            return inner
        if token.text == "[":
            return self._list(token)
        if token.text == "{":
            return self._map(token)
        if token.text == "." and token.kind == "symbol" and self.token.kind == "name":
            name = self.token
            self.at += 1
            return self._named(_Token("name", "." + name.text, name.offset))
        if token.kind == "name" and token.text != "in":
            return self._named(token)
        self.at -= 1
        shown = "<EOF>" if token.kind == "end" else token.text
        self.fail(f"mismatched input '{shown}' expecting {_OPERAND}")
        raise AssertionError("unreachable")

    def _list(self, start: _Token) -> Node:
        items: list[Node] = []
        optional: set[int] = set()
        while self.take("]") is None:
            if self.take("?"):
                optional.add(len(items))
            items.append(self.expression())
            if self.token.text != "]":
                self.expect(",")
        return ListNode(start.offset, items, optional)

    def _map(self, start: _Token) -> Node:
        entries: list[tuple[Node, Node, bool]] = []
        while self.take("}") is None:
            optional = self.take("?") is not None
            key = self.expression()
            self.expect(":")
            entries.append((key, self.expression(), optional))
            if self.token.text != "}":
                self.expect(",")
        return MapNode(start.offset, entries)

    def _named(self, token: _Token) -> Node:
        text = token.text
        if text in ("true", "false", "null"):
            return Literal(token.offset, {"true": True, "false": False}.get(text))
        if text in RESERVED:
            self.problems.add(token.offset, f"reserved identifier: {text}")
        if opened := self.take("("):
            args = self.arguments(")")
            from bayplan.cel.macros import expand_global

            found = expand_global(text, args, opened.offset, self.problems)
            return found or Call(opened.offset, text, args)
        made = self._struct(token)
        return made or Ident(token.offset, text)

    def _struct(self, token: _Token) -> Node | None:
        """`a.b.C{field: value}`: only if names and dots lead up to a brace."""
        at, name = self.at, token.text
        while self.tokens[at].text == "." and self.tokens[at + 1].kind == "name":
            name += "." + self.tokens[at + 1].text
            at += 2
        if self.tokens[at].text != "{" or self.tokens[at].kind != "symbol":
            return None
        self.at = at + 1
        start = self.tokens[at]
        fields: list[tuple[str, Node, bool, int]] = []
        while self.take("}") is None:
            optional = self.take("?") is not None
            key = self.name()
            colon = self.expect(":")
            fields.append((key.text, self.expression(), optional, colon.offset))
            if self.token.text != "}":
                self.expect(",")
        return StructNode(start.offset, name, fields)


def _balance(name: str, terms: list[Node], places: list[int]) -> Node:
    """A balanced tree of one operator, so that long chains do not nest deeply."""
    if len(terms) == 1:
        return terms[0]
    middle = len(places) // 2
    left = _balance(name, terms[: middle + 1], places[:middle])
    right = _balance(name, terms[middle + 1 :], places[middle + 1 :])
    return Call(places[middle], name, [left, right])


def _tokens(text: str, problems: Problems) -> list[_Token]:
    found, at = [], 0
    while at < len(text):
        match = _RAW.match(text, at) or _TOKEN.match(text, at)
        if match is None or match.group() == "=":
            wrong = _unreadable(text, at)
            problems.add(at, f"Syntax error: token recognition error at: '{wrong}'")
            at += len(wrong)
            continue
        kind = match.lastgroup or "string"
        if kind != "space":
            found.append(_Token(kind, match.group(), at))
        at = match.end()
    found.append(_Token("end", "", len(text)))
    return found


def _unreadable(text: str, at: int) -> str:
    """What upstream's lexer skips: an unclosed string, or half an operator and what follows."""
    if text[at] in "\"'":
        return text[at:].partition("\n")[0]
    return text[at : at + 2] if text[at] in "=&|" else text[at]


def _number(
    token: _Token, problems: Problems, offset: int | None = None, *, negative: bool = False
) -> Node:
    where = token.offset if offset is None else offset
    sign = -1 if negative else 1
    if token.kind == "float":
        return Literal(where, sign * float(token.text))
    text = token.text.rstrip("uU")
    value = sign * (int(text, 16 if text.startswith("0x") else 10) if len(text) < 99 else 2**64)
    if token.kind == "uint":
        if value >= 2**64:
            problems.add(where, "invalid uint literal")
        return Literal(where, Uint(value))
    if not -(2**63) <= value < 2**63:
        problems.add(where, "invalid int literal")
    return Literal(where, value)


_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})"
    r"|([0-3][0-7]{2})|(.?))",
    re.DOTALL,
)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _string(token: _Token, problems: Problems) -> Node:
    text, prefix = token.text, ""
    while text[0] in "rRbB":
        prefix += text[0].lower()
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text[:3] == text[0] * 3 else 1
    body = text[quotes:-quotes]
    if "r" not in prefix:
        try:
            body = _ESCAPE.sub(_unescape, body)
        except ValueError as error:
            problems.add(token.offset, str(error))
            return Literal(token.offset, "")
    if "b" not in prefix:
        return Literal(token.offset, body)
    raw = b"".join(bytes([ord(c)]) if ord(c) < 256 else c.encode() for c in body)
    return Literal(token.offset, raw)


def _unescape(match: re.Match[str]) -> str:
    simple, two, four, eight, octal, wrong = match.groups()
    if simple is not None:
        return _SIMPLE.get(simple, simple)
    if octal is not None:
        return chr(int(octal, 8))
    digits = two or four or eight
    if digits is None or wrong:
        raise ValueError("unable to unescape string")
    return chr(int(digits, 16))

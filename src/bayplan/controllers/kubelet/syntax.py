"""Reads the small part of the shell's language that simulated containers speak.

    list      pipelines joined by ; & && || and newlines
    compound  if, while, until, for, { }, functions
    words     quotes, $NAME, ${NAME}, ${NAME:-text}, $(commands), $((sums)); no globs, no arrays
    files     > >> < 2> 2>&1 &>

Whatever else a script holds raises `NotUnderstoodError`: then nothing is guessed about it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from bayplan.errors import BayplanError

MAX_SCRIPT = 16_384
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|\\\n|\#[^\n]*)
      |(?P<redirect>(?:2>&1|&>|2>>?|1?>>|1?>|<))
      |(?P<operator>&&|\|\||;;|[;&|(){}\n])
      |(?P<word>(?:\\.|'[^']*'|"(?:\\.|\$\([^()]*(?:\([^()]*\)[^()]*)*\)|\$(?!\()|[^"\\$])*"
                 |\$\(\((?:[^()]|\([^()]*\))*\)\)
                 |\$\((?:[^()]|\([^()]*\))*\)|\$\{[^}]*\}|`[^`]*`
                 |[^\s;&|(){}<>'"\\`$\n]|\$|(?<=[^\s;&|()<>])[{}])+)""",
    re.VERBOSE | re.DOTALL,
)
_RESERVED = ("then", "elif", "else", "fi", "do", "done", "}")


class NotUnderstoodError(BayplanError):
    """A script or command of which the simulation does not know what it does."""


@dataclass(slots=True)
class Command:
    """Words to expand and run, with assignments before and redirections behind them."""

    words: list[str] = field(default_factory=list)
    sets: list[tuple[str, str]] = field(default_factory=list)
    redirects: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class Pipe:
    parts: list[Node]


@dataclass(slots=True)
class Sequence:
    """Nodes, each with the operator that stands before it: ";", "&", "&&" or "||"."""

    items: list[tuple[str, Node]] = field(default_factory=list)


@dataclass(slots=True)
class If:
    branches: list[tuple[Sequence, Sequence]]
    otherwise: Sequence | None = None


@dataclass(slots=True)
class Loop:
    condition: Sequence
    body: Sequence
    until: bool = False


@dataclass(slots=True)
class For:
    name: str
    words: list[str]
    body: Sequence


@dataclass(slots=True)
class Function:
    name: str
    body: Sequence


Node = Command | Pipe | Sequence | If | Loop | For | Function


def parse(text: str) -> Sequence:
    """Read a script. Raises NotUnderstoodError."""
    if len(text) > MAX_SCRIPT:
        raise NotUnderstoodError("the script is too long to be simulated")
    parser = _Parser(_tokens(text))
    try:
        found = parser.sequence(())
    except RecursionError:
        raise NotUnderstoodError("the script is nested too deeply to be simulated") from None
    if parser.peek() is not None:
        raise NotUnderstoodError(f'"{parser.peek()}" is not expected here')
    return found


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.end() == at:
            raise NotUnderstoodError(f'"{text[at : at + 20]}" is not understood')
        at = match.end()
        kind = match.lastgroup or ""
        if kind != "space":
            found.append((kind, match.group()))
    return found


class _Parser:
    """One token ahead, one function for each construct."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0

    def peek(self) -> str | None:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else None

    def _kind(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _take(self, expected: str = "") -> str:
        text = self.peek()
        if text is None or (expected and text != expected):
            raise NotUnderstoodError(f'"{expected or "a word"}" is missing')
        self._at += 1
        return text

    def _skip_lines(self) -> None:
        while self.peek() in ("\n", ";"):
            self._at += 1

    def sequence(self, ends: tuple[str, ...]) -> Sequence:
        """Read commands up to one of the words that end this list."""
        found, before = Sequence(), ";"
        while True:
            self._skip_lines()
            text = self.peek()
            if text is None or text in ends or text in (")",):
                return found
            if text in _RESERVED:
                raise NotUnderstoodError(f'"{text}" is not expected here')
            found.items.append((before, self._pipe()))
            text = self.peek()
            before = ";"
            if text in ("&&", "||", "&"):
                before = self._take()

    def _pipe(self) -> Node:
        parts = [self._one()]
        while self.peek() == "|":
            self._take()
            self._skip_lines()
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else Pipe(parts)

    def _one(self) -> Node:
        text = self.peek()
        if text == "if":
            return self._if()
        if text in ("while", "until"):
            self._take()
            condition = self.sequence(("do",))
            self._take("do")
            body = self.sequence(("done",))
            self._take("done")
            return Loop(condition, body, until=text == "until")
        if text == "for":
            return self._for()
        if text == "{":
            return self._braces()
        return self._command()

    def _if(self) -> If:
        self._take("if")
        branches: list[tuple[Sequence, Sequence]] = []
        while True:
            condition = self.sequence(("then",))
            self._take("then")
            branches.append((condition, self.sequence(("elif", "else", "fi"))))
            word = self._take()
            if word == "fi":
                return If(branches)
            if word == "else":
                otherwise = self.sequence(("fi",))
                self._take("fi")
                return If(branches, otherwise)

    def _for(self) -> For:
        self._take("for")
        name = self._take()
        self._take("in")
        words: list[str] = []
        while self._kind() == "word":
            words.append(self._take())
        self._skip_lines()
        self._take("do")
        body = self.sequence(("done",))
        self._take("done")
        return For(name, words, body)

    def _braces(self) -> Sequence:
        self._take("{")
        body = self.sequence(("}",))
        self._take("}")
        return body

    def _command(self) -> Node:
        found = Command()
        while True:
            kind, text = self._kind(), self.peek() or ""
            if kind == "redirect":
                self._take()
                found.redirects.append((text, "" if text == "2>&1" else self._word()))
            elif kind == "word":
                self._take()
                match = re.match(r"([A-Za-z_]\w*)=", text)
                if match and not found.words:
                    found.sets.append((match[1], text[match.end() :]))
                else:
                    found.words.append(text)
            elif text == "(" and len(found.words) == 1 and not found.sets:
                self._take("(")
                self._take(")")
                self._skip_lines()
                return Function(found.words[0], self._braces())
            else:
                break
        if not found.words and not found.sets:
            raise NotUnderstoodError(f'"{self.peek()}" is not expected here')
        return found

    def _word(self) -> str:
        if self._kind() != "word":
            raise NotUnderstoodError("a file name is missing")
        return self._take()

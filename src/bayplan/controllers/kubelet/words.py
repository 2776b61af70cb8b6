"""Expands the words of a simulated shell: quotes, variables, sums."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping

from bayplan.controllers.kubelet.syntax import NotUnderstoodError

Substitute = Callable[[str], str]
_PIECE = re.compile(
    r"""(?P<sum>\$\(\((?:[^()]|\([^()]*\))*\)\))
      |(?P<command>\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`)
      |(?P<braced>\$\{[^}]*\})
      |(?P<name>\$(?:[A-Za-z_]\w*|[?$@*\#0-9!]))
      |(?P<escape>\\.)
      |(?P<quoted>"(?:\\.|\$\([^()]*(?:\([^()]*\)[^()]*)*\)|\$(?!\()|[^"\\$])*")
      |(?P<raw>'[^']*')
      |(?P<plain>[^\\"'$`]+|\$)""",
    re.VERBOSE | re.DOTALL,
)
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda a, b: int(a / b),
    ast.Mod: lambda a, b: a - b * int(a / b),
}
MAX_NUMBER = 1 << 63
TOO_LONG = "words and variables of more than 256 KiB"
MAX_TEXT = 1 << 18  # characters that a command's words have together, or a variable


def expand(word: str, variables: Mapping[str, str], run: Substitute) -> list[str]:
    """Return what a word becomes: several words where an unquoted part holds spaces."""
    found: list[str] = [""]
    empty = True
    for kind, text in _bounded(_pieces(word, variables, run)):
        if kind == "split":
            parts = text.split()
            if text[:1].isspace() and (found[-1] or not empty):
                found.append("")
            for number, part in enumerate(parts):
                if number:
                    found.append("")
                found[-1] += part
            if parts and text[-1:].isspace():
                found.append("")
        else:
            found[-1] += text
            empty = False
    return [part for part in found if part or not empty]


def text_of(word: str, variables: Mapping[str, str], run: Substitute) -> str:
    """Return what a word becomes where it is never split: in an assignment, a file's name."""
    return "".join(text for _, text in _bounded(_pieces(word, variables, run)))


def _bounded(pieces: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Pass on what a word becomes, as long as it is not too long. Raises NotUnderstoodError."""
    length = 0
    for kind, text in pieces:
        length += len(text)
        if length > MAX_TEXT:
            raise NotUnderstoodError(TOO_LONG)
        yield kind, text


def _pieces(
    word: str, variables: Mapping[str, str], run: Substitute, *, quoted: bool = False
) -> Iterator[tuple[str, str]]:
    found = "text" if quoted else "split"
    for match in _PIECE.finditer(word):
        kind, text = match.lastgroup, match.group()
        if kind == "sum":
            yield found, str(total(text_of(text[3:-2], variables, run), variables))
        elif kind == "command":
            inner = text[2:-1] if text.startswith("$(") else text[1:-1]
            yield found, run(inner).rstrip("\n")
        elif kind == "braced":
            yield found, _braced(text[2:-1], variables, run)
        elif kind == "name":
            yield found, variables.get(text[1:], "")
        elif kind == "escape":
            keeps = quoted and text[1] not in '$`"\\\n'
            yield "text", text if keeps else text[1:]
        elif kind == "quoted":
            yield "text", ""
            yield from _pieces(text[1:-1], variables, run, quoted=True)
        elif kind == "raw" and not quoted:
            yield "text", text[1:-1]
        else:
            yield "text", text


def _braced(text: str, variables: Mapping[str, str], run: Substitute) -> str:
    match = re.fullmatch(r"([A-Za-z_]\w*|[?#@0-9])(?:(:?[-+=])(.*))?", text, re.DOTALL)
    if match is None:
        raise NotUnderstoodError(f'"${{{text}}}" is not understood')
    name, how, rest = match.groups()
    value = variables.get(name)
    missing = value is None or (how is not None and ":" in how and value == "")
    if how is not None and "+" in how:
        return "" if missing else text_of(rest, variables, run)
    if how is not None and missing:
        return text_of(rest, variables, run)
    return value or ""


def total(text: str, variables: Mapping[str, str]) -> int:
    """Work out a sum of whole numbers."""
    plain = re.sub(r"[A-Za-z_]\w*", lambda m: variables.get(m.group()) or "0", text)
    try:
        tree = ast.parse(plain.strip().replace("/", "//") or "0", mode="eval")
        return _value(tree.body)
    except (SyntaxError, ZeroDivisionError, RecursionError, ValueError) as error:
        raise NotUnderstoodError(f'"{text}" is not a sum') from error


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        result = node.value
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        result = _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        result = -_value(node.operand)
    else:
        raise ValueError("not a sum")
    if abs(result) >= MAX_NUMBER:
        raise ValueError("too large")
    return result

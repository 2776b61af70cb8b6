"""The faults that are planted: each changes one node of a function's syntax tree.

Only code inside functions is changed, for a running function can be given another body; tables and
constants of modules are not. Texts are left alone: recorded answers compare them.
A mutant is known by file, function, fault and the line's text, so that its name, and whether it is
part of a sample, survives changes elsewhere in the file.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOGGERS = ("log", "logger", "_log", "LOG")
# zip's says what is so already, astype's only saves a copy, a thread's is for a stuck end.
MATTERLESS = ("strict=True", "copy=False", "daemon=True")
SPARED = ("_proof", "__repr__")  # read by mypy and by people, run by nobody


@dataclass(frozen=True)
class Mutant:
    """One fault: `fault` says what is changed on which lines of which function."""

    path: str
    function: str
    fault: str
    text: str
    first: int
    last: int
    index: int = field(compare=False)  # which change of the file it is
    number: int = 0  # tells apart those that are otherwise named the same

    @property
    def key(self) -> str:
        return f"{self.path} {self.function}: {self.fault} #{self.number}: {self.text}"


Change = tuple[str, Callable[[ast.AST], ast.AST | None]]


def changes(node: ast.AST) -> Iterator[Change]:
    """Yield what can be done to a node: a name, and what makes a changed copy (None: delete)."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARE:
            other = COMPARE[type(op)]
            yield f"{type(op).__name__} to {other.__name__}", lambda n: _with(n, ops=[other()])
        case ast.BoolOp():
            flipped = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield f"to {type(flipped).__name__}", lambda n: _with(n, op=flipped)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            yield f"no {type(node.op).__name__}", lambda n: n.operand
        case ast.BinOp() if type(node.op) in BINARY and not _texts(node):
            op = BINARY[type(node.op)]()
            yield f"to {type(op).__name__}", lambda n: _with(n, op=op)
        case ast.Constant(value=bool()):
            yield f"to {not node.value}", lambda n: _with(n, value=not n.value)
        case ast.Constant(value=int() | float()):
            yield "one more", lambda n: _with(n, value=n.value + 1)
        case ast.If() | ast.IfExp() | ast.While():
            if not isinstance(node.test, ast.Compare | ast.UnaryOp | ast.Constant):
                yield "negated", lambda n: _with(n, test=ast.UnaryOp(ast.Not(), n.test))
        case ast.Return(value=ast.expr()) if not _says_nothing(node.value):
            yield "None returned", lambda n: _with(n, value=ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield "call gone", _gone
        case ast.AugAssign():
            yield "assignment gone", lambda n: None
        case ast.Raise(exc=ast.expr()):
            yield "raise gone", lambda n: None
        case ast.Continue():
            yield "to break", lambda n: ast.Break()


def _gone(node: ast.AST) -> ast.AST | None:
    """Nothing; of a call of `super` its class, without which a living method cannot be changed."""
    if any(isinstance(part, ast.Name) and part.id == "super" for part in ast.walk(node)):
        return ast.Expr(ast.Name("__class__", ast.Load()))
    return None


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _texts(node: ast.BinOp) -> bool:
    def is_text(side: ast.expr) -> bool:
        return isinstance(side, ast.JoinedStr) or (
            isinstance(side, ast.Constant) and isinstance(side.value, str | bytes)
        )

    return is_text(node.left) or is_text(node.right)


def _says_nothing(node: ast.expr) -> bool:
    """None instead would say the same to all who only look whether it is true.

    What is True or a number has a fault of its own.
    """
    return isinstance(node, ast.Constant) and (not node.value or node.value is True)


def _logs(node: ast.expr) -> bool:
    """What is only logged is seen by people, not by tests."""
    call = node.value if isinstance(node, ast.Await) else node
    func = call.func if isinstance(call, ast.Call) else None
    return (
        isinstance(func, ast.Attribute)
        and isinstance(func.value, ast.Name)
        and func.value.id in LOGGERS
    )


class _Visitor(ast.NodeTransformer):
    """Counts the possible changes in a fixed order, and carries out the chosen one."""

    def __init__(self, path: str, lines: list[str], chosen: int | None) -> None:
        self.path, self.lines, self.chosen = path, lines, chosen
        self.found: list[Mutant] = []
        self.scope: list[str] = []
        self.inside = 0
        self.silent = False  # in a function that returns None anyway
        self.span = (0, 0)

    def visit(self, node: ast.AST) -> ast.AST | None:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            return node if node.name in SPARED else self._scoped(node)
        if isinstance(node, ast.stmt | ast.match_case):
            self.span = _span(node)
        if isinstance(node, ast.keyword) and ast.unparse(node) in MATTERLESS:
            return node
        if isinstance(node, ast.Expr) and _logs(node.value):
            return node
        if isinstance(node, ast.AnnAssign):  # what a type says is not run
            node.value = node.value and self.visit(node.value)
            return node
        made = self._change(node) if self.inside else node
        if made is not node:
            return _located(made, node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            return node  # -1 says "none", and so does -2
        return super().generic_visit(node)

    def _scoped(self, node: ast.AST) -> ast.AST:
        self.scope.append(node.name)
        is_function = isinstance(node, FUNCTIONS)
        self.inside += is_function
        outer, self.silent = self.silent, is_function and _returns_none(node)
        body = []
        for number, statement in enumerate(node.body):
            documents = isinstance(statement, ast.Expr) and isinstance(
                statement.value, ast.Constant
            )
            kept = statement if number == 0 and documents else self.visit(statement)
            body.append(kept)
        node.body = body
        self.silent = outer
        self.inside -= is_function
        self.scope.pop()
        return node

    def _change(self, node: ast.AST) -> ast.AST | None:
        for name, make in changes(node):
            if self.silent and isinstance(node, ast.Return):
                continue
            first, last = self.span
            text = self.lines[node.lineno - 1].strip()
            index = len(self.found)
            function = ".".join(self.scope)
            self.found.append(Mutant(self.path, function, name, text, first, last, index))
            if index == self.chosen:
                return make(node)
        return node


def _returns_none(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return isinstance(node.returns, ast.Constant) and node.returns.value is None


def _span(node: ast.stmt | ast.match_case) -> tuple[int, int]:
    """The lines that run when the statement does: of a compound one, its head."""
    first = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
    body = getattr(node, "body", None)
    last = body[0].lineno - 1 if body else getattr(node, "end_lineno", None)
    return first, max(first, last or first)


def _located(made: ast.AST | None, node: ast.AST) -> ast.AST:
    if made is None:
        made = ast.Pass()
    return ast.fix_missing_locations(ast.copy_location(made, node))


def mutants(path: Path, root: Path) -> list[Mutant]:
    """Return all mutants of a file, named from `root`."""
    text = path.read_text("utf-8")
    visitor = _Visitor(path.relative_to(root).as_posix(), text.splitlines(), None)
    visitor.visit(ast.parse(text))
    seen: dict[str, int] = {}
    out = []
    for mutant in visitor.found:
        number = seen[mutant.key] = seen.get(mutant.key, -1) + 1
        out.append(replace(mutant, number=number))
    return out


def mutated(text: str, index: int) -> ast.Module:
    """Return the syntax tree of a source with its change number `index` made."""
    tree = _Visitor("", text.splitlines(), index).visit(ast.parse(text))
    assert isinstance(tree, ast.Module)
    return ast.fix_missing_locations(tree)


def sample(found: list[Mutant], seed: int, count: int) -> list[Mutant]:
    """Return the same `count` mutants for the same seed, whatever else was added or removed."""

    def rank(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed} {mutant.key}".encode()).hexdigest()

    return sorted(found, key=rank)[:count]

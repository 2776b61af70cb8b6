"""Where expressions are compiled: variables with their types, structs, and libraries.

    environment = Environment({"self": declared.type}, structs=declared.structs())
    program = environment.compile('self.size() < 3')
    program.evaluate({"self": [1, 2]})          # True
    program.estimate(declared.size_of)          # what it may cost at most

Compiling is bounded by the length and depth of the text, evaluating by a cost limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from bayplan.cel.checker import Checker, Structs
from bayplan.cel.cost import PER_CALL_LIMIT
from bayplan.cel.errors import CompileError, EvaluationError, InstantiationError, Problems
from bayplan.cel.estimate import Estimator, SizeOf
from bayplan.cel.extensions import EXTENSIONS
from bayplan.cel.kubernetes import KUBERNETES
from bayplan.cel.overloads import Library, join
from bayplan.cel.program import Builder, Frame
from bayplan.cel.standard import STANDARD
from bayplan.cel.syntax import Node, parse
from bayplan.cel.types import Type

MAX_LENGTH = 100_000


@lru_cache(maxsize=1)
def base_library() -> Library:
    return join((STANDARD, EXTENSIONS, KUBERNETES))


class Program:
    """A compiled expression."""

    def __init__(self, tree: Node, checked: Checker, unescape: Callable[[str], str]) -> None:
        self._tree = tree
        self._checked = checked
        self.type: Type = checked.types[tree]
        self._run = Builder(checked, unescape).build(tree)
        self.names = frozenset(checked.names.values())

    def run(self, frame: Frame) -> Any:
        """Evaluate in a frame that is shared with others; raises EvaluationError."""
        try:
            result = self._run(frame)
        except RecursionError:
            raise EvaluationError("nested too deeply") from None
        frame.spend(0)
        return result

    def evaluate(self, variables: Mapping[str, Any], limit: int = PER_CALL_LIMIT) -> Any:
        """Return the value; raises EvaluationError."""
        return self.run(Frame(dict(variables), limit))

    def estimate(self, size_of: SizeOf = lambda path: None) -> int:
        """The most that evaluating may cost."""
        return Estimator(self._checked, size_of).cost(self._tree)[1]


def _same(name: str) -> str:
    return name


class Environment:
    """Variables, structs and functions that expressions may use."""

    def __init__(
        self,
        variables: Mapping[str, Type],
        *,
        structs: Structs | None = None,
        library: Library | None = None,
        bindings: bool = False,
        unescape: Callable[[str], str] = _same,
    ) -> None:
        self.variables = dict(variables)
        self.structs = structs or {}
        self.library = base_library() if library is None else library
        self.bindings = bindings
        self.unescape = unescape

    def compile(self, text: str) -> Program:
        """Parse and check; raises CompileError with all problems, worded as upstream's."""
        if len(text) > MAX_LENGTH:
            raise CompileError(
                f"ERROR: <input>:-1:0: expression code point size exceeds limit: size: {len(text)},"
                f" limit {MAX_LENGTH}"
            )
        problems = Problems(text)
        try:
            return self._compile(text, problems)
        except RecursionError:
            raise CompileError("ERROR: <input>:-1:0: expression is nested too deeply") from None

    def _compile(self, text: str, problems: Problems) -> Program:
        tree = parse(text, problems, self.bindings)
        problems.check()
        assert tree is not None
        checked = Checker(self.library, self.structs, self.variables, problems)
        checked.check(tree)
        problems.check()
        checked.validate_literals()
        problems.check()
        checked.finish()
        try:
            return Program(tree, checked, self.unescape)
        except EvaluationError as problem:
            raise InstantiationError(str(problem)) from problem

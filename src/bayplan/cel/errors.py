"""What can go wrong with an expression.

CelError
├── CompileError            it cannot be parsed or checked; the text is upstream's
│   └── InstantiationError  a constant in it cannot be converted
└── EvaluationError         it was understood and fails on these values
    └── CostExceeded        it costs more than one evaluation may
"""

from __future__ import annotations

from bayplan.errors import BayplanError


class CelError(BayplanError):
    """An expression cannot be compiled or evaluated."""


class CompileError(CelError):
    """All problems of an expression, each with its place."""


class InstantiationError(CompileError):
    """A constant part of an expression fails."""


def compile_words(problem: CompileError) -> str:
    """How objects that hold expressions report what does not compile."""
    if isinstance(problem, InstantiationError):
        return f"program instantiation failed: {problem}"
    return f"compilation failed: {problem}"


class EvaluationError(CelError):
    """An expression fails on the given values."""


class CostExceeded(EvaluationError):
    """An evaluation costs more than it may."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


MOST_TEXT = 100_000_000  # characters that one call may make


def check_made(length: int) -> None:
    """Refuse to make a text that nobody has room for."""
    if length > MOST_TEXT:
        raise CostExceeded


MOST_PROBLEMS = 100  # of one text that are told, as in upstream
MOST_WORDS = 256 * 1024  # characters about one text; each problem quotes its whole line


class Problems:
    """Gathers problems of one text and writes them with the line and a mark under the place."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.found: dict[tuple[int, str], None] = {}
        self._more = 0

    def add(self, offset: int, message: str) -> None:
        if (offset, message) in self.found:
            return
        if len(self.found) < MOST_PROBLEMS:
            self.found[offset, message] = None
        else:
            self._more += 1

    def check(self) -> None:
        """Raise what was found."""
        if not self.found:
            return
        shown: list[str] = []
        length = 0
        for each in sorted(self.found, key=lambda e: e[0]):
            if length > MOST_WORDS:
                break
            shown.append(self._show(*each))
            length += len(shown[-1])
        if left := self._more + len(self.found) - len(shown):
            shown.append(f"{left} more errors were truncated")
        raise CompileError("\n".join(shown))

    def _show(self, offset: int, message: str) -> str:
        before = self.text[:offset]
        line = before.count("\n")
        column = offset - (before.rfind("\n") + 1)
        source = self.text.split("\n")[line].replace("\t", " ")
        shown = column + 1 if self.text else 0  # where there is nothing there is no first place
        head = f"ERROR: <input>:{line + 1}:{shown}: {message}"
        dots = "".join("\uff0e" if ord(char) > 127 else "." for char in source[:column])
        mark = "\uff3e" if column < len(source) and ord(source[column]) > 127 else "^"
        return f"{head}\n | {source}\n | {dots}{mark}"

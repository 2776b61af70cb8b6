"""Patterns of users: RE2, as in Kubernetes, which matches in linear time whatever the pattern.

Python's own `re` goes back and tries again, so `^(a+)+$` and thirty letters can hold a process for
ever. RE2 also is the dialect that upstream's users write. Errors are worded as Go's.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Protocol, cast

from bayplan.errors import BayplanError

MAX_PATTERN = 10_000
# RE2's words in C++ → Go's.
_WORDS = {
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "pattern too large - compile failed": "expression too large",
}


class PatternError(BayplanError):
    """A pattern that cannot be used."""


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str) -> object | None:
        """Return something if the pattern is found anywhere in the text."""

    def finditer(self, text: str) -> Iterable[Any]:
        """Find every place that does not overlap with the one before; `group()` is its text."""


@lru_cache(maxsize=1024)
def compile_pattern(text: str) -> Pattern:
    """Compile a pattern. Raises PatternError with Go's words."""
    if len(text) > MAX_PATTERN:
        raise PatternError("error parsing regexp: expression too large")
    try:
        import re2
    except ImportError as error:
        raise PatternError("patterns need google-re2; install bayplan's dependencies") from error
    options = re2.Options()
    options.log_errors = False
    try:
        return cast("Pattern", re2.compile(text, options))
    except re2.error as error:
        raise PatternError(f"error parsing regexp: {_go_words(error.args[0])}") from error


def _go_words(problem: Any) -> str:
    found = problem.decode(errors="replace") if isinstance(problem, bytes) else str(problem)
    what, colon, where = found.partition(": ")
    words = _WORDS.get(what, what)
    return f"{words}: `{where}`" if colon else words

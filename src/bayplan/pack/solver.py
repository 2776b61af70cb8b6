"""Where OR-tools is found, and what is said when it is not there."""

from __future__ import annotations

import importlib
from typing import Any

from bayplan.errors import BayplanError


class SolverMissing(BayplanError):
    """The optional solver is not installed."""


def solver(module: str) -> Any:
    """A module of OR-tools; raises SolverMissing with the command that installs it."""
    try:
        return importlib.import_module(f"ortools.{module}")
    except ImportError as problem:
        raise SolverMissing(
            "packing needs OR-tools, which is not installed; run: pip install 'bayplan[optimize]'"
        ) from problem

"""Where OR-tools is found."""

from __future__ import annotations

from typing import Any

from bayplan.extras import needed


def solver(module: str) -> Any:
    """A module of OR-tools; raises ExtraMissing with the command that installs it."""
    return needed(f"ortools.{module}", "optimize")

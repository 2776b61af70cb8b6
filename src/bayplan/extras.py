"""Packages that only some commands need: imported when they are, and named when they are missing.

The extras of pyproject.toml list them. In a checkout `make setup` installs all.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from bayplan.errors import BayplanError

CHECKOUT = Path(__file__).resolve().parents[2] / "pyproject.toml"


class ExtraMissing(BayplanError):
    """An optional package is not installed."""


def needed(module: str, extra: str) -> Any:
    """Import a module of an optional package; raises ExtraMissing that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as problem:
        name = module.partition(".")[0]
        remedy = "make setup" if CHECKOUT.exists() else f"pip install 'bayplan[{extra}]'"
        raise ExtraMissing(f"this needs {name}, which is not installed; run: {remedy}") from problem

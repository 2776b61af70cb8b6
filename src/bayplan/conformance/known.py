"""Differences that are known and accepted, each with its reason.

The list is the one in `docs/design/conformance.md`; the fuzzer counts them apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Body = dict[str, Any]

KNOWN: dict[str, Callable[[Body, list[str]], bool]] = {}


def known(case: Body, lines: list[str]) -> str:
    """The name of the accepted difference that explains every line, or nothing."""
    return next((name for name, explains in KNOWN.items() if explains(case, lines)), "")

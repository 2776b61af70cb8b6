"""Amounts of resources as people write them."""

from __future__ import annotations

BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi")


def amount(resource: str, value: int) -> str:
    """`3.5` cores, `12.4Gi`, or a plain number; cpu comes in millicores."""
    if resource == "cpu":
        return _short(value / 1000)
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        size = float(value)
        unit = ""
        for name in BINARY:
            if abs(size) < 1024:
                break
            size, unit = size / 1024, name
        return f"{_short(size)}{unit}"
    return str(value)


def _short(value: float) -> str:
    """At most three figures behind the point for small ones, one for large."""
    text = f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
    return text.rstrip("0").rstrip(".") or "0"

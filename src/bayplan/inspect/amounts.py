"""Amounts of resources as people and manifests write them.

Inside, cpu is counted in thousandths and everything else in units. `show` rounds for reading,
`exact` never does; `apart` shows two amounts so that different ones never look equal.
"""

from __future__ import annotations

_BINARY = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


def show(resource: str, amount: int) -> str:
    """An amount for reading: `3.2`, `12.5Gi`, `8`."""
    if resource == "cpu":
        return exact(resource, amount) if 0 < abs(amount) < 100 else _decimal(amount / 1000, 3)
    if _is_bytes(resource):
        for unit, name in _BINARY:
            if abs(amount) >= unit:
                return f"{_decimal(amount / unit, 1)}{name}"
    return str(amount)


def exact(resource: str, amount: int) -> str:
    """An amount as a manifest may say it, without rounding."""
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if _is_bytes(resource) and amount:
        for unit, name in _BINARY:
            if amount % unit == 0:
                return f"{amount // unit}{name}"
    return str(amount)


def apart(resource: str, *amounts: int) -> list[str]:
    """Amounts for reading, exact where rounding would make different ones look equal."""
    shown = [show(resource, amount) for amount in amounts]
    if len(set(shown)) == len(set(amounts)):
        return shown
    return [exact(resource, amount) for amount in amounts]


def decided_as(version: str, note: str) -> str:
    """As which version an answer was decided, and why."""
    return f"Decided as {version}: {note}"


def listed(names: list[str], most: int = 3, total: int = 0) -> str:
    """`a, b, c and 4 more`; `total` if more than these are meant."""
    total = total or len(names)
    if total <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {total - most:,} more"


def _decimal(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _is_bytes(resource: str) -> bool:
    return resource in ("memory", "ephemeral-storage", "storage") or resource.startswith(
        "hugepages-"
    )

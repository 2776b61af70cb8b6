"""Small pieces of text that many tables share: ages, selectors, lists of containers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

Object = Mapping[str, Any]
NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"


def human_duration(seconds: float) -> str:
    """A duration as kubectl shows it: two units while they matter, then one."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 120:
        return f"{whole}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def moment(text: Any) -> datetime | None:
    """The time that an RFC 3339 text means, if it is one."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def since(text: Any, now: datetime) -> str:
    """How long ago a timestamp was."""
    found = moment(text)
    return UNKNOWN if found is None else human_duration((now - found).total_seconds())


def age(obj: Object, now: datetime) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)


def labels(values: Mapping[str, str] | None) -> str:
    """`a=b,c=d`, or `<none>`."""
    return ",".join(f"{k}={v}" for k, v in sorted((values or {}).items())) or NONE


def selector(value: Object | None) -> str:
    """A label selector as text; empty if it selects everything."""
    if not value:
        return ""
    parts = [(key, f"{key}={item}") for key, item in (value.get("matchLabels") or {}).items()]
    for term in value.get("matchExpressions") or ():
        key, values = term.get("key", ""), ",".join(sorted(term.get("values") or ()))
        match term.get("operator"):
            case "In":
                parts.append((key, f"{key} in ({values})"))
            case "NotIn":
                parts.append((key, f"{key} notin ({values})"))
            case "Exists":
                parts.append((key, key))
            case "DoesNotExist":
                parts.append((key, f"!{key}"))
            case _:
                return "<error>"
    return ",".join(text for _, text in sorted(parts, key=lambda part: part[0]))


def selector_or_none(value: Object | None) -> str:
    return selector(value) or NONE


def containers(template: Object | None) -> tuple[str, str]:
    """The names and the images of a pod template's containers."""
    items = ((template or {}).get("spec") or {}).get("containers") or []
    return (
        ",".join(item.get("name", "") for item in items),
        ",".join(item.get("image", "") for item in items),
    )


def shortened(items: Sequence[str], total: int) -> str:
    """The first three of a list, and how many more there are."""
    text = ",".join(items[:3])
    if total > 3:
        return f"{text} + {total - 3} more..."
    return text or UNSET


def access_modes(modes: Sequence[str] | None) -> str:
    """`RWO,ROX,RWX,RWOP`, in this order."""
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
    return ",".join(text for mode, text in short.items() if mode in (modes or ()))


def boolean(value: Any) -> str:
    """A boolean that may be unset."""
    if value is None:
        return UNSET
    return "True" if value else "False"

"""Numbers for resource names, so that tables can keep one column a resource.

The numbers are the same in the whole process: cpu 0, memory 1, ephemeral-storage 2, others in the
order in which they were first seen. They are not written anywhere and mean nothing to others.
"""

from __future__ import annotations

CPU_ID = 0
MEMORY_ID = 1
EPHEMERAL_ID = 2

_NAMES: list[str] = ["cpu", "memory", "ephemeral-storage"]
_IDS: dict[str, int] = {name: number for number, name in enumerate(_NAMES)}


def resource_id(name: str) -> int:
    """The number of a resource, given out on first use."""
    number = _IDS.get(name)
    if number is None:
        number = _IDS[name] = len(_NAMES)
        _NAMES.append(name)
    return number


def resource_name(number: int) -> str:
    return _NAMES[number]


def resource_count() -> int:
    return len(_NAMES)

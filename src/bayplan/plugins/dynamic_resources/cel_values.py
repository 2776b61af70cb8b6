"""Values that CEL expressions over devices compare: quantities, versions and the device itself."""

from __future__ import annotations

import re
from functools import total_ordering
from typing import Any, NamedTuple

from bayplan.api import Device, quantity

_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?",
    re.ASCII,
)


class CelQuantity(NamedTuple):
    """A quantity; ordered by value."""

    nanos: int


@total_ordering
class CelVersion:
    """A semantic version; ordered as semver.org says, build metadata ignored."""

    __slots__ = ("_key",)

    def __init__(self, key: tuple[Any, ...]) -> None:
        self._key = key

    @classmethod
    def parse(cls, text: str) -> CelVersion | None:
        match = _VERSION.fullmatch(text)
        if match is None:
            return None
        major, minor, patch, before = match.groups()
        # A release comes after its pre-releases; numbers come before words.
        words = tuple(
            (0, int(word), "") if word.isdigit() else (1, 0, word)
            for word in (before or "").split(".")
            if word
        )
        return cls((int(major), int(minor), int(patch), before is None, words))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CelVersion) and self._key == other._key

    def __lt__(self, other: CelVersion) -> bool:
        return bool(self._key < other._key)

    def __hash__(self) -> int:
        return hash(self._key)


class _Domains(dict[str, Any]):
    """Attributes or capacities by domain; an unknown domain has none."""

    def get(self, key: str, default: Any = None) -> Any:
        return dict.get(self, key, {})


def device_view(driver: str, device: Device) -> dict[str, Any]:
    """A device as expressions see it; unqualified names belong to the driver's domain."""
    attributes, capacity = _Domains(), _Domains()
    for name, attribute in device.attributes.items():
        value: Any = attribute.value
        if attribute.version_value is not None:
            value = CelVersion.parse(attribute.version_value) or attribute.version_value
        _put(attributes, driver, name, value)
    for name, item in device.capacity.items():
        _put(capacity, driver, name, CelQuantity(quantity.nanos(item.value)))
    return {
        "driver": driver,
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": device.allow_multiple_allocations,
    }


def _put(domains: _Domains, driver: str, name: str, value: Any) -> None:
    domain, slash, short = name.partition("/")
    if not slash:
        domain, short = driver, name
    domains.setdefault(domain, {})[short] = value

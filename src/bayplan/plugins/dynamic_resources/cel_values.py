"""A device as expressions see it."""

from __future__ import annotations

from typing import Any

from bayplan.api import Device, quantity


class _Domains(dict[str, Any]):
    """Attributes or capacities by domain; an unknown domain has none."""

    def get(self, key: str, default: Any = None) -> Any:
        return dict.get(self, key, {})


def device_view(driver: str, device: Device) -> dict[str, Any]:
    """A device as expressions see it; unqualified names belong to the driver's domain."""
    from bayplan.cel.values import Quantity, Semver

    attributes, capacity = _Domains(), _Domains()
    for name, attribute in device.attributes.items():
        value: Any = attribute.value
        if attribute.version_value is not None:
            value = Semver.parse(attribute.version_value) or attribute.version_value
        _put(attributes, driver, name, value)
    for name, item in device.capacity.items():
        _put(capacity, driver, name, Quantity(quantity.nanos(item.value)))
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

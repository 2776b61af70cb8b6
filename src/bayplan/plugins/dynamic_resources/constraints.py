"""What the devices of one claim must have in common, or must not."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.devices import DeviceConstraint
from bayplan.errors import BayplanError
from bayplan.plugins.dynamic_resources.pools import Offer

Value = tuple[str, object]
"""An attribute's value with its type."""


class AllocationError(BayplanError):
    """Something is wrong with a claim or class; no node can help."""


class Constraints:
    """The constraints of one claim, and the devices picked for it so far."""

    def __init__(self, constraints: Sequence[DeviceConstraint], *, modern: bool) -> None:
        """`modern`: see `_Constraint`."""
        self._each = [_Constraint(item, modern=modern) for item in constraints]

    def add(self, label: str, offer: Offer) -> bool:
        """Take a device in; False (and nothing taken) if a constraint forbids it."""
        for number, constraint in enumerate(self._each):
            if not constraint.add(label, offer):
                self._remove(label, number)
                return False
        return True

    def remove(self, label: str) -> None:
        """Take the last device of a request out."""
        self._remove(label, len(self._each))

    def _remove(self, label: str, count: int) -> None:
        for constraint in reversed(self._each[:count]):
            constraint.remove(label)


class _Constraint:
    """One constraint and the values of the devices that it concerns.

    In 1.36 `distinctAttribute` knows one value a request, that of its last device, and none after
    a device of the request was taken back.
    """

    def __init__(self, item: DeviceConstraint, *, modern: bool) -> None:
        self._requests = item.requests
        self._same = bool(item.match_attribute)
        self._name = item.match_attribute or item.distinct_attribute
        if not self._name:
            raise AllocationError("claim has a constraint of an unknown type")
        self._forgetful = not modern and not self._same
        self._values: list[tuple[str, Value]] = []

    def _concerns(self, label: str) -> bool:
        requests = self._requests
        return not requests or label in requests or label.partition("/")[0] in requests

    def add(self, label: str, offer: Offer) -> bool:
        if not self._concerns(label):
            return True
        value = attribute(offer, self._name)
        if value is None:
            return False
        if self._same:
            allowed = all(other == value for _, other in self._values)
        else:
            allowed = all(other != value for _, other in self._values)
        if allowed:
            if self._forgetful:
                self._forget(label)
            self._values.append((label.partition("/")[0], value))
        return allowed

    def remove(self, label: str) -> None:
        if not self._concerns(label):
            return
        if self._forgetful:
            self._forget(label)
        else:
            self._values.pop()

    def _forget(self, label: str) -> None:
        request = label.partition("/")[0]
        self._values = [item for item in self._values if item[0] != request]


def attribute(offer: Offer, name: str) -> Value | None:
    """The value of a fully qualified attribute with its type, or None."""
    attributes = offer.device.attributes
    found = attributes.get(name)
    if found is None:
        domain, _, short = name.rpartition("/")
        found = attributes.get(short) if domain == offer.id[0] else None
    if found is None or found.value is None:
        return None
    kind = "version" if found.version_value is not None else type(found.value).__name__
    return kind, found.value

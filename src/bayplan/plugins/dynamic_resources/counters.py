"""Counters that the devices of a pool share: partitions of one card, say.

A device that is in use takes from the counters of its pool; what all devices in use take must not
exceed what the counter has. A device that several may share takes once. (In 1.36 it takes again
where claims hold it without a word about how much.)
"""

from __future__ import annotations

from bayplan.api import quantity
from bayplan.plugins.dynamic_resources.claims import ClaimBooks, DeviceId
from bayplan.plugins.dynamic_resources.pools import Offer, Pool

Key = tuple[str, str]
"""Counter set, counter."""


class Counters:
    """What is left of the counters during one search."""

    def __init__(self, books: ClaimBooks, *, modern: bool) -> None:
        self._books = books
        self._is_paid = books.shared if modern else books.is_consumed
        self._left: dict[int, dict[Key, int]] = {}
        self._paid: dict[DeviceId, list[bool]] = {}
        """For each time that a device is taken whether it was paid for."""

    def take(self, pool: Pool, offer: Offer) -> bool:
        """Take what a device needs; False (and nothing taken) if there is not enough."""
        needs = _needs(offer)
        if not needs:
            return True
        paid = self._paid.setdefault(offer.id, [])
        free = offer.shared and (bool(paid) or self._is_paid(offer.id))
        if not free:
            left = self._of(pool)
            _subtract(left, needs, 1)
            if any(amount < 0 for amount in left.values()):
                _subtract(left, needs, -1)
                return False
        paid.append(not free)
        return True

    def give_back(self, pool: Pool, offer: Offer) -> None:
        needs = _needs(offer)
        if needs and self._paid[offer.id].pop():
            _subtract(self._of(pool), needs, -1)

    def _of(self, pool: Pool) -> dict[Key, int]:
        """What is left in a pool, counted on first use."""
        left = self._left.get(id(pool))
        if left is None:
            left = {
                (name, counter): quantity.nanos(value.value)
                for name, counters in pool.counters.items()
                for counter, value in counters.counters.items()
            }
            for offer in pool.everything:
                if self._books.in_use(offer.id) or self._books.shared(offer.id):
                    _subtract(left, _needs(offer), 1)
            self._left[id(pool)] = left
        return left


def _subtract(left: dict[Key, int], needs: dict[Key, int], times: int) -> None:
    for key, amount in needs.items():
        left[key] -= times * amount


def _needs(offer: Offer) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for item in offer.device.consumes_counters:
        for counter, value in item.counters.items():
            key = (item.counter_set, counter)
            found[key] = found.get(key, 0) + quantity.nanos(value.value)
    return found

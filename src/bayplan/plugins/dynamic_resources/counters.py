"""Counters that the devices of a pool share: partitions of one card, say.

A device that is in use takes from the counters of its pool; what all devices in use take must not
exceed what the counter has.
"""

from __future__ import annotations

from bayplan.api import quantity
from bayplan.plugins.dynamic_resources.claims import ClaimBooks
from bayplan.plugins.dynamic_resources.pools import Offer, Pool

Key = tuple[str, str]
"""Counter set, counter."""


class Counters:
    """What is left of the counters during one search."""

    def __init__(self, books: ClaimBooks) -> None:
        self._books = books
        self._left: dict[int, dict[Key, int]] = {}
        self._takers: dict[tuple[str, str, str], int] = {}

    def take(self, offer: Offer) -> bool:
        """Take what a device needs; False (and nothing taken) if there is not enough."""
        needs = _needs(offer)
        if not needs:
            return True
        if self._takers.get(offer.id):
            # Another request of this search shares the device, which pays only once.
            self._takers[offer.id] += 1
            return True
        left = self._of(offer.pool)
        if not self._books.shared(offer.id):
            if any(left.get(key, 0) < amount for key, amount in needs.items()):
                return False
            for key, amount in needs.items():
                left[key] -= amount
        self._takers[offer.id] = 1
        return True

    def give_back(self, offer: Offer) -> None:
        needs = _needs(offer)
        if not needs:
            return
        self._takers[offer.id] -= 1
        if self._takers[offer.id] == 0 and not self._books.shared(offer.id):
            left = self._of(offer.pool)
            for key, amount in needs.items():
                left[key] += amount

    def _of(self, pool: Pool) -> dict[Key, int]:
        """What is left in a pool, counted on first use."""
        left = self._left.get(id(pool))
        if left is None:
            left = {
                (name, counter): quantity.nanos(value.value)
                for name, counters in pool.counters.items()
                for counter, value in counters.counters.items()
            }
            for offer in pool.offers:
                if self._books.in_use(offer.id) or self._books.shared(offer.id):
                    for key, amount in _needs(offer).items():
                        left[key] = left.get(key, 0) - amount
            self._left[id(pool)] = left
        return left


def _needs(offer: Offer) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for item in offer.device.consumes_counters:
        for counter, value in item.counters.items():
            key = (item.counter_set, counter)
            found[key] = found.get(key, 0) + quantity.nanos(value.value)
    return found

"""Searches all ways to put items into bins, within a number of steps.

Equal items go into bins in order, and of bins that are alike only the first is tried, so that small
cases are finished quickly; large ones are given up.
"""

from collections.abc import Sequence

import msgspec


class Item(msgspec.Struct, frozen=True):
    """A machine, the pools that take it, and how many of its resource may share a host (0: any)."""

    resource: int
    pools: frozenset[str]
    vcpus: int
    memory: int
    most: int = 0


class Bin(msgspec.Struct):
    """A host, or a sum of hosts that are not listed, with the machines there by resource."""

    pool: str
    real: bool
    vcpus: int
    memory: int
    there: dict[int, int]

    def takes(self, item: Item) -> bool:
        """Whether one more fits."""
        if item.most and not (self.real and self.there.get(item.resource, 0) < item.most):
            return False
        return self.pool in item.pools and item.vcpus <= self.vcpus and item.memory <= self.memory

    def put(self, item: Item, times: int = 1) -> None:
        """Put an item in (`times` -1 takes it out)."""
        self.vcpus -= item.vcpus * times
        self.memory -= item.memory * times
        if item.most:
            self.there[item.resource] = self.there.get(item.resource, 0) + times

    def state(self) -> tuple[object, ...]:
        """Equal for bins that are alike."""
        there = tuple(sorted((r, n) for r, n in self.there.items() if n))
        return self.pool, self.real, self.vcpus, self.memory, there


def search(items: Sequence[Item], bins: Sequence[Bin], steps: int) -> list[int] | None:
    """The bin of each item; None when there is no way, or none was found in time."""
    chosen: list[int] = []
    left = steps

    def rest() -> bool:
        nonlocal left
        if len(chosen) == len(items):
            return True
        item = items[len(chosen)]
        start = chosen[-1] if chosen and items[len(chosen) - 1] == item else 0
        tried: set[tuple[object, ...]] = set()
        for number in range(start, len(bins)):
            left -= 1
            if left < 0:
                return False
            place = bins[number]
            if not place.takes(item) or place.state() in tried:
                continue
            tried.add(place.state())
            place.put(item)
            chosen.append(number)
            if rest():
                return True
            chosen.pop()
            place.put(item, -1)
        return False

    return chosen if rest() else None

"""How much one replica of a stack needs, and how often that fits a site.

One combination picks a flavor for every resource. Its machines are counted jointly: two flavors of
one type share the type's pools, and two types that share a pool must fit it together (every subset
of the types is checked, Hall's condition; requests have a handful of types at most).

Divisions are done in float64 and cut: for whole numbers below 2**53 that is exact.
"""

import heapq
from collections.abc import Iterator, Mapping
from itertools import combinations as subsets

import msgspec
import numpy as np

from bayplan.global_scheduler.inventory import Spot
from bayplan.global_scheduler.stack import FlavorChoice, Stack
from bayplan.global_scheduler.table import BoolArray, Charges, IntArray, SiteTable
from bayplan.global_scheduler.view import SiteView

UNLIMITED = np.int64(2**53)
FAKE_SPOT = 1000
MAX_COMBINATIONS = 64
FIRST_CHOICE = 10

Amount = int | IntArray


class Combination(msgspec.Struct, frozen=True):
    """One flavor for each resource; the weight falls with each later choice."""

    choices: tuple[int, ...]
    weight: int


def choice_weight(position: int) -> int:
    """10 for the first choice, 5 for the second, 3, 2, 2, 1 …"""
    return FIRST_CHOICE // (position + 1)


def best_first(stack: Stack) -> Iterator[Combination]:
    """Combinations by falling weight, then by order of preference; at most MAX_COMBINATIONS."""
    limits = [len(resource.flavors) for resource in stack.resources]
    start = (0,) * len(limits)
    heap = [(-FIRST_CHOICE * len(limits), start)]
    seen = {start}
    for _ in range(MAX_COMBINATIONS):
        if not heap:
            return
        weight, choices = heapq.heappop(heap)
        yield Combination(choices, -weight)
        for place, position in enumerate(choices):
            if position + 1 < limits[place]:
                following = (*choices[:place], position + 1, *choices[place + 1 :])
                if following not in seen:
                    seen.add(following)
                    total = sum(choice_weight(position) for position in following)
                    heapq.heappush(heap, (-total, following))


class Need:
    """What one replica takes with one combination of flavors."""

    def __init__(
        self, table: SiteTable, stack: Stack, combination: Combination, *, fake_spot: bool
    ) -> None:
        self.table = table
        self.flavors = [
            resource.flavors[choice]
            for resource, choice in zip(stack.resources, combination.choices, strict=True)
        ]
        self.vcpus: dict[str, Amount] = {}
        self.memory: dict[str, Amount] = {}
        self.spot: dict[FlavorChoice, int] = {}
        self._fake_spot = fake_spot
        for resource, choice in zip(stack.resources, self.flavors, strict=True):
            if choice.spot is not None:
                self.spot[choice] = self.spot.get(choice, 0) + resource.count
                continue
            for kind, (vcpus, memory) in table.flavor(choice.flavor_id).sizes.items():
                self.vcpus[kind] = self.vcpus.get(kind, 0) + vcpus * resource.count
                self.memory[kind] = self.memory.get(kind, 0) + memory * resource.count
        kinds = sorted(self.vcpus)
        self._groups = [(kind,) for kind in kinds] + [
            group
            for size in range(2, len(kinds) + 1)
            for group in subsets(kinds, size)
            if len(table.pools_of(*group)) < sum(len(table.pools_of(kind)) for kind in group)
        ]

    def sold(self, view: SiteView) -> BoolArray:
        """Where every flavor of the combination is offered."""
        mask = np.ones(view.count, np.bool_)
        for choice in set(self.flavors):
            mask &= view.take(self.table.flavor(choice.flavor_id).sold)
        return mask

    def fits(self, view: SiteView) -> BoolArray:
        """Where one replica fits, by machines."""
        mask = self.sold(view)
        for group in self._groups:
            vcpus, memory = self._free(view, group)
            mask &= vcpus >= self._sum(self.vcpus, group, view)
            mask &= memory >= self._sum(self.memory, group, view)
        for choice, count in self.spot.items():
            mask &= self._spot_offer(view, choice) >= count
        return mask

    def capacity(self, view: SiteView) -> IntArray:
        """How many replicas fit, by machines; 0 where a flavor is not offered."""
        result = np.where(self.sold(view), UNLIMITED, 0)
        for group in self._groups:
            vcpus, memory = self._free(view, group)
            np.minimum(result, quotient(vcpus, self._sum(self.vcpus, group, view)), out=result)
            np.minimum(result, quotient(memory, self._sum(self.memory, group, view)), out=result)
        for choice, count in self.spot.items():
            np.minimum(result, self._spot_offer(view, choice) // count, out=result)
        return np.maximum(result, 0)

    def _free(self, view: SiteView, group: tuple[str, ...]) -> tuple[IntArray, IntArray]:
        keys = self.table.pools_of(*group)
        if not keys:
            nothing = np.zeros(view.count, np.int64)
            return nothing, nothing
        pools = [self.table.pools[key] for key in keys]
        vcpus = view.take(pools[0].free_vcpus)
        memory = view.take(pools[0].free_memory)
        for pool in pools[1:]:
            vcpus = vcpus + view.take(pool.free_vcpus)
            memory = memory + view.take(pool.free_memory)
        return vcpus, memory

    @staticmethod
    def _sum(amounts: Mapping[str, Amount], group: tuple[str, ...], view: SiteView) -> Amount:
        total: Amount = 0
        for kind in group:
            amount = amounts[kind]
            total = total + (view.take(amount) if isinstance(amount, np.ndarray) else amount)
        return total

    def _spot_offer(self, view: SiteView, choice: FlavorChoice) -> IntArray:
        if self._fake_spot or choice.spot is None:
            return np.full(view.count, FAKE_SPOT, np.int64)
        offers = np.zeros(view.count, np.int64)
        policy = "delay" if choice.spot.interruption_policy == "delay" else "immediate"
        for row in range(view.count):
            site = self.table.sites[view.table_row(row)]
            offer = site.spot.get(choice.flavor_id, {}).get(policy, Spot())
            hours = choice.spot.spot_duration_hours
            offers[row] = offer.finite.get(choice.spot.hours_key, 0) if hours else offer.infinite
        return offers

    def charges(self, row: int) -> Charges:
        """Take one replica's machines out of the row's pools, most specific pool first.

        The caller has made sure that it fits; storage and addresses are added by the placer.
        """
        vcpus: dict[str, int] = {}
        memory: dict[str, int] = {}
        for kind in sorted(self.vcpus, key=lambda kind: (len(self.table.pools_of(kind)), kind)):
            pools = self.table.pools_of(kind)
            free = [self.table.pools[key] for key in pools]
            self._spread(
                pools, [int(p.free_vcpus[row]) for p in free], self.vcpus[kind], row, vcpus
            )
            self._spread(
                pools, [int(p.free_memory[row]) for p in free], self.memory[kind], row, memory
            )
        return Charges(vcpus=vcpus, memory=memory)

    @staticmethod
    def _spread(
        pools: list[str], free: list[int], amount: Amount, row: int, taken: dict[str, int]
    ) -> None:
        left = int(amount[row]) if isinstance(amount, np.ndarray) else amount
        for position, key in enumerate(pools):
            room = max(free[position] - taken.get(key, 0), 0)
            part = left if position == len(pools) - 1 else min(left, room)
            if part:
                taken[key] = taken.get(key, 0) + part
                left -= part


def quotient(free: IntArray, need: Amount) -> IntArray:
    """How often `need` fits `free`, cut towards zero; needs of 0 do not limit."""
    if isinstance(need, np.ndarray):
        safe = np.maximum(need, 1)
        return np.where(need > 0, (free / safe).astype(np.int64), UNLIMITED)
    if need <= 0:
        return np.full(len(free), UNLIMITED, np.int64)
    return (free / need).astype(np.int64)

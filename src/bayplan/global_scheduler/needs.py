"""How much one replica of a stack needs, and how often that fits a site.

One combination picks a flavor for every resource. Its machines are counted jointly: two flavors of
one type share the type's pools, and two types that share a pool must fit it together (every subset
of the types is checked, Hall's condition; requests have a handful of types at most). Where a type
has several pools, or pools list real hosts, the sums say too much: there whole machines are packed
(see `packing`), and what was packed counts.

Divisions are done in float64 and cut: for whole numbers below 2**53 that is exact.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations as subsets

import msgspec
import numpy as np

from bayplan.global_scheduler.packing import (
    UNLIMITED,
    Amount,
    Machines,
    Piece,
    Used,
    at_rows,
    lay,
    packs,
    quotient,
    slots,
)
from bayplan.global_scheduler.sources import offer_of, spot_id
from bayplan.global_scheduler.stack import FlavorChoice, Stack
from bayplan.global_scheduler.table import BoolArray, FloatArray, IntArray, SiteTable
from bayplan.global_scheduler.view import SiteView

FAKE_SPOT = 1000
MAX_COMBINATIONS = 64
SEARCHED = 16
"""Sites a request whose packing is searched where the quick way does not fit."""
FIRST_CHOICE = 10

Takes = dict[str, tuple[int, ...]]


class Combination(msgspec.Struct, frozen=True):
    """One flavor for each resource; the weight falls with each later choice."""

    choices: tuple[int, ...]
    weight: int


def choice_weight(position: int) -> int:
    """10 for the first choice, 5 for the second, 3, 2, 2, 1 …"""
    return FIRST_CHOICE // (position + 1)


def best_first(limits: Sequence[int]) -> Iterator[Combination]:
    """Combinations of resources with so many flavors each, by falling weight, then by preference.

    There are at most MAX_COMBINATIONS.
    """
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
        self._resources = stack.resources
        self.vcpus: dict[str, Amount] = {}
        self.memory: dict[str, Amount] = {}
        self.spot: dict[FlavorChoice, int] = {}
        self.machines: list[Machines] = []
        self._fake_spot = fake_spot
        for position, resource in enumerate(stack.resources):
            choice = self.flavors[position]
            if choice.spot is not None:
                self.spot[choice] = self.spot.get(choice, 0) + resource.count
                continue
            for kind, (vcpus, memory) in table.flavor(choice.flavor_id).sizes.items():
                self.vcpus[kind] = self.vcpus.get(kind, 0) + vcpus * resource.count
                self.memory[kind] = self.memory.get(kind, 0) + memory * resource.count
                self.machines.append(
                    Machines(kind, vcpus, memory, resource.count, position, resource.max_per_host)
                )
        # types with few pools choose first, then large machines
        self.machines.sort(
            key=lambda m: (len(table.pools_of(m.kind)), m.kind, -int(np.max(m.vcpus)))
        )
        hosts = any(table.pools[key].hosts for key in table.pools_of(*self.vcpus))
        self.on_hosts = hosts or any(machines.most for machines in self.machines)
        """Whether hosts may say no where sums say yes."""
        self._packed = any(len(table.pools_of(kind)) > 1 for kind in self.vcpus) or (
            hosts and len(self.machines) > 1
        )
        self._searched: dict[tuple[int, int], bool] = {}
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

    @cached_property
    def plain(self) -> tuple[str, str]:
        """The type and the pool of all machines, if there is one of each and nothing to pack.

        They are laid by the pool's sums, or are of one size on its hosts; else both are empty.
        """
        pools = self.table.pools_of(*self.vcpus)
        apart = any(machines.most for machines in self.machines)
        if len(self.vcpus) != 1 or len(pools) != 1 or self._packed or self.spot or apart:
            return "", ""
        return next(iter(self.vcpus)), pools[0]

    @cached_property
    def sold_everywhere(self) -> bool:
        return bool(self.sold(SiteView(self.table)).all())

    def sold_at(self, rows: IntArray) -> BoolArray:
        """`sold` at some rows of the table."""
        return self.sold(SiteView(self.table, rows))

    def slots_at(self, rows: IntArray) -> BoolArray:
        """Where real hosts have room, at some rows of the table."""
        view = SiteView(self.table, rows)
        [machines] = self.machines
        return slots(self.table, machines, view) >= needed(machines, view)

    def fits(self, view: SiteView) -> BoolArray:
        """Where one replica fits, by machines."""
        mask = self.sold(view)
        for group in self._groups:
            vcpus, memory = self.free(view, group)
            mask &= vcpus >= self._sum(self.vcpus, group, view)
            mask &= memory >= self._sum(self.memory, group, view)
        if self.on_hosts:
            for machines in self.machines:
                mask &= slots(self.table, machines, view) >= needed(machines, view)
        for choice, count in self.spot.items():
            mask &= self.spot_offer(view, choice) >= count
        return self._one_packs(view, mask) if self._packed and mask.any() else mask

    def _one_packs(self, view: SiteView, mask: BoolArray) -> BoolArray:
        """Where one replica can be laid; a few sites where it seems not to are searched."""
        result = mask & packs(self.table, self.machines, view, np.ones(view.count, np.int64))
        for position in np.flatnonzero(mask & ~result)[:SEARCHED].tolist():
            result[position] = self._found(view.table_row(position), 1)
        return result

    def _found(self, row: int, replicas: int) -> bool:
        """Whether replicas can be laid on a site, as far as a search tells; asked once."""
        key = (row, replicas)
        if key not in self._searched:
            self._searched[key] = self.lay(row, replicas, {}) is not None
        return self._searched[key]

    def price(self, view: SiteView) -> FloatArray:
        """What a replica costs an hour; not a number where that is not known."""
        prices = [
            view.take(self.table.price(choice.flavor_id)) * resource.count
            for choice, resource in zip(self.flavors, self._resources, strict=True)
        ]
        total: FloatArray = np.sum(prices, axis=0)
        return total

    def listed(self, view: SiteView) -> BoolArray:
        """Where hosts are listed for every resource that limits machines on a host."""
        mask = np.ones(view.count, np.bool_)
        for machines in self.machines:
            if machines.most:
                rooms = [self.table.pools[key].hosts for key in self.table.pools_of(machines.kind)]
                some = np.zeros(view.count, np.bool_)
                for room in rooms:
                    if room is not None:
                        some |= room.listed[view.take(room.of_row)] > 0
                mask &= some | (at_rows(machines.vcpus, view) == 0)
        return mask

    def capacity(self, view: SiteView) -> IntArray:
        """How many replicas fit, by machines; 0 where a flavor is not offered."""
        result = np.where(self.sold(view), UNLIMITED, 0)
        for group in self._groups:
            vcpus, memory = self.free(view, group)
            np.minimum(result, quotient(vcpus, self._sum(self.vcpus, group, view)), out=result)
            np.minimum(result, quotient(memory, self._sum(self.memory, group, view)), out=result)
        if self.on_hosts:
            for machines in self.machines:
                often = quotient(slots(self.table, machines, view), needed(machines, view))
                np.minimum(result, often, out=result)
        for choice, count in self.spot.items():
            np.minimum(result, self.spot_offer(view, choice) // count, out=result)
        np.maximum(result, 0, out=result)
        return self._most_packed(view, result) if self._packed else result

    def _most_packed(self, view: SiteView, bound: IntArray) -> IntArray:
        """How many replicas, up to the bound of each row, can be packed as whole machines."""
        low = np.zeros(view.count, np.int64)
        high = bound.copy()
        while (low < high).any():
            middle = (low + high + 1) // 2
            fits = packs(self.table, self.machines, view, middle)
            low = np.where(fits, middle, low)
            high = np.where(fits, high, middle - 1)
        for position in np.flatnonzero(low < bound)[:SEARCHED].tolist():
            row = view.table_row(position)
            while low[position] < bound[position] and self._found(row, int(low[position]) + 1):
                low[position] += 1
        return low

    def free(self, view: SiteView, group: tuple[str, ...]) -> tuple[IntArray, IntArray]:
        """What the pools of these types have free together."""
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
            total = total + at_rows(amounts[kind], view)
        return total

    def spot_offer(self, view: SiteView, choice: FlavorChoice) -> IntArray:
        """What each site still offers of a spot flavor."""
        if self._fake_spot or choice.spot is None:
            return np.full(view.count, FAKE_SPOT, np.int64)
        column = self.table.offers.get(offer_of(choice.flavor_id, choice.spot))
        return np.zeros(view.count, np.int64) if column is None else view.take(column)

    def lay(self, row: int, replicas: int, used: Used) -> list[list[Piece]] | None:
        """Where the machines of replicas go on one site; None when they do not fit together."""
        return lay(self.table, self.machines, row, replicas, used)

    def spot_takes(self, row: int) -> Takes:
        """Spot machines of one replica by source; invented offers (`spot_fake`) have none."""
        taken: Takes = {}
        site = self.table.sites[row].id
        for choice, count in self.spot.items():
            if choice.spot is not None and not self._fake_spot:
                source = spot_id(site, *offer_of(choice.flavor_id, choice.spot))
                taken[source] = (taken.get(source, (0,))[0] + count,)
        return taken


def needed(machines: Machines, view: SiteView) -> IntArray:
    """How many of the machines a replica has at each row: none where the type is another."""
    there = np.maximum(at_rows(machines.vcpus, view), at_rows(machines.memory, view)) > 0
    return np.broadcast_to(np.where(there, machines.count, 0), (view.count,))

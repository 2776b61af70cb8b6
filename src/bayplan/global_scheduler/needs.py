"""How much one replica of a stack needs, and how often that fits a site.

One combination picks a flavor for every resource. Its machines are counted jointly: two flavors of
one type share the type's pools, and two types that share a pool must fit it together (every subset
of the types is checked, Hall's condition; requests have a handful of types at most). Where a type
has several pools the sums say too much, as a machine takes its vcpus and its memory from one pool:
there whole machines are packed, most specific pool first, and what was packed counts.

Divisions are done in float64 and cut: for whole numbers below 2**53 that is exact.
"""

import heapq
from collections.abc import Iterator, Mapping
from itertools import combinations as subsets

import msgspec
import numpy as np

from bayplan.global_scheduler.sources import offer_of, spot_id
from bayplan.global_scheduler.stack import FlavorChoice, Stack
from bayplan.global_scheduler.table import BoolArray, IntArray, SiteTable
from bayplan.global_scheduler.view import SiteView

UNLIMITED = np.int64(2**53)
FAKE_SPOT = 1000
MAX_COMBINATIONS = 64
FIRST_CHOICE = 10

Amount = int | IntArray
Takes = dict[str, tuple[int, ...]]


class Machines(msgspec.Struct, frozen=True):
    """Equal machines of one flavor and type; sizes are 0 in regions where the type is another."""

    kind: str
    vcpus: Amount
    memory: Amount
    count: int


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
        self.machines: list[Machines] = []
        self._fake_spot = fake_spot
        for resource, choice in zip(stack.resources, self.flavors, strict=True):
            if choice.spot is not None:
                self.spot[choice] = self.spot.get(choice, 0) + resource.count
                continue
            for kind, (vcpus, memory) in table.flavor(choice.flavor_id).sizes.items():
                self.vcpus[kind] = self.vcpus.get(kind, 0) + vcpus * resource.count
                self.memory[kind] = self.memory.get(kind, 0) + memory * resource.count
                self.machines.append(Machines(kind, vcpus, memory, resource.count))
        # types with few pools choose first, then large machines
        self.machines.sort(
            key=lambda m: (len(table.pools_of(m.kind)), m.kind, -int(np.max(m.vcpus)))
        )
        self._packed = any(len(table.pools_of(kind)) > 1 for kind in self.vcpus)
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
            vcpus, memory = self.free(view, group)
            mask &= vcpus >= self._sum(self.vcpus, group, view)
            mask &= memory >= self._sum(self.memory, group, view)
        for choice, count in self.spot.items():
            mask &= self.spot_offer(view, choice) >= count
        if self._packed and mask.any():
            mask &= self._packs(view, np.ones(view.count, np.int64))
        return mask

    def capacity(self, view: SiteView) -> IntArray:
        """How many replicas fit, by machines; 0 where a flavor is not offered."""
        result = np.where(self.sold(view), UNLIMITED, 0)
        for group in self._groups:
            vcpus, memory = self.free(view, group)
            np.minimum(result, quotient(vcpus, self._sum(self.vcpus, group, view)), out=result)
            np.minimum(result, quotient(memory, self._sum(self.memory, group, view)), out=result)
        for choice, count in self.spot.items():
            np.minimum(result, self.spot_offer(view, choice) // count, out=result)
        return (
            self._most_packed(view, np.maximum(result, 0))
            if self._packed
            else np.maximum(result, 0)
        )

    def _most_packed(self, view: SiteView, bound: IntArray) -> IntArray:
        """How many replicas, up to the bound of each row, can be packed as whole machines."""
        low = np.zeros(view.count, np.int64)
        high = bound.copy()
        while (low < high).any():
            middle = (low + high + 1) // 2
            packs = self._packs(view, middle)
            low = np.where(packs, middle, low)
            high = np.where(packs, high, middle - 1)
        return low

    def _packs(self, view: SiteView, replicas: IntArray) -> BoolArray:
        """Where that many replicas can be packed into the pools, machine by machine."""
        pools = {key: self.table.pools[key] for key in self.table.pools_of(*self.vcpus)}
        free = {
            key: [np.maximum(view.take(column), 0) for column in (p.free_vcpus, p.free_memory)]
            for key, p in pools.items()
        }
        mask = np.ones(view.count, np.bool_)
        for machines in self.machines:
            vcpus, memory = _at_rows(machines.vcpus, view), _at_rows(machines.memory, view)
            left = np.where((vcpus > 0) | (memory > 0), machines.count * replicas, 0)
            for key in self.table.pools_of(machines.kind):
                room = np.minimum(quotient(free[key][0], vcpus), quotient(free[key][1], memory))
                part = np.minimum(left, room)
                free[key][0] = free[key][0] - part * vcpus
                free[key][1] = free[key][1] - part * memory
                left = left - part
            mask &= left == 0
        return mask

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
            total = total + _at_rows(amounts[kind], view)
        return total

    def spot_offer(self, view: SiteView, choice: FlavorChoice) -> IntArray:
        """What each site still offers of a spot flavor."""
        if self._fake_spot or choice.spot is None:
            return np.full(view.count, FAKE_SPOT, np.int64)
        column = self.table.offers.get(offer_of(choice.flavor_id, choice.spot))
        return np.zeros(view.count, np.int64) if column is None else view.take(column)

    def takes(self, row: int) -> Takes | None:
        """One replica's machines by source, most specific pool first; None when they do not fit.

        Storage and addresses are added by the placer.
        """
        taken: Takes = {}
        for machines in self.machines:
            vcpus, memory = at_row(machines.vcpus, row), at_row(machines.memory, row)
            left = machines.count if vcpus or memory else 0
            for key in self.table.pools_of(machines.kind):
                source = self.table.pools[key].sources.get(row)
                if source is None or not left:
                    continue
                before = taken.get(source, (0, 0))
                free = self.table.free(source)
                rooms = [
                    (free[place] - before[place]) // size
                    for place, size in enumerate((vcpus, memory))
                    if size
                ]
                part = max(min(left, *rooms), 0)
                if part:
                    taken[source] = (before[0] + part * vcpus, before[1] + part * memory)
                    left -= part
            if left:
                return None
        return taken | self._spot_takes(row)

    def _spot_takes(self, row: int) -> Takes:
        """Invented offers (`spot_fake`) have no source."""
        taken: Takes = {}
        site = self.table.sites[row].id
        for choice, count in self.spot.items():
            if choice.spot is not None and not self._fake_spot:
                source = spot_id(site, *offer_of(choice.flavor_id, choice.spot))
                taken[source] = (taken.get(source, (0,))[0] + count,)
        return taken


def _at_rows(amount: Amount, view: SiteView) -> Amount:
    return view.take(amount) if isinstance(amount, np.ndarray) else amount


def at_row(amount: Amount, row: int) -> int:
    """An amount at one row of the table."""
    return int(amount[row]) if isinstance(amount, np.ndarray) else amount


def quotient(free: IntArray, need: Amount) -> IntArray:
    """How often `need` fits `free`, cut towards zero; needs of 0 do not limit."""
    if isinstance(need, np.ndarray):
        safe = np.maximum(need, 1)
        return np.where(need > 0, (free / safe).astype(np.int64), UNLIMITED)
    if need <= 0:
        return np.full(len(free), UNLIMITED, np.int64)
    return (free / need).astype(np.int64)

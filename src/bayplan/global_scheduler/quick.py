"""Decides ordinary requests by looking at few sites; what it answers is what `placer` would.

Ordinary is a request for machines of one type that one pool serves, with or without volumes and
addresses, under a policy of the built-in plugins. Which sites the selector allows is kept by
selector. Of these the emptiest are looked at first (see `levels`): a round takes all rows above
some emptiness, and ends the search when enough of them score more than any row below could. So no
row that is left out could have been among the best, and ties still go to the smaller site id.
How shares are rounded hangs on the room of all sites; it is left to the placer where that matters.

None means "ask the placer": for anything else, and where nothing fits, since it says why.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
import numpy.typing as npt

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.framework.contract.state import CycleState
from bayplan.global_scheduler.layout import (
    Placement,
    candidates_of,
    lay_out,
    volumes_and_addresses,
)
from bayplan.global_scheduler.levels import Emptiness, Shape, together
from bayplan.global_scheduler.needs import Combination, Need, best_first
from bayplan.global_scheduler.packing import Amount, at_row
from bayplan.global_scheduler.plugins import capacity, scores, selectors
from bayplan.global_scheduler.plugins.capacity import FlavorPlan, replicas_that_fit
from bayplan.global_scheduler.plugins.scores import (
    EIP_WEIGHT,
    FULL,
    free_share,
)
from bayplan.global_scheduler.plugins.wishes import AVOID, Wishes
from bayplan.global_scheduler.sources import Charges
from bayplan.global_scheduler.stack import CENTRALIZE, Allocation
from bayplan.global_scheduler.strategy import ANYHOW, NOTHING, spread
from bayplan.global_scheduler.table import NO_POOL, CodeArray, Pool, SiteTable, Storage
from bayplan.global_scheduler.view import SiteView

STATIC = (
    selectors.SiteAvailability,
    selectors.LocationAndOperator,
    selectors.RegionAndZone,
    selectors.ExclusiveSite,
)
FILTERS = {*STATIC, capacity.FlavorFit, capacity.Volume, capacity.EipAvailability}
SCORES = (scores.StackAffinity, capacity.FlavorFit, scores.SiteResourcesLeastAllocated)
APART = FULL // 2
"""What StackAffinity gives to every site when nothing is asked of neighbours."""
FIRST_LOOK = 8
"""How many of the best sites are looked at first, beside one a replica."""
SMALL = 128
"""So many rows are looked at without choosing among them first."""
SELECTORS_KEPT = 64
NEEDS_KEPT = 4096
SPARE = 2
"""Rows beyond the best that a first round takes, for those that are closed or do not fit."""
TINY = 1e-6
_ALL, _LEAST = np.logical_and.reduce, np.minimum.reduce


Choice = npt.NDArray[np.int16]
Allowed = tuple[BoolArray | None, IntArray | None]
"""Which sites a selector allows (None: all), and their rows where they are few."""


class _Known:
    """What is known of one table: by selector, by combination of flavors, by shape."""

    def __init__(self, table: SiteTable) -> None:
        self.epoch = table.epoch
        self.allowed: dict[object, Allowed] = {}
        self.needs: dict[object, Need] = {}
        self.shapes: dict[Shape, Emptiness] = {}
        self.pooled = bool((table.eip_pool != NO_POOL).all())
        """Whether every site has a pool of addresses."""
        self.addresses: IntArray = np.maximum(table.eip_size, 1)


class _Ask(msgspec.Struct):
    """An ordinary request: what it needs of which columns, and where it may go."""

    allocation: Allocation
    combinations: list[Combination]
    needs: list[Need]
    amounts: list[tuple[Amount, Amount]]
    pool: Pool
    storage: list[tuple[Storage, int]]
    sizes: dict[str, int]
    eips: int
    pooled: bool
    addresses: IntArray
    mask: BoolArray | None
    rows: IntArray | None
    empty: Emptiness


class Quick:
    """The quick way of one policy."""

    def __init__(self, weights: Mapping[type, int], static: Sequence[object]) -> None:
        self._affinity, self._flavor, self._room = (weights.get(kind, 0) for kind in SCORES)
        self._static = static
        self._known: WeakKeyDictionary[SiteTable, _Known] = WeakKeyDictionary()

    @classmethod
    def of(
        cls, filters: Sequence[tuple[str, object]], priorities: Sequence[tuple[str, int, object]]
    ) -> "Quick | None":
        """The quick way of a policy; None when some plugin is not built in, or one is missing."""
        weights: dict[type, int] = {}
        for _, weight, plugin in priorities:
            weights[type(plugin)] = weights.get(type(plugin), 0) + weight
        if {type(p) for _, p in filters} != FILTERS or not set(weights) <= set(SCORES):
            return None
        if min(weights.values(), default=0) < 0:
            return None
        return cls(weights, [p for _, p in filters if isinstance(p, STATIC)])

    def decide(self, table: SiteTable, allocation: Allocation) -> list[Placement] | None:
        """Place all replicas as the placer would; None: ask it."""
        ask = self._ask(table, allocation)
        if ask is None:
            return None
        alone = allocation.replicas == 1 and allocation.selector.spread == ANYHOW
        replicas = allocation.replicas
        # shares of more than twice as many sites as replicas are below a half each, if alike
        few = 1 if alone else max(FIRST_LOOK + replicas, 3 * replicas)
        found = self._best(table, ask, few)
        if found is None:
            return None
        rows, choice, complete = found
        view = SiteView(table, rows)
        chosen: dict[int, int] | None = {0: 1}
        if not alone:
            room = _room(ask, view, choice)
            chosen = _shared_out(view, room, allocation, complete=complete)
        if chosen is None:
            return None
        if ask.pool.hosts is None:
            return _on_sums(ask, view, choice, chosen, alone=alone)
        plan = FlavorPlan(ask.combinations, ask.needs, choice)
        placements, short = lay_out(view, plan, allocation, chosen, {})
        return None if short else placements

    def _ask(self, table: SiteTable, allocation: Allocation) -> _Ask | None:
        selector = allocation.selector
        if (
            selector.max_price is not None
            or selector.strategy.region_strategy
            or selector.stack_affinity
            or selector.stack_antiaffinity
        ):
            return None
        known = self._known.get(table)
        if known is None or known.epoch != table.epoch:
            known = self._known[table] = _Known(table)
        resources = allocation.stack.resources
        combinations = combinations_of(tuple([len(each.flavors) for each in resources]))
        needs = [_need(known, table, allocation, each) for each in combinations]
        kind, pool = needs[0].plain
        for need in needs:
            if not kind or need.plain[0] != kind:
                return None
        storage = allocation.stack.storage
        eips = allocation.stack.eips
        if not storage.keys() <= table.storage.keys() or not all(storage.values()):
            return None
        shape = (pool, tuple(storage))
        empty = known.shapes.get(shape)
        if empty is None:
            empty = known.shapes[shape] = Emptiness(table, shape)
        empty.catch_up(table.touched)
        mask, rows = self._allowed(known, table, allocation)
        return _Ask(
            allocation,
            combinations,
            needs,
            [(need.vcpus[kind], need.memory[kind]) for need in needs],
            table.pools[pool],
            [(table.storage[name], size) for name, size in storage.items()],
            storage,
            eips if table.eip_regions else 0,
            known.pooled,
            known.addresses,
            mask,
            rows,
            empty,
        )

    def _allowed(self, known: _Known, table: SiteTable, allocation: Allocation) -> Allowed:
        """Where the selector allows sites, and the rows to look at when they are few."""
        selector = allocation.selector
        regions = selector.regions
        whole = all(each.region and not each.availability_zone for each in regions)
        key = (
            () if whole else regions,
            selector.geo_location,
            selector.operator,
            selector.site_id,
            selector.residency,
            selector.latency,
            allocation.domain if table.exclusive else "",
        )
        found = known.allowed.get(key)
        if found is None:
            if len(known.allowed) >= SELECTORS_KEPT:
                known.allowed.clear()
            if whole:
                selector = msgspec.structs.replace(selector, regions=())
            found = self._look_at_all(table, allocation, selector)
            known.allowed[key] = found
        if whole and regions:
            parts = [
                table.rows_of_region(name) for name in dict.fromkeys(r.region for r in regions)
            ]
            return found[0], parts[0] if len(parts) == 1 else np.concatenate(parts)
        return found

    def _look_at_all(self, table: SiteTable, allocation: Allocation, selector: object) -> Allowed:
        asked = msgspec.structs.replace(allocation, selector=selector)
        state = CycleState()
        state.write(AVOID, frozenset())
        view = SiteView(table)
        mask = np.ones(table.count, np.bool_)
        for plugin in (Wishes(), *self._static):
            verdict = plugin.filter(state, asked, view)  # type: ignore[attr-defined]
            if not verdict.passes_all:
                mask &= verdict.mask
        allowed = int(mask.sum())
        few = 4 * allowed < table.count
        return None if allowed == table.count else mask, np.flatnonzero(mask) if few else None

    def _best(self, table: SiteTable, ask: _Ask, few: int) -> tuple[IntArray, Choice, bool] | None:
        """The best rows with their combinations, and whether no other row fits at all."""
        for rows, bound in self._rounds(table, ask, few):
            some, choice, totals = self._fitting(table, ask, rows)
            if bound is not None and len(some) < few:
                continue
            if not len(some):
                return None
            complete = bound is None and len(some) <= few
            if few == 1:
                most = totals[totals.argmax()]
                if bound is not None and most <= bound:
                    continue
                [best] = (totals == most).nonzero()
                first = best[some[best].argmin()]
                return some[first : first + 1], choice[first : first + 1], complete
            order = np.lexsort((some, -totals))[:few]
            if bound is not None and totals[order[-1]] <= bound:
                continue
            return some[order], choice[order], complete
        return None

    def _rounds(
        self, table: SiteTable, ask: _Ask, few: int
    ) -> Iterator[tuple[IntArray, int | None]]:
        """Rows to look at, more from round to round, and the most that others can score."""
        empty = ask.empty
        rows = ask.rows
        count = few + SPARE
        if (table.count if rows is None else len(rows)) > SMALL:
            values = empty.best if rows is None else empty.value[rows]
            ordered = values.copy()
            while 2 * count < len(values):
                place = len(values) - count
                ordered.partition(place)
                value, bound = self._level(table, ask, ordered.item(place))
                yield empty.rows_from(value) if rows is None else rows[values >= value], bound
                count *= 8
        yield np.arange(table.count) if rows is None else rows, None

    def _level(self, table: SiteTable, ask: _Ask, value: float) -> tuple[float, int]:
        """The emptiness at which the rounded score of a value begins, and the most below it."""
        empty = ask.empty
        weight, extra = empty.weight, 0.0
        if ask.eips:
            weight += EIP_WEIGHT
            extra = float(FULL * EIP_WEIGHT)
            if ask.pooled:
                extra *= float(np.maximum.reduce(table.eip_free / ask.addresses))
        taken = [self._taken(ask, number) for number in range(len(ask.needs))]
        # shares are rounded one by one: a site may score one less than its emptiness says
        level = math.floor((value + extra - taken[0]) / weight) - 1
        begin = level * weight + taken[0] - extra - TINY
        resources = len(ask.allocation.stack.resources)
        bound = max(
            self._flavor * (each.weight // resources)
            + self._room * max(math.ceil((begin + extra - less) / weight + TINY * TINY) - 1, 0)
            for each, less in zip(ask.combinations, taken, strict=True)
        )
        return begin, bound + self._affinity * APART

    @staticmethod
    def _taken(ask: _Ask, number: int) -> float:
        vcpus, memory = ask.amounts[number]
        if not isinstance(vcpus, int) or not isinstance(memory, int):
            return 0.0
        storage = 0
        for _, size in ask.storage:
            storage += size
        return ask.empty.least_taken((vcpus, memory, storage))

    def _fitting(
        self, table: SiteTable, ask: _Ask, rows: IntArray
    ) -> tuple[IntArray, Choice, IntArray]:
        """The rows that fit, the combination of flavors of each, and its weighted score."""
        allowed: BoolArray | None = None if ask.mask is None else ask.mask[rows]
        pool = None
        if ask.eips:
            pool = table.eip_pool[rows]
            enough = table.eip_free[pool] >= ask.eips
            if not ask.pooled:
                enough = enough & (pool != NO_POOL) | ~table.eip_limited[rows]
            allowed = enough if allowed is None else allowed & enough
        if allowed is not None and not _ALL(allowed):
            rows = rows[allowed]
            pool = None if pool is None else pool[allowed]
        free = ask.empty.free.take(rows, axis=1)
        choice: Choice = np.zeros(len(rows), np.int16)
        left, open_ = free, choice
        for number, need in enumerate(ask.needs):
            rest = _without(free, (*ask.amounts[number], *ask.sizes.values()), rows)
            here = _LEAST(rest) >= 0
            if not need.sold_everywhere:
                here &= need.sold_at(rows)
            if need.on_hosts:
                here &= need.slots_at(rows)
            if number == 0:
                if _ALL(here):
                    return rows, choice, self._totals(table, ask, rows, None, rest, pool)
                left, open_ = rest, ~here
                continue
            here &= open_
            choice[here] = number
            np.copyto(left, rest, where=here)
            open_ &= ~here
        got = ~open_
        rows, choice = rows[got], choice[got]
        pool = None if pool is None else pool[got]
        return rows, choice, self._totals(table, ask, rows, choice, left[:, got], pool)

    def _totals(
        self,
        table: SiteTable,
        ask: _Ask,
        rows: IntArray,
        choice: Choice | None,
        left: IntArray,
        pool: CodeArray | None,
    ) -> IntArray:
        """What the plugins of the policy would score, weighted; no choice: the first for all."""
        empty = ask.empty
        # as `free_share`: nothing is missing where a request fits
        share = (together(left) * FULL / empty.whole.take(rows, axis=1)).astype(np.int64)
        total: IntArray = empty.weights @ share
        weight: int | IntArray = empty.weight
        if pool is not None:
            rest, whole = table.eip_free[pool] - ask.eips, ask.addresses[pool]
            if ask.pooled:  # then there are enough addresses as well
                total += EIP_WEIGHT * (rest * FULL / whole).astype(np.int64)
                weight += EIP_WEIGHT
            else:
                pooled = pool != NO_POOL
                total += EIP_WEIGHT * free_share(rest, whole) * pooled
                weight = weight + EIP_WEIGHT * pooled
        resources = len(ask.allocation.stack.resources)
        liked: int | IntArray = ask.combinations[0].weight // resources
        if choice is not None:
            all_ = [each.weight // resources for each in ask.combinations]
            liked = np.array(all_, np.int64)[choice]
        return self._room * (total // weight) + (self._affinity * APART + self._flavor * liked)


@lru_cache(maxsize=256)
def combinations_of(flavors: tuple[int, ...]) -> list[Combination]:
    """All combinations, the best first, of resources with so many flavors each."""
    return list(best_first(flavors))


def _without(free: IntArray, amounts: tuple[Amount, ...], rows: IntArray) -> IntArray:
    """What stays free at some rows, line by line."""
    if all(type(amount) is int for amount in amounts):
        rest: IntArray = free - np.array(amounts)[:, None]
        return rest
    rest = free.copy()
    for line, amount in enumerate(amounts):
        rest[line] -= _at(amount, rows)
    return rest


def _at(amount: Amount, rows: IntArray) -> Amount:
    return amount[rows] if isinstance(amount, np.ndarray) else amount


def _need(known: _Known, table: SiteTable, allocation: Allocation, which: Combination) -> Need:
    resources = allocation.stack.resources
    key = tuple(
        (resource.flavors[choice], resource.count, resource.max_per_host)
        for resource, choice in zip(resources, which.choices, strict=True)
    )
    need = known.needs.get(key)
    if need is None:
        if len(known.needs) >= NEEDS_KEPT:
            known.needs.clear()
        need = known.needs[key] = Need(table, allocation.stack, which, fake_spot=False)
    return need


def _room(ask: _Ask, view: SiteView, choice: Choice) -> IntArray:
    """How many replicas each row can take, by machines, storage and its own address pool."""
    rows = view.rows
    if rows is None or choice.any() or ask.pool.hosts is not None or (ask.eips and not ask.pooled):
        plan = FlavorPlan(ask.combinations, ask.needs, choice)
        return replicas_that_fit(plan, ask.allocation, view)
    vcpus, memory = (_at(amount, rows) for amount in ask.amounts[0])
    room = np.minimum(ask.pool.free_vcpus[rows] // vcpus, ask.pool.free_memory[rows] // memory)
    for column, size in ask.storage:
        if size:
            room = np.minimum(room, column.free[rows] // size)
    if ask.eips:
        room = np.minimum(room, view.table.eip_free[view.take(view.table.eip_pool)] // ask.eips)
    return np.asarray(room, np.int64)


def _shared_out(
    view: SiteView, room: IntArray, allocation: Allocation, *, complete: bool
) -> dict[int, int] | None:
    """Replicas by row of the view; None when shares hang on sites that were not looked at."""
    names = np.arange(view.count)
    candidates, limits = candidates_of(view, room, allocation, names, {}, NOTHING)
    strategy, apart = allocation.selector.strategy, allocation.selector.spread
    beyond = 0
    if strategy.location_strategy != CENTRALIZE and not complete:
        rooms = [candidate.capacity for candidate in candidates]
        if 2 * allocation.replicas * max(rooms, default=0) >= sum(rooms):
            return None
        beyond = 1  # every share is below a half, whatever the others have
    return spread(candidates, allocation.replicas, strategy, limits, beyond, apart)


def _on_sums(
    ask: _Ask, view: SiteView, choice: Choice, chosen: Mapping[int, int], *, alone: bool
) -> list[Placement] | None:
    """What every replica takes; None when sites that share a source do not have it together."""
    table = view.table
    result: list[Placement] = []
    taken: dict[str, tuple[int, ...]] = {}
    for position, replicas in chosen.items():
        row = view.table_row(position)
        number = int(choice[position])
        vcpus, memory = (at_row(amount, row) for amount in ask.amounts[number])
        takes: dict[str, tuple[int, ...]] = {ask.pool.sources[row]: (vcpus, memory)}
        takes |= volumes_and_addresses(table, ask.sizes, ask.eips, row)
        flavors = tuple(flavor.flavor_id for flavor in ask.needs[number].flavors)
        placement = Placement(row, table.sites[row].id, flavors, Charges(takes))
        if alone:
            return [placement]  # the columns have shown that it fits
        for source, amounts in takes.items():
            before = taken.get(source)
            if before is None and replicas == 1:
                taken[source] = amounts
                continue
            before = before or (0,) * len(amounts)
            whole = tuple(a + b * replicas for a, b in zip(before, amounts, strict=True))
            if any(a > b for a, b in zip(whole, table.free(source), strict=True)):
                return None
            taken[source] = whole
        result += [placement] * replicas
    return result

"""Filters on what sites have free: machines by flavor, storage, addresses.

`Flavor` also decides which combination of flavors each site would give: the best one that fits
there, by the order of preference. It leaves a `FlavorPlan` in the state for its score, for the
strategies and for the reservation.
"""

from collections.abc import Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from bayplan.cluster.arrays import IntArray
from bayplan.framework.contract.state import CycleState
from bayplan.framework.contract.status import unschedulable
from bayplan.framework.contract.verdict import Verdict
from bayplan.global_scheduler.needs import Combination, Need, best_first
from bayplan.global_scheduler.packing import quotient
from bayplan.global_scheduler.stack import Allocation
from bayplan.global_scheduler.table import NO_POOL
from bayplan.global_scheduler.view import SiteView

PLAN = "Flavor"
NONE = -1

NOT_SOLD = unschedulable("site(s) didn't offer a requested flavor")
NO_ROOM = unschedulable("Insufficient machines of the requested flavors")
NO_HOSTS = unschedulable("site(s) didn't list hosts, which max_per_host needs")
TOO_DEAR = unschedulable("site(s) were above the requested price, or had none")
NO_VOLUME_TYPE = unschedulable("site(s) didn't have a requested volume type")
NO_STORAGE = unschedulable("Insufficient storage")
NO_EIP_POOL = unschedulable("site(s) didn't have an EIP pool")
NO_EIPS = unschedulable("Insufficient EIPs")


class FlavorPlan(msgspec.Struct):
    """Per row of the view, which of the combinations it gets (NONE: no one fits)."""

    combinations: list[Combination]
    needs: list[Need]
    choice: npt.NDArray[np.int16]


class FlavorFit:
    """Rejects sites without room for any combination of flavors; scores earlier choices higher."""

    name = "Flavor"

    def __init__(self, *, fake_spot: bool = False) -> None:
        self._fake_spot = fake_spot

    def filter(self, state: CycleState, allocation: Allocation, sites: SiteView) -> Verdict:
        plan = FlavorPlan([], [], np.full(sites.count, NONE, np.int16))
        state.write(PLAN, plan)
        offered = np.zeros(sites.count, np.bool_)
        apart = any(resource.max_per_host for resource in allocation.stack.resources)
        listed = np.full(sites.count, not apart)
        limit = allocation.selector.max_price
        cheap = np.full(sites.count, limit is None)
        for combination in best_first([len(each.flavors) for each in allocation.stack.resources]):
            need = Need(sites.table, allocation.stack, combination, fake_spot=self._fake_spot)
            fits = need.fits(sites)
            if limit is not None:
                fits &= need.price(sites) <= limit
                cheap |= need.price(sites) <= limit
            offered |= need.sold(sites)
            if apart:
                listed |= need.listed(sites)
            plan.choice[fits & (plan.choice == NONE)] = len(plan.needs)
            plan.combinations.append(combination)
            plan.needs.append(need)
            if (plan.choice != NONE).all():
                return Verdict.all_pass(sites)
        which = np.where(plan.choice != NONE, 0, np.where(offered, 2, 1))
        which[(which == 2) & ~listed] = 3
        which[(which == 2) & ~cheap] = 4
        return Verdict.by_outcome(which, (NOT_SOLD, NO_ROOM, NO_HOSTS, TOO_DEAR))

    def score(self, state: CycleState, allocation: Allocation, sites: SiteView) -> IntArray:
        plan = state.read(PLAN, FlavorPlan)
        resources = len(allocation.stack.resources)
        weights = [combination.weight // resources for combination in plan.combinations]
        return np.array(weights, np.int64)[plan.choice]


class Volume:
    """Rejects sites without the storage that the stack asks for."""

    name = "Volume"

    def filter(self, state: CycleState, allocation: Allocation, sites: SiteView) -> Verdict:
        wanted = allocation.stack.storage
        if not wanted:
            return Verdict.all_pass(sites)
        which = np.zeros(sites.count, np.uint16)
        for kind, size in wanted.items():
            column = sites.table.storage.get(kind)
            if column is None:
                which[:] = 1
                break
            which[sites.take(column.free) < size] = 2
            which[~sites.take(column.there)] = 1
        return Verdict.by_outcome(which, (NO_VOLUME_TYPE, NO_STORAGE))


class EipAvailability:
    """Rejects sites whose address pool has fewer free than the stack needs.

    A region about which no pool is known at all is not limited, as in the original.
    """

    name = "EipAvailability"

    def filter(self, state: CycleState, allocation: Allocation, sites: SiteView) -> Verdict:
        wanted = allocation.stack.eips
        table = sites.table
        if wanted <= 0 or not table.eip_regions:
            return Verdict.all_pass(sites)
        pool = sites.take(table.eip_pool)
        which = np.zeros(sites.count, np.uint16)
        which[table.eip_free[pool] < wanted] = 2
        which[pool == NO_POOL] = 1
        which[~sites.take(table.eip_limited)] = 0
        return Verdict.by_outcome(which, (NO_EIP_POOL, NO_EIPS))


def by_combination(
    plan: FlavorPlan, sites: SiteView
) -> Iterator[tuple[Need, IntArray | slice, SiteView]]:
    """Each combination that some rows got, with those rows; mostly one has them all."""
    for number, need in enumerate(plan.needs):
        has = plan.choice == number
        if has.all():
            yield need, slice(None), sites
        elif has.any():
            rows = np.flatnonzero(has)
            yield need, rows, sites.narrow(rows)


def replicas_that_fit(plan: FlavorPlan, allocation: Allocation, sites: SiteView) -> IntArray:
    """How many replicas each row can take, by machines, storage and its own address pool."""
    result = np.zeros(sites.count, np.int64)
    for need, rows, part in by_combination(plan, sites):
        result[rows] = need.capacity(part)
    for kind, size in allocation.stack.storage.items():
        if (column := sites.table.storage.get(kind)) is not None:
            np.minimum(result, quotient(sites.take(column.free), size), out=result)
    eips = allocation.stack.eips
    if eips and sites.table.eip_regions:
        pool = sites.take(sites.table.eip_pool)
        limit = quotient(sites.table.eip_free[pool], eips)
        np.minimum(result, limit, out=result, where=pool != NO_POOL)
    return np.maximum(result, 0)

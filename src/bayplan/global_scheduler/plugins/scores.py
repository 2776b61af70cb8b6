"""Scores that compare sites: affinity between stacks, and how much stays free."""

from collections.abc import Iterable, Mapping

import numpy as np

from bayplan.cluster.arrays import IntArray
from bayplan.framework.contract.state import CycleState
from bayplan.global_scheduler.packing import at_rows
from bayplan.global_scheduler.plugins.capacity import PLAN, FlavorPlan, by_combination
from bayplan.global_scheduler.stack import Allocation, Requirement
from bayplan.global_scheduler.table import NO_POOL, BoolArray
from bayplan.global_scheduler.view import SiteView

FULL = 100
CPU_WEIGHT, MEMORY_WEIGHT, STORAGE_WEIGHT, EIP_WEIGHT = 10, 10, 5, 1


class StackAffinity:
    """Half for a wanted neighbour that is there, half for an unwanted one that is not."""

    name = "StackAffinity"

    def score(self, state: CycleState, allocation: Allocation, sites: SiteView) -> IntArray:
        selector = allocation.selector
        near = np.zeros(sites.count, np.int64)
        if selector.stack_affinity:
            near[_with_stack(sites, selector.stack_affinity)] = FULL
        apart = np.full(sites.count, FULL, np.int64)
        if selector.stack_antiaffinity:
            apart[_with_stack(sites, selector.stack_antiaffinity)] = 0
        return (near + apart) // 2


def _with_stack(sites: SiteView, requirements: Iterable[Requirement]) -> BoolArray:
    """Rows that have a stack whose labels meet all requirements."""
    wanted = list(requirements)
    there = np.zeros(sites.table.count, np.bool_)
    for labels, rows in sites.table.stacks.items():
        if matches(dict(labels), wanted):
            there[list(rows)] = True
    return sites.take(there)


def matches(labels: Mapping[str, str], requirements: Iterable[Requirement]) -> bool:
    """Whether labels meet all requirements."""
    return all(_meets(labels.get(r.key), r) for r in requirements)


def _meets(value: str | None, requirement: Requirement) -> bool:
    values = requirement.values
    match requirement.operator:
        case "in" | "=" | "==":
            return value in values
        case "notin" | "!=":
            return value not in values
        case "exists":
            return value is not None
        case "!":
            return value is None
        case "gt" | "lt":
            try:
                number, limit = int(value or ""), int(values[0])
            except ValueError:
                return False
            return number > limit if requirement.operator == "gt" else number < limit
    return False


class SiteResourcesLeastAllocated:
    """Prefers sites that stay emptiest once one replica is placed, over what was asked for."""

    name = "SiteResourcesLeastAllocated"

    def score(self, state: CycleState, allocation: Allocation, sites: SiteView) -> IntArray:
        total = np.zeros(sites.count, np.int64)
        weights = np.zeros(sites.count, np.int64)
        plan = state.read(PLAN, FlavorPlan)
        for need, rows, part in by_combination(plan, sites):
            if not need.vcpus:
                continue
            pools = [part.table.pools[key] for key in part.table.pools_of(*need.vcpus)]
            for amounts, size, free, weight in (
                (need.vcpus, "vcpus", "free_vcpus", CPU_WEIGHT),
                (need.memory, "memory", "free_memory", MEMORY_WEIGHT),
            ):
                capacity = _sum(part, (getattr(pool, size) for pool in pools))
                left = _sum(part, (getattr(pool, free) for pool in pools))
                for amount in amounts.values():
                    left -= at_rows(amount, part)
                total[rows] += weight * free_share(left, capacity)
                weights[rows] += weight
        self._add_storage(allocation, sites, total, weights)
        self._add_addresses(allocation, sites, total, weights)
        return total // np.maximum(weights, 1)

    @staticmethod
    def _add_storage(
        allocation: Allocation, sites: SiteView, total: IntArray, weights: IntArray
    ) -> None:
        wanted = allocation.stack.storage
        columns = {
            kind: sites.table.storage[kind] for kind in wanted if kind in sites.table.storage
        }
        if not columns:
            return
        capacity = _sum(sites, (column.total for column in columns.values()))
        left = _sum(sites, (column.free for column in columns.values()))
        left -= sum(wanted[kind] for kind in columns)
        total += STORAGE_WEIGHT * free_share(left, capacity)
        weights += STORAGE_WEIGHT

    @staticmethod
    def _add_addresses(
        allocation: Allocation, sites: SiteView, total: IntArray, weights: IntArray
    ) -> None:
        wanted = allocation.stack.eips
        if not wanted or not sites.table.eip_regions:
            return
        pool = sites.take(sites.table.eip_pool)
        pooled = pool != NO_POOL
        share = free_share(sites.table.eip_free[pool] - wanted, sites.table.eip_size[pool])
        total += np.where(pooled, EIP_WEIGHT * share, 0)
        weights += np.where(pooled, EIP_WEIGHT, 0)


def _sum(sites: SiteView, columns: Iterable[IntArray]) -> IntArray:
    """The columns added up at the view's rows, as an array of its own."""
    total = np.zeros(sites.count, np.int64)
    for column in columns:
        total += sites.take(column)
    return total


def free_share(left: IntArray, capacity: IntArray) -> IntArray:
    """How much stays free in hundredths; 0 where nothing is there or too little is left."""
    # exact below 2**53; where the capacity is 0 nothing is left either
    return (np.maximum(left, 0) * FULL / np.maximum(capacity, 1)).astype(np.int64)

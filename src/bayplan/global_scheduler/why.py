"""Why a request fits or not: a funnel over the sites, the nearest site, and what would fit.

Everything is computed from the same filters, needs and sources that decide. How many replicas fit
together is found by deciding; what the nearest site misses is what its sources lack for one
replica with the combination of flavors that lacks least.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from bayplan.framework.contract.state import CycleState
from bayplan.framework.contract.status import Code
from bayplan.framework.contract.verdict import Verdict
from bayplan.global_scheduler.moving import most_replicas
from bayplan.global_scheduler.needs import Need
from bayplan.global_scheduler.needs import needed as machines_needed
from bayplan.global_scheduler.packing import Amount, at_row, slots
from bayplan.global_scheduler.placer import NoSite, Placer
from bayplan.global_scheduler.plugins.capacity import PLAN, FlavorPlan
from bayplan.global_scheduler.relax import Relaxation, relaxations
from bayplan.global_scheduler.stack import Allocation
from bayplan.global_scheduler.table import NO_POOL, BoolArray, IntArray, SiteTable
from bayplan.global_scheduler.view import SiteView
from bayplan.words import plural

FRAGMENTED = "the room is there, but not for whole machines in one pool"


class Stage(msgspec.Struct, frozen=True):
    """One filter: how many sites came, how many are left, and why the others are not."""

    filter: str
    sites: int
    left: int
    reasons: dict[str, int]


class Missing(msgspec.Struct, frozen=True):
    """What one replica needs of something, and what is free."""

    what: str
    needed: int
    free: int


class Nearest(msgspec.Struct, frozen=True):
    """The site that lacks least, relative to what is needed."""

    site: str
    region: str
    availability_zone: str
    flavors: tuple[str, ...]
    missing: tuple[Missing, ...]


class Why(msgspec.Struct, frozen=True, omit_defaults=True):
    """The whole answer; `fits` is how many of the replicas fit together."""

    sites: int
    funnel: tuple[Stage, ...]
    replicas: int
    fits: int
    nearest: Nearest | None = None
    relaxations: tuple[Relaxation, ...] = ()


def explain(placer: Placer, table: SiteTable, allocation: Allocation) -> Why:
    """Tell why an allocation would be placed, or not."""
    state = CycleState()
    view = SiteView(table)
    feasible = np.ones(table.count, np.bool_)
    mendable = np.ones(table.count, np.bool_)
    funnel = []
    for name, verdict in placer.verdicts(state, allocation, view):
        before = int(feasible.sum())
        lost = feasible & ~verdict.mask
        feasible &= verdict.mask
        mendable &= ~_for_good(verdict)
        funnel.append(Stage(name, before, int(feasible.sum()), _reasons(verdict, lost)))
    fits = _most(placer, table, allocation) if feasible.any() else 0
    nearest = None
    if not feasible.any():
        nearest = _nearest(state.read(PLAN, FlavorPlan), view, allocation, mendable)
    changes = relaxations(placer, table, allocation) if fits < allocation.replicas else ()
    return Why(table.count, tuple(funnel), allocation.replicas, fits, nearest, changes)


def _for_good(verdict: Verdict) -> BoolArray:
    """Rows that no capacity would help."""
    result = np.zeros(verdict.count, np.bool_)
    for number, status in enumerate(verdict.outcomes, 1):
        if status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            result |= ~verdict.mask if verdict.which is None else verdict.which == number
    return result


def _reasons(verdict: Verdict, lost: BoolArray) -> dict[str, int]:
    if not lost.any():
        return {}
    if verdict.which is None:
        return {verdict.outcomes[0].message: int(lost.sum())}
    counts = np.bincount(verdict.which[lost], minlength=len(verdict.outcomes) + 1)
    return {s.message: int(counts[n]) for n, s in enumerate(verdict.outcomes, 1) if counts[n]}


def _most(placer: Placer, table: SiteTable, allocation: Allocation) -> int:
    """How many replicas can be placed together, by deciding."""

    def fits(replicas: int) -> bool:
        one = msgspec.structs.replace(allocation, replicas=replicas)
        return not isinstance(placer.decide(table, one), NoSite)

    return most_replicas(allocation.replicas, fits)


Shortage = tuple[str, Amount, IntArray]


def _nearest(
    plan: FlavorPlan, view: SiteView, allocation: Allocation, mendable: BoolArray
) -> Nearest | None:
    """Of the sites that more capacity would help, the one that lacks least."""
    best, found = np.inf, None
    common, here = _common(view, allocation)
    for need in plan.needs:
        parts = [*_machines(need, view), *common]
        distance = np.where(need.sold(view) & mendable & here, 0.0, np.inf)
        for _, needed, free in parts:
            distance += np.maximum(needed - free, 0) / np.maximum(needed, 1)
        row = int(np.argmin(distance)) if view.count else 0
        if view.count and distance[row] < best:
            best, found = float(distance[row]), _site(view.table, row, need, parts)
    return found


def _machines(need: Need, view: SiteView) -> Iterator[Shortage]:
    for kind in need.vcpus:
        vcpus, memory = need.free(view, (kind,))
        yield f"vcpus of type {kind}", need.vcpus[kind], vcpus
        yield f"memory of type {kind}", need.memory[kind], memory
    for machines in need.machines if need.on_hosts else ():
        flavor = need.flavors[machines.resource].flavor_id
        places = slots(view.table, machines, view)
        yield f"places for {flavor} on whole hosts", machines_needed(machines, view), places
    for choice, count in need.spot.items():
        yield f"spot machines {choice.flavor_id}", count, need.spot_offer(view, choice)


def _common(view: SiteView, allocation: Allocation) -> tuple[list[Shortage], BoolArray]:
    """Storage and addresses, and the sites that have such sources at all."""
    table = view.table
    here = np.ones(view.count, np.bool_)
    parts: list[Shortage] = []
    for kind, size in allocation.stack.storage.items():
        column = table.storage.get(kind)
        if column is None:
            here[:] = False
            continue
        here &= column.there
        parts.append((f"GB of storage {kind}", size, column.free))
    eips = allocation.stack.eips
    if eips and len(table.eip_free):
        here &= (table.eip_pool != NO_POOL) | ~table.eip_limited
        free = np.where(table.eip_pool == NO_POOL, eips, table.eip_free[table.eip_pool])
        parts.append(("addresses", eips, free))
    return parts, here


def _site(table: SiteTable, row: int, need: Need, parts: list[Shortage]) -> Nearest:
    site = table.sites[row]
    missing = tuple(
        Missing(what, at_row(needed, row), int(free[row]))
        for what, needed, free in parts
        if at_row(needed, row) > free[row]
    )
    flavors = tuple(choice.flavor_id for choice in need.flavors)
    return Nearest(site.id, site.region, site.zone, flavors, missing)


def lines(why: Why) -> Iterator[str]:
    """The answer as text."""
    yield plural(why.sites, "site")
    width = max((len(stage.filter) for stage in why.funnel), default=0)
    for stage in why.funnel:
        reasons = ", ".join(f"{count} {text}" for text, count in stage.reasons.items())
        row = f"  {stage.filter:{width}}  {stage.sites:>6} -> {stage.left:<6}  {reasons}"
        yield row.rstrip()
    yield f"{why.fits} of {why.replicas} replicas fit together"
    if why.nearest is not None:
        near = why.nearest
        where = f"{near.site} ({near.region}, {near.availability_zone})"
        yield f"nearest: {where} with {', '.join(near.flavors)}"
        for part in near.missing:
            short = part.needed - part.free
            yield f"  {part.what}: needs {part.needed}, has {part.free}, {short} short"
        if not near.missing:
            yield f"  {FRAGMENTED}"
    for number, relaxation in enumerate(why.relaxations):
        lead = "it would fit" if not number else "or"
        yield f"{lead}: {relaxation.change} ({relaxation.site})"

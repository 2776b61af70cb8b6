"""Rebalancing as a plan of moves: from the fullest sites to where there is more room.

One replica at a time, of the least important allocation on one of the fullest sites, goes where a
decision would put it now, if that site is then clearly emptier than the first was. So with every
move the shares, fullest first, become smaller as words in a dictionary do, and the plan ends. It is
made on a table of its own.
"""

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from bayplan.global_scheduler.inventory import Inventory
from bayplan.global_scheduler.ledger import Record, charge_record
from bayplan.global_scheduler.moving import by_rank
from bayplan.global_scheduler.operations import moved
from bayplan.global_scheduler.placer import Placer
from bayplan.global_scheduler.table import SiteTable
from bayplan.words import plural

MARGIN = 0.05
"""How much emptier, of the whole, a site must be to be worth a move."""
SITES, RECORDS = 8, 16
"""How many of the fullest sites, and allocations on each, are tried for one move."""

Shares = npt.NDArray[np.float64]


class Step(msgspec.Struct, frozen=True, rename={"source": "from"}):
    """Move one replica."""

    allocation: str
    name: str
    source: str
    to: str


class Plan(msgspec.Struct, frozen=True):
    """Moves in order, and the fullest site's share of vcpus before and after them."""

    moves: tuple[Step, ...]
    fullest_before: float
    fullest_after: float


def make_plan(
    placer: Placer,
    inventory: Inventory,
    records: Iterable[Record],
    closed: Iterable[str],
    most: int,
) -> Plan:
    """At most so many moves that even out what sites have left."""
    table = SiteTable(inventory)
    for site in closed:
        table.close(site)
    now = {record.id: record for record in records}
    for record in now.values():
        charge_record(table, record)
    before = shares(table)
    moves: list[Step] = []
    while len(moves) < most and (step := _next(placer, table, now)) is not None:
        moves.append(step)
    highest = [round(float(found.max(initial=0.0)), 4) for found in (before, shares(table))]
    return Plan(tuple(moves), *highest)


def shares(table: SiteTable) -> Shares:
    """How much of its vcpus each site has given away."""
    total = np.zeros(table.count)
    free = np.zeros(table.count)
    for pool in table.pools.values():
        total += pool.vcpus
        free += pool.free_vcpus
    return np.where(total > 0, 1 - free / np.maximum(total, 1), 0.0)


def _next(placer: Placer, table: SiteTable, now: dict[str, Record]) -> Step | None:
    share = shares(table)
    for row in np.argsort(-share, kind="stable")[:SITES].tolist():
        for record in _movable(now, table.sites[row].id):
            step = _try(placer, table, now, record, row, float(share[row]))
            if step is not None:
                return step
    return None


def _movable(now: dict[str, Record], site: str) -> Iterator[Record]:
    """The least important allocations on a site."""
    found = [
        record
        for record in now.values()
        if record.movable and any(g.selected.node_id == site for g in record.groups)
    ]
    yield from list(reversed(by_rank(found)))[:RECORDS]


def _try(
    placer: Placer, table: SiteTable, now: dict[str, Record], record: Record, row: int, share: float
) -> Step | None:
    """Carry out one move on the table if it is worth it."""
    site = table.sites[row].id
    new, _ = moved(placer, table, record, {site}, most=1)
    if new.groups == record.groups:
        return None
    charge_record(table, record, -1)
    charge_record(table, new)
    pairs = zip(record.groups, new.groups, strict=True)
    target = next(after.selected.node_id for before, after in pairs if after is not before)
    at = table.row_of(target)
    if at is None or shares(table)[at] > share - MARGIN:
        charge_record(table, new, -1)
        charge_record(table, record)
        return None
    now[record.id] = new
    return Step(record.id, record.allocation.stack.name, site, target)


def lines(plan: Plan) -> Iterator[str]:
    """The plan as text."""
    before, after = (round(100 * share) for share in (plan.fullest_before, plan.fullest_after))
    moves = plural(len(plan.moves), "move")
    yield f"{moves}; the fullest site has {before} % in use now, then {after} %"
    for step in plan.moves:
        yield f"  {step.allocation} {step.name}: {step.source} -> {step.to}"

"""From sites in order to placements: how many replicas each could take, and what each one takes."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from bayplan.global_scheduler.needs import Need, Takes
from bayplan.global_scheduler.packing import UNLIMITED, Piece, Used, charges_of
from bayplan.global_scheduler.plugins.capacity import FlavorPlan
from bayplan.global_scheduler.sources import Charges
from bayplan.global_scheduler.stack import Allocation
from bayplan.global_scheduler.strategy import Candidate, There
from bayplan.global_scheduler.table import NO_POOL, SiteTable
from bayplan.global_scheduler.table import IntArray as Rows
from bayplan.global_scheduler.view import SiteView


class Placement(msgspec.Struct, frozen=True):
    """One replica on one site."""

    row: int
    site_id: str
    flavors: tuple[str, ...]
    charges: Charges
    hosts: dict[int, dict[str, int]] = {}
    """Position of a resource in the stack to machines by host, where hosts are listed."""


def candidates_of(
    view: SiteView, capacity: Rows, allocation: Allocation, names: Rows, most: Mapping[int, int],
    there: There,
) -> tuple[list[Candidate], dict[int, int]]:  # fmt: skip
    """The rows of a view as candidates under their names, and what their address pools allow."""
    table = view.table
    eips = allocation.stack.eips
    regions, pools = view.take(table.facts["region"]), view.take(table.eip_pool)
    sites = np.arange(view.count) if view.rows is None else view.rows
    zones = regions.astype(np.int64) << 32 | view.take(table.facts["zone"])
    most_here = allocation.selector.spread.max_per_site or int(UNLIMITED)
    before = there.sites
    columns = (names, capacity, regions, pools, zones, sites)
    candidates = [
        Candidate(
            name,
            min(room, most.get(name, room), most_here - before.get(site, 0)),
            region,
            pool if eips else NO_POOL,
            zone,
            site,
        )
        for name, room, region, pool, zone, site in zip(*(c.tolist() for c in columns), strict=True)
        if room > 0 and before.get(site, 0) < most_here
    ]
    used = {candidate.eip_pool for candidate in candidates} - {NO_POOL}
    return candidates, {pool: int(table.eip_free[pool]) // eips for pool in used}


def lay_out(
    view: SiteView, plan: FlavorPlan, allocation: Allocation, chosen: Mapping[int, int], kept: Used
) -> tuple[list[Placement], dict[int, int]]:
    """What every replica takes, and the rows of the view where fewer fit than were chosen.

    Replicas are laid on the sources before they are answered, so that nothing can oversell one.
    """
    table = view.table
    result: list[Placement] = []
    short: dict[int, int] = {}
    used: Used = dict(kept)
    for position, replicas in chosen.items():
        row = view.table_row(position)
        need = plan.needs[int(plan.choice[position])]
        laid = _lay_most(need, row, replicas, used)
        placements = _placements(table, allocation, need, row, laid, used)
        if len(placements) < replicas:
            short[position] = len(placements)
        result += placements
    for placement in result:
        table.apply(placement.charges, -1)
    return result, short


def _lay_most(need: Need, row: int, replicas: int, used: Used) -> list[list[Piece]]:
    """Replicas on one site, as many of them as fit together."""
    laid = need.lay(row, replicas, used)
    low, high = 0, replicas - 1
    best: list[list[Piece]] = []
    while laid is None and low < high:
        middle = (low + high + 1) // 2
        if (some := need.lay(row, middle, used)) is None:
            high = middle - 1
        else:
            low, best = middle, some
    return best if laid is None else laid


def _placements(
    table: SiteTable, allocation: Allocation, need: Need, row: int, laid: list[list[Piece]],
    used: Used,
) -> list[Placement]:  # fmt: skip
    """One placement a laid replica, applied to the table, until volumes or addresses run out."""
    stack = allocation.stack
    more = need.spot_takes(row) | volumes_and_addresses(table, stack.storage, stack.eips, row)
    flavors = tuple(choice.flavor_id for choice in need.flavors)
    result = []
    for pieces in laid:
        charges = charges_of(pieces, more)
        if not table.has_room(charges):
            break
        table.apply(charges)
        for piece in pieces:
            if piece.host:
                place = (piece.resource, piece.source, piece.host)
                used[place] = used.get(place, 0) + piece.count
        result.append(Placement(row, table.sites[row].id, flavors, charges, _hosts(pieces)))
    return result


def _hosts(pieces: Sequence[Piece]) -> dict[int, dict[str, int]]:
    """Machines by host, for each resource of the stack that is on hosts."""
    found: dict[int, dict[str, int]] = {}
    for piece in pieces:
        if piece.host:
            hosts = found.setdefault(piece.resource, {})
            hosts[piece.host] = hosts.get(piece.host, 0) + piece.count
    return found


def volumes_and_addresses(
    table: SiteTable, storage: Mapping[str, int], eips: int, row: int
) -> Takes:
    """What a replica takes of volumes and addresses on a site."""
    takes: Takes = {table.volume_source(row, kind): (size,) for kind, size in storage.items()}
    pool = table.eip_pool.item(row) if eips else NO_POOL
    if pool != NO_POOL:
        takes[table.eip_sources[pool]] = (eips,)
    return takes

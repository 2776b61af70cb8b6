"""Decides where an allocation goes: filters, scores, strategy, and what it takes from each site.

A decision is pure: table and allocation in, placements or reasons out. Applying it to the table is
the caller's step, so that a dry run is the same code. Scores are computed for sites that fit only;
equal scores go to the smaller site id.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.errors import ConfigError
from bayplan.framework.contract.points import implements
from bayplan.framework.contract.state import CycleState
from bayplan.framework.contract.status import Status
from bayplan.framework.contract.verdict import Verdict
from bayplan.global_scheduler.files import Policy, PolicyEntry
from bayplan.global_scheduler.needs import Need, Takes
from bayplan.global_scheduler.packing import UNLIMITED, Piece, Used, charges_of
from bayplan.global_scheduler.plugins import Registry
from bayplan.global_scheduler.plugins.capacity import PLAN, FlavorFit, FlavorPlan, replicas_that_fit
from bayplan.global_scheduler.plugins.selectors import REGION
from bayplan.global_scheduler.plugins.wishes import AVOID, Wishes
from bayplan.global_scheduler.sources import Charges
from bayplan.global_scheduler.stack import CENTRALIZE, Allocation
from bayplan.global_scheduler.strategy import ANYHOW, NOTHING, Candidate, There, spread
from bayplan.global_scheduler.table import NO_POOL, SiteTable
from bayplan.global_scheduler.table import IntArray as Rows
from bayplan.global_scheduler.view import SiteView

NOT_ENOUGH = "site(s) fit, but not all replicas together"
NOT_APART = "site(s) fit, but not all replicas with the requested spread"
LAYOUTS = 16
"""How often replicas are spread anew when sites that share sources take fewer than they could."""
FIRST_LOOK = 8
"""How many of the best sites are looked at first, beside one a replica."""

DEFAULT_POLICY = Policy(
    predicates=tuple(
        PolicyEntry(name)
        for name in (
            "SiteAvailability",
            "LocationAndOperator",
            "regionandaz",
            "Flavor",
            "Volume",
            "EipAvailability",
            "ExclusiveSite",
        )
    ),
    priorities=tuple(
        PolicyEntry(name) for name in ("StackAffinity", "Flavor", "SiteResourcesLeastAllocated")
    ),
)


class Placement(msgspec.Struct, frozen=True):
    """One replica on one site."""

    row: int
    site_id: str
    flavors: tuple[str, ...]
    charges: Charges
    hosts: dict[int, dict[str, int]] = {}
    """Position of a resource in the stack to machines by host, where hosts are listed."""


class Kept(msgspec.Struct, frozen=True):
    """Replicas of the same allocation that stay where they are: by row, and machines by host."""

    rows: dict[int, int] = {}
    used: Used = {}
    avoid: frozenset[int] = frozenset()
    """Rows where nothing of it may go any more."""

    def there(self, table: SiteTable) -> There:
        """The same by site, zone and region."""
        found = There()
        for row, replicas in self.rows.items():
            region = int(table.facts["region"][row])
            found.sites[row] += replicas
            found.zones[region << 32 | int(table.facts["zone"][row])] += replicas
            found.regions[region] += replicas
        return found


ALL_NEW = Kept()
WISHES = Wishes()


class NoSite(msgspec.Struct, frozen=True):
    """Why there is no place: sites by reason (adding up to all sites), and the reason of each."""

    sites: int
    reasons: dict[str, int]
    by_site: dict[str, str]

    @property
    def message(self) -> str:
        """As kube-scheduler words it."""
        parts = sorted(f"{count} {reason}" for reason, count in self.reasons.items())
        return f"0/{self.sites} sites are available: {', '.join(parts)}." if parts else "no sites"


class Placer:
    """The plugins of a policy, ready to decide."""

    def __init__(self, policy: Policy, registry: Registry) -> None:
        plugins: dict[str, object] = {}

        def make(entry: PolicyEntry, point: str) -> object:
            factory = registry.get(entry.name)
            if factory is None:
                known = ", ".join(sorted(registry))
                raise ConfigError(f'policy: plugin "{entry.name}" is not known; known are: {known}')
            plugin = plugins.setdefault(entry.name, factory())
            if not implements(plugin, point):
                raise ConfigError(f'policy: plugin "{entry.name}" is not a {point} plugin')
            return plugin

        self.filters = [(entry.name, make(entry, "filter")) for entry in policy.predicates]
        self.scores = [(e.name, e.weight, make(e, "score")) for e in policy.priorities]
        self._flavor = next((p for _, p in self.filters if isinstance(p, FlavorFit)), FlavorFit())
        self._narrows = any(name == "regionandaz" for name, _ in self.filters)

    def decide(
        self, table: SiteTable, allocation: Allocation, kept: Kept = ALL_NEW
    ) -> list[Placement] | NoSite:
        """Place all replicas, or say why not; replicas that are kept are not among them.

        Why not is told of the first selector when there are alternatives.
        """
        found = self._decide(table, allocation, kept)
        for selector in allocation.alternatives if isinstance(found, NoSite) else ():
            other = msgspec.structs.replace(allocation, selector=selector)
            if not isinstance(again := self._decide(table, other, kept), NoSite):
                return again
        return found

    def _decide(
        self, table: SiteTable, allocation: Allocation, kept: Kept
    ) -> list[Placement] | NoSite:
        state = CycleState()
        state.write(AVOID, kept.avoid)
        view = self._view(table, allocation)
        verdicts, feasible = self._filter(state, allocation, view)
        if not feasible.any():
            return _no_site(view, verdicts)
        totals = self._rank(state, allocation, view, feasible)
        state.write("there", kept.there(table) if kept.rows else NOTHING)
        most: dict[int, int] = {}
        for _ in range(LAYOUTS):
            chosen = self._spread(state, allocation, totals, most)
            if chosen is None:
                break
            placements, short = _lay_out(state, allocation, chosen, kept.used)
            if not short:
                return placements
            most |= short
        text = NOT_ENOUGH if allocation.selector.spread == ANYHOW else NOT_APART
        return _no_site(view, verdicts, short=feasible, text=text)

    def _view(self, table: SiteTable, allocation: Allocation) -> SiteView:
        """Only the rows of the regions asked for, when every choice names one."""
        choices = allocation.selector.regions
        if not self._narrows or not choices or not all(choice.region for choice in choices):
            return SiteView(table)
        regions = dict.fromkeys(choice.region for choice in choices)
        rows = [table.rows_of_region(region) for region in regions]
        return SiteView(table, rows[0] if len(rows) == 1 else np.sort(np.concatenate(rows)))

    def _filter(
        self, state: CycleState, allocation: Allocation, view: SiteView
    ) -> tuple[list[Verdict], BoolArray]:
        feasible = np.ones(view.count, np.bool_)
        verdicts = []
        for _, verdict in self.verdicts(state, allocation, view):
            verdicts.append(verdict)
            if not verdict.passes_all:
                feasible &= verdict.mask
                if not feasible.any():
                    break
        return verdicts, feasible

    def verdicts(
        self, state: CycleState, allocation: Allocation, view: SiteView
    ) -> Iterator[tuple[str, Verdict]]:
        """What each filter says, in order."""
        if WISHES.asked(state, allocation):
            yield WISHES.name, WISHES.filter(state, allocation, view)
        for name, plugin in self.filters:
            verdict: Verdict = plugin.filter(state, allocation, view)  # type: ignore[attr-defined]
            verdict.check(view.count, name)
            yield name, verdict
        if state.get(PLAN) is None:  # a policy without the Flavor filter still needs flavors
            yield self._flavor.name, self._flavor.filter(state, allocation, view)

    def _rank(
        self, state: CycleState, allocation: Allocation, view: SiteView, feasible: BoolArray
    ) -> IntArray:
        """The weighted scores of the rows that fit; they become the state's view."""
        rows = np.flatnonzero(feasible)
        part = view
        if len(rows) < view.count:
            part = view.narrow(rows)
            plan = state.read(PLAN, FlavorPlan)
            state.write(PLAN, FlavorPlan(plan.combinations, plan.needs, plan.choice[rows]))
        totals = np.zeros(part.count, np.int64)
        for _, weight, plugin in self.scores:
            totals += weight * plugin.score(state, allocation, part)  # type: ignore[attr-defined]
        state.write("view", part)
        return totals

    def _spread(
        self,
        state: CycleState,
        allocation: Allocation,
        totals: IntArray,
        most: Mapping[int, int],
    ) -> dict[int, int] | None:
        """Replicas by row of the narrowed view; `most` limits rows that turned out smaller."""
        strategy = allocation.selector.strategy
        few = FIRST_LOOK + allocation.replicas
        if not strategy.region_strategy and len(totals) > 2 * few:
            # the best few nearly always suffice: no need to sort thousands of sites
            best = _best(totals, few)
            beyond = 0
            if strategy.location_strategy != CENTRALIZE and allocation.replicas > 1:
                beyond = self._room_beyond(state, allocation, best)
            found = self._spread_over(state, allocation, best, most, beyond)
            if found is not None:
                return found
        return self._spread_over(state, allocation, _best(totals, len(totals)), most)

    @staticmethod
    def _room_beyond(state: CycleState, allocation: Allocation, best: Rows) -> int:
        """How many replicas fit the sites that are not among the best."""
        part = state.read("view", SiteView)
        room = replicas_that_fit(state.read(PLAN, FlavorPlan), allocation, part)
        return int(room.sum()) - int(room[best].sum())

    @staticmethod
    def _spread_over(
        state: CycleState,
        allocation: Allocation,
        order: Rows,
        most: Mapping[int, int],
        beyond: int = 0,
    ) -> dict[int, int] | None:
        part = state.read("view", SiteView)
        plan = state.read(PLAN, FlavorPlan)
        some = part.narrow(order)
        here = FlavorPlan(plan.combinations, plan.needs, plan.choice[order])
        capacity = replicas_that_fit(here, allocation, some)
        table = part.table
        eips = allocation.stack.eips
        regions, pools = some.take(table.facts["region"]), some.take(table.eip_pool)
        sites = np.arange(some.count).tolist() if some.rows is None else some.rows.tolist()
        zones = regions.astype(np.int64) << 32 | some.take(table.facts["zone"])
        apart = allocation.selector.spread
        there = state.read("there", There)
        most_here = apart.max_per_site or int(UNLIMITED)
        candidates = [
            Candidate(
                int(row),
                min(int(room), most.get(int(row), int(room)), most_here - there.sites[site]),
                int(region),
                int(pool) if eips else NO_POOL,
                int(zone),
                site,
            )
            for row, room, region, pool, zone, site in zip(
                order, capacity, regions, pools, zones, sites, strict=True
            )
            if room > 0 and there.sites[site] < most_here
        ]
        used = {candidate.eip_pool for candidate in candidates} - {NO_POOL}
        limits = {pool: int(table.eip_free[pool]) // eips for pool in used}
        strategy = allocation.selector.strategy
        return spread(candidates, allocation.replicas, strategy, limits, beyond, apart, there)


def _best(totals: IntArray, count: int) -> Rows:
    """The positions of the highest totals, best first, equal ones in order."""
    if count >= len(totals):
        return np.argsort(-totals, kind="stable")
    cut = np.partition(totals, len(totals) - count)[len(totals) - count]
    above = np.flatnonzero(totals > cut)
    level = np.flatnonzero(totals == cut)[: count - len(above)]
    some = np.concatenate((above, level))
    some.sort()
    return some[np.argsort(-totals[some], kind="stable")]


def _lay_out(
    state: CycleState, allocation: Allocation, chosen: Mapping[int, int], kept: Used
) -> tuple[list[Placement], dict[int, int]]:
    """What every replica takes, and the rows of the view where fewer fit than were chosen.

    Replicas are laid on the sources before they are answered, so that nothing can oversell one.
    """
    part = state.read("view", SiteView)
    plan = state.read(PLAN, FlavorPlan)
    table = part.table
    result: list[Placement] = []
    short: dict[int, int] = {}
    used: Used = dict(kept)
    for position, replicas in chosen.items():
        row = part.table_row(position)
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
    more = need.spot_takes(row) | _volumes_and_addresses(table, allocation, row)
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


def _volumes_and_addresses(table: SiteTable, allocation: Allocation, row: int) -> Takes:
    takes: Takes = {
        table.volume_source(row, kind): (size,) for kind, size in allocation.stack.storage.items()
    }
    pool = int(table.eip_pool[row])
    if allocation.stack.eips and pool != NO_POOL:
        takes[table.eip_sources[pool]] = (allocation.stack.eips,)
    return takes


def _no_site(
    view: SiteView, verdicts: Sequence[Verdict], short: BoolArray | None = None, text: str = ""
) -> NoSite:
    """Each site's first reason; sites outside the view were left out by their region."""
    table = view.table
    by_row: dict[int, str] = {}
    if view.rows is not None:
        inside = set(view.rows.tolist())
        by_row = {row: REGION for row in range(table.count) if row not in inside}
    for position in range(view.count):
        status: Status | None = None
        for verdict in verdicts:
            status = verdict.status_of(position)
            if status is not None:
                break
        if status is not None:
            by_row[view.table_row(position)] = status.message
        elif short is not None and short[position]:
            by_row[view.table_row(position)] = text
    by_site = {table.sites[row].id: by_row[row] for row in sorted(by_row)}
    return NoSite(table.count, dict(Counter(by_site.values())), by_site)

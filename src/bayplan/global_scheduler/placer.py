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
from bayplan.global_scheduler.layout import Placement, candidates_of, lay_out
from bayplan.global_scheduler.packing import Used
from bayplan.global_scheduler.plugins import Registry
from bayplan.global_scheduler.plugins.capacity import PLAN, FlavorFit, FlavorPlan, replicas_that_fit
from bayplan.global_scheduler.plugins.selectors import REGION
from bayplan.global_scheduler.plugins.wishes import AVOID, Wishes
from bayplan.global_scheduler.quick import FIRST_LOOK, Quick
from bayplan.global_scheduler.stack import CENTRALIZE, Allocation
from bayplan.global_scheduler.strategy import ANYHOW, NOTHING, There, spread
from bayplan.global_scheduler.table import IntArray as Rows
from bayplan.global_scheduler.table import SiteTable
from bayplan.global_scheduler.view import SiteView

NOT_ENOUGH = "site(s) fit, but not all replicas together"
NOT_APART = "site(s) fit, but not all replicas with the requested spread"
LAYOUTS = 16
"""How often replicas are spread anew when sites that share sources take fewer than they could."""

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

    def __init__(self, policy: Policy, registry: Registry, *, quick: bool = True) -> None:
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
        self._quick = Quick.of(self.filters, self.scores) if quick else None
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
        if self._quick is not None and kept is ALL_NEW:
            quickly = self._quick.decide(table, allocation)
            if quickly is not None:
                return quickly
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
            part, plan = state.read("view", SiteView), state.read(PLAN, FlavorPlan)
            placements, short = lay_out(part, plan, allocation, chosen, kept.used)
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
        there = state.read("there", There)
        some = part.narrow(order)
        here = FlavorPlan(plan.combinations, plan.needs, plan.choice[order])
        room = replicas_that_fit(here, allocation, some)
        candidates, limits = candidates_of(some, room, allocation, order, most, there)
        strategy, apart = allocation.selector.strategy, allocation.selector.spread
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

"""A filter that runs whatever the policy says, for wishes that the first API did not know.

A policy file is a list of plugins; one that was written before these wishes existed must not make
them be ignored. So they are no plugins of the policy: the placer runs them when a request has them.
"""

import numpy as np

from bayplan.framework.contract.state import CycleState
from bayplan.framework.contract.status import unresolvable
from bayplan.framework.contract.verdict import Verdict
from bayplan.global_scheduler.stack import Allocation, Residency
from bayplan.global_scheduler.view import SiteView

AVOID = "avoid"
"""State: rows that must not be chosen."""
LEFT = unresolvable("site(s) are to be left")
COUNTRY = unresolvable("site(s) were outside the countries where the data may be")
TOO_FAR = unresolvable("site(s) were too far from a requested point, or it isn't known how far")


class Wishes:
    """Rejects sites to be left, in countries that are not allowed, and too far from a point."""

    name = "Wishes"

    @staticmethod
    def asked(state: CycleState, allocation: Allocation) -> bool:
        """Whether there is anything to look at."""
        selector = allocation.selector
        avoid = state.get(AVOID, frozenset)
        return bool(avoid or selector.latency) or selector.residency != Residency()

    def filter(self, state: CycleState, allocation: Allocation, sites: SiteView) -> Verdict:
        which = np.zeros(sites.count, np.uint16)
        selector = allocation.selector
        table = sites.table
        for latency in selector.latency:
            which[~(sites.take(table.latency(latency.to)) <= latency.max_ms)] = 3
        country = sites.take(table.facts["country"])
        residency = selector.residency
        if residency.countries:
            which[~np.isin(country, [table.code_of(name) for name in residency.countries])] = 2
        if residency.except_countries:
            codes = [table.code_of(name) for name in (*residency.except_countries, "")]
            which[np.isin(country, codes)] = 2  # an unknown country may be one of them
        if avoid := state.get(AVOID, frozenset):
            rows = np.arange(sites.count) if sites.rows is None else sites.rows
            which[np.isin(rows, list(avoid))] = 1
        return Verdict.by_outcome(which, (LEFT, COUNTRY, TOO_FAR))

"""Filters that read the selector: which sites may be chosen at all, whatever they have free."""

import numpy as np

from bayplan.framework.contract.state import CycleState
from bayplan.framework.contract.status import Code, unresolvable
from bayplan.framework.contract.verdict import Verdict
from bayplan.global_scheduler.stack import Allocation
from bayplan.global_scheduler.view import SiteView

CLOSED = unresolvable("site(s) were offline or sold out")
OTHER_SITE = unresolvable("site(s) weren't the requested site")
LOCATION = "site(s) didn't match the requested location"
OPERATOR = "site(s) didn't match the requested operator"
REGION = "site(s) weren't in the requested regions and zones"
EXCLUSIVE = "site(s) were exclusive to other domains"


class SiteAvailability:
    """Rejects closed sites, and all but the named one when the selector names a site."""

    name = "SiteAvailability"

    def filter(self, state: CycleState, allocation: Allocation, sites: SiteView) -> Verdict:
        which = np.zeros(sites.count, np.uint16)
        wanted = allocation.selector.site_id
        if wanted:
            row = sites.table.row_of(wanted)
            rows = np.arange(sites.count) if sites.rows is None else sites.rows
            which[rows != (-1 if row is None else row)] = 2
        which[~sites.take(sites.table.open)] = 1
        return Verdict.by_outcome(which, (CLOSED, OTHER_SITE))


class LocationAndOperator:
    """Rejects sites in another place, or of another operator, than the selector says."""

    name = "LocationAndOperator"

    def filter(self, state: CycleState, allocation: Allocation, sites: SiteView) -> Verdict:
        selector = allocation.selector
        which = np.zeros(sites.count, np.uint16)
        if selector.operator:
            operator = sites.take(sites.table.facts["operator"])
            which[operator != sites.table.code_of(selector.operator)] = 2
        for fact in ("country", "area", "province", "city"):
            if wanted := getattr(selector.geo_location, fact):
                which[sites.take(sites.table.facts[fact]) != sites.table.code_of(wanted)] = 1
        return Verdict.by_outcome(which, (unresolvable(LOCATION), unresolvable(OPERATOR)))


class RegionAndZone:
    """Rejects sites that are in none of the regions and zones that the selector lists."""

    name = "regionandaz"

    def filter(self, state: CycleState, allocation: Allocation, sites: SiteView) -> Verdict:
        choices = allocation.selector.regions
        if not choices:
            return Verdict.all_pass(sites)
        table = sites.table
        region, zone = sites.take(table.facts["region"]), sites.take(table.facts["zone"])
        mask = np.zeros(sites.count, np.bool_)
        for choice in choices:
            here = np.ones(sites.count, np.bool_)
            if choice.region:
                here &= region == table.code_of(choice.region)
            if choice.availability_zone:
                codes = [table.code_of(name) for name in choice.availability_zone]
                here &= np.isin(zone, codes)
            mask |= here
        return Verdict(mask, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REGION)


class ExclusiveSite:
    """Rejects sites that are kept for other domains than the request's."""

    name = "ExclusiveSite"

    def filter(self, state: CycleState, allocation: Allocation, sites: SiteView) -> Verdict:
        exclusive = sites.table.exclusive
        if not exclusive:
            return Verdict.all_pass(sites)
        closed = np.zeros(sites.table.count, np.bool_)
        closed[[row for row, domains in exclusive.items() if allocation.domain not in domains]] = (
            True
        )
        return Verdict(~sites.take(closed), Code.UNSCHEDULABLE_AND_UNRESOLVABLE, EXCLUSIVE)

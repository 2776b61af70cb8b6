"""What to ask for instead: the smallest changes of a request that make it fit.

Each single change is tried by deciding again, numbers by halving; only what was seen to fit is
told. When no single change helps, pairs of those that leave something out are tried, within a
number of decisions.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from math import prod

import msgspec

from bayplan.global_scheduler.needs import MAX_COMBINATIONS
from bayplan.global_scheduler.placer import NoSite, Placer
from bayplan.global_scheduler.stack import Allocation, FlavorChoice, Geo, Resource, Spread
from bayplan.global_scheduler.table import SiteTable

DECISIONS = 200
ROWS = 2_000_000
"""Sites looked at altogether, about; on large tables there are fewer decisions."""
LEAST = 20
TRIES = 2000
"""Ways tried altogether, about, which cost something where there are few sites, too.

A decision tries each combination of flavors with each selector, and looks at all sites for it.
"""
TOLD = 8
FLAVORS = 3
"""How many smaller flavors are tried for a resource."""
replace = msgspec.structs.replace
Change = Callable[[Allocation], Allocation]


class Relaxation(msgspec.Struct, frozen=True):
    """A change of the request, and a site that would take a replica then."""

    change: str
    site: str


class _Trial:
    """Decides, counting."""

    def __init__(self, placer: Placer, table: SiteTable, allocation: Allocation) -> None:
        self._placer = placer
        self._table = table
        flavors = prod(len(resource.flavors) for resource in allocation.stack.resources)
        tries = max(min(flavors, MAX_COMBINATIONS), 1) * (1 + len(allocation.alternatives))
        looks = max(ROWS // max(table.count * tries, 1), LEAST)
        self.left = min(DECISIONS, looks, max(TRIES // tries, 1))

    def site(self, allocation: Allocation) -> str | None:
        """The first site when everything fits."""
        if self.left <= 0:
            return None
        self.left -= 1
        found = self._placer.decide(self._table, allocation)
        return None if isinstance(found, NoSite) else found[0].site_id

    def most(self, change: Callable[[int], Allocation], low: int, high: int) -> tuple[int, str]:
        """The largest number from `low` up to below `high` that fits, and a site; else no site."""
        best, site = low, ""
        while low < high:
            middle = (low + high) // 2
            found = self.site(change(middle))
            if found is None:
                high = middle
            else:
                best, site, low = middle, found, middle + 1
        return best, site


def relaxations(placer: Placer, table: SiteTable, allocation: Allocation) -> tuple[Relaxation, ...]:
    """Changes that make a request fit that does not, small ones first."""
    trial = _Trial(placer, table, allocation)
    found = list(_numbers(trial, allocation))
    dropped = list(_without(allocation))
    for text, change in (*dropped, *_flavors(table, allocation)):
        if site := trial.site(change(allocation)):
            found.append(Relaxation(text, site))
    if not found:
        for (one, first), (two, second) in combinations(dropped, 2):
            if site := trial.site(second(first(allocation))):
                found.append(Relaxation(f"{one} and {two}", site))
    return tuple(found[:TOLD])


def _numbers(trial: _Trial, allocation: Allocation) -> Iterator[Relaxation]:
    def told(name: str, before: int, best: int, site: str) -> Iterator[Relaxation]:
        if site:
            yield Relaxation(f"{name} {best} instead of {before}", site)

    def fewer(replicas: int) -> Allocation:
        return replace(allocation, replicas=replicas)

    yield from told("replicas", allocation.replicas, *trial.most(fewer, 1, allocation.replicas))
    for number, resource in enumerate(allocation.stack.resources):
        where = f"resource_group.resources[{number}]"

        def count(size: int, number: int = number) -> Allocation:
            return _resource(allocation, number, lambda one: replace(one, count=size))

        yield from told(f"{where}.count", resource.count, *trial.most(count, 1, resource.count))
        for kind, size in resource.storage.items():

            def storage(size: int, number: int = number, kind: str = kind) -> Allocation:
                return _resource(
                    allocation, number, lambda one: replace(one, storage=one.storage | {kind: size})
                )

            yield from told(f"{where}.storage.{kind}", size, *trial.most(storage, 1, size))


def _resource(
    allocation: Allocation, number: int, change: Callable[[Resource], Resource]
) -> Allocation:
    resources = list(allocation.stack.resources)
    resources[number] = change(resources[number])
    return replace(allocation, stack=replace(allocation.stack, resources=tuple(resources)))


def _without(allocation: Allocation) -> Iterator[tuple[str, Change]]:
    """Each thing that the request could leave out."""
    selector = allocation.selector
    empty = {"regions": (), "operator": "", "site_id": ""}
    for name, nothing in empty.items():
        if getattr(selector, name) != nothing:
            shown = "node_id" if name == "site_id" else name
            yield f"without selector.{shown}", _selector(**{name: nothing})
    if any(choice.availability_zone for choice in selector.regions):
        regions = tuple(replace(choice, availability_zone=()) for choice in selector.regions)
        yield "without the zones of selector.regions", _selector(regions=regions)
    for name in Geo.__struct_fields__:
        if getattr(selector.geo_location, name):
            geo = replace(selector.geo_location, **{name: ""})
            yield f"without selector.geo_location.{name}", _selector(geo_location=geo)
    if selector.strategy.region_strategy:
        strategy = replace(selector.strategy, region_strategy="")
        yield "without selector.strategy.region_strategy", _selector(strategy=strategy)
    for name in Spread.__struct_fields__:
        if getattr(selector.spread, name):
            spread = replace(selector.spread, **{name: 0})
            yield f"without selector.spread.{name}", _selector(spread=spread)
    for number, resource in enumerate(allocation.stack.resources):
        for name in ("need_eip", "max_per_host"):
            if before := getattr(resource, name):
                text = f"without {name} of resource_group.resources[{number}]"
                yield text, _one_resource(number, **{name: type(before)()})


def _selector(**changes: object) -> Change:
    return lambda allocation: replace(allocation, selector=replace(allocation.selector, **changes))


def _one_resource(number: int, **changes: object) -> Change:
    return lambda allocation: _resource(allocation, number, lambda one: replace(one, **changes))


def _flavors(table: SiteTable, allocation: Allocation) -> Iterator[tuple[str, Change]]:
    """The next smaller flavors, for each resource."""
    sizes = {
        identity: max((flavor.vcpus, flavor.memory) for flavor in by_region.values())
        for identity, by_region in table.flavors.items()
    }
    for number, resource in enumerate(allocation.stack.resources):
        asked = {choice.flavor_id for choice in resource.flavors}
        least = min((sizes[one] for one in asked if one in sizes), default=())
        smaller = [one for one, size in sizes.items() if size < least and one not in asked]
        smaller.sort(key=lambda one: (sizes[one], one), reverse=True)
        for flavor in smaller[:FLAVORS]:
            choices = (*resource.flavors, FlavorChoice(flavor))
            text = f"also flavor {flavor} for resource_group.resources[{number}]"
            yield text, _one_resource(number, flavors=choices)

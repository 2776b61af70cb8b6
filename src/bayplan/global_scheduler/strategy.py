"""Spreads replicas over the sites that fit: exactly as many as were asked for, or none.

Input are sites in score order with how many replicas each can take. `centralize` fills the best
site, then the next. `discrete` (the default) gives each its share of the whole, at least one in
score order, and hands what rounding left over to the largest remainders. `alone` does so in one
region only: in that which can take most, unless a limit is in the way there and not in the next.
Sites that share an address pool share its limit. A `Spread` limits sites, zones and regions; over
how many replicas must go is seen to first.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from bayplan.global_scheduler.stack import ALONE, CENTRALIZE, Spread, Strategy

ANYHOW = Spread()


class Candidate(msgspec.Struct, frozen=True):
    """A site that fits: its row in the view and in the table, how often, and where it is."""

    row: int
    capacity: int
    region: int
    eip_pool: int = -1
    zone: int = -1
    site: int = -1


class There(msgspec.Struct):
    """Replicas of the allocation that are placed already, by site, zone and region."""

    sites: Counter[int] = msgspec.field(default_factory=Counter)
    zones: Counter[int] = msgspec.field(default_factory=Counter)
    regions: Counter[int] = msgspec.field(default_factory=Counter)


NOTHING = There()


class Limits:
    """What is left of shared address pools, zones and regions, counted in replicas."""

    def __init__(self, free: dict[int, int], spread: Spread, there: There) -> None:
        self._pools = dict(free)
        self._zones = _Cap(spread.max_per_zone, Counter(there.zones))
        self._regions = _Cap(spread.max_per_region, Counter(there.regions))

    def of(self, candidate: Candidate) -> int:
        return min(
            self._pools.get(candidate.eip_pool, candidate.capacity),
            self._zones.left(candidate.zone, candidate.capacity),
            self._regions.left(candidate.region, candidate.capacity),
        )

    def take(self, candidate: Candidate, replicas: int) -> None:
        if candidate.eip_pool in self._pools:
            self._pools[candidate.eip_pool] -= replicas
        self._zones.given[candidate.zone] += replicas
        self._regions.given[candidate.region] += replicas


class _Cap:
    """At most so many replicas a zone or region; 0: any number."""

    def __init__(self, most: int, given: Counter[int]) -> None:
        self.most = most
        self.given = given

    def left(self, code: int, capacity: int) -> int:
        return self.most - self.given[code] if self.most else capacity


def spread(
    candidates: Sequence[Candidate],
    replicas: int,
    strategy: Strategy,
    pool_limits: dict[int, int],
    beyond: int = 0,
    apart: Spread = ANYHOW,
    there: There = NOTHING,
) -> dict[int, int] | None:
    """Replicas by row, in score order, adding up to `replicas`; None when they do not fit.

    `beyond` is how many replicas fit lower-ranked sites that the caller left out: shares are of the
    whole, and None then means "not among these".
    """
    regions: Iterable[Sequence[Candidate]] = (candidates,)
    if strategy.region_strategy == ALONE:
        some = [one for one in candidates if not there.regions or one.region in there.regions]
        regions = _by_region(some, pool_limits)
    ways = (_spread(r, replicas, strategy, pool_limits, beyond, apart, there) for r in regions)
    return next((way for way in ways if way is not None), None)


def _spread(
    candidates: Sequence[Candidate],
    replicas: int,
    strategy: Strategy,
    pool_limits: dict[int, int],
    beyond: int,
    apart: Spread,
    there: There,
) -> dict[int, int] | None:
    if _total(candidates, pool_limits) < replicas:
        return None
    limits = Limits(pool_limits, apart, there)
    given = [0] * len(candidates)
    if not _see_to(candidates, given, apart, limits, there) or sum(given) > replicas:
        return None
    if strategy.location_strategy != CENTRALIZE:
        total = beyond + sum(candidate.capacity for candidate in candidates)
        _share(candidates, given, replicas, total, limits)
        if beyond and sum(given) < replicas:
            return None
        _round_up(candidates, given, replicas, total, limits)
    _fill(candidates, given, replicas - sum(given), limits)
    if sum(given) < replicas:
        return None
    return {c.row: n for c, n in zip(candidates, given, strict=True) if n}


def _see_to(
    candidates: Sequence[Candidate],
    given: list[int],
    apart: Spread,
    limits: Limits,
    there: There,
) -> bool:
    """Give one replica each to the best sites of as many regions, zones and sites as asked for."""
    keys: tuple[tuple[int, Callable[[Candidate], int], Counter[int]], ...] = (
        (apart.min_regions, lambda candidate: candidate.region, there.regions),
        (apart.min_zones, lambda candidate: candidate.zone, there.zones),
        (apart.min_sites, lambda candidate: candidate.site, there.sites),
    )
    for least, key, before in keys:
        if not least:
            continue
        seen = {key(c) for c, number in zip(candidates, given, strict=True) if number}
        seen.update(before)
        for position, candidate in enumerate(candidates):
            if len(seen) >= least:
                break
            if key(candidate) not in seen and min(candidate.capacity, limits.of(candidate)) > 0:
                given[position] += 1
                limits.take(candidate, 1)
                seen.add(key(candidate))
        if len(seen) < least:
            return False
    return True


def _total(candidates: Sequence[Candidate], pool_limits: dict[int, int]) -> int:
    """How many replicas fit altogether."""
    by_pool: dict[int, int] = {}
    for candidate in candidates:
        by_pool[candidate.eip_pool] = by_pool.get(candidate.eip_pool, 0) + candidate.capacity
    return sum(min(n, pool_limits.get(pool, n)) for pool, n in by_pool.items())


def _by_region(
    candidates: Sequence[Candidate], pool_limits: dict[int, int]
) -> list[list[Candidate]]:
    """The candidates of each region, that with most room first; of equal ones the best site's."""
    regions: dict[int, list[Candidate]] = {}
    for candidate in candidates:
        regions.setdefault(candidate.region, []).append(candidate)
    return sorted(regions.values(), key=lambda group: -_total(group, pool_limits))


def _share(
    candidates: Sequence[Candidate], given: list[int], replicas: int, total: int, limits: Limits
) -> None:
    """Give each site its share in score order, at least one, until all replicas are given."""
    left = replicas - sum(given)
    for position, candidate in enumerate(candidates):
        if left == 0:
            return
        rounded = (2 * replicas * candidate.capacity + total) // (2 * total)
        share = min(max(rounded, 1), candidate.capacity) - given[position]
        part = max(min(share, limits.of(candidate), left), 0)
        given[position] += part
        limits.take(candidate, part)
        left -= part


def _round_up(
    candidates: Sequence[Candidate], given: list[int], replicas: int, total: int, limits: Limits
) -> None:
    """Give what rounding left over, one by one, to the largest remainders."""
    left = replicas - sum(given)
    if not left:
        return
    by_remainder = sorted(
        range(len(candidates)),
        key=lambda i: (-(replicas * candidates[i].capacity % total), i),
    )
    for position in by_remainder:
        candidate = candidates[position]
        if left and min(candidate.capacity - given[position], limits.of(candidate)) > 0:
            given[position] += 1
            limits.take(candidate, 1)
            left -= 1


def _fill(candidates: Sequence[Candidate], given: list[int], left: int, limits: Limits) -> None:
    """Give what is left to sites in score order, as much as each can take."""
    for position, candidate in enumerate(candidates):
        if left <= 0:
            return
        part = min(left, candidate.capacity - given[position], limits.of(candidate))
        if part > 0:
            given[position] += part
            limits.take(candidate, part)
            left -= part

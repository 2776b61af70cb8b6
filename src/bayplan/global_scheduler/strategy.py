"""Spreads replicas over the sites that fit: exactly as many as were asked for, or none.

Input are sites in score order with how many replicas each can take. `centralize` fills the best
site, then the next. `discrete` (the default) gives each its share of the whole, at least one in
score order, and hands what rounding left over to the largest remainders. `alone` first leaves only
the region that can take most, if it can take all. Sites that share an address pool share its limit.
"""

from collections.abc import Sequence

import msgspec

from bayplan.global_scheduler.stack import ALONE, CENTRALIZE, Strategy


class Candidate(msgspec.Struct, frozen=True):
    """A site that fits: its row in the table, how often, and the address pool it draws from."""

    row: int
    capacity: int
    region: int
    eip_pool: int = -1


class Limits:
    """What is left of shared address pools, counted in replicas."""

    def __init__(self, free: dict[int, int]) -> None:
        self._left = dict(free)

    def of(self, candidate: Candidate) -> int:
        return self._left.get(candidate.eip_pool, candidate.capacity)

    def take(self, candidate: Candidate, replicas: int) -> None:
        if candidate.eip_pool in self._left:
            self._left[candidate.eip_pool] -= replicas


def spread(
    candidates: Sequence[Candidate],
    replicas: int,
    strategy: Strategy,
    pool_limits: dict[int, int],
    beyond: int = 0,
) -> dict[int, int] | None:
    """Replicas by row, in score order, adding up to `replicas`; None when they do not fit.

    `beyond` is how many replicas fit lower-ranked sites that the caller left out: shares are of the
    whole, and None then means "not among these".
    """
    if strategy.region_strategy == ALONE:
        candidates = _one_region(candidates, replicas, pool_limits)
    if _total(candidates, pool_limits) < replicas:
        return None
    limits = Limits(pool_limits)
    given = [0] * len(candidates)
    if strategy.location_strategy != CENTRALIZE:
        total = beyond + sum(candidate.capacity for candidate in candidates)
        _share(candidates, given, replicas, total, limits)
        if beyond and sum(given) < replicas:
            return None
        _round_up(candidates, given, replicas, total, limits)
    _fill(candidates, given, replicas - sum(given), limits)
    return {c.row: n for c, n in zip(candidates, given, strict=True) if n}


def _total(candidates: Sequence[Candidate], pool_limits: dict[int, int]) -> int:
    """How many replicas fit altogether."""
    by_pool: dict[int, int] = {}
    for candidate in candidates:
        by_pool[candidate.eip_pool] = by_pool.get(candidate.eip_pool, 0) + candidate.capacity
    return sum(min(n, pool_limits.get(pool, n)) for pool, n in by_pool.items())


def _one_region(
    candidates: Sequence[Candidate], replicas: int, pool_limits: dict[int, int]
) -> list[Candidate]:
    """The candidates of the region with most room; of equal ones, that of the best site."""
    regions: dict[int, list[Candidate]] = {}
    for candidate in candidates:
        regions.setdefault(candidate.region, []).append(candidate)
    rooms = [(_total(group, pool_limits), group) for group in regions.values()]
    enough = [(room, group) for room, group in rooms if room >= replicas]
    return max(enough, key=lambda entry: entry[0])[1] if enough else []


def _share(
    candidates: Sequence[Candidate], given: list[int], replicas: int, total: int, limits: Limits
) -> None:
    """Give each site its share in score order, at least one, until all replicas are given."""
    left = replicas
    for position, candidate in enumerate(candidates):
        if left == 0:
            return
        rounded = (2 * replicas * candidate.capacity + total) // (2 * total)
        given[position] = min(max(rounded, 1), candidate.capacity, limits.of(candidate), left)
        limits.take(candidate, given[position])
        left -= given[position]


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

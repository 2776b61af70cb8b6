"""Finds devices on a node for all claims of a pod: depth first, the first solution wins.

Claims and requests are served in order. A request for n devices takes the first n that fit, at
increasing positions; when later requests fail, the search backs up and tries the next ones. Of
`firstAvailable` a later choice is tried only when no solution with an earlier one exists. The
number of steps is limited, as time is upstream; going over it is an error for that node. What a
search takes beyond `NODE_STEPS` comes out of what all nodes of an attempt have together: a claim
that is hard on each of a thousand nodes must not hold up other pods a thousand times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bayplan.api import ResourceClaim, quantity
from bayplan.api.meta import Quantity
from bayplan.errors import BayplanError
from bayplan.framework import NodeInfo
from bayplan.plugins.dynamic_resources.claims import ClaimBooks, DeviceId
from bayplan.plugins.dynamic_resources.constraints import AllocationError, Constraints
from bayplan.plugins.dynamic_resources.counters import Counters
from bayplan.plugins.dynamic_resources.pools import Features, Offer, Pool
from bayplan.plugins.dynamic_resources.requests import Alternative, consumption

MAX_RESULTS = 32
"""Devices that one claim can hold."""

STEP_LIMIT = 200_000
"""Steps that the searches of an attempt have together, beside those of each node."""

NODE_STEPS = 1_000
LOOKS = 20
"""Devices that are looked at and not taken in the time of a step."""


class GaveUp(AllocationError):
    """The search on a node has taken too many steps."""


class InvalidPools(BayplanError):
    """Pools on this node are incomplete or contradictory and a request wants all devices."""


class _TooMany(Exception):
    """A claim would hold too many devices, whichever of them a request takes.

    An earlier request of the claim has a smaller choice then, or the claim had been refused.
    """


class Picked(NamedTuple):
    """A device for an alternative of a request of a claim."""

    claim: int
    request: int
    alternative: Alternative
    pool: Pool
    offer: Offer
    consumed: dict[str, Quantity] | None = None
    """How much of a device that others can have, too."""


class ClaimRequests(NamedTuple):
    """A claim to allocate with the alternatives of its requests."""

    claim: ResourceClaim
    requests: list[tuple[Alternative, ...]]


class Search:
    """One search on one node."""

    def __init__(
        self,
        claims: Sequence[ClaimRequests],
        pools: Sequence[Pool],
        node: NodeInfo,
        books: ClaimBooks,
        features: Features,
        spare: int,
    ) -> None:
        """`spare` are the steps that it may take beyond those of a node."""
        self._claims = claims
        self._pools = pools
        self._node = node
        self._offers = [(pool, offer) for pool in pools if pool.usable for offer in pool.offers]
        self._everything: dict[int, list[tuple[Pool, Offer]]] = {}
        """What "all" means for the alternatives that want it."""
        self._books = books
        self._modern = features.modern
        self._sharing = features.sharing
        self._picked: list[Picked] = []
        self._held: dict[DeviceId, list[Picked]] = {}
        self._counters = Counters(books, modern=features.modern)
        self._constraints: list[Constraints] = []
        self._steps, self._limit = 0, NODE_STEPS + spare

    def run(self) -> list[Picked] | None:
        """The devices for all claims, or None if there is no solution.

        Raises AllocationError for claims that cannot be handled, InvalidPools if there might be a
        solution with pools that are invalid now, CelError from selectors.
        """
        for item in self._claims:
            self._check_count(item)
            constraints = item.claim.spec.devices.constraints
            self._constraints.append(Constraints(constraints, modern=self._modern))
        if self._claim(0):
            return self._picked
        if any(pool.invalid for pool in self._pools):
            raise InvalidPools("invalid resource pools were encountered")
        return None

    @property
    def spent(self) -> int:
        """The steps that were taken beyond those of a node."""
        return max(0, min(self._steps, self._limit) - NODE_STEPS)

    def _step(self) -> None:
        self._steps += 1
        if self._steps > self._limit:
            raise GaveUp(f"gave up after {STEP_LIMIT} steps to allocate devices")

    def _check_count(self, item: ClaimRequests) -> None:
        """Raise if a claim asks for more than it can hold, whichever choices are made."""
        key, total = item.claim.key, 0
        for choices in item.requests:
            if not choices:
                continue
            if not self._sharing:
                _refuse_capacity(choices)
            least = min([self._least(choice) for choice in choices])
            if self._modern and least > MAX_RESULTS - total:
                name = choices[0].label.partition("/")[0]
                raise AllocationError(
                    f"claim {key}, request {name}: adding {least} devices exceeds the claim limit "
                    f"of {MAX_RESULTS}, with {total} already accounted for"
                )
            total += least
        if total > MAX_RESULTS:
            raise AllocationError(
                f"claim {key}: number of requested devices {total} exceeds the claim limit of "
                f"{MAX_RESULTS}"
            )

    def _least(self, wanted: Alternative) -> int:
        """How many devices an alternative takes; works out what "all" are."""
        if not wanted.wants_all:
            return wanted.count
        found: list[tuple[Pool, Offer]] = []
        for pool in self._pools:
            if not pool.usable:
                state = "invalid" if pool.complete else "being updated"
                raise AllocationError(
                    f"{wanted.where}: asks for all devices, but resource pool "
                    f"{pool.driver}/{pool.name} is currently {state}"
                )
            found += [
                (pool, offer)
                for offer in pool.offers
                if self._selects(wanted, offer) and self._counts(wanted, offer)
            ]
        self._everything[id(wanted)] = found
        return len(found)

    def _counts(self, wanted: Alternative, offer: Offer) -> bool:
        """Whether a device is one of "all" as it has the capacity; in 1.36 it must have it left."""
        if not self._sharing or not self._modern:
            return self._could_serve(wanted, offer)
        return self._consumption(wanted, offer) is not None

    def _selects(self, wanted: Alternative, offer: Offer) -> bool:
        """Whether class and request select a device, and it is for this node."""
        if offer.unsupported or not wanted.selects(offer):
            return False
        place = offer.own_place
        return place is None or place.holds(self._node.name, self._node.labels)

    def _claim(self, number: int) -> bool:
        return number == len(self._claims) or self._request(number, 0)

    def _request(self, claim: int, number: int) -> bool:
        requests = self._claims[claim].requests
        if number == len(requests):
            return self._claim(claim + 1)
        mark, too_many = len(self._picked), 0
        for alternative in requests[number]:
            try:
                if self._alternative(claim, number, alternative):
                    return True
            except _TooMany:
                self._back_to(mark)
                too_many += 1
        if too_many and too_many == len(requests[number]):
            raise _TooMany
        return False

    def _alternative(self, claim: int, request: int, wanted: Alternative) -> bool:
        count = len(self._everything[id(wanted)]) if wanted.wants_all else wanted.count
        if count > MAX_RESULTS - sum(item.claim == claim for item in self._picked):
            raise _TooMany
        if wanted.wants_all:
            return self._all(claim, request, wanted)
        return self._some(claim, request, wanted, count, 0)

    def _some(self, claim: int, request: int, wanted: Alternative, left: int, start: int) -> bool:
        """Take `left` more devices from position `start` on, then go on with the next request."""
        if left == 0:
            return self._request(claim, request + 1)
        for place in range(start, len(self._offers)):
            if not place % LOOKS:
                self._step()
            pool, offer = self._offers[place]
            # cheap questions first; a selector that fails is only asked where it is needed
            if self._is_taken(claim, wanted, offer):
                continue
            if not self._selects(wanted, offer) or not self._could_serve(wanted, offer):
                continue
            if self._take(Picked(claim, request, wanted, pool, offer)):
                if self._some(claim, request, wanted, left - 1, place + 1):
                    return True
                self._give_back()
        return False

    def _is_taken(self, claim: int, wanted: Alternative, offer: Offer) -> bool:
        """Whether a device has gone to another claim, or, for an administrator, to this one.

        Within one search a device that an administrator looks at is held, too; one that is shared
        is not.
        """
        whole = not offer.shared
        held = self._held.get(offer.id, ()) if whole else ()
        if wanted.detail.admin_access:
            return any(item.claim == claim for item in held)
        return bool(held) or self._books.in_use(offer.id)

    def _could_serve(self, wanted: Alternative, offer: Offer) -> bool:
        """Whether a device has the capacity left that is asked for.

        Also one that is not shared: parts of it may have been given away when it was.
        """
        if not self._sharing:
            return True
        if not (offer.shared or wanted.detail.capacity or self._books.consumed(offer.id)):
            return True  # it asks for all of it, and all is left
        consumed = self._consumption(wanted, offer)
        return consumed is not None and self._enough(offer, consumed)

    def _consumption(self, wanted: Alternative, offer: Offer) -> dict[str, Quantity] | None:
        return consumption(offer.device, wanted.detail, modern=self._modern)

    def _all(self, claim: int, request: int, wanted: Alternative) -> bool:
        """Take every device that is selected; all of them must be free."""
        selected, mark = self._everything[id(wanted)], len(self._picked)
        everything = bool(selected) and all(
            not self._is_taken(claim, wanted, offer)
            and self._take(Picked(claim, request, wanted, pool, offer))
            for pool, offer in selected
        )
        if everything and self._request(claim, request + 1):
            return True
        self._back_to(mark)
        return False

    def _take(self, picked: Picked) -> bool:
        self._step()
        claim, _, wanted, pool, offer, _ = picked
        if offer.withheld or not self._counters.take(pool, offer):
            return False
        if not wanted.tolerates(offer.taints):
            self._counters.give_back(pool, offer)
            return False
        if not self._constraints[claim].add(wanted.label, offer):
            self._counters.give_back(pool, offer)
            if wanted.wants_all:
                raise AllocationError(
                    f"{wanted.where}: cannot add device {'/'.join(offer.id)} because a claim "
                    "constraint would not be satisfied"
                )
            return False
        if not self._could_serve(wanted, offer):
            self._constraints[claim].remove(wanted.label)
            self._counters.give_back(pool, offer)
            return False
        if offer.shared:
            picked = picked._replace(consumed=self._consumption(wanted, offer))
        self._picked.append(picked)
        self._held.setdefault(offer.id, []).append(picked)
        return True

    def _back_to(self, mark: int) -> None:
        """Give back all but the first `mark` devices."""
        while len(self._picked) > mark:
            self._give_back()

    def _give_back(self) -> None:
        picked = self._picked.pop()
        self._held[picked.offer.id].pop()
        self._constraints[picked.claim].remove(picked.alternative.label)
        self._counters.give_back(picked.pool, picked.offer)

    def _enough(self, offer: Offer, consumed: dict[str, Quantity]) -> bool:
        held, taken = self._held.get(offer.id, ()), self._books.consumed(offer.id)
        for name, amount in consumed.items():
            used = taken.get(name, 0)
            used += sum(quantity.nanos(item.consumed[name]) for item in held if item.consumed)
            if used + quantity.nanos(amount) > quantity.nanos(offer.device.capacity[name].value):
                return False
        return True


def _refuse_capacity(choices: Sequence[Alternative]) -> None:
    """Raise if a request asks for a part of a device; parts are not given."""
    for choice in choices:
        if choice.detail.capacity is not None:
            kind = "subrequest" if "/" in choice.label else "request"
            raise AllocationError(
                f"claim {choice.claim.key}, {kind} {choice.label.rpartition('/')[2]}: has capacity "
                "requests, but the DRAConsumableCapacity feature is disabled"
            )


def picked_by_claim(picked: Sequence[Picked], claims: int) -> Iterator[list[Picked]]:
    """The devices of each claim, in the order of claims."""
    for number in range(claims):
        yield [item for item in picked if item.claim == number]

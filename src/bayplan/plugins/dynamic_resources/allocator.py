"""Finds devices on a node for all claims of a pod: depth first, the first solution wins.

Claims and requests are served in order. A request for n devices takes the first n that fit, at
increasing positions; when later requests fail, the search backs up and tries the next ones. Of
`firstAvailable` a later choice is tried only when no solution with an earlier one exists. The
number of steps is limited, as time is upstream; going over it is an error for that node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bayplan.api import ResourceClaim, quantity
from bayplan.api.devices import DeviceConstraint
from bayplan.errors import BayplanError
from bayplan.plugins.dynamic_resources.claims import ClaimBooks, DeviceId
from bayplan.plugins.dynamic_resources.counters import Counters
from bayplan.plugins.dynamic_resources.pools import Offer
from bayplan.plugins.dynamic_resources.requests import Alternative, consumption, fits_whole

MAX_RESULTS = 32
"""Devices that one claim can hold."""

STEP_LIMIT = 200_000


class AllocationError(BayplanError):
    """Something is wrong with a claim or class; no node can help."""


class InvalidPools(BayplanError):
    """Pools on this node are incomplete or contradictory and a request wants all devices."""


class Picked(NamedTuple):
    """A device for an alternative of a request of a claim."""

    claim: int
    request: int
    alternative: Alternative
    offer: Offer
    consumed: dict[str, int] | None


class ClaimRequests(NamedTuple):
    """A claim to allocate with the alternatives of its requests."""

    claim: ResourceClaim
    requests: list[tuple[Alternative, ...]]


class Search:
    """One search on one node."""

    def __init__(
        self, claims: Sequence[ClaimRequests], offers: Sequence[Offer], books: ClaimBooks
    ) -> None:
        self._claims = claims
        self._offers = [offer for offer in offers if offer.pool.usable]
        self._all_offers = offers
        self._everything: dict[int, list[Offer]] = {}
        """What "all" means for the alternatives that want it."""
        self._books = books
        self._picked: list[Picked] = []
        self._held: dict[DeviceId, list[Picked]] = {}
        self._counters = Counters(books)
        self._steps = 0

    def run(self) -> list[Picked] | None:
        """The devices for all claims, or None if there is no solution.

        Raises AllocationError for claims that cannot be handled, InvalidPools if there might be a
        solution with pools that are invalid now, CelError from selectors.
        """
        for claim, requests in self._claims:
            least = sum(min(self._least(a) for a in choices) for choices in requests if choices)
            if least > MAX_RESULTS:
                raise AllocationError(
                    f"claim {claim.key}: number of requested devices {least} exceeds the claim "
                    f"limit of {MAX_RESULTS}"
                )
        if self._claim(0):
            return self._picked
        if any(offer.pool.invalid for offer in self._all_offers):
            raise InvalidPools("invalid resource pools were encountered")
        return None

    def _least(self, wanted: Alternative) -> int:
        """How many devices an alternative takes; works out what "all" are."""
        if not wanted.wants_all:
            return wanted.count
        found = []
        for offer in self._all_offers:
            pool = offer.pool
            if not pool.usable:
                state = "invalid" if pool.complete else "being updated"
                raise AllocationError(
                    f"{wanted.where}: asks for all devices, but resource pool "
                    f"{pool.driver}/{pool.name} is currently {state}"
                )
            if wanted.selects(offer) and self._could_serve(wanted, offer):
                found.append(offer)
        self._everything[id(wanted)] = found
        return len(found)

    def _claim(self, number: int) -> bool:
        if number == len(self._claims):
            return True
        return self._request(number, 0)

    def _request(self, claim: int, number: int) -> bool:
        requests = self._claims[claim].requests
        if number == len(requests):
            return self._claim(claim + 1)
        for alternative in requests[number]:
            if alternative.wants_all:
                found = self._all(claim, number, alternative)
            elif alternative.count > MAX_RESULTS:
                found = False
            else:
                found = self._some(claim, number, alternative, alternative.count, 0)
            if found:
                return True
        return False

    def _some(self, claim: int, request: int, wanted: Alternative, left: int, start: int) -> bool:
        """Take `left` more devices from position `start` on, then go on with the next request."""
        if left == 0:
            return self._request(claim, request + 1)
        admin = wanted.detail.admin_access
        for place in range(start, len(self._offers)):
            offer = self._offers[place]
            # cheap questions first; a selector that fails is only asked where it is needed
            if not admin and self._is_taken(offer):
                continue
            if not wanted.selects(offer) or not self._could_serve(wanted, offer):
                continue
            if self._take(claim, request, wanted, offer):
                if self._some(claim, request, wanted, left - 1, place + 1):
                    return True
                self._give_back()
        return False

    def _is_taken(self, offer: Offer) -> bool:
        """Whether a device that is not shared has gone to a claim, here or before."""
        if self._books.in_use(offer.id):
            return True
        # within one search a device that an administrator looks at is held, too
        return not offer.device.allow_multiple_allocations and bool(self._held.get(offer.id))

    def _could_serve(self, wanted: Alternative, offer: Offer) -> bool:
        """Whether a shared device has the capacity that is asked for."""
        if not offer.device.allow_multiple_allocations:
            return fits_whole(offer.device, wanted.detail)
        consumed = consumption(offer.device, wanted.detail)
        return consumed is not None and self._enough(offer, self._sharers(offer), consumed)

    def _sharers(self, offer: Offer) -> list[Picked]:
        held = self._held.get(offer.id, [])
        return [item for item in held if not item.alternative.detail.admin_access]

    def _all(self, claim: int, request: int, wanted: Alternative) -> bool:
        """Take every device that is selected; all of them must be free."""
        selected = self._everything[id(wanted)]
        if not selected:
            return False
        taken = 0
        for offer in selected:
            if not self._take(claim, request, wanted, offer):
                break
            taken += 1
        if taken == len(selected) and self._request(claim, request + 1):
            return True
        for _ in range(taken):
            self._give_back()
        return False

    def _take(self, claim: int, request: int, wanted: Alternative, offer: Offer) -> bool:
        self._steps += 1
        if self._steps > STEP_LIMIT:
            raise AllocationError(f"gave up after {STEP_LIMIT} steps to allocate devices")
        if sum(item.claim == claim for item in self._picked) >= MAX_RESULTS:
            return False
        picked = self._fits(claim, request, wanted, offer)
        if picked is None or not wanted.tolerates(offer.taints):
            return False
        if not self._counters.take(offer):
            return False
        if not self._constraints_allow(picked):
            self._counters.give_back(offer)
            if wanted.wants_all:
                raise AllocationError(
                    f"{wanted.where}: cannot add device {'/'.join(offer.id)} because a claim "
                    "constraint would not be satisfied"
                )
            return False
        self._picked.append(picked)
        self._held.setdefault(offer.id, []).append(picked)
        return True

    def _give_back(self) -> None:
        picked = self._picked.pop()
        self._held[picked.offer.id].pop()
        self._counters.give_back(picked.offer)

    def _fits(self, claim: int, request: int, wanted: Alternative, offer: Offer) -> Picked | None:
        """Whether the device is free, or has enough left where it is shared."""
        held = self._held.get(offer.id, [])
        if wanted.detail.admin_access:
            twice = any(item.claim == claim for item in held)
            return None if twice else Picked(claim, request, wanted, offer, None)
        others = self._sharers(offer)
        if self._books.in_use(offer.id):
            return None
        if not offer.device.allow_multiple_allocations:
            taken = held or self._books.shared(offer.id)
            return None if taken else Picked(claim, request, wanted, offer, None)
        consumed = consumption(offer.device, wanted.detail)
        if consumed is None or not self._enough(offer, others, consumed):
            return None
        return Picked(claim, request, wanted, offer, consumed)

    def _enough(self, offer: Offer, held: Sequence[Picked], consumed: dict[str, int]) -> bool:
        for name, amount in consumed.items():
            used = self._books.consumed(offer.id, name)
            used += sum((item.consumed or {}).get(name, 0) for item in held)
            if used + amount > quantity.nanos(offer.device.capacity[name].value):
                return False
        return True

    def _constraints_allow(self, picked: Picked) -> bool:
        for constraint in self._claims[picked.claim].claim.spec.devices.constraints:
            if _concerns(constraint, picked.alternative.label):
                others = [
                    item.offer
                    for item in self._picked
                    if item.claim == picked.claim and _concerns(constraint, item.alternative.label)
                ]
                if not _constraint_allows(constraint, picked.offer, others):
                    return False
        return True


def _concerns(constraint: DeviceConstraint, label: str) -> bool:
    requests = constraint.requests
    return not requests or label in requests or label.partition("/")[0] in requests


def _constraint_allows(constraint: DeviceConstraint, offer: Offer, others: Sequence[Offer]) -> bool:
    name = constraint.match_attribute or constraint.distinct_attribute
    if not name:
        raise AllocationError("claim has a constraint of an unknown type")
    mine = attribute(offer, name)
    if mine is None:
        return False
    values = [attribute(other, name) for other in others]
    if constraint.match_attribute:
        return all(value == mine for value in values)
    return all(value != mine for value in values)


def attribute(offer: Offer, name: str) -> tuple[str, object] | None:
    """The value of a fully qualified attribute with its type, or None."""
    attributes = offer.device.attributes
    found = attributes.get(name)
    if found is None:
        domain, _, short = name.rpartition("/")
        found = attributes.get(short) if domain == offer.id[0] else None
    if found is None or found.value is None:
        return None
    kind = "version" if found.version_value is not None else type(found.value).__name__
    return kind, found.value


def picked_by_claim(picked: Sequence[Picked], claims: int) -> Iterator[list[Picked]]:
    """The devices of each claim, in the order of claims."""
    for number in range(claims):
        yield [item for item in picked if item.claim == number]

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
from bayplan.plugins.dynamic_resources.requests import Alternative, consumption

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
        self._unusable = len(self._offers) < len(offers)
        self._books = books
        self._picked: list[Picked] = []
        self._held: dict[DeviceId, list[Picked]] = {}
        self._counters = Counters(books)
        self._could: dict[int, list[Offer]] = {}
        self._steps = 0

    def run(self) -> list[Picked] | None:
        """The devices for all claims, or None if there is no solution."""
        return self._picked if self._claim(0) else None

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
        candidates = self._candidates(wanted)
        for place in range(start, len(candidates) - left + 1):
            if self._take(claim, request, wanted, candidates[place]):
                if self._some(claim, request, wanted, left - 1, place + 1):
                    return True
                self._give_back()
        return False

    def _candidates(self, wanted: Alternative) -> list[Offer]:
        """The devices that an alternative could get at all, worked out once."""
        found = self._could.get(id(wanted))
        if found is None:
            in_use, admin = self._books.in_use, wanted.detail.admin_access
            found = [
                offer
                for offer in self._offers
                if (admin or not in_use(offer.id))
                and wanted.selects(offer)
                and wanted.tolerates(offer.device.taints)
            ]
            self._could[id(wanted)] = found
        return found

    def _all(self, claim: int, request: int, wanted: Alternative) -> bool:
        """Take every device that is selected; all of them must be free."""
        if self._unusable:
            raise InvalidPools("invalid resource pools were encountered")
        selected = [offer for offer in self._offers if wanted.selects(offer)]
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
        if wanted.wants_all and not wanted.tolerates(offer.device.taints):
            return False
        picked = self._fits(claim, request, wanted, offer)
        if picked is None or not self._constraints_allow(picked):
            return False
        if not wanted.detail.admin_access and not self._counters.take(offer):
            return False
        self._picked.append(picked)
        self._held.setdefault(offer.id, []).append(picked)
        return True

    def _give_back(self) -> None:
        picked = self._picked.pop()
        self._held[picked.offer.id].pop()
        if not picked.alternative.detail.admin_access:
            self._counters.give_back(picked.offer)

    def _fits(self, claim: int, request: int, wanted: Alternative, offer: Offer) -> Picked | None:
        """Whether the device is free, or has enough left where it is shared."""
        held = self._held.get(offer.id, [])
        if wanted.detail.admin_access:
            twice = any(item.claim == claim for item in held)
            return None if twice else Picked(claim, request, wanted, offer, None)
        others = [item for item in held if not item.alternative.detail.admin_access]
        if self._books.in_use(offer.id):
            return None
        if not offer.device.allow_multiple_allocations:
            taken = others or self._books.shared(offer.id)
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

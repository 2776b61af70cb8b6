"""The resource claims of a pod, and the books over allocated devices, for one cluster.

`ClaimBooks` knows which devices are given away: by claims that say so in their status, and by
claims of pods that are on their way to a node. It follows the lister by its journal of changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bayplan.api import AllocationResult, Pod, ResourceClaim, quantity
from bayplan.framework import ClusterObjects, Handle

DeviceId = tuple[str, str, str]
"""Driver, pool, device."""
_NONE: Mapping[str, int] = {}


class ClaimProblem(LookupError):
    """A pod's claim is missing or cannot be used; the text says why."""


def pod_resource_claims(pod: Pod, objects: ClusterObjects) -> list[ResourceClaim]:
    """The claims that a pod names; raises ClaimProblem."""
    found: list[ResourceClaim] = []
    for reference in pod.spec.resource_claims:
        name = reference.resource_claim_name
        if not name:
            name = _generated(pod, reference.name)
            if not name:
                continue
        claim = objects.resource_claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            raise ClaimProblem(f'could not find ResourceClaim "{pod.metadata.namespace}/{name}"')
        if claim.terminating:
            raise ClaimProblem(f'resourceclaim "{name}" is being deleted')
        owner = claim.controller
        if not reference.resource_claim_name and (owner is None or owner.uid != pod.uid):
            raise ClaimProblem(
                f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)"
            )
        found.append(claim)
    return found


def _generated(pod: Pod, reference: str) -> str:
    """The name of the claim made from a template; empty if none is needed."""
    for status in pod.status.resource_claim_statuses:
        if status.name == reference:
            return status.resource_claim_name or ""
    raise ClaimProblem(f'pod "{pod.key}": ResourceClaim not created yet')


def reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    return any(consumer.uid == pod.uid for consumer in claim.status.reserved_for)


class Taken(NamedTuple):
    """A device in use, and how much of it where it is shared."""

    device: DeviceId
    shared: bool
    consumed: tuple[tuple[str, int], ...]


def taken_devices(allocation: AllocationResult, *, sharing: bool) -> Iterator[Taken]:
    """The devices that an allocation keeps from others; admin access keeps nothing.

    `sharing`: parts of a device can be taken.
    """
    for result in allocation.devices.results:
        if not result.admin_access:
            consumed = tuple(
                (name, quantity.nanos(amount)) for name, amount in result.consumed_capacity.items()
            )
            device = (result.driver, result.pool, result.device)
            yield Taken(device, sharing and result.share_id != "", consumed)


class ClaimBooks:
    """Devices in use; one per cluster."""

    def __init__(self, objects: ClusterObjects, *, sharing: bool = True) -> None:
        """`sharing`: parts of a device can be in use (DRAConsumableCapacity)."""
        self._sharing = sharing
        self._lister = objects.resource_claims
        self._revision = -1
        self._by_claim: dict[str, tuple[Taken, ...]] = {}
        self._users: dict[DeviceId, int] = {}
        self._shares: dict[DeviceId, int] = {}
        self._consumed: dict[DeviceId, dict[str, int]] = {}
        self._pending: dict[str, tuple[str, AllocationResult, set[str]]] = {}
        self.generation = 0
        """How often a device was given away or came back."""
        self._changed: deque[DeviceId] = deque(maxlen=4096)

    def refresh(self) -> None:
        """Catch up with the lister."""
        changes = None if self._revision < 0 else self._lister.changes_since(self._revision)
        self._revision = self._lister.revision
        if changes is None:
            keys = {*self._by_claim, *(claim.key for claim in self._lister)}
        else:
            keys = set(changes)
        for key in keys:
            self._read(key)

    def _read(self, key: str) -> None:
        claim = self._lister.get(key)
        allocation = claim.status.allocation if claim is not None else None
        if allocation is None:
            # The allocation is not written yet: a pod on its way still holds the devices.
            kept = next((a for k, a, _ in self._pending.values() if k == key), None)
            allocation = kept if claim is not None else None
        elif claim is not None:
            self._pending.pop(claim.uid, None)
        if claim is None:
            for uid in [uid for uid, (k, _, _) in self._pending.items() if k == key]:
                del self._pending[uid]
        self._book(key, allocation)

    def _book(self, key: str, allocation: AllocationResult | None) -> None:
        new: tuple[Taken, ...] = ()
        if allocation is not None:
            new = tuple(taken_devices(allocation, sharing=self._sharing))
        for sign, items in ((-1, self._by_claim.pop(key, ())), (1, new)):
            for item in items:
                self._count(item, sign)
        if new:
            self._by_claim[key] = new

    def changes_since(self, generation: int) -> list[DeviceId] | None:
        """Devices given away or back since then; None means too long ago to tell."""
        count = self.generation - generation
        if count > len(self._changed):
            return None
        return [self._changed[place] for place in range(-count, 0)]

    def _count(self, item: Taken, sign: int) -> None:
        self.generation += 1
        self._changed.append(item.device)
        holders = self._shares if item.shared else self._users
        holders[item.device] = holders.get(item.device, 0) + sign
        if not holders[item.device]:
            del holders[item.device]
        if not item.shared:
            return
        amounts = self._consumed.setdefault(item.device, {})
        for name, amount in item.consumed:
            amounts[name] = amounts.get(name, 0) + sign * amount

    def in_use(self, device: DeviceId) -> bool:
        """Whether a device is given away as a whole."""
        return device in self._users

    def shared(self, device: DeviceId) -> bool:
        """Whether a device, or parts of it, are given away to be shared."""
        return device in self._shares

    def is_consumed(self, device: DeviceId) -> bool:
        """Whether it is known of a shared device how much is given away."""
        return any(self.consumed(device).values())

    def consumed(self, device: DeviceId) -> Mapping[str, int]:
        """How much of each capacity of a shared device is given away, in nanos."""
        return self._consumed.get(device, _NONE)

    def pending(self, uid: str) -> AllocationResult | None:
        """The allocation that is on its way for a claim."""
        entry = self._pending.get(uid)
        return None if entry is None else entry[1]

    def add_pending(self, claim: ResourceClaim, allocation: AllocationResult, pod: Pod) -> None:
        """Book devices for a claim until its status says so."""
        self._pending[claim.uid] = (claim.key, allocation, {pod.uid})
        self._book(claim.key, allocation)

    def remove_pending(self, claim: ResourceClaim, pod: Pod) -> None:
        """Give devices back that were booked for a pod; idempotent."""
        entry = self._pending.get(claim.uid)
        if entry is not None and pod.uid in entry[2]:
            del self._pending[claim.uid]
            self._read(claim.key)


def shared_books(handle: Handle) -> ClaimBooks:
    """The books of the handle's cluster."""
    sharing = handle.gates["DRAConsumableCapacity"]
    return handle.shared(
        "DynamicResources/books", lambda: ClaimBooks(handle.objects, sharing=sharing)
    )

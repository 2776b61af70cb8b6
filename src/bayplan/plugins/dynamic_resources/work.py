"""What DynamicResources knows during one attempt, and the check of one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bayplan.api import AllocationResult, Pod, ResourceClaim, parse_time
from bayplan.api.node_selectors import CompiledNodeSelector, compile_node_selector
from bayplan.cel.errors import CelError
from bayplan.framework import ClusterObjects, NodeInfo, Status, failed, unresolvable
from bayplan.framework.contract.status import Code
from bayplan.plugins.dynamic_resources import allocator, extended
from bayplan.plugins.dynamic_resources.allocator import (
    ClaimRequests,
    InvalidPools,
    Picked,
    Search,
    picked_by_claim,
)
from bayplan.plugins.dynamic_resources.claims import ClaimBooks
from bayplan.plugins.dynamic_resources.constraints import AllocationError
from bayplan.plugins.dynamic_resources.pools import Pools
from bayplan.plugins.dynamic_resources.requests import alternatives
from bayplan.plugins.dynamic_resources.results import allocation_of
from bayplan.plugins.dynamic_resources.verdicts import Verdict, Verdicts

REASON_ALL = "cannot allocate all claims"
REASON_UNAVAILABLE = "resourceclaim not available on the node"
REASON_STALE = "cannot schedule extended resource claim"
REASON_RESOURCE = "cannot fit resource"
SUBREQUESTS = 8
"""The score of a first choice; each further choice is worth one less."""


class OnNode(msgspec.Struct, frozen=True):
    """What a pod would get on a node."""

    allocations: tuple[tuple[ResourceClaim, AllocationResult], ...] = ()
    score: int = 0
    extended_claim: ResourceClaim | None = None
    mappings: extended.Mappings = ()


class Attempt:
    """One pod's claims during one attempt."""

    def __init__(
        self,
        pod: Pod,
        claims: Sequence[ResourceClaim],
        special: ResourceClaim | None,
        scalars: Mapping[str, int],
        objects: ClusterObjects,
        books: ClaimBooks,
        pools: Pools,
        verdicts: Verdicts,
    ) -> None:
        self.pod = pod
        self.claims = tuple(claims)
        """Claims that the user named."""
        self.special = special
        """The claim for extended resources; in memory only unless an earlier attempt wrote it."""
        self.scalars = {n: a for n, a in scalars.items() if a and extended.may_be_served(n)}
        self.unavailable: dict[str, list[str]] = {}
        """By node the keys of allocated claims that it cannot use."""
        self.nodes: dict[str, OnNode] = {}
        self._objects, self._books, self._pools = objects, books, pools
        self._spare = allocator.STEP_LIMIT
        self._where: list[tuple[ResourceClaim, CompiledNodeSelector]] = []
        self._open: list[ClaimRequests] = []
        for claim in self.claims:
            allocation = claim.status.allocation
            if allocation is None:
                choices = alternatives(claim, objects.device_classes, pools)
                self._open.append(ClaimRequests(claim, choices))
            elif allocation.node_selector is not None:
                self._where.append((claim, compile_node_selector(allocation.node_selector)))
        keeps = special is None and not pools.by_labels and len(self._open) == len(self.claims)
        self.known: dict[str, Verdict] = verdicts.of(self.claims) if keeps else {}
        """What is known about nodes; what is found out is kept for pods to come if it holds."""

    @property
    def empty(self) -> bool:
        return not self.claims and self.special is None

    @property
    def open_claims(self) -> list[ResourceClaim]:
        return [item.claim for item in self._open]

    def same_everywhere(self, name: str) -> bool:
        """Whether the answer for a node depends on nothing that is the node's own."""
        pools = self._pools
        if self._where or self.special is not None or pools.by_labels:
            return False
        return not pools.has_local(name)

    def check(self, node: NodeInfo, now: float, timeout: float) -> Status | None:
        """Whether all claims can be had on a node; what they would get is kept in `nodes`."""
        alone = self._spare == allocator.STEP_LIMIT
        status = self._check(node, now, timeout)
        found = self.nodes.get(node.name)
        too_hard = alone and status is not None and isinstance(status.error, allocator.GaveUp)
        if status is None or status.code is not Code.ERROR or too_hard:
            self.known[node.name] = (status, 0 if found is None else found.score)
        return status

    def _check(self, node: NodeInfo, now: float, timeout: float) -> Status | None:
        special, mappings, status = self._extended(node)
        if status is not None or (special is None and not self.claims):
            return status
        unavailable = self._unavailable(node, now, timeout)
        try:
            picked = self._search(node, special)
        except (CelError, AllocationError) as problem:
            return failed(problem)
        except InvalidPools as problem:
            return unresolvable(str(problem))
        if picked is None:
            return unresolvable(REASON_ALL)
        if unavailable:
            self.unavailable[node.name] = unavailable
            return unresolvable(REASON_UNAVAILABLE)
        self.nodes[node.name] = self._on_node(node.name, picked, special, mappings)
        return None

    def _extended(
        self, node: NodeInfo
    ) -> tuple[ResourceClaim | None, extended.Mappings, Status | None]:
        """The claim for extended resources as this node needs it, if it does."""
        if self.special is None:
            return None, (), None
        if self.special.spec.devices.requests:
            return None, (), unresolvable(REASON_STALE)
        classes = self._objects.device_classes
        offered = node.node.status.allocatable
        wanted = []
        for name in sorted(self.scalars):
            if extended.class_for(name, classes) is not None and not node.allocatable_of(name):
                wanted.append(name)
            elif name not in offered:
                return None, (), unresolvable(REASON_RESOURCE)
        if not wanted:
            return None, (), None
        claim, mappings = extended.claim_for_node(self.special, self.pod, wanted, classes)
        return claim, mappings, None

    def _unavailable(self, node: NodeInfo, now: float, timeout: float) -> list[str]:
        found = [
            claim.key
            for claim, selector in self._where
            if not selector.matches(node.labels, node.name)
        ]
        for claim in self.claims if self._pools.features.binding else ():
            if claim.status.allocation is not None and claim.key not in found:
                ready = binding_ready(claim)
                if ready is None or (not ready and _timed_out(claim, now, timeout)):
                    found.append(claim.key)
        return found

    def _search(self, node: NodeInfo, special: ResourceClaim | None) -> list[Picked] | None:
        wanted = list(self._open)
        if special is not None:
            choices = alternatives(special, self._objects.device_classes, self._pools)
            wanted.append(ClaimRequests(special, choices))
        if not wanted:
            return []
        pools = self._pools
        on_node, spare = pools.on_node(node), self._spare
        search = Search(wanted, on_node, node, self._books, pools.features, spare)
        try:
            return search.run()
        finally:
            self._spare -= search.spent

    def _on_node(
        self,
        name: str,
        picked: Sequence[Picked],
        special: ResourceClaim | None,
        mappings: extended.Mappings,
    ) -> OnNode:
        claims = self.open_claims + ([] if special is None else [special])
        classes, modern = self._objects.device_classes, self._pools.features.modern
        by_claim = list(picked_by_claim(picked, len(claims)))
        allocations = tuple(
            (claim, allocation_of(claim, its, classes, name, modern=modern))
            for claim, its in zip(claims, by_claim, strict=True)
        )
        return OnNode(allocations, self._score(picked), special, mappings)

    def _score(self, picked: Sequence[Picked]) -> int:
        if not picked or not self._pools.features.choices:
            return 0  # upstream scores only nodes on which something was allocated now
        chosen = {
            (item.claim, item.request): item.alternative.index
            for item in picked
            if "/" in item.alternative.label
        }
        score = sum(SUBREQUESTS - index for index in chosen.values())
        return score + sum(_allocated_score(claim) for claim in self.claims)


def _allocated_score(claim: ResourceClaim) -> int:
    """The score of choices that were made earlier."""
    if claim.status.allocation is None:
        return 0
    labels = {result.request for result in claim.status.allocation.devices.results}
    score = 0
    for request in claim.spec.devices.requests:
        for index, choice in enumerate(request.first_available):
            if f"{request.name}/{choice.name}" in labels:
                score += SUBREQUESTS - index
    return score


def binding_ready(claim: ResourceClaim) -> bool | None:
    """Whether drivers are done with a claim's devices; None if one failed."""
    if claim.status.allocation is None:
        return True
    ready = True
    statuses = {(d.driver, d.pool, d.device, d.share_id): d for d in claim.status.devices}
    for result in claim.status.allocation.devices.results:
        if not result.binding_conditions:
            continue
        status = statuses.get((result.driver, result.pool, result.device, result.share_id))
        true = {c.type for c in status.conditions if c.status == "True"} if status else set()
        if true.intersection(result.binding_failure_conditions):
            return None
        ready = ready and true.issuperset(result.binding_conditions)
    return ready


def _timed_out(claim: ResourceClaim, now: float, timeout: float) -> bool:
    allocation = claim.status.allocation
    if allocation is None or not allocation.allocation_timestamp:
        return False
    return parse_time(allocation.allocation_timestamp) + timeout < now

"""The extension points of DynamicResources: devices for pods, by structured parameters.

A pod without claims, and without extended resources that a device class serves, costs nothing here.
Otherwise each node is searched for devices in scalar form; nodes without devices of their own share
one answer. Reserve books the devices, PreBind hands out the writes. All rejections are such that
preemption is not tried for them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from datetime import UTC, datetime

import numpy as np

from bayplan.api import CompositePodGroup, Pod, ResourceClaim
from bayplan.config import DynamicResourcesArgs
from bayplan.framework import (
    SKIP,
    ApiCall,
    BoolArray,
    ClusterEventWithHint,
    CycleState,
    Depends,
    Diagnosis,
    Effects,
    GroupTrial,
    Handle,
    IntArray,
    NodeInfo,
    Nodes,
    PodGroupInfo,
    PodGroupPostFilterResult,
    PostFilterResult,
    PreBindPreFlightResult,
    PreFilterResult,
    StateMissing,
    Status,
    Verdict,
    default_normalize,
    failed,
    unresolvable,
    unschedulable,
)
from bayplan.framework.contract.status import Code
from bayplan.plugins.dynamic_resources import extended
from bayplan.plugins.dynamic_resources.claims import (
    ClaimProblem,
    pod_resource_claims,
    reserved_for,
    shared_books,
)
from bayplan.plugins.dynamic_resources.hints import events
from bayplan.plugins.dynamic_resources.pools import shared_pools
from bayplan.plugins.dynamic_resources.requests import class_problem
from bayplan.plugins.dynamic_resources.results import bind_calls, deallocate_call, delete_calls
from bayplan.plugins.dynamic_resources.verdicts import Verdicts
from bayplan.plugins.dynamic_resources.work import Attempt, OnNode, binding_ready

NAME = "DynamicResources"
_CHOSEN = f"{NAME}/chosen"
DEFAULT_BINDING_TIMEOUT = 600.0
GIVEN_BACK = "deallocation and deletion of ResourceClaims completed"
"""What is said of every group that does not fit, whether or not it has claims."""


class _Nothing:
    """Stands in the state of pods that need no devices."""

    __slots__ = ()


_NOTHING = _Nothing()


class DynamicResources:
    """Filter, score and book devices."""

    name = NAME
    repeats = True

    def __init__(self, args: DynamicResourcesArgs, handle: Handle) -> None:
        self._handle = handle
        self._objects = handle.objects
        timeout = args.binding_timeout
        self._timeout = DEFAULT_BINDING_TIMEOUT if timeout is None else timeout.seconds
        self._books, self._pools = shared_books(handle), shared_pools(handle)
        scores = self._pools.features.choices
        self.score_needs = ("preFilter" if scores else "score", "not found")
        self._verdicts = handle.shared(
            f"{NAME}/verdicts",
            lambda: Verdicts(self._books, self._pools, handle.objects.device_classes),
        )

    def depends_on(self, pod: Pod) -> Depends:
        return Depends.CLUSTER if self._may_need_devices(pod) else Depends.NODE

    def facet(self, state: CycleState, pod: Pod) -> Hashable:
        return (
            self._handle.info(pod, state).signature if self._may_need_devices(pod, state) else None
        )

    def revision(self, state: CycleState, pod: Pod) -> Hashable | None:
        """Extended resources that no class serves stay so until a class changes."""
        if pod.spec.resource_claims:
            return None
        scalars = self._handle.info(pod).traits.resources.fit
        served = extended.served_names(scalars, self._objects.device_classes)
        return None if served else self._objects.device_classes.revision

    def _may_need_devices(self, pod: Pod, state: CycleState | None = None) -> bool:
        if pod.spec.resource_claims:
            return True
        names = self._handle.info(pod, state).traits.resources.fit
        return any(extended.may_be_served(name) for name in names)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if not pod.spec.resource_claims:
            return None
        try:
            pod_resource_claims(pod, self._objects)
        except ClaimProblem as problem:
            return unresolvable(str(problem.args[0]))
        return None

    # -- filtering --------------------------------------------------------------------------

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Nodes
    ) -> tuple[PreFilterResult | None, Status | None]:
        state.write(NAME, _NOTHING)
        if not self._may_need_devices(pod):
            return None, SKIP
        try:
            claims = pod_resource_claims(pod, self._objects)
        except ClaimProblem as problem:
            return None, unresolvable(str(problem.args[0]))
        scalars = self._handle.info(pod).traits.resources.fit
        special = self._special_claim(pod, scalars)
        if not claims and special is None:
            return None, SKIP
        self._books.refresh()
        self._pools.refresh()
        self._verdicts.refresh()
        for claim in claims:
            if problem_text := self._claim_problem(claim):
                return None, unresolvable(problem_text)
        attempt = Attempt(
            pod, claims, special, scalars, self._objects, self._books, self._pools, self._verdicts
        )
        state.write(NAME, attempt)
        return None, None

    def _special_claim(self, pod: Pod, scalars: dict[str, int]) -> ResourceClaim | None:
        names = [name for name, amount in scalars.items() if amount]
        if not extended.served_names(names, self._objects.device_classes):
            return None
        known = extended.find_claim(pod, self._objects.resource_claims)
        return extended.in_memory_claim(pod) if known is None else known

    def _claim_problem(self, claim: ResourceClaim) -> str:
        if claim.status.allocation is not None:
            return ""
        if self._books.pending(claim.uid) is not None:
            return f"resource claim {claim.key} is in the process of being allocated"
        choices = self._pools.features.choices
        return class_problem(claim, self._objects.device_classes, choices=choices)

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        attempt = state.read(NAME, Attempt)
        which = np.zeros(nodes.count, dtype=np.uint16)  # (N,)
        outcomes: dict[Status, int] = {}
        shared: list[int] = []
        for place, name in enumerate(nodes.names()):
            known = attempt.known.get(name)
            if known is not None:
                status = known[0]
            elif shared and attempt.same_everywhere(name):
                which[place] = shared[0]
                continue
            else:
                status = self._check(attempt, nodes.info(place))
            if status is not None:
                which[place] = outcomes.setdefault(status, len(outcomes) + 1)
            if not shared and attempt.same_everywhere(name):
                shared.append(int(which[place]))
        return Verdict.by_outcome(which, tuple(outcomes)) if outcomes else Verdict.all_pass(nodes)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return self._check(state.read(NAME, Attempt), node)

    def _check(self, attempt: Attempt, node: NodeInfo) -> Status | None:
        return attempt.check(node, self._handle.now, self._timeout)

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: Diagnosis
    ) -> tuple[PostFilterResult | None, Status | None]:
        attempt: Attempt | _Nothing = state.read(NAME)
        if not isinstance(attempt, Attempt):
            return None, self._helpless("no new claims to deallocate")
        calls, text = _to_give_back(attempt, pod, statuses)
        if not text:
            return None, self._helpless("still not schedulable")
        return PostFilterResult(effects=Effects(calls)), unschedulable(text)

    def pod_group_post_filter(
        self, state: CycleState, group: PodGroupInfo, trial: GroupTrial
    ) -> tuple[PodGroupPostFilterResult | None, Status]:
        gates, spec = self._handle.gates, group.group.spec
        tied = gates["TopologyAwareWorkloadScheduling"] and spec.scheduling_constraints is not None
        if isinstance(group.group, CompositePodGroup) or tied or not gates.since("1.37"):
            return None, Status(Code.UNSCHEDULABLE)
        if not trial.tried:  # nobody came as far as PreFilter
            raise StateMissing(NAME)
        calls: list[ApiCall] = []
        for pod, _, state, statuses in trial.tried:
            attempt: object = state.get(NAME, object)
            if isinstance(attempt, Attempt) and statuses is not None:
                calls += _to_give_back(attempt, pod.pod, statuses)[0]
        result = PodGroupPostFilterResult(effects=Effects(tuple(calls))) if calls else None
        return result, unschedulable(GIVEN_BACK)

    def _helpless(self, reason: str) -> Status:
        """Nothing to give back: 1.36 says so in the message, 1.37 is silent."""
        silent = self._handle.gates.since("1.37")
        return Status(Code.UNSCHEDULABLE) if silent else unschedulable(reason)

    # -- scoring ----------------------------------------------------------------------------

    def pre_score(
        self, state: CycleState, pod: Pod, nodes: Nodes, feasible: BoolArray
    ) -> Status | None:
        return None if isinstance(state.get(NAME), Attempt) else SKIP

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntArray:
        attempt: Attempt | _Nothing = state.read(NAME)
        if not isinstance(attempt, Attempt):
            return np.zeros(nodes.count, dtype=np.int64)
        known = attempt.known
        shared = next((its[1] for n, its in known.items() if attempt.same_everywhere(n)), 0)
        return np.fromiter(
            (known[n][1] if n in known else shared for n in nodes.names()),
            dtype=np.int64,
            count=nodes.count,
        )  # (N,)

    def normalize(
        self, state: CycleState, pod: Pod, scores: IntArray, feasible: BoolArray
    ) -> IntArray:
        return default_normalize(scores, feasible)

    # -- booking and binding ----------------------------------------------------------------

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        attempt: object = state.get(NAME, object)
        if not isinstance(attempt, Attempt):
            return None
        if node_name not in attempt.nodes:
            node = self._handle.table.info_of(node_name)
            status = None if node is None else self._check(attempt, node)
            if status is not None:
                return status
        chosen = attempt.nodes.get(node_name)
        if chosen is None:
            needed = bool(attempt.open_claims)
            return failed("claim allocation not found for node") if needed else None
        for claim, allocation in chosen.allocations:
            self._books.add_pending(claim, allocation, pod)
        state.write(_CHOSEN, chosen)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        chosen = state.get(_CHOSEN, OnNode)
        if chosen is not None:
            for claim, _ in chosen.allocations:
                self._books.remove_pending(claim, pod)
            state.delete(_CHOSEN)

    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[PreBindPreFlightResult | None, Status | None]:
        acts = isinstance(state.get(NAME), Attempt)
        return (PreBindPreFlightResult(allow_parallel=True), None) if acts else (None, SKIP)

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | Effects | None:
        attempt: object = state.get(NAME, object)
        if not isinstance(attempt, Attempt):
            return None
        chosen = state.get(_CHOSEN, OnNode) or OnNode()
        given = {claim.key: allocation for claim, allocation in chosen.allocations}
        now = datetime.fromtimestamp(self._handle.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        calls: list[ApiCall] = []
        for claim in attempt.claims:
            if not reserved_for(claim, pod):
                calls += bind_calls(claim, given.get(claim.key), pod, now)
        special = chosen.extended_claim
        if special is not None:
            written = extended.written_claim(special, pod)
            calls.append(extended.create_call(written))
            calls += bind_calls(written, given.get(special.key), pod, now)
            calls.append(extended.status_call(written, pod, chosen.mappings))
        waits = any(r.binding_conditions for a in given.values() for r in a.devices.results)
        waits = waits or any(binding_ready(claim) is not True for claim in attempt.claims)
        if not waits or not self._pools.features.binding:
            return Effects(tuple(calls))
        keys = [claim.key for claim in attempt.claims]
        return Effects(tuple(calls), lambda: self._progress(keys), self._timeout)

    def _progress(self, keys: Sequence[str]) -> Status | None:
        """Whether drivers have prepared all devices."""
        for key in keys:
            claim = self._objects.resource_claims.get(key)
            if claim is None or claim.status.allocation is None:
                return None
            ready = binding_ready(claim)
            if ready is None:
                return failed(f'claim "{key}": binding of a device failed')
            if not ready:
                return None
        return Status(Code.SUCCESS)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return events(self._objects)


def _to_give_back(
    attempt: Attempt, pod: Pod, statuses: Diagnosis
) -> tuple[tuple[ApiCall, ...], str]:
    """The calls that give back a claim that keeps a pod from every node, and what they do."""
    unavailable = {
        key
        for node, keys in attempt.unavailable.items()
        # a node that an earlier filter rejects is not asked for its devices
        if statuses.status_of(node).plugin == NAME
        for key in keys
    }
    for claim in attempt.claims:
        others = [c for c in claim.status.reserved_for if c.uid != pod.uid]
        if claim.key in unavailable and not others:
            return (deallocate_call(claim),), "deallocation of ResourceClaim completed"
    special = attempt.special
    if special is not None and special.name != extended.IN_MEMORY_NAME:
        return tuple(delete_calls(special)), "deletion of ResourceClaim completed"
    return (), ""


def new(args: DynamicResourcesArgs | None, handle: Handle) -> DynamicResources:
    return DynamicResources(args or DynamicResourcesArgs(), handle)

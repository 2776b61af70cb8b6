"""The extension points of VolumeBinding.

Claims that are bound restrict the pod to nodes that reach their volumes. Claims whose class waits
for the first consumer get the smallest fitting volume on the chosen node, or one is provisioned
there. Reserve books volumes and claims; PreBind hands out the writes and what to wait for.
In-tree volumes are taken as they are: their node affinity is not rewritten for CSI drivers.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise

import numpy as np

from bayplan.api import Pod, quantity
from bayplan.config import VolumeBindingArgs
from bayplan.framework import (
    SKIP,
    BoolArray,
    ClusterEventWithHint,
    CycleState,
    Depends,
    Effects,
    Handle,
    IntArray,
    NodeInfo,
    Nodes,
    PreBindPreFlightResult,
    PreFilterResult,
    Status,
    Verdict,
    failed,
    unresolvable,
)
from bayplan.plugins.volume_binding.binder import Binder, Claims, Found
from bayplan.plugins.volume_binding.hints import EVENTS
from bayplan.plugins.volume_claims import class_of_claim, class_of_volume, has_claims

NAME = "VolumeBinding"
REASON_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
REASON_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
REASON_NONE = "node(s) didn't find available persistent volumes to bind"
REASON_NO_ROOM = "node(s) did not have enough free storage"
REASON_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

_BOUND = ((), (REASON_CONFLICT,), (REASON_MISSING,))
_FREE = ((), (REASON_NONE,), (REASON_NO_ROOM,))
_ORDER = (REASON_CONFLICT, REASON_NONE, REASON_NO_ROOM, REASON_MISSING)
_OUTCOMES = tuple(
    unresolvable(*sorted(bound + free, key=_ORDER.index)) for bound in _BOUND for free in _FREE
)[1:]
"""Outcome number `3 * bound + free`; 0 fits."""

_DECISION = f"{NAME}/decision"
_FEASIBLE = f"{NAME}/feasible"


class VolumeBinding:
    """Filter by volumes; bind claims where the pod goes."""

    name = NAME

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        self._timeout = float(args.bind_timeout_seconds)
        self._scores = handle.gates["StorageCapacityScoring"]
        self.score_needs = ("preFilter" if self._scores else "score", "not found")
        shape = args.shape or ()
        self._shape = [(point.utilization, point.score * 10) for point in shape] or [
            (0, 100),
            (100, 0),
        ]
        self._binder = handle.shared(NAME, lambda: Binder(handle.objects))
        self._handle = handle

    def depends_on(self, pod: Pod) -> Depends:
        return Depends.CLUSTER if has_claims(pod) else Depends.NODE

    def facet(self, state: CycleState, pod: Pod) -> Hashable:
        return self._handle.info(pod, state).signature if has_claims(pod) else None

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Nodes
    ) -> tuple[PreFilterResult | None, Status | None]:
        if not has_claims(pod):
            return None, SKIP
        if problem := self._binder.problem(pod):
            return None, unresolvable(problem)
        claims = self._binder.classify(pod)
        if claims.immediate:
            return None, unresolvable(REASON_IMMEDIATE)
        state.write(NAME, claims)
        return None, None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        claims = state.read(NAME, Claims)
        which = self._binder.check_bound(claims, nodes) * 3  # (N,)
        if claims.delayed:
            which = which + self._binder.check_delayed(claims, nodes)
        return Verdict.by_outcome(which, _OUTCOMES) if which.any() else Verdict.all_pass(nodes)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        found = self._binder.find(state.read(NAME, Claims), node.name, node.labels)
        number = found.bound * 3 + found.free
        return None if number == 0 else _OUTCOMES[number - 1]

    def pre_score(
        self, state: CycleState, pod: Pod, nodes: Nodes, feasible: BoolArray
    ) -> Status | None:
        if not self._scores:
            return SKIP
        state.write(_FEASIBLE, feasible)
        return None

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntArray:
        scores = np.zeros(nodes.count, dtype=np.int64)
        if state.get(NAME, Claims) is not None:
            feasible: BoolArray | None = state.get(_FEASIBLE)
            mask = np.ones(nodes.count, bool) if feasible is None else nodes.pick(feasible)
            for place in np.flatnonzero(mask).tolist():
                scores[place] = self.score_node(state, pod, nodes.info(place))
        return scores

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        claims = state.get(NAME, Claims)
        if claims is None:
            return 0
        found = self._binder.find(claims, node.name, node.labels)
        classes = _by_class(found)
        if not classes:
            return 0
        total = 0
        for wanted, capacity in classes.values():
            used = 100 if capacity == 0 or wanted > capacity else wanted * 100 // capacity
            total += _shape_score(self._shape, used)
        return int(total / len(classes) + 0.5)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        claims = state.get(NAME, Claims)
        if claims is None or not claims.delayed:
            return None
        node = self._handle.table.info_of(node_name)
        labels = {} if node is None else node.labels
        found = self._binder.find(claims, node_name, labels)
        if found.bound or found.free:
            return failed(f'node "{node_name}" no longer has volumes for pod "{pod.key}"')
        self._binder.assume(found, node_name)
        state.write(_DECISION, found)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        found = state.get(_DECISION, Found)
        if found is not None:
            self._binder.revert(found)
            state.delete(_DECISION)

    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[PreBindPreFlightResult | None, Status | None]:
        acts = state.get(_DECISION) is not None
        return (PreBindPreFlightResult(allow_parallel=True), None) if acts else (None, SKIP)

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | Effects | None:
        found = state.get(_DECISION, Found)
        if found is None:
            return None
        binder = self._binder
        return Effects(
            calls=binder.calls(found, node_name),
            done=lambda: binder.progress(found, node_name),
            timeout_seconds=self._timeout,
        )

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return EVENTS


def _shape_score(points: Sequence[tuple[int, int]], at: int) -> int:
    """Interpolate between points, truncating the difference toward zero as Go does."""
    if at <= points[0][0]:
        return points[0][1]
    for (u0, s0), (u1, s1) in pairwise(points):
        if at <= u1:
            step = (s1 - s0) * (at - u0)
            return s0 + (step // (u1 - u0) if step >= 0 else -(-step // (u1 - u0)))
    return points[-1][1]


def _by_class(found: Found) -> dict[str, tuple[int, int]]:
    """Storage asked for and at hand, by class: of bindings, or else of what is provisioned."""
    classes: dict[str, tuple[int, int]] = {}
    for volume, claim in found.bindings:
        wanted, capacity = classes.get(class_of_volume(volume), (0, 0))
        wanted += quantity.value(claim.spec.resources.requests.get("storage", 0))
        capacity += quantity.value(volume.spec.capacity.get("storage", 0))
        classes[class_of_volume(volume)] = (wanted, capacity)
    if classes:
        return classes
    for provision in found.provisions:
        if provision.capacity is not None:
            name = class_of_claim(provision.claim)
            asked = provision.claim.spec.resources.requests.get("storage", 0)
            wanted = classes.get(name, (0, 0))[0] + quantity.value(asked)
            classes[name] = (wanted, quantity.value(provision.capacity.capacity or 0))
    return classes


def new(args: VolumeBindingArgs | None, handle: Handle) -> VolumeBinding:
    return VolumeBinding(args or VolumeBindingArgs(), handle)

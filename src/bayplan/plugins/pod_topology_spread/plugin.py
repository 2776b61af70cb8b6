"""The plugin: finds the pod's constraints, filters by the hard ones, scores by the soft ones."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

import numpy as np
import numpy.typing as npt

from bayplan.api import Pod
from bayplan.api.labels import Selector, SelectorError
from bayplan.config import PodTopologySpreadArgs
from bayplan.framework import (
    SKIP,
    BoolArray,
    ClusterEventWithHint,
    CycleState,
    Depends,
    Handle,
    IntArray,
    NodeInfo,
    Nodes,
    PodInfo,
    PreFilterResult,
    Status,
    Verdict,
    failed,
)
from bayplan.framework.contract.domains import DomainScores
from bayplan.plugins.pod_topology_spread.constraints import Constraints, ConstraintSource
from bayplan.plugins.pod_topology_spread.counting import Inclusion, included_by
from bayplan.plugins.pod_topology_spread.hard import HardState
from bayplan.plugins.pod_topology_spread.hints import SpreadHints
from bayplan.plugins.pod_topology_spread.soft import SoftState, normalized

NAME = "PodTopologySpread"
_HARD = f"{NAME}/hard"
_SOFT = f"{NAME}/soft"


class PodTopologySpread:
    """Filter: hard constraints. Score: soft constraints."""

    name = NAME
    class_hint = True
    compact_scores = True
    score_needs = ("preScore", f'error reading "PreScore{NAME}" from cycleState: not found')

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        self._handle = handle
        label_keys = handle.gates["MatchLabelKeysInPodTopologySpread"]
        limit = handle.limits.terms
        self._source = ConstraintSource(args, handle.objects, limit, label_keys=label_keys)
        self._inclusion = Inclusion(handle.limits.terms)
        self._comparisons = handle.gates["TaintTolerationComparisonOperators"]
        self._hints = SpreadHints(self._constraints)

    def hard(self, pod: Pod) -> HardState | None:
        """The pod's hard constraints with what they count now, for questions; None without any."""
        state = CycleState(self._handle.info(pod))
        _, status = self.pre_filter(state, pod, self._handle.table)
        return None if status is not None else state.get(_HARD, HardState)

    def depends_on(self, pod: Pod) -> Depends:
        try:
            found = self._constraints(pod)
        except SelectorError:
            return Depends.CLUSTER
        return Depends.CLUSTER if found.hard or found.soft else Depends.NODE

    def facet(self, state: CycleState, pod: Pod) -> Hashable:
        """The constraints, and what decides which nodes they take in."""
        try:
            found = self._constraints(pod, state)
        except SelectorError:
            return self._handle.info(pod, state).signature
        return found, included_by(pod, found) if found.hard or found.soft else None

    def facet_revision(self) -> Hashable:
        return self._source.revision

    def revision(self, state: CycleState, pod: Pod) -> Hashable | None:
        try:
            found = self._constraints(pod, state)
        except SelectorError:
            return None
        counts = self._handle.table.counts
        items = found.hard + found.soft
        return tuple([counts.matching(item.query).version for item in items if item.query])

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Nodes
    ) -> tuple[PreFilterResult | None, Status | None]:
        try:
            found = self._constraints(pod, state)
        except SelectorError as problem:
            return None, failed(problem)
        if not found.hard:
            return None, SKIP
        table, before = nodes.table, state.get(_HARD, HardState)
        if before is not None and before.follow(table, found.hard):
            return None, None
        if before is not None and before.takes_in(table, found.hard):
            masks = before.included
        else:
            key = (found.hard, True, included_by(pod, found))
            masks = self._inclusion.masks(table, pod, key, found.hard, True, self._comparisons)
        state.write(_HARD, HardState(table, found.hard, masks, before))
        return None, None

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status | None:
        state.read(_HARD, HardState).change(pod, added, node, 1)
        return None

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo
    ) -> Status | None:
        state.read(_HARD, HardState).change(pod, removed, node, -1)
        return None

    def heeds(self, state: CycleState, pod: Pod, placed: PodInfo) -> bool:
        return state.read(_HARD, HardState).heeds(pod, placed)

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        return state.read(_HARD, HardState).verdict(nodes)

    def filter_affects(
        self, state: CycleState, pod: Pod, rows: Sequence[int]
    ) -> Collection[int] | None:
        return () if state.read(_HARD, HardState).steady else None

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return state.read(_HARD, HardState).status(node)

    def pre_score(
        self, state: CycleState, pod: Pod, nodes: Nodes, feasible: BoolArray
    ) -> Status | None:
        try:
            found = self._constraints(pod, state)
        except SelectorError as problem:
            return failed(problem)
        if not found.soft or not nodes.count:
            return SKIP
        table, before = nodes.table, state.get(_SOFT, SoftState)
        if before is not None and before.follow(table, found, feasible):
            return None
        if before is not None and before.takes_in(table, found.soft):
            masks = before.included
        else:
            key = (found.soft, found.require_all, included_by(pod, found))
            masks = self._inclusion.masks(
                table, pod, key, found.soft, found.require_all, self._comparisons
            )
        state.write(_SOFT, SoftState(table, found, masks, feasible))
        return None

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntArray:
        return state.read(_SOFT, SoftState).score(nodes)

    def score_domains(self, state: CycleState, pod: Pod, nodes: Nodes) -> DomainScores | None:
        return state.read(_SOFT, SoftState).by_domain(self._handle.limits.own_scores)

    def normalize_domains(self, state: CycleState, pod: Pod, scores: list[int]) -> list[int]:
        return normalized(scores)

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return state.read(_SOFT, SoftState).score_node(node)

    def normalize(
        self, state: CycleState, pod: Pod, scores: IntArray, feasible: BoolArray
    ) -> IntArray | npt.NDArray[np.uint8]:
        return state.read(_SOFT, SoftState).normalize(scores, feasible)

    def hint_selectors(self, pod: Pod) -> Sequence[Selector] | None:
        if not pod.spec.topology_spread_constraints:  # defaults change with services
            return None
        try:
            return [item.selector for item in self._constraints(pod).hard]
        except SelectorError:
            return None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return self._hints.events()

    def _constraints(self, pod: Pod, state: CycleState | None = None) -> Constraints:
        return self._source.of(pod, self._handle.info(pod, state).signature)


def new(args: PodTopologySpreadArgs | None, handle: Handle) -> PodTopologySpread:
    return PodTopologySpread(args or PodTopologySpreadArgs(), handle)

"""The plugin: filters by required terms, scores by preferred ones.

Counts come from the table, one column a distinct term, so cost does not depend on how many pods
run.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

import numpy as np
import numpy.typing as npt

from bayplan.api import Pod
from bayplan.api.labels import Selector
from bayplan.config import InterPodAffinityArgs
from bayplan.framework import (
    MAX_SCORE,
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
    unresolvable,
)
from bayplan.framework.contract.domains import DomainScores
from bayplan.framework.runtime.scoring import among
from bayplan.plugins.inter_pod_affinity.hints import AffinityHints
from bayplan.plugins.inter_pod_affinity.preferred import PreferredState
from bayplan.plugins.inter_pod_affinity.required import RequiredState
from bayplan.plugins.inter_pod_affinity.terms import Matcher

NAME = "InterPodAffinity"
_REQUIRED = f"{NAME}/required"
_PREFERRED = f"{NAME}/preferred"


class InterPodAffinity:
    """Filter: required pod (anti-)affinity, both ways. Score: preferred terms, both ways."""

    name = NAME
    class_hint = True
    compact_scores = True
    score_needs = ("preScore", f'failed to read "PreScore{NAME}" from cycleState: not found')

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        self._handle = handle
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignore_existing = args.ignore_preferred_terms_of_existing_pods
        self._matcher = Matcher(handle)
        self._hints = AffinityHints(handle, self._matcher)
        self._known_shares: npt.NDArray[np.uint8] | None = None

    @property
    def matcher(self) -> Matcher:
        """Tells which pods a term means, for questions."""
        return self._matcher

    def depends_on(self, pod: Pod) -> Depends:
        info = self._handle.info(pod)
        spoken_of = info.traits.has_affinity or self._matcher.about(info)
        return Depends.CLUSTER if spoken_of else Depends.NODE

    def facet(self, state: CycleState, pod: Pod) -> Hashable:
        """The pod's own terms, whether it matches them, and the placed pods' terms about it."""
        info = self._handle.info(pod, state)
        about, traits = self._matcher.about(info), info.traits
        if not traits.has_affinity:
            return about or None
        itself = tuple([self._matcher.means(term, pod) for term in traits.required_affinity])
        return traits.affinity, itself, about

    def facet_revision(self) -> Hashable:
        counts = self._handle.table.counts
        return counts.terms_version, self._handle.objects.namespaces.revision

    def revision(self, state: CycleState, pod: Pod) -> Hashable | None:
        info = self._handle.info(pod, state)
        traits, matcher = info.traits, self._matcher
        versions = [owned.version for owned in matcher.about(info)]
        if traits.has_affinity:
            if traits.required_affinity:
                versions.append(matcher.column(traits.required_affinity).version)
            single = list(traits.required_anti_affinity)
            single += [t for _, t in traits.preferred_affinity + traits.preferred_anti_affinity]
            versions += [matcher.column_of(term).version for term in single]
        return (self._handle.objects.namespaces.revision, *versions)

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Nodes
    ) -> tuple[PreFilterResult | None, Status | None]:
        info = self._handle.info(pod, state)
        if info.traits.affinity_problem:
            return None, unresolvable(f"parsing pod: {info.traits.affinity_problem}")
        required = state.get(_REQUIRED, RequiredState)
        if required is None or not required.follow(info):
            required = RequiredState(info, self._matcher, required)
            state.write(_REQUIRED, required)
        return None, SKIP if required.idle else None

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status | None:
        state.read(_REQUIRED, RequiredState).change(pod, added, node, 1)
        return None

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo
    ) -> Status | None:
        state.read(_REQUIRED, RequiredState).change(pod, removed, node, -1)
        return None

    def heeds(self, state: CycleState, pod: Pod, placed: PodInfo) -> bool:
        return state.read(_REQUIRED, RequiredState).heeds(pod, placed)

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        return state.read(_REQUIRED, RequiredState).verdict(nodes)

    def filter_affects(
        self, state: CycleState, pod: Pod, rows: Sequence[int]
    ) -> Collection[int] | None:
        few = self._handle.limits.domains
        return state.read(_REQUIRED, RequiredState).affected(self._handle.table, rows, few)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return state.read(_REQUIRED, RequiredState).status(node)

    def pre_score(
        self, state: CycleState, pod: Pod, nodes: Nodes, feasible: BoolArray
    ) -> Status | None:
        info = self._handle.info(pod, state)
        traits = info.traits
        own = traits.preferred_affinity or traits.preferred_anti_affinity
        if self._ignore_existing and not own:
            return SKIP
        if traits.affinity_problem:
            return failed(f"failed to parse pod: {traits.affinity_problem}")
        preferred = PreferredState(info, self._matcher, self._hard_weight)
        if preferred.idle:
            return SKIP
        state.write(_PREFERRED, preferred)
        return None

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntArray:
        return state.read(_PREFERRED, PreferredState).score(nodes)

    def score_domains(self, state: CycleState, pod: Pod, nodes: Nodes) -> DomainScores | None:
        return state.read(_PREFERRED, PreferredState).by_domain(self._handle.limits.domains)

    def normalize_domains(self, state: CycleState, pod: Pod, scores: list[int]) -> list[int]:
        least, most = min(scores), max(scores)
        if least == most:
            return [0] * len(scores)
        span = float(most - least)
        return [int(MAX_SCORE * ((score - least) / span)) for score in scores]

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return state.read(_PREFERRED, PreferredState).score_node(node)

    def normalize(
        self, state: CycleState, pod: Pod, scores: IntArray, feasible: BoolArray
    ) -> IntArray | npt.NDArray[np.uint8]:
        counted = among(scores, feasible)
        least, most = int(counted.min()), int(counted.max())
        if least == most:
            return np.zeros(len(scores), dtype=np.int64)
        above = np.subtract(scores, least, dtype=np.int64)
        if most - least >= len(scores):
            return _percent(above, most - least)
        # Few different scores: divide each once. Rows that do not fit may lie outside.
        return self._shares(most - least).take(above, mode="clip")

    def _shares(self, most: int) -> npt.NDArray[np.uint8]:
        """The normalised score of each of 0..most."""
        known = self._known_shares
        if known is None or len(known) != most + 1:
            percent = _percent(np.arange(most + 1, dtype=np.int64), most)
            known = self._known_shares = percent.astype(np.uint8)
        return known

    def hint_selectors(self, pod: Pod) -> Sequence[Selector]:
        traits = self._handle.info(pod).traits
        return [t.selector for t in traits.required_affinity + traits.required_anti_affinity]

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return self._hints.events()


def _percent(above: IntArray, most: int) -> IntArray:
    # Divide first, as upstream: 29/50 gives 57 this way, 58 in whole numbers.
    shares = above.astype(np.float64) / float(most)
    return (MAX_SCORE * shares).astype(np.int64)


def new(args: InterPodAffinityArgs | None, handle: Handle) -> InterPodAffinity:
    return InterPodAffinity(args or InterPodAffinityArgs(), handle)

"""Matches a pod's node selector and node affinity, and affinity that the profile adds to all pods.

Requirements are decided per distinct label value (`bayplan.cluster.selection`). A pod whose
required terms all name nodes narrows the search to those nodes before any filter runs.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from bayplan.api import Node, NodeSelector, Object, Pod
from bayplan.api.labels import IN, SelectorError
from bayplan.api.node_selectors import (
    NAME_FIELD,
    CompiledNodeSelector,
    Term,
    compile_node_selector,
    compile_preferred,
)
from bayplan.api.pod import PreferredSchedulingTerm
from bayplan.cluster.selection import RequiredNodes, selector_mask, term_mask
from bayplan.config import NodeAffinityArgs
from bayplan.errors import ConfigError
from bayplan.framework import (
    SKIP,
    ActionType,
    BoolArray,
    ClusterEventWithHint,
    CycleState,
    Depends,
    Handle,
    IntArray,
    NodeInfo,
    Nodes,
    PreFilterResult,
    QueueingHint,
    Resource,
    Status,
    Verdict,
    default_normalize,
    failed,
    on,
    unresolvable,
)

NAME = "NodeAffinity"
REASON_POD = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"

_OUTCOMES = (unresolvable(REASON_ENFORCED), unresolvable(REASON_POD))
_REQUIRED = f"{NAME}/required"
_PREFERRED = f"{NAME}/preferred"

Preferred = tuple[tuple[int, Term], ...]


class NodeAffinity:
    """Filter and score by labels and name of the node."""

    name = NAME
    class_hint = True

    def __init__(self, args: NodeAffinityArgs) -> None:
        added = args.added_affinity
        self._added: CompiledNodeSelector | None = None
        self._added_preferred: Preferred = ()
        if added is None:
            return
        try:
            if added.required is not None:
                self._added = compile_node_selector(added.required)
            self._added_preferred = compile_preferred(added.preferred or ())
        except SelectorError as problem:
            raise ConfigError(f"parsing addedAffinity: {problem}") from problem
        if self._added is not None and self._added.problem:
            raise ConfigError(f"parsing addedAffinity: {self._added.problem}")

    def depends_on(self, pod: Pod) -> Depends:
        return Depends.NODE

    def facet(self, state: CycleState, pod: Pod) -> Hashable:
        spec = pod.spec
        labels = spec.node_selector
        affinity = None if spec.affinity is None else spec.affinity.node_affinity
        # An empty selector is not a missing one: with it the filter is asked.
        return None if labels is None else tuple(sorted(labels.items())), affinity

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Nodes
    ) -> tuple[PreFilterResult | None, Status | None]:
        required = _required(pod)
        if required is None and self._added is None and pod.spec.node_selector is None:
            return None, SKIP
        state.write(_REQUIRED, RequiredNodes(pod))
        names = None if required is None else _named_nodes(required)
        if names is None:
            return None, None
        if not names:
            return None, unresolvable(REASON_CONFLICT)
        return PreFilterResult(names), None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        required = self._compiled(state, pod)
        which = np.where(required.mask(nodes), 0, 2)  # (N,)
        if self._added is not None:
            which[~selector_mask(nodes, self._added)] = 1
        return Verdict.by_outcome(which, _OUTCOMES)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if self._added is not None and not self._added.matches(node.labels, node.name):
            return _OUTCOMES[0]
        return None if self._compiled(state, pod).matches(node) else _OUTCOMES[1]

    def pre_score(
        self, state: CycleState, pod: Pod, nodes: Nodes, feasible: BoolArray
    ) -> Status | None:
        if _preferred(pod) is None and not self._added_preferred:
            return SKIP
        try:
            state.write(_PREFERRED, self._preferred_terms(pod))
        except SelectorError as problem:
            return failed(problem)
        return None

    def _preferred_terms(self, pod: Pod) -> Preferred:
        return self._added_preferred + compile_preferred(_preferred(pod) or ())

    def _scored(self, state: CycleState, pod: Pod) -> Preferred:
        """The terms that PreScore left; worked out now if it is off."""
        known: Preferred | None = state.get(_PREFERRED)
        return self._preferred_terms(pod) if known is None else known

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntArray:
        terms = self._scored(state, pod)
        scores = np.zeros(nodes.count, dtype=np.int64)  # (N,)
        for weight, term in terms:
            scores += weight * term_mask(nodes, term)
        return scores

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        terms = self._scored(state, pod)
        return sum(weight for weight, term in terms if term.matches(node.labels, node.name))

    def normalize(
        self, state: CycleState, pod: Pod, scores: IntArray, feasible: BoolArray
    ) -> IntArray:
        return default_normalize(scores, feasible)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        changed = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return (on(Resource.NODE, changed, self._node_matches),)

    def _compiled(self, state: CycleState, pod: Pod) -> RequiredNodes:
        return state.get(_REQUIRED, RequiredNodes) or RequiredNodes(pod)

    def _node_matches(self, pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
        assert isinstance(new, Node)
        if self._matches(pod, new) and (not isinstance(old, Node) or not self._matches(pod, old)):
            return QueueingHint.QUEUE
        return QueueingHint.SKIP

    def _matches(self, pod: Pod, node: Node) -> bool:
        labels, name = node.metadata.labels, node.metadata.name
        if self._added is not None and not self._added.matches(labels, name):
            return False
        required = RequiredNodes(pod)
        if any(labels.get(key) != value for key, value in required.labels.items()):
            return False
        return required.selector is None or required.selector.matches(labels, name)


def _required(pod: Pod) -> NodeSelector | None:
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    return affinity.node_affinity.required


def _preferred(pod: Pod) -> Sequence[PreferredSchedulingTerm] | None:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    return None if affinity is None else affinity.preferred


def _named_nodes(required: NodeSelector) -> frozenset[str] | None:
    """The only nodes that can match, if every term names its nodes; None if one does not."""
    names: set[str] = set()
    if not required.node_selector_terms:
        return None
    for term in required.node_selector_terms:
        mine: set[str] | None = None
        for field in term.match_fields:
            if field.key == NAME_FIELD and field.operator == IN:
                values = set(field.values)
                mine = values if mine is None else mine & values
        if mine is None:
            return None
        names |= mine
    return frozenset(names)


def new(args: NodeAffinityArgs | None, handle: Handle) -> NodeAffinity:
    return NodeAffinity(args or NodeAffinityArgs())

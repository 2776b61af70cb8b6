"""Which events may let a pod in that affinity rules kept out."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api import Node, Object, Pod
from bayplan.framework import (
    ActionType,
    AffinityTerm,
    ClusterEventWithHint,
    Handle,
    QueueingHint,
    Resource,
    on,
)
from bayplan.plugins.hints import hint
from bayplan.plugins.inter_pod_affinity.terms import Matcher


class AffinityHints:
    """The events of InterPodAffinity; only required terms matter."""

    def __init__(self, handle: Handle, matcher: Matcher) -> None:
        self._handle = handle
        self._matcher = matcher
        # 1.36 asks whether a pod breaks all rules against it where any is enough
        self._breaks = self._any if handle.gates.since("1.37") else self._all

    def events(self) -> Sequence[ClusterEventWithHint]:
        pods = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE
        nodes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return (
            on(Resource.POD, pods, self._pod_changed),
            on(Resource.NODE, nodes, self._node_changed),
        )

    def _pod_changed(self, pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
        before = old if isinstance(old, Pod) else None
        after = new if isinstance(new, Pod) else None
        if after is not None and before is not None and after.uid == pod.uid:
            return QueueingHint.QUEUE
        seen = after if after is not None else before
        if seen is None or not (seen.spec.node_name or seen.status.nominated_node_name):
            return QueueingHint.SKIP
        traits = self._handle.info(pod).traits
        near, far = traits.required_affinity, traits.required_anti_affinity
        if before is not None and after is not None:
            comes = not self._all(near, before) and self._all(near, after)
            goes = self._breaks(far, before) and not self._breaks(far, after)
            return hint(comes or goes)
        if after is not None:
            return hint(self._all(near, after))
        assert before is not None
        theirs = self._handle.info(before).traits.required_anti_affinity
        return hint(self._breaks(far, before) or self._breaks(theirs, pod))

    def _all(self, terms: Sequence[AffinityTerm], pod: Pod) -> bool:
        return bool(terms) and all(self._matcher.means(term, pod) for term in terms)

    def _any(self, terms: Sequence[AffinityTerm], pod: Pod) -> bool:
        return any(self._matcher.means(term, pod) for term in terms)

    def _node_changed(self, pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
        assert isinstance(new, Node)
        traits = self._handle.info(pod).traits
        before = old.metadata.labels if isinstance(old, Node) else {}
        after = new.metadata.labels
        for term in traits.required_affinity:
            value = after.get(term.topology_key)
            if value is not None and before.get(term.topology_key) != value:
                return QueueingHint.QUEUE
        for term in traits.required_anti_affinity:
            key = term.topology_key
            had = key in before
            if not isinstance(old, Node) or (had and before.get(key) != after.get(key)):
                return QueueingHint.QUEUE
        return QueueingHint.SKIP

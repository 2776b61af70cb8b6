"""Preferred terms: the state between PreScore and Score.

Every term that speaks about the pod adds its weight once for each matching pod in a domain: the
pod's own preferred terms, the preferred terms of placed pods, and, with a fixed weight, their
required affinity. Weights are summed per topology key over domains; a node's score is a gather and
a sum.
"""

from __future__ import annotations

import numpy as np

from bayplan.cluster.counts import PREFERRED, REQUIRED_AFFINITY
from bayplan.framework import IntArray, NodeInfo, Nodes, PodInfo
from bayplan.framework.contract.domains import DomainScores
from bayplan.framework.runtime.scoring import compact
from bayplan.plugins.inter_pod_affinity.terms import Matcher


class PreferredState:
    """Summed weights per topology key and domain."""

    __slots__ = ("sums",)

    def __init__(self, info: PodInfo, matcher: Matcher, hard_weight: int) -> None:
        self.sums: dict[str, IntArray] = {}
        traits = info.traits
        for weight, term in traits.preferred_affinity:
            counts = matcher.column_of(term).per_domain(term.topology_key)
            self._add(term.topology_key, counts, weight)
        for weight, term in traits.preferred_anti_affinity:
            counts = matcher.column_of(term).per_domain(term.topology_key)
            self._add(term.topology_key, counts, -weight)
        for owned in matcher.about(info):
            if owned.kind == PREFERRED:
                weight = owned.weight
            elif owned.kind == REQUIRED_AFFINITY and hard_weight > 0:
                weight = hard_weight
            else:
                continue
            key = owned.term.topology_key
            self._add(key, owned.per_domain(key), weight)

    def _add(self, key: str, counts: IntArray, weight: int) -> None:
        if not counts.any():
            return
        known = self.sums.get(key)
        if known is None:
            self.sums[key] = counts * weight
        else:
            known += counts * weight

    @property
    def idle(self) -> bool:
        """Whether no term speaks about the pod; sums that cancel out do not count as idle."""
        return not self.sums

    def score(self, nodes: Nodes) -> IntArray:
        total: IntArray | None = None  # (N,)
        for key, sums in self.sums.items():
            worth = np.zeros(len(sums) + 1, dtype=np.int64)  # (domains + 1,): last is "no label"
            worth[:-1] = sums
            if len(self.sums) == 1:
                worth = compact(worth)
            mine = worth[nodes.label_codes(key)]
            total = mine if total is None else total + mine
        return np.zeros(nodes.count, dtype=np.int64) if total is None else total

    def by_domain(self, most: int) -> DomainScores | None:
        """The same by domain of the one topology key, if it has at most so many."""
        if len(self.sums) != 1:
            return None
        [(key, sums)] = self.sums.items()
        return DomainScores(key, [*sums.tolist(), 0], {}) if len(sums) < most else None

    def score_node(self, node: NodeInfo) -> int:
        total = 0
        labels = node.labels
        for key, sums in self.sums.items():
            value = labels.get(key)
            if value is not None:
                total += int(sums[node.table.label_column(key).code_of(value)])
        return total

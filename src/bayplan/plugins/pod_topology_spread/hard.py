"""Hard constraints: the state between PreFilter and Filter.

The state holds, for each constraint, the pods per domain and the least of them. It is changed only
in clones, when preemption or nominated pods ask what would be.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from bayplan.api import Pod
from bayplan.cluster.arrays import BoolArray
from bayplan.framework import (
    IntArray,
    NodeInfo,
    Nodes,
    NodeTable,
    PodInfo,
    Status,
    Verdict,
    unresolvable,
    unschedulable,
)
from bayplan.plugins.pod_topology_spread.constraints import Constraint
from bayplan.plugins.pod_topology_spread.counting import (
    Included,
    domain_counts,
    follows,
    pods_per_domain,
)
from bayplan.plugins.pod_topology_spread.least import LeastTwo

REASON = "node(s) didn't match pod topology spread constraints"
REASON_LABEL = f"{REASON} (missing required label)"

OUTCOMES = (unresolvable(REASON_LABEL), unschedulable(REASON))
_NO_LABEL, _SKEWED = 1, 2
_FEW = 32
"""Up to so many domains are quicker one by one than as an array."""


class HardState:
    """Counts per domain for each hard constraint."""

    __slots__ = (
        "_before",
        "_domains",
        "_least",
        "_lookups",
        "_own",
        "_revision",
        "_table",
        "_told",
        "constraints",
        "counts",
        "included",
        "present",
    )

    def __init__(
        self,
        table: NodeTable,
        constraints: tuple[Constraint, ...],
        included: list[Included],
        before: HardState | None = None,
    ) -> None:
        self._told: tuple[Hashable, Verdict] | None = None if before is None else before._told
        """The last verdict on all nodes for these constraints, and what it hangs on."""
        self._table = table
        self._revision = table.nodes_revision
        self.constraints = constraints
        self.included = included
        self.counts: list[IntArray] = []
        self.present: list[BoolArray] = []
        known = before is not None and before.takes_in(table, constraints)
        if before is not None and known:
            self.present = before.present
        for item, mask in zip(constraints, included, strict=True):
            if known and mask is None:
                self.counts.append(pods_per_domain(table, item, mask))
                continue
            counts, present = domain_counts(table, item, mask)
            self.counts.append(counts)
            if not known:
                self.present.append(present)
        self._own = False
        self._least: list[LeastTwo] | None = None
        """Instead of what the counts say, once pods came or went in a dry run."""
        self._domains = [int(np.count_nonzero(present)) for present in self.present]
        self._lookups: list[bytes] | None = None
        """What `verdict` found last."""
        self._before: list[bytes] | None = None
        """The same in the attempt before."""

    def follow(self, table: NodeTable, constraints: tuple[Constraint, ...]) -> bool:
        """Be the state of another attempt, if the table has kept all counts up to date in place."""
        known = self.takes_in(table, constraints)
        if not known or not follows(table, constraints, self.included, self.counts):
            return False
        self._before, self._lookups = self._lookups, None
        return True

    @property
    def steady(self) -> bool:
        """Whether every domain has the outcome that it had in the attempt before."""
        if self._before is None:
            return False
        self._lookups = self._find_lookups()
        return self._lookups == self._before

    def takes_in(self, table: NodeTable, constraints: tuple[Constraint, ...]) -> bool:
        """Whether these are the constraints, and the nodes that they take in are as before."""
        same = self._table is table and self._revision == table.nodes_revision
        return same and self.constraints == constraints

    def clone(self) -> HardState:
        copy = HardState.__new__(HardState)
        copy.constraints, copy.included = self.constraints, self.included
        copy._table, copy._revision = self._table, self._revision
        copy.counts = [counts.copy() for counts in self.counts]
        copy.present = self.present
        copy._told = copy._lookups = copy._before = None
        copy._domains = self._domains
        copy._own = True
        copy._least = None if self._least is None else [two.clone() for two in self._least]
        return copy

    def least(self, place: int) -> int:
        """The smallest count over domains, 0 when there are too few of them."""
        domains, counts = self._domains[place], self.counts[place]
        if domains == 0 or domains < self.constraints[place].min_domains:
            return 0
        if self._least is not None:
            return self._least[place].least
        inside = counts if domains == len(counts) else counts[self.present[place]]
        return int(inside.min())

    def heeds(self, pod: Pod, info: PodInfo) -> bool:
        """Whether it matters for `pod` that another comes or goes."""
        meta = info.pod.metadata
        same = meta.namespace == pod.metadata.namespace
        return same and any(item.selector.matches(meta.labels) for item in self.constraints)

    def change(self, pod: Pod, info: PodInfo, node: NodeInfo, delta: int) -> None:
        """A pod comes to or goes from a node in a dry run."""
        meta = info.pod.metadata
        if meta.namespace != pod.metadata.namespace:
            return
        labels = node.labels
        if any(item.key not in labels for item in self.constraints):
            return
        if not self._own:
            self.counts = [counts.copy() for counts in self.counts]
            self._own = True
        if self._least is None:
            known = zip(self.counts, self.present, strict=True)
            self._least = [LeastTwo.of(counts, present) for counts, present in known]
        for place, item in enumerate(self.constraints):
            mask = self.included[place]
            if (mask is None or mask[node.row]) and item.selector.matches(meta.labels):
                code = node.table.label_column(item.key).code_of(labels[item.key])
                self.counts[place][code] += delta
                self._least[place].update(code, int(self.counts[place][code]))

    def verdict(self, nodes: Nodes) -> Verdict:
        lookups = self._find_lookups()
        if nodes is not nodes.table:
            return self._verdict(nodes, lookups)
        self._lookups = lookups
        # Counts change with every pod; which domains are too full seldom does.
        stamp = (nodes.table.nodes_revision, *lookups)
        if self._told is None or self._told[0] != stamp:
            self._told = (stamp, self._verdict(nodes, lookups))
        return self._told[1]

    def _find_lookups(self) -> list[bytes]:
        return [self._lookup(place) for place in range(len(self.constraints))]

    def _lookup(self, place: int) -> bytes:
        """The outcome of each domain, the last being "no label"."""
        item, counts = self.constraints[place], self.counts[place]
        limit = item.max_skew - item.matches_self + self.least(place)
        if len(counts) <= _FEW:
            outcomes = [_SKEWED if count > limit else 0 for count in counts.tolist()]
            return bytes([*outcomes, _NO_LABEL])
        lookup = np.zeros(len(counts) + 1, dtype=np.uint8)  # (domains + 1,)
        lookup[:-1][counts > limit] = _SKEWED
        lookup[-1] = _NO_LABEL
        return lookup.tobytes()

    def _verdict(self, nodes: Nodes, lookups: list[bytes]) -> Verdict:
        which: npt.NDArray[np.uint8] | None = None
        for item, lookup in zip(self.constraints, lookups, strict=True):
            outcomes = np.frombuffer(lookup, dtype=np.uint8)
            mine = outcomes.take(nodes.label_codes(item.key))  # (N,): -1 is the last
            which = mine if which is None else np.where(which == 0, mine, which)
        assert which is not None
        return Verdict.by_outcome(which, OUTCOMES)

    def status(self, node: NodeInfo) -> Status | None:
        labels = node.labels
        for place, item in enumerate(self.constraints):
            value = labels.get(item.key)
            if value is None:
                return OUTCOMES[_NO_LABEL - 1]
            counts = self.counts[place]
            code = node.table.label_column(item.key).code_of(value)
            count = int(counts[code]) if code < len(counts) else 0
            if count + item.matches_self - self.least(place) > item.max_skew:
                return OUTCOMES[_SKEWED - 1]
        return None

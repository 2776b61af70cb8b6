"""Required terms: the state between PreFilter and Filter.

For each term the state has counts of matching pods per topology domain. All are views of the
table's live counts; a clone, made when a dry run adds or removes pods, has its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from bayplan.api import Pod
from bayplan.cluster.counts import REQUIRED_ANTI_AFFINITY, OwnedTerm
from bayplan.framework import (
    AffinityTerm,
    BoolArray,
    CountColumn,
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
from bayplan.plugins.inter_pod_affinity.terms import Matcher

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

OUTCOMES = (
    unresolvable(REASON_AFFINITY),
    unschedulable(REASON_ANTI),
    unschedulable(REASON_EXISTING),
)


class Domains:
    """Counts per value of one topology key."""

    __slots__ = ("counts", "key", "some")

    def __init__(self, key: str, counts: IntArray, some: bool = True) -> None:
        self.key = key
        self.counts = counts
        self.some = some
        """Whether there may be a pod in any domain."""

    @classmethod
    def of(cls, column: CountColumn, key: str) -> Domains:
        """As the table counts."""
        return cls(key, column.per_domain(key), column.total > 0)

    def clone(self) -> Domains:
        return Domains(self.key, self.counts.copy())

    def column(self, nodes: Nodes) -> BoolArray:
        """Rows whose domain has a pod; False where the label is missing."""
        some = np.zeros(len(self.counts) + 1, dtype=bool)
        some[:-1] = self.counts > 0
        return some[nodes.label_codes(self.key)]

    def at(self, node: NodeInfo) -> int:
        """The count in a node's domain; 0 if it does not have the label."""
        value = node.labels.get(self.key)
        if value is None:
            return 0
        code = node.table.label_column(self.key).code_of(value)
        return int(self.counts[code]) if 0 <= code < len(self.counts) else 0

    def add(self, node: NodeInfo, delta: int) -> None:
        value = node.labels.get(self.key)
        if value is not None:
            self.counts[node.table.label_column(self.key).code_of(value)] += delta


class RequiredState:
    """What required terms of the pod, and of placed pods about it, say per domain."""

    __slots__ = (
        "_about",
        "_before",
        "_columns",
        "_first",
        "_itself",
        "_matcher",
        "_namespaces",
        "_stamp",
        "_told",
        "affinity",
        "anti",
        "existing",
        "traits",
    )

    def __init__(
        self,
        info: PodInfo,
        matcher: Matcher,
        before: RequiredState | None = None,
    ) -> None:
        self._matcher = matcher
        self._namespaces = matcher.namespaces
        self.traits = info.traits
        same = before is not None and before._namespaces == self._namespaces
        terms: Iterable[AffinityTerm] = info.traits.required_affinity
        self._itself: bool = (  # pods of one facet agree in this
            before._itself
            if before is not None and same
            else all(matcher.means(term, info.pod) for term in terms)
        )
        """Whether the pod matches its own affinity terms."""
        self._told: tuple[Hashable, Verdict] | None = None if before is None else before._told
        """The last verdict on all nodes of a pod of this class, and what it hangs on."""
        self._columns: list[tuple[CountColumn, Domains]] = []
        """Where the counts come from."""
        self.existing: dict[str, Domains] = {}
        """Placed pods' anti-affinity that means this pod, by topology key."""
        self._about = matcher.about(info)
        for owned in self._about:
            if owned.kind == REQUIRED_ANTI_AFFINITY:
                self._add_existing(owned)
        required = info.traits.required_affinity
        self.affinity: list[Domains] = []
        if required:
            column = matcher.column(required)
            self.affinity = [self._counted(column, term) for term in required]
        self.anti = [
            self._counted(matcher.column_of(term), term)
            for term in info.traits.required_anti_affinity
        ]
        self._first = self._first_of_its_kind()
        self._stamp: Hashable = None
        """The outcomes of the domains when they were worked out last; None: they were not."""
        self._before: tuple[bool, Hashable] | None
        self._before = (before._first, before._stamp) if before is not None and same else None
        """Last time: whether the pod was the first of its kind, and the outcomes."""

    def _counted(self, column: CountColumn, term: AffinityTerm) -> Domains:
        domains = Domains.of(column, term.topology_key)
        self._columns.append((column, domains))
        return domains

    def follow(self, info: PodInfo) -> bool:
        """Be the state of another attempt, if the table has kept all counts up to date in place.

        For a pod with the same terms that the same terms mean.
        """
        matcher = self._matcher
        if matcher.namespaces != self._namespaces or matcher.about(info) != self._about:
            return False
        for column, domains in self._columns:
            if not column.counts_in(domains.counts, domains.key):
                return False
        for column, domains in self._columns:
            domains.some = column.total > 0
        self._before, self._stamp = (self._first, self._stamp), None
        self._first = self._first_of_its_kind()
        return True

    def affected(self, table: NodeTable, rows: Sequence[int], few: int) -> set[int] | None:
        """Rows whose outcome may be another than last time if pods changed on some rows only.

        None: any, or so few domains that looking at all is as cheap.
        """
        keys = {*self.existing, *(domains.key for domains in (*self.anti, *self.affinity))}
        columns = [table.label_column(key) for key in keys]
        before = self._before
        if before is None or before[0] != self._first:
            return None
        if all([len(column.values) <= few for column in columns]):  # noqa: C419  quicker
            self._stamp = self._outcomes(table, self._rejecting_domains())
            return set() if self._stamp == before[1] else None
        found: set[int] = set()
        for column in columns:
            for row in rows:
                code = column.codes.item(row)
                if code >= 0 and column.sizes[code] == 1:
                    found.add(row)
                elif code >= 0:
                    found.update(column.domains(table.count).rows(code).tolist())
        return found

    def _add_existing(self, owned: OwnedTerm) -> None:
        key = owned.term.topology_key
        known, counts = self.existing.get(key), owned.per_domain(key)
        if known is None:
            self.existing[key] = self._counted(owned, owned.term)
        else:  # the sum of two does not follow them
            size = max(len(known.counts), len(counts))
            total = np.zeros(size, dtype=np.int64)
            total[: len(known.counts)] += known.counts
            total[: len(counts)] += counts
            self.existing[key] = Domains(key, total)
            self._columns.append((owned, self.existing[key]))

    @property
    def idle(self) -> bool:
        """Whether nothing in this state can reject a node."""
        if self.traits.required_affinity or self.traits.required_anti_affinity:
            return False
        return not any(domains.counts.any() for domains in self.existing.values())

    def clone(self) -> RequiredState:
        copy = RequiredState.__new__(RequiredState)
        copy._matcher, copy._itself, copy.traits = self._matcher, self._itself, self.traits
        copy._told = copy._before = copy._stamp = None
        copy._about, copy._columns = self._about, []
        copy._first = self._first
        copy._namespaces = self._namespaces
        copy.existing = {key: domains.clone() for key, domains in self.existing.items()}
        copy.affinity = [domains.clone() for domains in self.affinity]
        copy.anti = [domains.clone() for domains in self.anti]
        return copy

    def heeds(self, pod: Pod, info: PodInfo) -> bool:
        """Whether it matters for `pod` that another comes or goes."""
        other, matcher, traits = info.pod, self._matcher, self.traits
        required, anti = traits.required_affinity, traits.required_anti_affinity
        return (
            any(matcher.means_by_labels(term, pod) for term in info.traits.required_anti_affinity)
            or (bool(required) and all(matcher.means(term, other) for term in required))
            or any(matcher.means(term, other) for term in anti)
        )

    def change(self, pod: Pod, info: PodInfo, node: NodeInfo, delta: int) -> None:
        """A pod comes to or goes from a node in a dry run for `pod`; call on clones only."""
        other, matcher = info.pod, self._matcher
        for term in info.traits.required_anti_affinity:
            if matcher.means_by_labels(term, pod):
                self._existing_for(term, node.table).add(node, delta)
        required = self.traits.required_affinity
        if required and all(matcher.means(term, other) for term in required):
            for domains in self.affinity:
                domains.add(node, delta)
        for term, domains in zip(self.traits.required_anti_affinity, self.anti, strict=True):
            if matcher.means(term, other):
                domains.add(node, delta)

    def _existing_for(self, term: AffinityTerm, table: NodeTable) -> Domains:
        key = term.topology_key
        size = len(table.label_column(key).values)
        known = self.existing.get(key)
        if known is None or len(known.counts) < size:
            fresh = Domains(key, np.zeros(size, dtype=np.int64))
            if known is not None:
                fresh.counts[: len(known.counts)] = known.counts
            known = self.existing[key] = fresh
        return known

    def _first_of_its_kind(self) -> bool:
        """Whether no pod matches the affinity terms anywhere but the pod itself matches them."""
        if not self._itself or not self.affinity:
            return self._itself
        return not any(domains.some and domains.counts.any() for domains in self.affinity)

    def verdict(self, nodes: Nodes) -> Verdict:
        rejecting = self._rejecting_domains()
        if nodes is not nodes.table:
            return self._verdict(nodes, rejecting)
        if not self.affinity and not any(lookup[:-1].any() for lookup in rejecting.values()):
            return Verdict.all_pass(nodes)
        stamp = self._stamp = self._outcomes(nodes.table, rejecting)
        if self._told is None or self._told[0] != stamp:
            self._told = (stamp, self._verdict(nodes, rejecting))
        return self._told[1]

    def _outcomes(self, table: NodeTable, rejecting: dict[str, npt.NDArray[np.uint8]]) -> Hashable:
        """What the verdict on all nodes hangs on."""
        return (
            table.nodes_revision,
            self._itself,
            *[(domains.key, (domains.counts > 0).tobytes()) for domains in self.affinity],
            *[(key, lookup.tobytes()) for key, lookup in rejecting.items()],
        )

    def _verdict(self, nodes: Nodes, rejecting: dict[str, npt.NDArray[np.uint8]]) -> Verdict:
        which: npt.NDArray[np.uint8] | None = None  # (N,)
        for key, lookup in rejecting.items():
            mine = lookup.take(nodes.label_codes(key))  # -1 is the last
            which = mine if which is None else _first_told(which, mine)
        if self.affinity:
            far = (~self._near(nodes)).view(np.uint8)
            which = far if which is None else _first_told(which, far)
        if which is None:
            which = np.zeros(nodes.count, dtype=np.uint8)
        return Verdict.by_outcome(which, OUTCOMES)

    def _rejecting_domains(self) -> dict[str, npt.NDArray[np.uint8]]:
        """By topology key: which domains anti-affinity rules out, the last being "no label"."""
        found: dict[str, npt.NDArray[np.uint8]] = {}
        # The smaller number is the one that upstream tells first, so it is written last.
        for number, rules in ((3, self.existing.values()), (2, self.anti)):
            for domains in rules:
                if not domains.some:
                    continue
                lookup = found.get(domains.key)
                size = len(domains.counts)
                if lookup is None or len(lookup) <= size:
                    grown = np.zeros(size + 1, dtype=np.uint8)
                    if lookup is not None:
                        grown[: len(lookup) - 1] = lookup[:-1]
                    lookup = found[domains.key] = grown
                np.copyto(lookup[:size], np.uint8(number), where=domains.counts > 0)
        return found

    def _near(self, nodes: Nodes) -> BoolArray:
        if self._first_of_its_kind():
            near: npt.NDArray[np.bool_] = np.ones(nodes.count, dtype=bool)
            for domains in self.affinity:
                near &= nodes.label_codes(domains.key) >= 0
            return near
        near = self.affinity[0].column(nodes)
        for domains in self.affinity[1:]:
            near = near & domains.column(nodes)
        return near

    def status(self, node: NodeInfo) -> Status | None:
        if self.affinity and not self._near_one(node):
            return OUTCOMES[0]
        for domains in self.anti:
            if domains.at(node) > 0:
                return OUTCOMES[1]
        for domains in self.existing.values():
            if domains.at(node) > 0:
                return OUTCOMES[2]
        return None

    def _near_one(self, node: NodeInfo) -> bool:
        labels = node.labels
        if any(domains.key not in labels for domains in self.affinity):
            return False
        if all(domains.at(node) > 0 for domains in self.affinity):
            return True
        return self._first_of_its_kind()


def _first_told(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The smaller outcome number where there are two: the one that upstream tells first."""
    one = np.uint8(1)
    # 0 (fits) becomes 255 and back.
    told: npt.NDArray[np.uint8] = np.minimum(a - one, b - one) + one
    return told

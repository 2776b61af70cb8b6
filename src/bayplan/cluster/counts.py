"""How many pods of some sort run on each node and in each topology domain, kept up to date.

Pods are grouped by namespace, labels and whether they are terminating; a query is matched against
groups, not pods, and against each group only once. Every query that was ever asked (within a limit)
keeps a count that changes by one when a pod comes or goes, so asking costs nothing however many
pods run. The affinity terms that placed pods own are counted the same way, one column a distinct
term.

Domain counts are arrays over the codes of a label column of the table (`NodeTable.label_column`).
They count every node that has the label; who must leave some nodes out sums `per_node` instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from bayplan.api.labels import Selector
from bayplan.cluster.arrays import IntArray
from bayplan.cluster.info import AffinityTerm, PodInfo, PodTraits

if TYPE_CHECKING:
    from bayplan.cluster.table import NodeTable

QUERY_LIMIT = 2048

REQUIRED_AFFINITY = "required"
REQUIRED_ANTI_AFFINITY = "required-anti"
PREFERRED = "preferred"


class QueryPart(msgspec.Struct, frozen=True, gc=False):
    """Pods in some namespaces (None: in any) that a selector matches."""

    namespaces: frozenset[str] | None
    selector: Selector

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        inside = self.namespaces is None or namespace in self.namespaces
        return inside and self.selector.matches(labels)


class PodQuery(msgspec.Struct, frozen=True, gc=False):
    """Pods that match every part."""

    parts: tuple[QueryPart, ...]
    skip_terminating: bool = False

    def matches(self, group: Group) -> bool:
        if self.skip_terminating and group.terminating:
            return False
        return all(part.matches(group.namespace, group.labels) for part in self.parts)


class CountColumn:
    """Counts per node and, for the keys asked for, per topology domain."""

    __slots__ = ("_domains", "_per_node", "_table", "rows", "total", "version")

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self.rows: dict[int, int] = {}
        """Row of the table to count, without zeros."""
        self.total = 0
        self.version = 0
        """Grows with every change."""
        self._per_node: IntArray | None = None
        self._domains: dict[str, IntArray] = {}

    def per_node(self) -> IntArray:
        """Counts by row of the full table; do not change, and do not keep."""
        column = self._per_node
        if column is None:
            column = self._per_node = np.zeros(self._table.capacity, dtype=np.int64)
            if self.rows:
                column[list(self.rows)] = list(self.rows.values())
        return column[: self._table.count]

    def per_domain(self, key: str) -> IntArray:
        """Counts by code of the label `key`; do not change, and do not keep."""
        domains = self._domains.get(key)
        labels = self._table.label_column(key)
        size = len(labels.values)
        if domains is None or len(domains) < size:
            domains = np.zeros(max(size, 1) * 2, dtype=np.int64)
            codes = labels.codes
            for row, count in self.rows.items():
                if codes[row] >= 0:
                    domains[codes[row]] += count
            self._domains[key] = domains
        return domains[:size]

    def add(self, row: int, delta: int) -> None:
        """Count `delta` more pods on a row."""
        self.version += 1
        self.total += delta
        count = self.rows.get(row, 0) + delta
        if count:
            self.rows[row] = count
        else:
            self.rows.pop(row, None)
        if self._per_node is not None:
            self._per_node[row] += delta
        for key, domains in self._domains.items():
            code = self._table.label_column(key).codes[row]
            if code >= 0:
                if code >= len(domains):
                    self._forget_domain(key)
                    return
                domains[code] += delta

    def _forget_domain(self, key: str) -> None:
        # A value appeared that the array has no place for; the next question counts anew.
        self.forget_arrays()

    def forget_arrays(self) -> None:
        """Rows, labels or capacity changed: count arrays are made again when asked for."""
        self.version += 1
        self._per_node = None
        self._domains = {}


class OwnedTerm(CountColumn):
    """A distinct affinity term of placed pods, and on which nodes its owners run."""

    __slots__ = ("kind", "term", "weight")

    def __init__(self, table: NodeTable, kind: str, term: AffinityTerm, weight: int) -> None:
        super().__init__(table)
        self.kind = kind
        self.term = term
        self.weight = weight
        """For preferred terms; negative for anti-affinity."""


class Group:
    """Pods that agree in namespace, labels and whether they are terminating."""

    __slots__ = ("columns", "labels", "namespace", "rows", "signatures", "size", "terminating")

    def __init__(self, namespace: str, labels: Mapping[str, str], terminating: bool) -> None:
        self.namespace = namespace
        self.labels = labels
        self.terminating = terminating
        self.rows: dict[int, int] = {}
        self.size = 0
        self.columns: list[CountColumn] = []
        self.signatures: list[tuple[bytes, bool]] = []


GroupKey = tuple[str, frozenset[tuple[str, str]], bool]


class PodCounts:
    """All counts of one table."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._groups: dict[GroupKey, Group] = {}
        self._by_signature: dict[tuple[bytes, bool], Group] = {}
        self._queries: dict[PodQuery, CountColumn] = {}
        self._terms: dict[tuple[str, AffinityTerm, int], OwnedTerm] = {}
        self._owned: dict[PodTraits, tuple[OwnedTerm, ...]] = {}
        self._matches: dict[tuple[bytes, bool], tuple[object, tuple[OwnedTerm, ...]]] = {}
        self.terms_version = 0
        """Grows when a distinct term appears or goes."""

    def add(self, info: PodInfo, row: int) -> None:
        """A pod runs on a row."""
        group = self._group_of(info)
        group.size += 1
        group.rows[row] = group.rows.get(row, 0) + 1
        for column in group.columns:
            column.add(row, 1)
        info.group = group
        if info.traits.has_affinity:
            owned = self._owned_terms(info.traits)
            for term in owned:
                term.add(row, 1)
            info.owned = owned

    def remove(self, info: PodInfo, row: int) -> None:
        """A pod no longer runs on a row."""
        group = info.group
        assert isinstance(group, Group)
        group.size -= 1
        left = group.rows[row] - 1
        if left:
            group.rows[row] = left
        else:
            del group.rows[row]
        for column in group.columns:
            column.add(row, -1)
        for term in info.owned:
            assert isinstance(term, OwnedTerm)
            term.add(row, -1)
        info.group, info.owned = None, ()
        if not group.size:
            self._drop_group(group)

    def matching(self, query: PodQuery) -> CountColumn:
        """The count of pods that a query matches; the column is live."""
        column = self._queries.pop(query, None)
        if column is None:
            column = CountColumn(self._table)
            self._forget_old_queries()
            for group in self._groups.values():
                if query.matches(group):
                    group.columns.append(column)
                    for row, count in group.rows.items():
                        column.rows[row] = column.rows.get(row, 0) + count
                    column.total += group.size
        self._queries[query] = column  # last used last
        return column

    def owned(self, kind: str) -> Iterator[OwnedTerm]:
        """The distinct terms of one kind that placed pods own."""
        return (term for term in self._terms.values() if term.kind == kind and term.total)

    def terms_about(
        self,
        signature: bytes,
        pod_labels: Mapping[str, str],
        namespace: str,
        namespace_labels: Mapping[str, str],
        namespace_revision: int,
    ) -> tuple[OwnedTerm, ...]:
        """The placed pods' terms that match a pod, remembered by its signature."""
        stamp = (self.terms_version, namespace_revision)
        known = self._matches.get((signature, True))
        if known is not None and known[0] == stamp:
            return known[1]
        found = tuple(
            owned
            for owned in self._terms.values()
            if owned.term.matches(namespace, pod_labels, namespace_labels)
        )
        if len(self._matches) > 4 * QUERY_LIMIT:
            self._matches.clear()
        self._matches[(signature, True)] = (stamp, found)
        return found

    def forget_arrays(self) -> None:
        """Rows or labels of the table changed; arrays are made again when asked for."""
        for column in self._queries.values():
            column.forget_arrays()
        for term in self._terms.values():
            term.forget_arrays()

    def groups(self) -> Iterable[Group]:
        return self._groups.values()

    def queries(self) -> Mapping[PodQuery, CountColumn]:
        return self._queries

    def _group_of(self, info: PodInfo) -> Group:
        terminating = info.terminating
        known = (info.signature, terminating)
        group = self._by_signature.get(known)
        if group is None:
            meta = info.pod.metadata
            key = (meta.namespace, frozenset(meta.labels.items()), terminating)
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = Group(meta.namespace, meta.labels, terminating)
                columns = [c for query, c in self._queries.items() if query.matches(group)]
                group.columns = columns
            self._by_signature[known] = group
            group.signatures.append(known)
        return group

    def _drop_group(self, group: Group) -> None:
        key = (group.namespace, frozenset(group.labels.items()), group.terminating)
        self._groups.pop(key, None)
        for known in group.signatures:
            self._by_signature.pop(known, None)

    def _owned_terms(self, traits: PodTraits) -> tuple[OwnedTerm, ...]:
        owned = self._owned.get(traits)
        if owned is None or any(
            self._terms.get((t.kind, t.term, t.weight)) is not t for t in owned
        ):
            owned = tuple(self._term(*item) for item in _terms_of(traits))
            if len(self._owned) > 4 * QUERY_LIMIT:
                self._owned.clear()
            self._owned[traits] = owned
        return owned

    def _term(self, kind: str, term: AffinityTerm, weight: int) -> OwnedTerm:
        found = self._terms.get((kind, term, weight))
        if found is None:
            if len(self._terms) > QUERY_LIMIT:
                self._terms = {key: item for key, item in self._terms.items() if item.total}
            found = self._terms[(kind, term, weight)] = OwnedTerm(self._table, kind, term, weight)
            self.terms_version += 1
        return found

    def _forget_old_queries(self) -> None:
        if len(self._queries) < QUERY_LIMIT:
            return
        old = list(self._queries)[: QUERY_LIMIT // 4]
        gone = {id(self._queries.pop(query)) for query in old}
        for group in self._groups.values():
            group.columns = [column for column in group.columns if id(column) not in gone]


def _terms_of(traits: PodTraits) -> Iterator[tuple[str, AffinityTerm, int]]:
    for term in traits.required_affinity:
        yield REQUIRED_AFFINITY, term, 0
    for term in traits.required_anti_affinity:
        yield REQUIRED_ANTI_AFFINITY, term, 0
    for weight, term in traits.preferred_affinity:
        yield PREFERRED, term, weight
    for weight, term in traits.preferred_anti_affinity:
        yield PREFERRED, term, -weight

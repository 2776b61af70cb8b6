"""How many pods of some sort run on each node and in each topology domain, kept up to date.

Pods are grouped by namespace, labels and whether they are terminating; a query is matched against
groups, not pods, and against each group only once. Every query that was asked lately keeps a count
that changes by one when a pod comes or goes, so asking costs nothing however many pods run. The
affinity terms that placed pods own are counted the same way, one column a distinct term, as long as
a pod owns it. Queries, terms and groups are found by a label that they must have (`anchors`), so
thousands of apps that each speak of themselves do not get in each other's way.

Every change of any count takes the next tick of one clock as the column's version: a version is
never used twice, not even by a column that was forgotten and counted anew.

Domain counts are arrays over the codes of a label column of the table (`NodeTable.label_column`).
They count every node that has the label; who must leave some nodes out sums `per_node` instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from bayplan.api.labels import Selector
from bayplan.cluster.anchors import Anchored, GroupIndex
from bayplan.cluster.arrays import IntArray
from bayplan.cluster.info import AffinityTerm, PodInfo, PodTraits

if TYPE_CHECKING:
    from bayplan.cluster.table import NodeTable

REQUIRED_AFFINITY = "required"
REQUIRED_ANTI_AFFINITY = "required-anti"
PREFERRED = "preferred"

_SPARSE = 64
"""Counts on fewer rows than this are not kept as arrays."""


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

    __slots__ = ("_counts", "_domains", "_per_node", "_table", "live", "rows", "total", "version")

    def __init__(self, table: NodeTable, counts: PodCounts) -> None:
        self._table = table
        self._counts = counts
        self.rows: dict[int, int] = {}
        """Row of the table to count, without zeros."""
        self.total = 0
        self.version = counts.tick()
        """Another number after every change; no other column ever had it."""
        self.live = True
        """Whether it still follows the pods."""
        self._per_node: IntArray | None = None
        self._domains: dict[str, IntArray] = {}

    @property
    def _sparse(self) -> bool:
        return len(self.rows) < _SPARSE

    def per_node(self) -> IntArray:
        """Counts by row of the full table; do not change, and do not keep."""
        column = self._per_node
        if column is None or len(column) < self._table.count:
            column = np.zeros(self._table.capacity, dtype=np.int64)
            if self.rows:
                column[list(self.rows)] = list(self.rows.values())
            self._per_node = None if self._sparse else column
        return column[: self._table.count]

    def per_domain(self, key: str) -> IntArray:
        """Counts by code of the label `key`; do not change, and do not keep."""
        domains = self._domains.get(key)
        labels = self._table.label_column(key)
        size = len(labels.values)
        if domains is None or len(domains) < size:
            self._domains.pop(key, None)
            keep = size < 1024 or not self._sparse
            if not keep and not self.rows:
                return self._counts.zeros(size)
            domains = np.zeros(max(size, 1) * 2 if keep else size, dtype=np.int64)
            if self.rows:
                codes = labels.codes[list(self.rows)]
                inside = codes >= 0
                np.add.at(domains, codes[inside], np.array(list(self.rows.values()))[inside])
            if keep:
                self._domains[key] = domains
        return domains[:size]

    def add(self, row: int, delta: int) -> None:
        """Count `delta` more pods on a row."""
        self.version = self._counts.tick()
        self.total += delta
        count = self.rows.get(row, 0) + delta
        if count:
            self.rows[row] = count
        else:
            self.rows.pop(row, None)
        if self._per_node is not None:
            if row < len(self._per_node):
                self._per_node[row] += delta
            else:
                self._per_node = None
        if self._domains:
            self._shift(row, delta)

    def shift(self, row: int, delta: int) -> None:
        """Count more or fewer pods in the domains that a row is in."""
        self.version = self._counts.tick()
        self._shift(row, delta)

    def _shift(self, row: int, delta: int) -> None:
        full: list[str] = []
        for key, domains in self._domains.items():
            code = self._table.label_column(key).codes.item(row)
            if code >= len(domains):  # a value that the array has no place for
                full.append(key)
            elif code >= 0:
                domains[code] += delta
        for key in full:
            del self._domains[key]

    def counts_in(self, domains: IntArray, key: str) -> bool:
        """Whether these are the counts by a label that go on being kept up to date."""
        kept = self._domains.get(key)
        return (
            kept is not None
            and domains.base is kept
            and self.live
            and len(domains) == len(self._table.label_column(key).values)
        )

    def forget_domains(self, key: str) -> None:
        """The codes of a label were given out anew."""
        if self._domains.pop(key, None) is not None:
            self.version = self._counts.tick()


class OwnedTerm(CountColumn):
    """A distinct affinity term of placed pods, and on which nodes its owners run."""

    __slots__ = ("kind", "term", "weight")

    def __init__(
        self, table: NodeTable, counts: PodCounts, kind: str, term: AffinityTerm, weight: int
    ) -> None:
        super().__init__(table, counts)
        self.kind = kind
        self.term = term
        self.weight = weight
        """For preferred terms; negative for anti-affinity."""

    @property
    def key(self) -> TermKey:
        return (self.kind, self.term, self.weight)


TermKey = tuple[str, AffinityTerm, int]


class Group:
    """Pods that agree in namespace, labels and whether they are terminating."""

    __slots__ = ("columns", "labels", "namespace", "rows", "signatures", "size", "terminating")

    def __init__(self, namespace: str, labels: Mapping[str, str], terminating: bool) -> None:
        self.namespace = namespace
        self.labels = labels
        self.terminating = terminating
        self.rows: dict[int, int] = {}
        self.size = 0
        self.columns: dict[PodQuery, CountColumn] = {}
        self.signatures: list[tuple[bytes, bool]] = []


GroupKey = tuple[str, frozenset[tuple[str, str]], bool]


class PodCounts:
    """All counts of one table."""

    def __init__(self, table: NodeTable, query_limit: int) -> None:
        self._table = table
        self._limit = max(1, query_limit)
        self._clock = 0
        self._zeros: IntArray = np.zeros(0, dtype=np.int64)
        self._groups: dict[GroupKey, Group] = {}
        self._by_signature: dict[tuple[bytes, bool], Group] = {}
        self._index: GroupIndex[Group] = GroupIndex(self._groups.values)
        self._queries: dict[PodQuery, CountColumn] = {}
        self._by_id: dict[int, tuple[PodQuery, CountColumn]] = {}
        """By id of the query: those of one template are one object, and hashing costs."""
        self._anchored: Anchored[PodQuery] = Anchored()
        self._terms: dict[TermKey, OwnedTerm] = {}
        self._about: Anchored[OwnedTerm] = Anchored()
        self._owned: dict[PodTraits, tuple[OwnedTerm, ...]] = {}
        self._vacant: Group | None = None
        """The group that nobody is in, if there is one: the next pod to be bound may be of it."""
        self.terms_version = 0
        """Grows when a distinct term appears or goes."""

    def tick(self) -> int:
        """The next number of the clock that all versions come from."""
        self._clock += 1
        return self._clock

    def zeros(self, size: int) -> IntArray:
        """Nothing counted; shared by all who count nothing."""
        if len(self._zeros) < size:
            self._zeros = np.zeros(2 * size, dtype=np.int64)
            self._zeros.flags.writeable = False
        return self._zeros[:size]

    # -- pods come and go -----------------------------------------------------------------------

    def add(self, info: PodInfo, row: int) -> None:
        """A pod runs on a row."""
        group = self._group_of(info)
        self._join(group, row, 1)
        for column in group.columns.values():
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
        self._join(group, row, -1)
        for column in group.columns.values():
            column.add(row, -1)
        for term in info.owned:
            assert isinstance(term, OwnedTerm)
            term.add(row, -1)
            if not term.total:
                self._drop_term(term)
        info.group, info.owned = None, ()
        if not group.size:
            self._vacate(group)

    def relabel(self, known: PodInfo, fresh: PodInfo, row: int) -> None:
        """A pod on a row has other labels; whatever counts both is not touched."""
        old, new = known.group, self._group_of(fresh)
        assert isinstance(old, Group)
        if new is not old:
            self._join(new, row, 1)
            self._join(old, row, -1)
            for query, column in new.columns.items():
                if query not in old.columns:
                    column.add(row, 1)
            for query, column in old.columns.items():
                if query not in new.columns:
                    column.add(row, -1)
            if not old.size:
                self._vacate(old)
        fresh.group, fresh.owned = new, known.owned
        known.group, known.owned = None, ()

    def _join(self, group: Group, row: int, delta: int) -> None:
        """Count a pod on a row into a group, or out of it."""
        group.size += delta
        count = group.rows.get(row, 0) + delta
        if count:
            group.rows[row] = count
        else:
            del group.rows[row]

    def columns_at(self, pods: Iterable[PodInfo]) -> set[CountColumn]:
        """The columns that count any of some placed pods."""
        found: set[CountColumn] = set()
        for info in pods:
            assert isinstance(info.group, Group)
            found.update(info.group.columns.values())
            found.update(term for term in info.owned if isinstance(term, OwnedTerm))
        return found

    def forget_domains(self, key: str) -> None:
        """The codes of a label were given out anew."""
        for column in (*self._queries.values(), *self._terms.values()):
            column.forget_domains(key)

    # -- what is asked --------------------------------------------------------------------------

    def matching(self, query: PodQuery) -> CountColumn:
        """The count of pods that a query matches; live as long as the query is among the newest."""
        known = self._by_id.get(id(query))
        if known is not None and known[0] is query and known[1].live:
            return known[1]
        column = self._queries.pop(query, None)
        if column is None:
            while len(self._queries) >= self._limit:
                self._forget_query(next(iter(self._queries)))
            column = CountColumn(self._table, self)
            self._anchored.add(query, *(part.selector for part in query.parts))
            for group in self._index.candidates(*(part.selector for part in query.parts)):
                if query.matches(group):
                    group.columns[query] = column
                    for row, count in group.rows.items():
                        column.rows[row] = column.rows.get(row, 0) + count
                    column.total += group.size
        self._queries[query] = column  # last used last
        if len(self._by_id) >= 2 * self._limit:
            self._by_id.clear()
        self._by_id[id(query)] = (query, column)
        return column

    def owned(self, kind: str) -> Iterator[OwnedTerm]:
        """The distinct terms of one kind that placed pods own."""
        return (term for term in self._terms.values() if term.kind == kind)

    def terms_about(
        self,
        pod_labels: Mapping[str, str],
        namespace: str,
        namespace_labels: Mapping[str, str],
    ) -> tuple[OwnedTerm, ...]:
        """The placed pods' terms that match a pod."""
        return tuple(
            owned
            for owned in self._about.candidates(pod_labels)
            if owned.term.matches(namespace, pod_labels, namespace_labels)
        )

    def groups(self) -> Iterable[Group]:
        return self._groups.values()

    def queries(self) -> Mapping[PodQuery, CountColumn]:
        return self._queries

    # -- groups, queries and terms appear and go -----------------------------------------------

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
                self._index.add(group)
                for query in self._anchored.candidates(group.labels):
                    if query.matches(group):
                        group.columns[query] = self._queries[query]
            self._by_signature[known] = group
            group.signatures.append(known)
        return group

    def _vacate(self, group: Group) -> None:
        """The last pod left a group. It stays until another is left by all, no longer.

        An API server labels pods when they are bound: each is in a group of its own until then.
        """
        last, self._vacant = self._vacant, group
        if last is not None and last is not group and not last.size:
            self._drop_group(last)

    def _drop_group(self, group: Group) -> None:
        key = (group.namespace, frozenset(group.labels.items()), group.terminating)
        self._groups.pop(key, None)
        self._index.remove(group)
        for known in group.signatures:
            self._by_signature.pop(known, None)

    def _forget_query(self, query: PodQuery) -> None:
        self._queries.pop(query).live = False
        selectors = [part.selector for part in query.parts]
        self._anchored.remove(query, *selectors)
        for group in self._index.candidates(*selectors):
            group.columns.pop(query, None)

    def _owned_terms(self, traits: PodTraits) -> tuple[OwnedTerm, ...]:
        owned = self._owned.get(traits)
        if owned is None or any(self._terms.get(term.key) is not term for term in owned):
            owned = tuple(self._term(item) for item in _terms_of(traits))
            if len(self._owned) >= 4 * self._limit:
                self._owned.clear()
            self._owned[traits] = owned
        return owned

    def _term(self, key: TermKey) -> OwnedTerm:
        found = self._terms.get(key)
        if found is None:
            found = self._terms[key] = OwnedTerm(self._table, self, *key)
            self._about.add(found, found.term.selector)
            self.terms_version += 1
        return found

    def _drop_term(self, term: OwnedTerm) -> None:
        if self._terms.pop(term.key, None) is not None:
            self._about.remove(term, term.term.selector)
            self.terms_version += 1


def _terms_of(traits: PodTraits) -> Iterator[TermKey]:
    for term in traits.required_affinity:
        yield REQUIRED_AFFINITY, term, 0
    for term in traits.required_anti_affinity:
        yield REQUIRED_ANTI_AFFINITY, term, 0
    for weight, term in traits.preferred_affinity:
        yield PREFERRED, term, weight
    for weight, term in traits.preferred_anti_affinity:
        yield PREFERRED, term, -weight

"""From the terms of a pod to counts of the pods that they mean.

A namespace selector of the incoming pod is resolved to names once per attempt. 1.36 then evaluates
it once more on *empty* labels, so that a selector made only of negative requirements means every
namespace; 1.37 does not. Terms of placed pods see the labels of the incoming pod's namespace.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api import Pod
from bayplan.framework import (
    AffinityTerm,
    ClusterObjects,
    CountColumn,
    Handle,
    OwnedTerm,
    PodInfo,
    PodQuery,
    QueryPart,
)


def resolve(term: AffinityTerm, objects: ClusterObjects, *, twice: bool = False) -> QueryPart:
    """The pods that a term of the incoming pod means; `twice` also asks empty labels."""
    selector = term.namespace_selector
    if selector.nothing:
        return QueryPart(term.namespaces, term.selector)
    if selector.empty or (twice and selector.matches({})):
        return QueryPart(None, term.selector)
    names = {ns.name for ns in objects.namespaces if selector.matches(ns.metadata.labels)}
    return QueryPart(term.namespaces | names, term.selector)


class Matcher:
    """Finds counts for the incoming pod, remembering resolved terms per class of pods."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._twice = not handle.gates.since("1.37")
        self._resolved: dict[AffinityTerm, tuple[int, QueryPart]] = {}
        self._queries: dict[int, tuple[object, int, PodQuery]] = {}
        """By id of what was asked for: terms of one template are one object, and hashing costs."""
        self._about: dict[bytes, tuple[OwnedTerm, ...]] = {}
        """By the pod's signature, as of a version of the terms and a revision of namespaces."""
        self._about_stamp = (-1, -1)

    @property
    def namespaces(self) -> int:
        """Grows when terms may mean pods of other namespaces."""
        return self._handle.objects.namespaces.revision

    def part(self, term: AffinityTerm) -> QueryPart:
        objects = self._handle.objects
        revision = objects.namespaces.revision
        known = self._resolved.get(term)
        if known is None or known[0] != revision:
            if len(self._resolved) >= self._handle.limits.terms:
                self._resolved.clear()
            known = self._resolved[term] = (
                revision,
                resolve(term, objects, twice=self._twice),
            )
        return known[1]

    def column(self, terms: tuple[AffinityTerm, ...]) -> CountColumn:
        """The count of pods that match all of some terms of the incoming pod."""
        return self._column(terms, terms)

    def column_of(self, term: AffinityTerm) -> CountColumn:
        """The count of pods that match one term of the incoming pod."""
        return self._column(term, (term,))

    def _column(self, asked: object, terms: Sequence[AffinityTerm]) -> CountColumn:
        revision = self._handle.objects.namespaces.revision
        known = self._queries.get(id(asked))
        if known is None or known[0] is not asked or known[1] != revision:
            if len(self._queries) >= self._handle.limits.terms:
                self._queries.clear()
            query = PodQuery(tuple(self.part(term) for term in terms))
            known = self._queries[id(asked)] = (asked, revision, query)
        return self._handle.table.counts.matching(known[2])

    def about(self, info: PodInfo) -> tuple[OwnedTerm, ...]:
        """The terms of placed pods that mean the incoming pod."""
        meta, objects = info.pod.metadata, self._handle.objects
        counts = self._handle.table.counts
        stamp = (counts.terms_version, objects.namespaces.revision)
        if self._about_stamp != stamp or len(self._about) >= self._handle.limits.terms:
            self._about, self._about_stamp = {}, stamp
        found = self._about.get(info.signature)
        if found is None:
            labels = objects.namespace_labels(meta.namespace)
            found = counts.terms_about(meta.labels, meta.namespace, labels)
            self._about[info.signature] = found
        return found

    def means_by_labels(self, term: AffinityTerm, pod: Pod) -> bool:
        """Whether a term of a placed pod means the incoming pod."""
        meta = pod.metadata
        labels = self._handle.objects.namespace_labels(meta.namespace)
        return term.matches(meta.namespace, meta.labels, labels)

    def means(self, term: AffinityTerm, pod: Pod) -> bool:
        """Whether a term of the incoming pod means another pod."""
        return self.part(term).matches(pod.metadata.namespace, pod.metadata.labels)

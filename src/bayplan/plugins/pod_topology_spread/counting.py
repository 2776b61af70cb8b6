"""Counts of matching pods per domain, over the nodes that a constraint takes in.

A node counts for a constraint if it has the topology key of every constraint of the same kind,
and, as the constraint says, if the pod's node affinity and tolerations would let the pod run
there. When no node is left out, the table's own domain counts are used as they are; else counts
per node are summed.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from bayplan.api import Pod
from bayplan.cluster.selection import RequiredNodes, taint_lookup
from bayplan.framework import BoolArray, IntArray, NodeTable
from bayplan.plugins.pod_topology_spread.constraints import Constraint, Constraints

Included = BoolArray | None
"""Rows that a constraint takes in; None means all."""


def included_by(pod: Pod, found: Constraints) -> Hashable:
    """What of a pod decides which nodes its constraints take in."""
    spec, items = pod.spec, found.hard + found.soft
    honors_affinity = any(item.honor_affinity for item in items)
    labels = tuple(sorted((spec.node_selector or {}).items())) if honors_affinity else ()
    affinity = spec.affinity.node_affinity if honors_affinity and spec.affinity else None
    required = None if affinity is None else affinity.required
    tolerations = spec.tolerations if any(item.honor_taints for item in items) else ()
    return labels, required, tolerations


class Inclusion:
    """Which rows each constraint of a pod takes in; made anew when a node changes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[Hashable, tuple[int, list[Included]]] = {}

    def masks(
        self,
        table: NodeTable,
        pod: Pod,
        key: Hashable,
        constraints: Sequence[Constraint],
        all_keys: bool,
        comparisons: bool,
    ) -> list[Included]:
        known = self._known.get(key)
        if known is not None and known[0] == table.nodes_revision:
            return known[1]
        keyed = _have_all_keys(table, constraints) if all_keys else None
        required = RequiredNodes(pod)
        affinity: Included = None
        repelled: Included = None
        masks: list[Included] = []
        for item in constraints:
            mask = keyed
            if item.honor_affinity and not required.unrestricted:
                affinity = required.mask(table) if affinity is None else affinity
                mask = affinity if mask is None else mask & affinity
            if item.honor_taints:
                if repelled is None:
                    lookup = taint_lookup(table, pod.spec.tolerations, comparisons)
                    repelled = lookup[table.taint_sets]
                mask = ~repelled if mask is None else mask & ~repelled
            masks.append(None if mask is None or mask.all() else mask)
        if len(self._known) >= self._limit:
            self._known.clear()
        self._known[key] = (table.nodes_revision, masks)
        return masks


def _have_all_keys(table: NodeTable, constraints: Sequence[Constraint]) -> Included:
    mask: Included = None
    for item in constraints:
        if table.label_column(item.key).labelled < table.count:
            have: BoolArray = table.label_codes(item.key) >= 0
            mask = have if mask is None else mask & have
    return mask


def pods_per_domain(table: NodeTable, item: Constraint, included: Included) -> IntArray:
    """Pods per domain (by label code)."""
    if included is None and item.query is not None:
        return table.counts.matching(item.query).per_domain(item.key)
    return domain_counts(table, item, included)[0]


def domain_counts(
    table: NodeTable, item: Constraint, included: Included
) -> tuple[IntArray, BoolArray]:
    """Pods per domain (by label code), and which domains have a node that is taken in."""
    column = table.label_column(item.key)
    size = len(column.values)
    if included is None:
        present = np.array(column.sizes, dtype=np.int64) > 0
        if item.query is None:
            return np.zeros(size, dtype=np.int64), present
        return table.counts.matching(item.query).per_domain(item.key), present
    codes = table.label_codes(item.key)
    inside = included & (codes >= 0)
    mine = codes[inside]
    present = np.bincount(mine, minlength=size) > 0
    if item.query is None:
        return np.zeros(size, dtype=np.int64), present
    per_node = table.counts.matching(item.query).per_node()[inside]
    return np.bincount(mine, weights=per_node, minlength=size).astype(np.int64), present


def follows(
    table: NodeTable,
    constraints: Sequence[Constraint],
    included: Sequence[Included],
    counted: Sequence[IntArray | None],
) -> bool:
    """Whether the table keeps counts (None: not by domain) up to date in place."""
    for item, mask, counts in zip(constraints, included, counted, strict=True):
        if counts is None:
            continue
        if mask is not None or item.query is None:
            return False
        if not table.counts.matching(item.query).counts_in(counts, item.key):
            return False
    return True

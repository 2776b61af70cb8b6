"""Soft constraints: the state between PreScore, Score and Normalize.

A node's raw score is the sum over constraints of count times weight, where the weight grows with
the logarithm of the number of domains. It is summed in constraint order on float64, then rounded
half away from zero: one more or less in the last bit would change decisions. Low raw scores are
good.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayplan.framework import MAX_SCORE, BoolArray, IntArray, NodeInfo, Nodes, NodeTable
from bayplan.framework.contract.domains import DomainScores
from bayplan.framework.runtime.scoring import among, compact
from bayplan.plugins.pod_topology_spread.constraints import HOSTNAME, Constraint, Constraints
from bayplan.plugins.pod_topology_spread.counting import Included, follows, pods_per_domain

FloatArray = npt.NDArray[np.float64]


class SoftState:
    """Weights and counts for each soft constraint, and the nodes left out."""

    __slots__ = (
        "_by_domain",
        "_counts",
        "_everywhere",
        "_revision",
        "_table",
        "_weights",
        "constraints",
        "ignored",
        "included",
    )

    def __init__(
        self,
        table: NodeTable,
        constraints: Constraints,
        included: list[Included],
        feasible: BoolArray,
    ) -> None:
        self._table = table
        self._revision = table.nodes_revision
        self.constraints = constraints.soft
        self.included = included
        self.ignored = self._lacking_keys(constraints, feasible)
        """Feasible rows without one of the keys, which score 0; None if there is none."""
        scored = feasible if self.ignored is None else feasible & ~self.ignored
        self._everywhere = bool(scored.all())
        """Whether weights hang on all nodes."""
        self._weights: list[float] = []
        self._counts: list[IntArray | None] = []
        self._by_domain: tuple[IntArray, IntArray, IntArray] | None = None
        """Scores of one constraint's domains, the rows' domains, and both put together."""
        for item, mask in zip(self.constraints, included, strict=True):
            if item.key == HOSTNAME:
                size = int(np.count_nonzero(scored))
                self._counts.append(None)
            else:
                size = self._domains(item.key, scored)
                counts = pods_per_domain(table, item, mask)
                if not constraints.require_all and self._shares_empty(item.key):
                    counts = self._with_unlabelled(item, mask, counts)
                self._counts.append(counts)
            self._weights.append(math.log(size + 2))

    def follow(self, table: NodeTable, found: Constraints, feasible: BoolArray) -> bool:
        """Be the state of another attempt, if the table has kept all counts up to date in place."""
        if not self._everywhere or not self.takes_in(table, found.soft) or not feasible.all():
            return False
        self._by_domain = None
        return follows(table, self.constraints, self.included, self._counts)

    def takes_in(self, table: NodeTable, constraints: tuple[Constraint, ...]) -> bool:
        """Whether these are the constraints, and the nodes that they take in are as before."""
        same = self._table is table and self._revision == table.nodes_revision
        return same and self.constraints == constraints

    def _lacking_keys(self, constraints: Constraints, feasible: BoolArray) -> BoolArray | None:
        if not constraints.require_all:
            return None
        lacking: BoolArray | None = None
        for item in constraints.soft:
            if self._table.label_column(item.key).labelled < self._table.count:
                missing: BoolArray = self._table.label_codes(item.key) < 0
                lacking = missing if lacking is None else lacking | missing
        if lacking is None:
            return None
        lacking = lacking & feasible
        return lacking if lacking.any() else None

    def _domains(self, key: str, scored: BoolArray) -> int:
        """How many values of a label the scored rows have; a missing label counts as empty."""
        column = self._table.label_column(key)
        if np.count_nonzero(scored) == len(scored):
            size = sum(count > 0 for count in column.sizes)
            missing = column.labelled < self._table.count
            return size + missing - self._shares_empty(key)
        codes = self._table.label_codes(key)[scored]
        seen = np.bincount(codes + 1, minlength=len(column.values) + 1) > 0
        size = int(np.count_nonzero(seen))
        empty = column.code_of("")
        return size - (seen[0] and empty >= 0 and seen[empty + 1])

    def _shares_empty(self, key: str) -> bool:
        """Whether some nodes lack a label that others have with an empty value: one domain."""
        column = self._table.label_column(key)
        empty = column.code_of("")
        return column.labelled < self._table.count and empty >= 0 and column.sizes[empty] > 0

    def _with_unlabelled(self, item: Constraint, included: Included, counts: IntArray) -> IntArray:
        """Counts in which pods on nodes without the label are those of the empty value."""
        assert item.query is not None  # the system's defaults select something
        rows = self._table.label_codes(item.key) < 0
        if included is not None:
            rows = rows & included
        counts = counts.copy()
        more = self._table.counts.matching(item.query).per_node()[rows]
        counts[self._table.label_column(item.key).code_of("")] += int(more.sum())
        return counts

    def score(self, nodes: Nodes) -> IntArray:
        scores = self._score(nodes)
        if self.ignored is not None:
            scores[nodes.pick(self.ignored)] = 0
        return scores

    def _score(self, nodes: Nodes) -> IntArray:
        only = self._counts[0]
        if len(self.constraints) == 1 and only is not None:
            # Rounding each domain once is the same as rounding each node.
            worth = np.zeros(len(only) + 1, dtype=np.int64)  # (domains + 1,): last is "no label"
            own = only.astype(np.float64) * self._weights[0]
            worth[:-1] = _rounded(own + (self.constraints[0].max_skew - 1))
            codes = nodes.label_codes(self.constraints[0].key)
            scores = compact(worth).take(codes)  # -1 is the last
            self._by_domain = (worth, codes, scores)
            return scores
        if self._is_host_and_domain():
            return self._score_host_and_domain(nodes)
        return self._score_several(nodes)

    def by_domain(self, most: int) -> DomainScores | None:
        """Scores by domain, and those of at most so many rows with pods of their own."""
        place = len(self.constraints) - 1
        counts, item = self._counts[place], self.constraints[place]
        if self.ignored is not None or counts is None:
            return None
        weight = self._weights[place]
        beside = [count * weight + (item.max_skew - 1) for count in counts.tolist()]
        beside.append(0.0)  # no label
        if place == 0:
            return DomainScores(item.key, [_round_one(worth) for worth in beside], {})
        if not self._is_host_and_domain():
            return None
        host, skew = self._weights[0], self.constraints[0].max_skew - 1
        query = self.constraints[0].query
        rows = {} if query is None else self._table.counts.matching(query).rows
        if len(rows) > most:
            return None
        code = self._table.label_column(item.key).codes.item
        worth = [_round_one(skew + other) for other in beside]
        ones = [_round_one(host + skew + other) for other in beside]  # most have one pod
        own = {
            row: ones[code(row)] if n == 1 else _round_one(n * host + skew + beside[code(row)])
            for row, n in rows.items()
        }
        return DomainScores(item.key, worth, own)

    def _is_host_and_domain(self) -> bool:
        """Whether it is one count a node and one a domain, as the system's defaults are."""
        counts, column = self._counts, self._table.label_column
        return (
            len(counts) == 2
            and counts[0] is None
            and counts[1] is not None
            and len(counts[1]) < 256
            and column(self.constraints[0].key).labelled == self._table.count
        )

    def _score_host_and_domain(self, nodes: Nodes) -> IntArray:
        """Few counts and few domains: each pair of them is worked out once."""
        host, domain = self.constraints
        counts = self._counts[1]
        assert counts is not None
        own = self._per_node(0, nodes)
        most = int(own.max(initial=0))
        if most > 255:
            return self._score_several(nodes)
        beside: FloatArray = np.zeros(len(counts) + 1)  # (1 + domains,): first is "no label"
        beside[1:] = counts * self._weights[1] + (domain.max_skew - 1)
        here = np.arange(most + 1, dtype=np.float64) * self._weights[0] + (host.max_skew - 1)
        worth = _rounded(here[:, None] + beside[None, :]).ravel()  # (counts * (1 + domains),)
        pairs = own * len(beside)
        pairs += nodes.label_codes(domain.key)
        pairs += 1
        scores = compact(worth).take(pairs)
        self._by_domain = (worth, pairs, scores)
        return scores

    def _score_several(self, nodes: Nodes) -> IntArray:
        total: FloatArray | None = None
        for place, item in enumerate(self.constraints):
            codes = nodes.label_codes(item.key)
            mine: FloatArray
            counts, weight = self._counts[place], self._weights[place]
            if counts is None:
                own = self._per_node(place, nodes).astype(np.float64)
                mine = own * weight + (item.max_skew - 1)
                if self._table.label_column(item.key).labelled < self._table.count:
                    mine = np.where(codes >= 0, mine, 0.0)
            else:
                worth: FloatArray = np.zeros(len(counts) + 1)  # (domains + 1,): last is "no label"
                worth[:-1] = counts * weight + (item.max_skew - 1)
                mine = worth[codes]
            total = mine if total is None else total + mine
        assert total is not None
        return _rounded(total)

    def _per_node(self, place: int, nodes: Nodes) -> IntArray:
        query = self.constraints[place].query
        if query is None:
            return np.zeros(nodes.count, dtype=np.int64)
        column = self._table.counts.matching(query).per_node()
        return nodes.pick(column).astype(np.int64, copy=False)

    def score_node(self, node: NodeInfo) -> int:
        if self.ignored is not None and self.ignored[node.row]:
            return 0
        total = 0.0
        labels = node.labels
        for place, item in enumerate(self.constraints):
            value = labels.get(item.key)
            if value is None:
                continue
            counts = self._counts[place]
            if counts is None:
                column = None if item.query is None else self._table.counts.matching(item.query)
                count = 0 if column is None else column.rows.get(node.row, 0)
            else:
                code = self._table.label_column(item.key).code_of(value)
                count = int(counts[code])
            total += count * self._weights[place] + (item.max_skew - 1)
        return _round_one(total)

    def normalize(self, scores: IntArray, feasible: BoolArray) -> IntArray | npt.NDArray[np.uint8]:
        ignored = self.ignored
        counted = among(scores, feasible if ignored is None else feasible & ~ignored)
        most = int(counted.max(initial=0))
        least = int(counted.min()) if len(counted) else 0
        known = self._by_domain
        result: IntArray | npt.NDArray[np.uint8]
        if most == 0:
            result = np.full(len(scores), MAX_SCORE, dtype=np.uint8)
        elif known is not None and known[2] is scores:
            # Domains (or pairs) in which no node fits may lie outside 0..100.
            worth = MAX_SCORE * (most + least - known[0]) // most
            lookup = np.minimum(np.maximum(worth, 0), 255).astype(np.uint8)
            result = lookup.take(known[1], mode="wrap")
        else:
            result = MAX_SCORE * (most + least - scores.astype(np.int64)) // most
        if ignored is not None:
            result[ignored] = 0
        return result


def normalized(scores: list[int]) -> list[int]:
    """The same for the scores of feasible nodes of which none is left out."""
    least, most = min(scores), max(scores)
    if most <= 0:
        return [MAX_SCORE] * len(scores)
    return [MAX_SCORE * (most + least - score) // most for score in scores]


def _round_one(value: float) -> int:
    whole = int(value)
    return whole + (value - whole >= 0.5)


def _rounded(values: FloatArray) -> IntArray:
    whole = np.trunc(values)
    whole += values - whole >= 0.5
    return whole.astype(np.int64)

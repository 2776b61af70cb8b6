"""One plugin's scores by topology domain, and the best rows of each domain.

Where a plugin scores whole domains alike, a pod that is placed changes one number per domain, not
one per row. Such scores are not added to the rows' totals: each domain has its leaders by what all
other plugins say, and the domains' scores are added when these are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.cluster.label_column import Domains

LOWEST = int(np.iinfo(np.int64).min)
"""The total of rows that are no candidates; no sum of weighted scores can reach it."""

AHEAD = 512
"""So many winners are listed ahead; more would often be listed in vain."""


class ByDomain:
    """Numbers by domain and for single rows, as a record keeps them."""

    __slots__ = ("_domains", "_own", "_worth")

    def __init__(self, domains: Domains, worth: Sequence[int], own: Mapping[int, int]) -> None:
        self._domains = domains
        self._worth = worth
        self._own = own

    def array(self) -> npt.NDArray[Any]:
        """One number a row."""
        values: IntArray = np.array(self._worth, dtype=np.int64).take(self._domains.codes)
        for row, value in self._own.items():
            values[row] = value
        return values


class DomainShare:
    """What one plugin gives each domain of candidates."""

    __slots__ = ("_alone", "domains", "normalized", "own", "present", "raw")

    def __init__(
        self,
        domains: Domains,
        raw: Sequence[int],
        own: Mapping[int, int],
        mask: BoolArray | None,
        counts: list[int],
    ) -> None:
        """`mask` has the candidates, None if all rows are; `counts` how many each domain has."""
        self.domains = domains
        self.raw = ByDomain(domains, raw, own)
        self.own: dict[int, int] = dict(own)
        """Candidates with a score of their own."""
        if mask is not None:
            self.own = {row: worth for row, worth in own.items() if mask.item(row)}
        left = counts
        if self.own:
            left, codes = counts.copy(), domains.codes.item
            for row in self.own:
                left[codes(row)] -= 1
        self.present = [domain for domain, count in enumerate(left) if count]
        """Domains of which a candidate has the domain's score."""
        self._alone = len(self.present) < len(counts) - counts.count(0)
        """Whether all candidates of some domain have scores of their own."""
        self.normalized: list[int] = [raw[domain] for domain in self.present]
        """The same, in the order of `present`; raw until `normalize` was called."""

    def scores(self) -> list[int]:
        """Raw scores of the domains that are present, then of rows with their own."""
        return [*self.normalized, *self.own.values()]

    def normalize(self, scores: list[int]) -> None:
        """Take normalised scores in the same order."""
        end = len(self.present)
        self.normalized = scores[:end]
        self.own = dict(zip(self.own, scores[end:], strict=True))

    def record(self) -> ByDomain:
        """The normalised scores as a record keeps them."""
        worth = [0] * len(self.domains.sizes)
        for domain, score in zip(self.present, self.normalized, strict=True):
            worth[domain] = score
        return ByDomain(self.domains, worth, self.own)

    def own_below(self, least: int, weight: int) -> bool:
        """Whether rows with scores of their own get less than this; there are some.

        Not told if the best row of a domain may be one that nobody has looked at.
        """
        return weight >= 0 and not self._alone and weight * max(self.own.values()) < least

    def at(self, row: int) -> int:
        """The normalised score of a candidate."""
        own = self.own.get(row)
        if own is not None:
            return own
        return self.normalized[self.present.index(self.domains.codes.item(row))]


class DomainLeaders:
    """For each domain the first of its rows with the highest total, the next winner last.

    Shared by pods that have other rows with scores of their own; these are passed over.
    """

    __slots__ = ("_rows", "_tops", "_walk", "_walks", "domains")

    def __init__(self, domains: Domains, walk: IntArray) -> None:
        """`walk` has the candidates by key."""
        self.domains = domains
        self._walk = walk
        self._walks: dict[int, IntArray] = {}
        self._rows: dict[int, list[int]] = {}
        self._tops = [LOWEST] * len(domains.sizes)

    def best(self, share: DomainShare, weight: int, masked: IntArray, keys: IntArray) -> int:
        """The candidate with the highest sum of total and domain score, by key among equals."""
        best, top, key, most = -1, LOWEST, 0, LOWEST
        lists, tops, out, total_of = self._rows, self._tops, share.own, masked.item
        for domain, score in zip(share.present, share.normalized, strict=True):
            rows, total = lists.get(domain), tops[domain]
            while rows and total_of(rows[-1]) != total:
                rows.pop()
            if not rows:
                rows = self._list(domain, masked)
                total = tops[domain]
            if total > most:
                most = total
            row = rows[-1]
            if row in out:
                row, total = self._first_but(domain, out, masked)
            total += weight * score
            if total >= top:
                mine = keys.item(row)
                if total > top or mine < key:
                    best, top, key = row, total, mine
        if not share.own or share.own_below(top - most, weight):
            return best
        for row, score in share.own.items():
            total = total_of(row) + weight * score
            if total >= top:
                mine = keys.item(row)
                if total > top or mine < key:
                    best, top, key = row, total, mine
        return best

    def _list(self, domain: int, masked: IntArray) -> list[int]:
        """The leaders of a domain that has a candidate."""
        rows = self._candidates_of(domain)
        totals = masked.take(rows)
        self._tops[domain] = top = int(totals.max())
        found: list[int] = rows.compress(totals == top)[:AHEAD].tolist()
        found.reverse()
        self._rows[domain] = found
        return found

    def _first_but(self, domain: int, out: Mapping[int, int], masked: IntArray) -> tuple[int, int]:
        """The leader of a domain if some rows do not count, and its total."""
        top = self._tops[domain]
        for row in reversed(self._rows[domain]):
            if row not in out and masked.item(row) == top:
                return row, top
        rows = self._candidates_of(domain)
        totals = masked.take(rows)
        totals[np.isin(rows, list(out))] = LOWEST
        first = int(totals.argmax())
        return int(rows[first]), int(totals[first])

    def _candidates_of(self, domain: int) -> IntArray:
        """The candidates of a domain by key."""
        rows = self._walks.get(domain)
        if rows is None:
            walk = self._walk
            rows = self._walks[domain] = walk.compress(self.domains.codes.take(walk) == domain)
        return rows

    def risen(self, row: int, total: int) -> None:
        """A row got another total."""
        domain = self.domains.codes.item(row)
        if total >= self._tops[domain]:
            self._rows.pop(domain, None)

    def all_risen(self, rows: IntArray, totals: IntArray) -> None:
        """The same for many rows."""
        domains = self.domains.codes.take(rows)
        high = totals >= np.array(self._tops, dtype=np.int64)[domains]
        if high.any():
            for domain in set(domains[high].tolist()):
                self._rows.pop(domain, None)

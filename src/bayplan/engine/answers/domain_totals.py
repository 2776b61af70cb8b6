"""Totals of which one plugin's share is kept by domain, while it can be.

The rest is shared by all pods about which the other plugins say the same: a placed pod changes one
row of it, however many sets of pods come in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from bayplan.engine.answers.candidates import Candidates
from bayplan.engine.answers.cluster_answer import ClusterAnswer
from bayplan.engine.answers.domains import DomainShare
from bayplan.engine.answers.share import Layout, WithDomains
from bayplan.engine.answers.totals import Totals
from bayplan.engine.cycle.choice import ListOrder
from bayplan.framework import PodInfo


class DomainTotals:
    """The same questions as to `Totals`."""

    __slots__ = (
        "_answer",
        "_candidates",
        "_make_whole",
        "_place",
        "_rest",
        "_stamp",
        "_whole",
        "share",
    )

    def __init__(
        self,
        candidates: Candidates,
        answer: ClusterAnswer,
        place: int,
        rest: Totals,
        make_whole: Callable[[], Totals],
    ) -> None:
        """`rest` has all scorers but one, which is at a certain place; `make_whole` has all."""
        self._candidates = candidates
        self._answer = answer
        self._place = place
        self._rest = rest
        self._make_whole = make_whole
        self._whole: Totals | None = None
        self._stamp: Hashable = None
        """What `share` was made for; None: void."""
        self.share: DomainShare | None = None
        """The plugin's scores; None if there are too many different ones."""

    def sync(self, info: PodInfo) -> None:
        """Bring everything up to date; raises AttemptFailed."""
        stamp = (self._answer.epoch, self._candidates.version)
        if stamp != self._stamp:
            self._stamp = None
            self.share = self._find_share(info)
            self._stamp = stamp
        if self.share is not None:
            self._rest.sync(info)
            return
        if self._whole is None:
            self._whole = self._make_whole()
        self._whole.sync(info)

    def _find_share(self, info: PodInfo) -> DomainShare | None:
        """The scores by domain, normalised."""
        answer, candidates = self._answer, self._candidates
        answer.prepare_scores(info, candidates.mask, candidates.stamp)
        found = answer.score_domains(info)
        if found is None:
            return None
        table = answer.desk.table
        domains = table.label_column(found.key).domains(table.count)
        counts = candidates.per_domain(domains)
        mask = None if candidates.count == len(candidates.mask) else candidates.mask
        share = DomainShare(domains, found.worth, found.own, mask, counts)
        share.normalize(answer.normalize_domains(info, share.scores()))
        return share

    def layout(self) -> tuple[Layout | WithDomains, int]:
        """Where records find what was said, and the bytes that nobody else accounts for."""
        if self.share is None:
            assert self._whole is not None
            return self._whole.layout()
        layout, size = self._rest.layout()
        answer = self._answer
        told = WithDomains(layout, self._place, answer.name, answer.weight, self.share)
        return told, size + 256 + 64 * len(self.share.own)

    def best(self, order: ListOrder, start: int) -> int:
        """The row that upstream's heap has at its root."""
        if self.share is None:
            assert self._whole is not None
            return self._whole.best(order, start)
        return self._rest.best_with(self.share, self._answer.weight, order, start)

"""One plugin's share of a set of totals: its scores, normalised for a set of candidates."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.cluster.column import Column
from bayplan.engine.answers.asking import AttemptFailed, Desk, as_scores
from bayplan.engine.answers.candidates import Candidates
from bayplan.engine.answers.cluster_answer import ClusterAnswer
from bayplan.engine.answers.kind_answer import KindAnswer
from bayplan.engine.answers.kind_column import KindColumn
from bayplan.engine.answers.row_answer import RowAnswer
from bayplan.engine.answers.share import AnyColumn
from bayplan.framework import PodInfo, Status
from bayplan.framework.runtime.scoring import call_normalize, range_problem

Scorer = RowAnswer | KindAnswer | ClusterAnswer


class Part:
    """One plugin's share, the same for all who add up scores of one set of candidates."""

    __slots__ = (
        "__weakref__",
        "_stamp",
        "answer",
        "by_kind",
        "column",
        "raw",
        "shared",
        "told_raw",
        "weight",
    )

    def __init__(self, desk: Desk, answer: Scorer) -> None:
        self.answer = answer
        self.weight = answer.weight
        steady = not isinstance(answer, ClusterAnswer) or answer.steady
        self.shared = steady and not answer.normalizes
        """Whether the answer's own scores are used as they are."""
        self.raw: Column | None = answer.raw if isinstance(answer, RowAnswer) else None
        """What the plugin said before normalising, if it does that."""
        self.column: AnyColumn = answer.raw if self.shared else Column(desk.limits.changes)
        self.by_kind = isinstance(self.column, KindColumn)
        """Whether scores hang on the kind of a row."""
        if answer.normalizes and self.raw is None:
            self.raw = Column(desk.limits.changes)
        self.told_raw = self.raw if answer.normalizes else None
        """What records show beside the normalised scores."""
        self._stamp: Hashable = None
        """What `column` was made for; None: void."""

    def sync(self, info: PodInfo, candidates: Candidates) -> None:
        """Bring the scores up to date with the answer, which is; raises AttemptFailed."""
        answer = self.answer
        if self.shared:
            if not answer.in_range:
                check_range(answer, candidates.mask)
            return
        stamp: Hashable = (answer.epoch, candidates.version)
        if isinstance(answer, RowAnswer):
            stamp = (answer.raw.version, None if answer.constant else candidates.version)
        if stamp == self._stamp:
            return
        self._stamp = None
        assert isinstance(self.column, Column)  # what is kept by kind is shared
        self.column.replace(self._normalized(info, candidates))
        self._stamp = stamp

    def _normalized(self, info: PodInfo, candidates: Candidates) -> npt.NDArray[np.uint8]:
        answer, mask = self.answer, candidates.mask
        if not isinstance(answer, ClusterAnswer):
            scores = answer.raw.values
            assert scores is not None
        else:
            answer.prepare_scores(info, mask, candidates.stamp)
            scores = answer.score_rows(info, mask)
            if self.raw is not None:
                self.raw.put(scores)
        return normalized(answer, info, scores, mask)


def normalized(
    answer: Scorer, info: PodInfo, scores: IntArray, mask: BoolArray
) -> npt.NDArray[np.uint8]:
    """Scores 0..100 of the candidates; raises AttemptFailed if one is outside."""
    state = answer.normalizing_state() if isinstance(answer, ClusterAnswer) else answer.state
    result = call_normalize(answer.desk.profile, answer.plugin, state, info.pod, scores, mask)
    if isinstance(result, Status):
        raise AttemptFailed(result)
    return as_scores(result)


def check_range(answer: Scorer, mask: BoolArray) -> None:
    """Raise if a candidate's score, which is not normalised, is outside 0..100."""
    values = answer.raw.values
    if values is not None and values.dtype != np.uint8:
        problem = range_problem(answer.name, values, mask)
        if problem is not None:
            raise AttemptFailed(problem)

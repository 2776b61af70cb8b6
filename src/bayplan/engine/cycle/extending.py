"""What one pod's extenders are asked and say, after the plugins had their say.

A *conversation* is about one pod and a list of nodes: filter of one interested extender after the
other, then prioritize of all at once, as upstream. It can be begun before it is the pod's turn
(`ahead` decides when): then `advance` takes it as far as answers have come. A call of that time
that failed is made again when it is the pod's turn: what went wrong may come of asking ahead.

It knows nodes, not rows, so that it stays right however the table changes; whether it is still
about what would be asked now, its owner compares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import NamedTuple, cast

import numpy as np

from bayplan.api import Node, Pod
from bayplan.framework import Code, Extender, ExtenderError, ExtenderFilterResult, IntArray, Status
from bayplan.framework.contract.extender import AheadExtender, Later

EXTENDER_SCALE = 100 // 10
"""Extenders score 0..10."""

Meanwhile = Callable[[], None]


def nothing() -> None:
    """There is nothing to do while an answer is awaited."""


class _Scoring(NamedTuple):
    """A prioritize call under way, and whether it was made ahead."""

    extender: Extender
    wait: Callable[[], Mapping[str, int]]
    early: bool


class Conversation:
    """One pod's extenders, asked one after the other."""

    def __init__(
        self,
        extenders: Sequence[Extender],
        pod: Pod,
        nodes: list[Node],
        meanwhile: Meanwhile = nothing,
    ) -> None:
        """`meanwhile` is called before an answer is awaited."""
        self._pod = pod
        self._nodes = nodes
        self._meanwhile = meanwhile
        interested = [extender for extender in extenders if extender.interested(pod)]
        self._filters = [extender for extender in interested if extender.is_filter]
        self._scorers = [extender for extender in interested if extender.is_prioritizer]
        self.left = nodes
        """Those that are not taken out yet."""
        self._names: list[str] | None = None
        """Their names, once they are needed."""
        self.failed: dict[str, Status] = {}
        """Why others were, by name."""
        self._early: Later[ExtenderFilterResult] | None = None
        """The filter call that was made ahead and is not answered yet."""
        self._scores: list[_Scoring] = []
        """Prioritize calls that are under way."""
        self.stumbled = False
        """Whether a call that was made ahead failed."""

    def about(self, pod: Pod, nodes: list[Node]) -> bool:
        """Whether it is about this very pod and these very nodes, in this order."""
        mine = self._nodes
        return pod is self._pod and len(mine) == len(nodes) and all(map(is_, mine, nodes))

    # -- when it is the pod's turn --------------------------------------------------------------

    def filter(self) -> Status | None:
        """Let extenders take nodes out; an error ends the attempt."""
        while self._filters and self.left:
            extender = self._filters[0]
            try:
                if not self._taken_early(extender):
                    self._take(extender, self._ask(extender))
            except ExtenderError as problem:
                if not extender.ignorable:
                    return Status.from_error(problem)
            self._filters.pop(0)
        if len(self.left) > 1 and not self._scores:
            self._begin_scores(early=False)
        return None

    def _taken_early(self, extender: Extender) -> bool:
        """Wait for the call that was made ahead, if one was; False if it is to be made now."""
        early, self._early = self._early, None
        if early is None:
            return False
        self._meanwhile()
        try:
            self._take(extender, early())
        except ExtenderError:
            self.stumbled = True
            return False
        return True

    def _ask(self, extender: Extender) -> ExtenderFilterResult:
        later = getattr(extender, "filter_later", None)  # an AheadExtender, told at less cost
        if later is None:
            return extender.filter(self._pod, self.left)
        wait: Later[ExtenderFilterResult] = later(self._pod, self.left)
        self._meanwhile()
        return wait()

    def _begin_scores(self, *, early: bool) -> None:
        pod, left = self._pod, self.left
        asked = [(one, one.prioritize_later(pod, left)) for one in self._scorers]
        self._scores = [_Scoring(extender, wait, early) for extender, wait in asked]

    @property
    def untouched(self) -> bool:
        """Whether all nodes are left, in the order in which they were asked about."""
        return self.left is self._nodes

    def _names_left(self) -> list[str]:
        if self._names is None:
            self._names = [node.metadata.name for node in self.left]
        return self._names

    def scores(self) -> IntArray:
        """What extenders add to the totals of the nodes that are left; one that fails is ignored.

        As upstream, scores are not checked: an extender may give less than 0 or more than 10.
        """
        totals = np.zeros(len(self.left), dtype=np.int64)
        asked, self._scores = self._scores, []
        if asked:
            self._meanwhile()
        for scoring in asked:
            try:
                scores = self._scores_of(scoring)
            except ExtenderError:
                continue
            # arrays overflow as Go does
            totals += _int64s([scores.get(name, 0) for name in self._names_left()]) * np.int64(
                _int64(scoring.extender.weight * EXTENDER_SCALE)
            )
        return totals

    def _scores_of(self, scoring: _Scoring) -> Mapping[str, int]:
        try:
            return scoring.wait()
        except ExtenderError:
            if not scoring.early:
                raise
            self.stumbled = True
            return scoring.extender.prioritize_later(self._pod, self.left)()

    # -- ahead of the pod's turn ----------------------------------------------------------------

    def begin(self) -> None:
        """Ask the first question; all extenders must be AheadExtenders."""
        if self._filters and self.left:
            extender = cast("AheadExtender", self._filters[0])
            self._early = extender.filter_later(self._pod, self.left)
        elif len(self.left) > 1:
            self._begin_scores(early=True)

    def advance(self) -> None:
        """Take the answer that has come, if one has, and ask what follows."""
        early = self._early
        if early is None or not early.ready():
            return
        self._early = None
        try:
            self._take(self._filters[0], early())
        except ExtenderError:
            self.stumbled = True  # the extender stays first in line, to be asked in its turn
            return
        self._filters.pop(0)
        self.begin()

    def drop(self) -> None:
        """Nobody wants the answers that are under way."""
        if self._early is not None:
            self._early.drop()
        for scoring in self._scores:
            getattr(scoring.wait, "drop", nothing)()
        self._early, self._scores = None, []

    # -- what an answer means -------------------------------------------------------------------

    def _take(self, extender: Extender, result: ExtenderFilterResult) -> None:
        """Go on with the nodes that an extender left; raises ExtenderError and changes nothing."""
        kept = result.node_names
        same = list(kept) == self._names_left()
        if same and not result.failed_unresolvable and not result.failed:
            return
        by_name = {node.metadata.name: node for node in self.left}
        if not same:
            unknown = next((name for name in kept if name not in by_name), None)
            if unknown is not None:
                raise ExtenderError(
                    f'extender "{extender.name}" claims a filtered node "{unknown}" '
                    "which is not found in the input node list"
                )
            self.left = [by_name[name] for name in dict.fromkeys(kept)]
            self._names = None
        for name, reason in result.failed_unresolvable.items():
            if name in by_name:
                self.failed[name] = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)
        for name, reason in result.failed.items():
            if name in by_name and name not in result.failed_unresolvable:
                self.failed[name] = Status(Code.UNSCHEDULABLE, reason)


def _int64s(numbers: list[int]) -> IntArray:
    try:
        return np.array(numbers, dtype=np.int64)
    except OverflowError:
        return np.array([_int64(number) for number in numbers], dtype=np.int64)


def _int64(number: int) -> int:
    """Overflow as Go does."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)

"""What is kept of one plugin's answers for one class of pods."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from bayplan.engine.cycle.records import Column
from bayplan.framework import Code, Depends, IntArray, Outcomes, PreFilterResult, Status, Verdict

FailArray = npt.NDArray[np.uint32]
SmallArray = npt.NDArray[np.uint8]


class Kept:
    """One plugin: what it answers for a class, and until when that is good."""

    __slots__ = (
        "column",
        "constant",
        "depends",
        "fails",
        "filters",
        "in_place",
        "name",
        "normalized",
        "normalizes",
        "plain",
        "plugin",
        "pre_filters",
        "pre_scores",
        "raw",
        "result",
        "revised",
        "revision",
        "scalar_filter",
        "scalar_score",
        "scored_for",
        "scores",
        "skips_filter",
        "skips_score",
        "slot",
        "stable",
        "status",
        "verdict",
        "weight",
    )

    def __init__(self, plugin: Any, depends: Depends, points: dict[str, bool], weight: int) -> None:
        self.plugin = plugin
        self.name: str = plugin.name
        self.depends = depends
        self.stable = depends is not Depends.CLUSTER
        self.pre_filters = points["preFilter"]
        self.filters = points["filter"]
        self.pre_scores = points["preScore"]
        self.scores = points["score"]
        self.weight = weight
        self.normalizes = hasattr(plugin, "normalize")
        self.in_place = depends is Depends.USAGE and not self.normalizes
        """Whether single rows of the normalised column are overwritten."""
        self.revised = not self.stable and hasattr(plugin, "revision")
        self.scalar_filter = hasattr(plugin, "filter_node")
        self.scalar_score = hasattr(plugin, "score_node")
        self.column: Column | None = None
        """What records show of `normalized` and `raw`, made when first asked for."""
        self.slot = -1
        """Where records find the columns in which rows are overwritten; -1 if there are none."""
        self.result: PreFilterResult | None = None
        self.status: Status | None = None
        """What pre_filter said."""
        self.plain = True
        """Whether pre_filter neither rejected the pod nor narrowed the search."""
        self.skips_filter = False
        self.fails: FailArray | None = None
        """Outcome number by row, 0 fits; None if every row fits."""
        self.verdict: Verdict | None = None
        """What `fails` was made from, for plugins that are asked again."""
        self.revision: Hashable | None = None
        self.skips_score = False
        self.raw: IntArray | None = None
        self.constant = False
        """Whether all raw scores are equal; then they stay so whichever rows fit."""
        self.normalized: SmallArray | None = None
        self.scored_for = -1
        """The version of the feasible set that `normalized` was made for; -1 for never."""

    @property
    def steady(self) -> bool:
        """Whether scores of this revision are the same whichever nodes fit."""
        return self.skips_score or not (self.pre_scores or self.normalizes)

    @property
    def rejects(self) -> bool:
        """Whether pre_filter ended the attempt."""
        return self.status is not None and self.status.code not in (Code.SUCCESS, Code.SKIP)

    def take_pre_filter(self, result: PreFilterResult | None, status: Status | None) -> None:
        self.result, self.status = result, status
        self.skips_filter = status is not None and status.code is Code.SKIP
        narrows = result is not None and result.node_names is not None
        self.plain = not narrows and not self.rejects

    def take_verdict(self, verdict: Verdict, outcomes: Outcomes) -> None:
        if verdict is not self.verdict:
            self.fails, self.verdict = to_numbers(verdict, self.name, outcomes), verdict


def to_numbers(verdict: Verdict, plugin: str, outcomes: Outcomes) -> FailArray | None:
    """A verdict in the engine's own outcome numbers; None if every row fits."""
    if verdict.passes_all:
        return None
    if verdict.which is not None:
        if not np.count_nonzero(verdict.which):
            return None
        return outcomes.lookup(plugin, verdict.outcomes).take(verdict.which)
    if np.count_nonzero(verdict.mask) == verdict.count:
        return None
    number = outcomes.lookup(plugin, verdict.outcomes)[1]
    fails: FailArray = np.multiply(~verdict.mask, number, dtype=np.uint32)
    return fails

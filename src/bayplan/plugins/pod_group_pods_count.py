"""Prefers the placements on which more pods of a group have a node.

Behind the gate TopologyAwareWorkloadScheduling, as upstream.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.errors import PluginError
from bayplan.framework import (
    MAX_SCORE,
    CycleState,
    Handle,
    PodGroupAssignments,
    PodGroupInfo,
)

NAME = "PodGroupPodsCount"


class PodGroupPodsCount:
    """PlacementScore: how many pods of the group have a node."""

    name = NAME

    def score_placement(
        self, state: CycleState, group: PodGroupInfo, proposed: PodGroupAssignments
    ) -> int:
        return len(group.scheduled) + len(proposed.assignments)

    def normalize_placements(
        self, state: CycleState, group: PodGroupInfo, scores: Sequence[int]
    ) -> list[int]:
        most = max(scores, default=0)
        if most == 0:
            raise PluginError(
                "no pods from pod group are assigned to any of the candidate placements"
            )
        return [score * MAX_SCORE // most for score in scores]


def new(args: None, handle: Handle) -> PodGroupPodsCount:
    return PodGroupPodsCount()

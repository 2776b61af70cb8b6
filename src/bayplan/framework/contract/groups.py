"""A pod group in its cycle, as plugins see it: its pods, sets of nodes to try it on, and the
cluster on which room is looked for when it found none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from bayplan.api import CompositePodGroup, Pod, PodGroup
from bayplan.cluster.info import PodInfo
from bayplan.framework.contract.diagnosis import Diagnosis
from bayplan.framework.contract.results import Effects, NominatingInfo
from bayplan.framework.contract.state import CycleState
from bayplan.framework.contract.status import Status


class Placement(msgspec.Struct, frozen=True):
    """A set of nodes that a whole pod group may use, in the order in which they are searched."""

    name: str
    node_names: tuple[str, ...]


class PodGroupInfo(msgspec.Struct, frozen=True):
    """A pod group that is being tried, or a composite one with the pods of all its groups."""

    group: PodGroup | CompositePodGroup
    unscheduled: tuple[Pod, ...]
    """The pods that are tried now, in their order."""
    scheduled: tuple[tuple[Pod, str], ...]
    """The pods that have a node already, assumed or bound, each with its node."""


class PodGroupAssignments(msgspec.Struct, frozen=True):
    """Where the pods of a group would go on a placement; those that found no node are left out."""

    placement: Placement
    assignments: tuple[tuple[Pod, str], ...]


class ProposedAssignment(NamedTuple):
    """A pod of a group that was tried, with the node that it found."""

    info: PodInfo
    node_name: str
    """Empty if it found none."""
    state: CycleState
    statuses: Diagnosis | None = None
    """Why each node was rejected, if all were."""


class PodGroupPostFilterResult(msgspec.Struct, frozen=True):
    """What a PodGroupPostFilter proposes: nominations, and the pods that must go for them."""

    nominating_infos: Mapping[str, NominatingInfo] = {}
    """By the pod's uid; pods that are left out keep what they have."""
    victims: tuple[Pod, ...] = ()
    effects: Effects | None = None


class GroupTrial(Protocol):
    """The cluster on which PodGroupPostFilter plugins try what would help a group.

    Each plugin gets it as it is, and what a plugin changes is put back when it has answered.
    """

    @property
    def tried(self) -> Sequence[ProposedAssignment]:
        """The pods that were tried in the cycle that failed, in order."""

    def remove_pod(self, info: PodInfo) -> None:
        """Take a placed pod off its node."""

    def add_pod(self, info: PodInfo) -> None:
        """Put a pod back that was taken off."""

    def schedule(self) -> tuple[Sequence[ProposedAssignment], Status | None]:
        """Try the group as things are now; None as the status if it fits. Nothing is placed."""

    def follow(self, proposed: Sequence[ProposedAssignment]) -> list[ProposedAssignment]:
        """The same pods with a state of their own each, which may be told who comes and goes.

        PreFilter finds it with the pods before it in place, and none of those after it.
        """

    def fits(self, proposed: Sequence[ProposedAssignment]) -> bool:
        """Whether filters let pods on their nodes as things are now, one after the other."""

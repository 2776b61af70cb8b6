"""What plugins may ask: the node table, other objects, nominated and waiting pods, the extenders.

A plugin gets its handle when it is made and may keep it. Everything here is live: read it inside
the extension points, do not remember what it said. `now` is set by the engine at the start of an
attempt; plugins have no other clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from bayplan.api import Pod
from bayplan.cluster.info import PodInfo, PodInfos
from bayplan.cluster.limits import Limits
from bayplan.cluster.nominator import Nominator
from bayplan.cluster.objects import ClusterObjects
from bayplan.cluster.table import NodeTable
from bayplan.config.gates import FeatureGates
from bayplan.framework.contract.extender import Extender
from bayplan.framework.contract.permits import WaitingPods
from bayplan.framework.contract.state import CycleState

if TYPE_CHECKING:
    from bayplan.framework.runtime.profile import Profile

S = TypeVar("S")


def never() -> bool:
    """There is no hurry."""
    return False


class Handle:
    """One per profile; all but `profile` is shared between profiles."""

    def __init__(
        self,
        *,
        table: NodeTable | None = None,
        objects: ClusterObjects | None = None,
        nominator: Nominator | None = None,
        waiting: WaitingPods | None = None,
        infos: PodInfos | None = None,
        gates: FeatureGates | None = None,
        extenders: Sequence[Extender] = (),
        limits: Limits | None = None,
        parallelism: int = 16,
        activate: Callable[[Iterable[Pod]], None] | None = None,
    ) -> None:
        self.table = NodeTable() if table is None else table
        """The cluster as this attempt sees it."""
        self.objects = ClusterObjects() if objects is None else objects
        self.nominator = Nominator() if nominator is None else nominator
        self.waiting = WaitingPods() if waiting is None else waiting
        self.infos = PodInfos() if infos is None else infos
        self.gates = FeatureGates() if gates is None else gates
        self.extenders: Sequence[Extender] = extenders
        self.limits = limits or Limits()
        """How much plugins may remember."""
        self.parallelism = parallelism
        self.now = 0.0
        """Seconds since the epoch at the start of this attempt."""
        self.late: Callable[[], bool] = never
        """Whether the step's time is up; a PostFilter with much left to do then raises Unfinished,
        but not before it got on a little."""
        self.profile: Profile | None = None
        """Set when the profile is complete; for plugins that run other plugins (preemption)."""
        self.preempting: dict[str, object] = {}
        """Pods (uid) whose victims are being removed right now; kept by the scheduler."""
        self._activate = activate

    def activate(self, pods: Iterable[Pod]) -> None:
        """Ask the queue to move pods to the active queue."""
        if self._activate is not None:
            self._activate(pods)

    def shared(self, name: str, make: Callable[[], S]) -> S:
        """State that the plugins of all profiles share because it is about one cluster."""
        return self.objects.shared(name, make)

    def info(self, pod: Pod, state: CycleState | None = None) -> PodInfo:
        """A pod with all that scheduling works out about it once, from the state if it is there."""
        if state is not None and state.info is not None and state.info.pod is pod:
            return state.info
        return self.infos.known(pod)

    def for_profile(self) -> Handle:
        """A handle that shares everything, for another profile."""
        other = Handle.__new__(Handle)
        other.__dict__.update(self.__dict__)
        other.profile = None
        return other

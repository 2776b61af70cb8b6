"""What the parts of the scheduler share: state, and the list of actions that are to be done."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bayplan.api import Pod
from bayplan.config import FeatureGates
from bayplan.engine.engine import Engine
from bayplan.engine.loop.actions import Action, RecordEvent, truncated
from bayplan.engine.loop.nominations import NominationRules
from bayplan.engine.loop.story import Stories
from bayplan.engine.loop.timing import Timing
from bayplan.engine.queue import SchedulingQueue
from bayplan.framework.contract.results import NominatingInfo
from bayplan.framework.contract.status import Status


class Failure(msgspec.Struct):
    """Why an attempt failed, and what follows from it."""

    status: Status
    message: str
    unschedulable: frozenset[str] = frozenset()
    """Plugins whose events may bring the pod back."""
    pending: frozenset[str] = frozenset()
    post_filtered: bool = False
    """Whether PostFilter plugins were asked, which counts as a try to preempt."""
    nominating: NominatingInfo | None = None
    group_size: int = 0
    """How many pods failed together, if they wait together for another attempt."""
    begun: float | None = None
    """When the attempt began, by the clock of metrics; None if it is the one under way."""


class Shared:
    """One per scheduler; its parts read and change it freely."""

    def __init__(
        self,
        engine: Engine,
        gates: FeatureGates,
        nominations: NominationRules,
        timing: Timing,
    ) -> None:
        self.timing = timing
        self.engine = engine
        """Replaced when the configuration is."""
        self.cache = engine.cache
        self.waiting = engine.cache.waiting
        self.preempting = engine.handles[0].preempting
        """What plugins see of preemptions under way."""
        self.last_victims: dict[str, tuple[str, ...]] = {}
        """The last victim of each preemption to those who wait, until it goes, to be queued."""
        self.gates = gates
        self.nominations = nominations
        self.queue: SchedulingQueue
        self.stories = Stories()
        self.unassigned: dict[str, Pod] = {}
        """Every pod without a node, by key, as the informer last showed it; of any scheduler."""
        self.actions: list[Action] = []
        self.tells_events = self.tells_metrics = True
        """Whether somebody wants to be told of events and of what is measured."""
        self.now = 0.0
        """Our own time, which never runs backwards; for waits and backoff."""
        self.wall = 0.0
        """The clock's time; for what people and the API server see."""

    def responsible_for(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self.engine.profiles

    def note(self, pod: Pod, what: str, detail: str = "") -> None:
        self.stories.note(self.wall, pod.metadata.uid, pod.key, what, detail)

    def victim_leaves(self, uid: str) -> None:
        """A pod is gone or going; if it was a last victim its preemptor need not wait longer."""
        self.no_longer_preempting(self.last_victims.pop(uid, ()))

    def no_longer_preempting(self, uids: Iterable[str]) -> None:
        """These pods need not wait for victims any more."""
        for uid in uids:
            self.preempting.pop(uid, None)

    def record(
        self,
        pod: Pod,
        kind: str,
        reason: str,
        action: str,
        note: str,
        scheduler_name: str,
        related: Pod | None = None,
    ) -> None:
        """Ask for an event about a pod."""
        if self.tells_events:
            self.actions.append(
                RecordEvent(pod, kind, reason, action, truncated(note), scheduler_name, related)
            )

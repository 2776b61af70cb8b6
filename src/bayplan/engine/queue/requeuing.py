"""Decides whether an event makes another attempt of a rejected pod worthwhile, and how soon.

Only the hints of the plugins that rejected the pod are asked. A plugin that answered Pending and
now says Queue brings the pod back at once; any other Queue brings it back after its backoff.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from bayplan.api import Object, Pod
from bayplan.engine.queue.hints import CLASS_RESOURCES, HintIndex, Match
from bayplan.engine.queue.in_flight import SeenEvent
from bayplan.engine.queue.pods import QueuedPod
from bayplan.engine.queue.waiting_room import WaitingRoom
from bayplan.errors import RAISED
from bayplan.framework.contract.events import ClusterEvent, HintFn, QueueingHint, Resource

SAMPLE = 10
HintObserver = Callable[[str, tuple[str, ...], float], None]
Problem = Callable[[str, str, str, BaseException], object]
"""Told what was raised: profile, plugin, method, error."""


class Strategy(IntEnum):
    """What to do with a rejected pod; the larger one wins."""

    SKIP = 0
    AFTER_BACKOFF = 1
    AT_ONCE = 2


class Incoming(NamedTuple):
    """An event, who waits for it, and the object before and after it."""

    event: ClusterEvent
    match: Match
    old: Object | None
    new: Object | None


Concerned = tuple[list[QueuedPod], Strategy | None]
"""Waiting pods, and what to do with all of them; None if each has to be asked about."""


class Requeuing:
    """Asks hints, and counts how often."""

    __slots__ = ("calls", "clock", "hints", "observe", "problem")

    def __init__(self, hints: HintIndex, problem: Problem) -> None:
        self.hints = hints
        self.problem = problem
        self.calls = 0
        self.clock: Callable[[], float] | None = None
        """If given, one hint in ten is timed by it and told to `observe`."""
        self.observe: HintObserver | None = None

    def incoming(self, event: ClusterEvent, old: Object | None, new: Object | None) -> Incoming:
        return Incoming(event, self.hints.match(event), old, new)

    def strategy(self, item: QueuedPod, incoming: Incoming) -> Strategy:
        """Whether one pod should be tried again because of an event."""
        rejectors = item.rejectors
        if not rejectors:
            return Strategy.AFTER_BACKOFF
        event, match, old, new = incoming
        pod = item.pod
        if event.wildcard:
            # A wildcard event with a pod is meant for that pod only.
            other = new is not None and new.metadata.uid != pod.metadata.uid
            return Strategy.SKIP if other else Strategy.AFTER_BACKOFF
        profile = pod.spec.scheduler_name
        if not self.hints.knows_profile(profile):
            return Strategy.AFTER_BACKOFF
        best = Strategy.SKIP
        for plugin, hint in match.by_profile.get(profile, ()):
            if plugin not in rejectors:
                continue
            if hint is not None:
                self.calls += 1
                call = hint
                if self.clock is not None and self.calls % SAMPLE == 1:
                    call = self._timed(hint, plugin, event.label)
                try:
                    if call(pod, old, new) is QueueingHint.SKIP:
                        continue
                except RAISED as error:  # a hint that fails must not lose the pod
                    self.problem(profile, plugin, "hint", error)
            if plugin in item.pending_plugins:
                return Strategy.AT_ONCE
            if not item.pending_plugins:
                return Strategy.AFTER_BACKOFF
            best = Strategy.AFTER_BACKOFF
        return best

    def _timed(self, hint: HintFn, plugin: str, event: str) -> HintFn:
        clock, observe = self.clock, self.observe
        assert clock is not None
        assert observe is not None

        def timed(pod: Pod, old: Any, new: Any) -> QueueingHint:
            begin, said = clock(), "Error"
            try:
                answer = hint(pod, old, new)
                said = "QueueSkip" if answer is QueueingHint.SKIP else "Queue"
                return answer
            finally:
                observe("hint", (plugin, event, said), clock() - begin)

        return timed

    def after_flight(self, item: QueuedPod, events: Iterable[SeenEvent]) -> Strategy:
        """Whether something that happened during the attempt makes another one worthwhile."""
        best = Strategy.SKIP
        for _, event, old, new in events:
            strategy = self.strategy(item, self.incoming(event, old, new))
            if strategy is Strategy.AT_ONCE:
                return strategy
            if strategy is Strategy.AFTER_BACKOFF:
                best = strategy
                if not item.pending_plugins:
                    return best
        return best

    def concerned(self, room: WaitingRoom, incoming: Incoming) -> list[Concerned]:
        """The waiting pods that the event might help; of whole groups one pod is asked about."""
        by_group = incoming.event.resource in CLASS_RESOURCES
        result: list[Concerned] = []
        for group in room.rejected_by(incoming.match.plugins, _labels(incoming)):
            pods, strategy = list(group.pods.values()), None
            if len(pods) > 1 and by_group and group.rejectors <= self.hints.class_hints:
                strategy = self.strategy(pods[0], incoming)
                if strategy is Strategy.SKIP:
                    continue
            result.append((pods, strategy))
        return result


def _labels(incoming: Incoming) -> list[Mapping[str, str]] | None:
    """The labels by which waiting pods may be found; None if any may be concerned."""
    if incoming.event.resource != Resource.ASSIGNED_POD:
        return None
    pods = [item for item in (incoming.old, incoming.new) if isinstance(item, Pod)]
    if not pods or any(_keeps_others_away(pod) for pod in pods):
        return None
    return [pod.metadata.labels for pod in pods]


def _keeps_others_away(pod: Pod) -> bool:
    """Whether a pod's own anti-affinity may be what a waiting pod waits for."""
    affinity = pod.spec.affinity
    return affinity is not None and affinity.pod_anti_affinity is not None

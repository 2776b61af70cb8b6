"""The scheduling queue: who is tried next, who waits, and what wakes whom.

A pod is in exactly one place. *Active* pods are tried in QueueSort's order. A pod that was
rejected waits in *unschedulable*, indexed by the plugins that rejected it, until an event that
one of those plugins asked for (and whose hint says so) moves it to *backoff*, or to active when
its backoff is over. A pod that failed by an error goes to *error backoff* at once. Backoff is 1,
2, 4, 8, 10 ... seconds, its end floored to the second. When nothing is active the head of backoff
is tried early. A PreEnqueue plugin may gate a pod: it then waits in unschedulable for that
plugin's events only. Every five minutes what still waits is tried anyway.

Time is an argument and the caller calls `flush`. The queue runs no plugin but PreEnqueue and
hints, and it knows neither nodes nor the API server.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import structlog

from bayplan.api import Object, Pod
from bayplan.api.labels import Selector
from bayplan.engine.queue.backoff import Backoff
from bayplan.engine.queue.changes import (
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_UPDATE,
    pod_update_events,
)
from bayplan.engine.queue.gates import Gate, Gates, TimeGates
from bayplan.engine.queue.heap import SortKey
from bayplan.engine.queue.hints import HintIndex
from bayplan.engine.queue.places import LEFTOVER_PERIOD, QueuePlaces
from bayplan.engine.queue.pods import Place, QueuedPod
from bayplan.engine.queue.requeuing import (
    Concerned,
    HintObserver,
    Incoming,
    Problem,
    Requeuing,
    Strategy,
)
from bayplan.framework.contract.events import (
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    ClusterEvent,
)

_LOG = structlog.get_logger(__name__)
SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF_Q = "PopFromBackoffQ"


class Nominations(Protocol):
    """Where the queue tells which node a pod is nominated to."""

    def from_status(self, pod: Pod) -> None:
        """Take over `status.nominatedNodeName` of a pod that was added."""

    def updated(self, old: Pod, new: Pod) -> None:
        """A queued pod was replaced by a newer version."""

    def deleted(self, pod: Pod) -> None:
        """A queued pod is gone."""


class AlreadyQueuedError(RuntimeError):
    """A pod came back from an attempt although it is in the queue; a bug of the caller."""


class SchedulingQueue(QueuePlaces):
    """All pods that wait to be scheduled."""

    def __init__(
        self,
        hints: HintIndex,
        nominations: Nominations,
        *,
        gates: Mapping[str, Sequence[Gate]] | None = None,
        sort_key: SortKey,
        problem: Problem,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        max_in_unschedulable: float = 300.0,
        pop_from_backoff: bool = True,
    ) -> None:
        self.max_in_unschedulable = max_in_unschedulable
        self._requeuing = Requeuing(hints, problem)
        self._nominations = nominations
        super().__init__(
            Gates(gates or {}, problem),
            self._selectors_of,
            sort_key,
            Backoff(initial_backoff, max_backoff, aligned=pop_from_backoff),
            pop_from_backoff=pop_from_backoff,
        )

    def _selectors_of(self, plugin: str, pod: Pod) -> Sequence[Selector] | None:
        return self._requeuing.hints.selectors_of(plugin, pod)

    # --- what comes next ---

    def measure(
        self, clock: Callable[[], float], observe: HintObserver, time_gates: TimeGates
    ) -> None:
        """Time one hint in ten by a clock, and have one run of PreEnqueue in ten timed."""
        self._requeuing.clock, self._requeuing.observe = clock, observe
        self._gates.timed = time_gates

    @property
    def hint_calls(self) -> int:
        return self._requeuing.calls

    @property
    def ready(self) -> bool:
        """Whether `pop` would return a pod."""
        return self._active.size > 0 or (self.pop_from_backoff and self._backoff.size > 0)

    def next_flush(self) -> float:
        """When `flush` has to be called next; infinity if no pod waits for time to pass."""
        if not self._pods:
            return math.inf
        times = [
            self.backoff.over_at(head)
            for head in (self._backoff.peek(), self._error_backoff.peek())
            if head is not None
        ]
        if len(self._waiting):
            times.append(self._next_leftover)
        return min(times, default=math.inf)

    # --- objects come and go ---

    def add(self, pod: Pod, now: float, beside: QueuedPod | None = None) -> None:
        """A pod to be scheduled appeared. One that is known already counts as updated.

        It waits as long as one `beside` which it is to be tried, if that backs off.
        """
        known = self._pods.get(pod.key)
        if known is not None or pod.metadata.uid in self._in_flight:
            self.update(pod if known is None else known.pod, pod, now)
            return
        if beside is not None and self.backoff.active(beside, now):
            self._to_backoff(QueuedPod.beside(beside, pod), UNSCHEDULED_POD_ADD.label, now)
            self._nominations.from_status(pod)
            return
        self._enter(pod, UNSCHEDULED_POD_ADD.label, now)

    def _enter(self, pod: Pod, event: str, now: float) -> None:
        if self._to_active(QueuedPod(pod, now), event, now):
            self._nominations.from_status(pod)

    def update(self, old: Pod, new: Pod, now: float) -> None:
        """A pod to be scheduled changed."""
        uid = new.metadata.uid
        if uid in self._in_flight:
            for event in pod_update_events(old, new):
                self._in_flight.record(event, old, new)
            return
        item = self._pods.get(new.key)
        if item is not None and item.pod.metadata.uid != uid:
            self.delete(item.pod)
            item = None
        if item is None:
            self._enter(new, UNSCHEDULED_POD_UPDATE.label, now)
            return
        if item.signature is not None and not _alike(item.pod, new):
            item.signature = None
        before = self._sort_key(item)
        item.pod = new
        self._nominations.updated(old, new)
        if item.place in (Place.ACTIVE, Place.BACKOFF):
            if self._sort_key(item) != before:
                (self._active if item.place is Place.ACTIVE else self._backoff).refresh(item)
        elif item.place is Place.UNSCHEDULABLE:
            self._waiting.refresh(item)
            self._wake_updated(item, old, now)

    def _wake_updated(self, item: QueuedPod, old: Pod, now: float) -> None:
        for event in pod_update_events(old, item.pod):
            strategy = self._requeuing.strategy(
                item, self._requeuing.incoming(event, old, item.pod)
            )
            if self._requeue(item, strategy, event.label, now) is not Place.UNSCHEDULABLE:
                return

    def delete(self, pod: Pod) -> None:
        """A pod is gone or no longer ours; unknown pods are no error."""
        self._nominations.deleted(pod)
        item = self._pods.pop(pod.key, None)
        if item is not None:
            self._leave(item)

    # --- an attempt ---

    def pop(self) -> QueuedPod | None:
        """The next pod to try, now in flight; None if there is none."""
        while True:
            item = self._active.pop()
            if item is None and self.pop_from_backoff:
                item = self._backoff.pop()
                if item is not None:
                    self.incoming["active", POP_FROM_BACKOFF_Q] += 1
            if item is None:
                return None
            del self._pods[item.key]
            if self._take_off(item):
                return item

    def pop_while(self, wanted: Callable[[QueuedPod], bool], most: int) -> list[QueuedPod]:
        """The pods that `pop` would give next, as long as they are wanted.

        For attempts that end at once: they are never in flight, and `refused` puts them back.
        """
        found = self._active.pop_while(wanted, most)
        if self.pop_from_backoff and not len(self._active):
            early = self._backoff.pop_while(wanted, most - len(found))
            self.incoming["active", POP_FROM_BACKOFF_Q] += len(early)
            found += early
        return found

    def refused(
        self,
        items: Sequence[QueuedPod],
        unschedulable: frozenset[str],
        pending: frozenset[str],
        now: float,
    ) -> None:
        """Pods alike of `pop_while` come back, rejected by the same plugins.

        For each what `add_unschedulable` would do if nothing happened during the attempt.
        """
        self._expect_leftover(now)
        pods = self._pods
        for item in items:
            item.attempts += 1
            item.unschedulable_plugins = unschedulable
            item.pending_plugins = pending
            item.unschedulable_count += 1
            item.consecutive_errors = 0
            item.timestamp = now
            item.backoff_expiration = 0.0
            item.was_flushed = False
            item.flush_timestamp = 0.0
            item.group_size = 0
            pods[item.key] = pods.pop(item.key)
        self._waiting.add_alike(items)
        self.incoming["unschedulable", SCHEDULE_ATTEMPT_FAILURE] += len(items)

    def upcoming(self, count: int) -> list[QueuedPod]:
        """The pods that `pop` would give next, as things are; none that back off."""
        return self._active.upcoming(count)

    def pop_specific(self, pod: Pod, now: float) -> QueuedPod | None:
        """Take one pod, wherever it waits, as if it had been activated and popped."""
        self._activate(pod, now)
        item = self._pods.get(pod.key)
        if item is None or item.place is not Place.ACTIVE:
            return None
        self._active.remove(item)
        del self._pods[item.key]
        return item if self._take_off(item) else None

    def _take_off(self, item: QueuedPod) -> bool:
        uid = item.pod.metadata.uid
        item.attempts += 1
        if uid in self._in_flight:
            _LOG.error("pod tracked in multiple places", pod=item.key)
            return False
        item.place = Place.IN_FLIGHT
        self._in_flight.start(uid)
        return True

    def done(self, uid: str) -> None:
        """The attempt is over, or the pod can no longer be rejected by a plugin."""
        self._in_flight.done(uid)

    def add_unschedulable(self, item: QueuedPod, now: float, group_size: int = 0) -> Place:
        """A popped pod comes back; its plugin sets say who rejected it, empty means an error.

        One that failed with its group, of a size, waits for its backoff to end, whatever happens.
        Returns where it went. Ends its flight.
        """
        uid = item.pod.metadata.uid
        try:
            if item.key in self._pods:
                raise AlreadyQueuedError(f"Pod {item.key} is already present in the queue")
            rejectors = item.rejectors
            if rejectors:
                item.unschedulable_count += 1
                item.consecutive_errors = 0
            else:
                item.consecutive_errors += 1
            item.timestamp = now
            item.backoff_expiration = 0.0
            item.was_flushed = False
            item.flush_timestamp = 0.0
            item.place = Place.NOWHERE
            item.group_size = group_size
            strategy = self._after_flight(item, uid)
            if group_size:
                strategy = Strategy.AFTER_BACKOFF
            self._pods[item.key] = item
            return self._requeue(item, strategy, SCHEDULE_ATTEMPT_FAILURE, now)
        finally:
            self._in_flight.done(uid)

    def _after_flight(self, item: QueuedPod, uid: str) -> Strategy:
        if not item.rejectors or uid not in self._in_flight:
            return Strategy.AFTER_BACKOFF
        return self._requeuing.after_flight(item, self._in_flight.events_for(uid))

    # --- waking pods ---

    def move_all(
        self,
        event: ClusterEvent,
        old: Object | None,
        new: Object | None,
        now: float,
        check: Callable[[Pod], bool] | None = None,
    ) -> int:
        """Wake the waiting pods that the event may help; returns how many were moved."""
        wildcard = event.wildcard
        if not wildcard and not self._requeuing.hints.match(event).by_profile:
            return 0
        moved = 0
        if len(self._waiting):
            incoming = self._requeuing.incoming(event, old, new)
            everybody: list[Concerned] = [(list(self._waiting), None)]
            found = everybody if wildcard else self._requeuing.concerned(self._waiting, incoming)
            for items, strategy in found:
                if check is not None:
                    items = [item for item in items if check(item.pod)]
                if strategy is None:
                    moved += self._move(items, incoming, now)
                else:
                    moved += self._requeue_alike(items, strategy, event.label, now)
        self._in_flight.record(event, old, new)
        return moved

    def _move(self, items: Iterable[QueuedPod], incoming: Incoming, now: float) -> int:
        moved = 0
        event = incoming.event
        label, wildcard = event.label, event.wildcard
        for item in items:
            if item.gating_plugin and not wildcard:
                profile = item.pod.spec.scheduler_name
                if not self._requeuing.hints.opens_gate(profile, item.gating_plugin, event):
                    continue
            strategy = self._requeuing.strategy(item, incoming)
            if strategy is Strategy.SKIP:
                continue
            if self._requeue(item, strategy, label, now) is not Place.UNSCHEDULABLE:
                moved += 1
        return moved

    def activate(self, pods: Iterable[Pod], now: float) -> None:
        """Move pods to active without backoff; one in flight is tried again when it comes back."""
        for pod in pods:
            if not self._activate(pod, now) and pod.metadata.uid in self._in_flight:
                self._in_flight.record(FORCE_ACTIVATE, None, pod)

    def retry(self, item: QueuedPod, timestamp: float, now: float) -> None:
        """Let a pod that came back be tried at once, at the place that a timestamp gives it."""
        if self._pods.get(item.key) is item:
            item.timestamp, item.unschedulable_count = timestamp, 0
            if item.place is Place.ACTIVE:
                self._active.refresh(item)
            else:
                self._activate(item.pod, now)

    def _activate(self, pod: Pod, now: float) -> bool:
        item = self._pods.get(pod.key)
        if item is None or item.place is Place.ACTIVE:
            return False
        from_backoff = item.place is not Place.UNSCHEDULABLE
        return self._to_active(item, FORCE_ACTIVATE.label, now, from_backoff=from_backoff)

    def flush(self, now: float) -> None:
        """Move what has waited long enough."""
        for heap in (self._backoff, self._error_backoff):
            while (head := heap.peek()) is not None and not self.backoff.active(head, now):
                self._to_active(head, BACKOFF_COMPLETE, now, from_backoff=True)
        if len(self._waiting) and now >= self._next_leftover:
            self._next_leftover = now + LEFTOVER_PERIOD
            self._flush_leftover(now)

    def _flush_leftover(self, now: float) -> None:
        limit = self.max_in_unschedulable
        items = [
            item
            for item in self._waiting
            if now - max(item.timestamp, item.flush_timestamp) > limit
        ]
        if not items:
            return
        for item in items:
            item.was_flushed = True
            item.flush_timestamp = now
        event = UNSCHEDULABLE_TIMEOUT
        self._move(items, self._requeuing.incoming(event, None, None), now)
        self._in_flight.record(event, None, None)

    # --- changes of the configuration ---

    def reconfigure(
        self,
        hints: HintIndex,
        gates: Mapping[str, Sequence[Gate]],
        *,
        sort_key: SortKey,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
    ) -> None:
        """Take over another configuration; every pod keeps its place."""
        self._requeuing.hints = hints
        self._gates.by_profile = gates
        aligned = self.pop_from_backoff
        self._reorder(sort_key, Backoff(initial_backoff, max_backoff, aligned=aligned))


def _alike(old: Pod, new: Pod) -> bool:
    """Whether an update left everything that a pod's signature is made of."""
    was, now = old.metadata, new.metadata
    same = was.labels == now.labels and was.owner_references == now.owner_references
    return same and old.spec == new.spec

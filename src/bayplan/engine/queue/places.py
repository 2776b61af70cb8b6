"""The places of queued pods, and the moves between them; every pod is in exactly one place.

Active pods are in QueueSort's order, those that back off in the order in which that ends, rejected
ones in a room by their plugins. A pod enters active (and backoff, when its head may be tried early)
through the gates of its profile, or waits behind one that is closed. Who is moved when, and why, is
`SchedulingQueue`'s affair.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator

from bayplan.engine.queue.backoff import Backoff
from bayplan.engine.queue.gates import Gates
from bayplan.engine.queue.heap import PodHeap, SortKey
from bayplan.engine.queue.in_flight import InFlight
from bayplan.engine.queue.pods import Place, QueuedPod
from bayplan.engine.queue.requeuing import Strategy
from bayplan.engine.queue.waiting_room import SelectorsOf, WaitingRoom

LEFTOVER_PERIOD = 30.0


class QueuePlaces:
    """Where every queued pod is."""

    def __init__(
        self,
        gates: Gates,
        selectors_of: SelectorsOf,
        sort_key: SortKey,
        backoff: Backoff,
        *,
        pop_from_backoff: bool,
    ) -> None:
        self.pop_from_backoff = pop_from_backoff
        self.incoming: defaultdict[tuple[str, str], int] = defaultdict(int)
        """Entries by (queue, event); kube-scheduler's `queue_incoming_pods_total`."""
        self._gates = gates
        self._pods: dict[str, QueuedPod] = {}
        self._sort_key, self.backoff = sort_key, backoff
        self._active = PodHeap(Place.ACTIVE, sort_key)
        self._backoff = PodHeap(Place.BACKOFF, self._backoff_key)
        self._error_backoff = PodHeap(Place.ERROR_BACKOFF, backoff.expiration)
        self._waiting = WaitingRoom(selectors_of)
        self._in_flight = InFlight()
        self._next_leftover = -math.inf

    def _reorder(self, sort_key: SortKey, backoff: Backoff) -> None:
        """Order the heaps by other rules; every pod keeps its place."""
        self._sort_key, self.backoff = sort_key, backoff
        self._active.reorder(sort_key)
        self._backoff.reorder(self._backoff_key)
        self._error_backoff.reorder(backoff.expiration)

    def _backoff_key(self, item: QueuedPod) -> tuple[object, ...]:
        end = self.backoff.expiration(item)
        return (end, self._sort_key(item)) if self.pop_from_backoff else (end,)

    # --- what is where ---

    def __len__(self) -> int:
        """Pods that are queued, in flight ones not counted."""
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods.values())

    def get(self, key: str) -> QueuedPod | None:
        """The queued pod of that name (not while it is in flight)."""
        return self._pods.get(key)

    def in_flight(self, uid: str) -> bool:
        return uid in self._in_flight

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight)

    def in_flight_events(self) -> dict[str, int]:
        """Events kept for pods in flight, by name; kube-scheduler's `inflight_events`."""
        return self._in_flight.by_label()

    @property
    def in_flight_event_count(self) -> int:
        return self._in_flight.event_count

    def pending(self) -> dict[str, int]:
        """How many pods wait where; kube-scheduler's `pending_pods`."""
        return {
            "active": len(self._active),
            "backoff": len(self._backoff) + len(self._error_backoff),
            "unschedulable": len(self._waiting) - self._waiting.gated,
            "gated": self._waiting.gated,
        }

    def unschedulable_by_plugin(self) -> dict[tuple[str, str], int]:
        """Waiting pods by (plugin, profile); kube-scheduler's `unschedulable_pods`.

        May be called while another thread steps: the list is taken in one go.
        """
        counts: defaultdict[tuple[str, str], int] = defaultdict(int)
        for item in list(self._pods.values()):
            for plugin in item.rejectors:
                counts[plugin, item.pod.spec.scheduler_name] += 1
        return dict(counts)

    def validate(self) -> None:
        """Raise AssertionError unless every pod is in exactly one place."""
        heaps = (self._active, self._backoff, self._error_backoff)
        seen: dict[str, Place] = {}
        for place, items in (
            (Place.ACTIVE, heaps[0]),
            (Place.BACKOFF, heaps[1]),
            (Place.ERROR_BACKOFF, heaps[2]),
            (Place.UNSCHEDULABLE, self._waiting),
        ):
            count = 0
            for item in items:
                count += 1
                assert item.key not in seen, (
                    f"{item.key} is in {seen[item.key].name} and {place.name}"
                )
                assert item.place is place, f"{item.key} says {item.place.name}, not {place.name}"
                assert self._pods.get(item.key) is item, f"{item.key} is not the known pod"
                seen[item.key] = place
            assert count == len(items), f"{place.name} has {count} pods but counts {len(items)}"
        assert len(seen) == len(self._pods), f"lost: {set(self._pods) - set(seen)}"
        for item in self._pods.values():
            uid = item.pod.metadata.uid
            assert uid not in self._in_flight, f"{item.key} is queued and in flight"
        self._waiting.validate()

    # --- moves ---

    def _leave(self, item: QueuedPod) -> None:
        """Take a pod out of where it is."""
        place = item.place
        if place is Place.UNSCHEDULABLE:
            self._waiting.remove(item)
        elif place is Place.ACTIVE:
            self._active.remove(item)
        elif place is Place.BACKOFF:
            self._backoff.remove(item)
        elif place is Place.ERROR_BACKOFF:
            self._error_backoff.remove(item)

    def _requeue(self, item: QueuedPod, strategy: Strategy, event: str, now: float) -> Place:
        """Let a pod go on waiting, back off or be tried; returns where it is now."""
        if strategy is Strategy.SKIP:
            if item.place is not Place.UNSCHEDULABLE:
                self._wait(item, event, now)
        elif strategy is Strategy.AFTER_BACKOFF and self.backoff.active(item, now):
            self._to_backoff(item, event, now)
        else:
            self._to_active(item, event, now)
        return item.place

    def _to_active(
        self, item: QueuedPod, event: str, now: float, *, from_backoff: bool = False
    ) -> bool:
        """Move a pod to active unless a PreEnqueue plugin gates it."""
        if not (from_backoff and self.pop_from_backoff) and self._gates.hold(item):
            self._gate(item, event, now)
            return False
        if item.initial_attempt_timestamp is None:
            item.initial_attempt_timestamp = now
        self._leave(item)
        self._pods[item.key] = item
        self._active.push(item)
        self.incoming["active", event] += 1
        return True

    def _to_backoff(self, item: QueuedPod, event: str, now: float) -> None:
        if self.pop_from_backoff and self._gates.hold(item):
            self._gate(item, event, now)
            return
        self._leave(item)
        self._pods[item.key] = item
        early = item.rejectors and not item.group_size
        heap = self._backoff if early else self._error_backoff
        heap.push(item)
        self.incoming["backoff", event] += 1

    def _gate(self, item: QueuedPod, event: str, now: float) -> None:
        # A flushed pod that is gated makes no attempt, so the mark would stay for the next one.
        item.was_flushed = False
        if item.place is not Place.UNSCHEDULABLE:
            self._leave(item)
            self._wait(item, event, now)
        else:
            self._waiting.refresh(item)

    def _wait(self, item: QueuedPod, event: str, now: float) -> None:
        self._expect_leftover(now)
        self._pods[item.key] = item
        self._waiting.add(item)
        queue = "gated" if item.gating_plugin else "unschedulable"
        self.incoming[queue, event] += 1

    def _expect_leftover(self, now: float) -> None:
        """Pods begin to wait: if none did, the first that waits too long is a while away."""
        if not len(self._waiting):
            self._next_leftover = max(self._next_leftover, now + LEFTOVER_PERIOD)

    def _requeue_alike(
        self, items: Iterable[QueuedPod], strategy: Strategy, event: str, now: float
    ) -> int:
        """Do `_requeue` for waiting pods that no gate holds, in one go."""
        after_backoff, over = strategy is Strategy.AFTER_BACKOFF, self.backoff.edge(now)
        active, backing_off = list[QueuedPod](), list[QueuedPod]()
        groups = list[QueuedPod]()
        end, hold, leave = self.backoff.expiration, self._gates.hold, self._waiting.remove
        for item in items:
            off = after_backoff and end(item) >= over
            if (not off or self.pop_from_backoff) and hold(item):
                self._gate(item, event, now)
                continue
            leave(item)
            if off:
                (groups if item.group_size else backing_off).append(item)
                continue
            if item.initial_attempt_timestamp is None:
                item.initial_attempt_timestamp = now
            active.append(item)
        self._active.push_all(active)
        self._backoff.push_all(backing_off)
        self._error_backoff.push_all(groups)
        self.incoming["active", event] += len(active)
        self.incoming["backoff", event] += len(backing_off) + len(groups)
        return len(active) + len(backing_off) + len(groups)

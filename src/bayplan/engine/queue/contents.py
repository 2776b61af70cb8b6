"""What is where in the scheduling queue; every pod is in exactly one place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from bayplan.engine.queue.heap import PodHeap
from bayplan.engine.queue.in_flight import InFlight
from bayplan.engine.queue.pods import Place, QueuedPod
from bayplan.engine.queue.waiting_room import WaitingRoom


class QueueContents:
    """The places of queued pods; who moves them is `SchedulingQueue`."""

    def __init__(
        self, active: PodHeap, backoff: PodHeap, error_backoff: PodHeap, waiting: WaitingRoom
    ) -> None:
        self._pods: dict[str, QueuedPod] = {}
        self._active = active
        self._backoff = backoff
        self._error_backoff = error_backoff
        self._waiting = waiting
        self._in_flight = InFlight()

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

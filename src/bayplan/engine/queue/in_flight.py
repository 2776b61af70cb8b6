"""Events that arrive while a pod is being scheduled, so that none of them is missed.

A popped pod is in flight until `done`. Events that arrive meanwhile are kept in one list for all;
a pod that comes back looks at those that came after it was popped. Events before the oldest pod
in flight are dropped. Nothing is kept while nothing is in flight.
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import count
from typing import NamedTuple

from bayplan.api import Object
from bayplan.framework.contract.events import ClusterEvent


class SeenEvent(NamedTuple):
    """An event with the object before and after it."""

    number: int
    event: ClusterEvent
    old: Object | None
    new: Object | None


class InFlight:
    """Pods between pop and done, by uid, and the events since the oldest of them."""

    __slots__ = ("_events", "_numbers", "_order", "_pods")

    def __init__(self) -> None:
        self._pods: dict[str, int] = {}
        self._order: deque[tuple[int, str]] = deque()
        self._events: deque[SeenEvent] = deque()
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    @property
    def event_count(self) -> int:
        return len(self._events)

    def by_label(self) -> Counter[str]:
        """How many events are kept, by their names; pods in flight count as `PodPopped`."""
        found = Counter(seen.event.label for seen in list(self._events))
        found["PodPopped"] = len(self._pods)
        return found

    def start(self, uid: str) -> None:
        number = self._pods[uid] = next(self._numbers)
        self._order.append((number, uid))

    def record(self, event: ClusterEvent, old: Object | None, new: Object | None) -> None:
        """Keep an event if any pod is in flight."""
        if self._pods:
            self._events.append(SeenEvent(next(self._numbers), event, old, new))

    def events_for(self, uid: str) -> list[SeenEvent]:
        """The events since the pod was popped, oldest first."""
        events = self._events
        if not events:
            return []
        since = self._pods[uid]
        if events[0].number > since:
            return list(events)
        return [event for event in events if event.number > since]

    def done(self, uid: str) -> None:
        """Forget a pod; calling it again is no error."""
        if self._pods.pop(uid, None) is None:
            return
        pods, order = self._pods, self._order
        if not pods:
            order.clear()
            self._events.clear()
            return
        while order and pods.get(order[0][1]) != order[0][0]:
            order.popleft()
        oldest, events = order[0][0], self._events
        while events and events[0].number < oldest:
            events.popleft()

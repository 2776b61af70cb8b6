"""What the queue remembers about a pod that is to be scheduled."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from bayplan.api import Pod

NO_PLUGINS: frozenset[str] = frozenset()


class Place(IntEnum):
    """Where a queued pod is; always exactly one place."""

    NOWHERE = 0
    ACTIVE = 1
    BACKOFF = 2
    ERROR_BACKOFF = 3
    UNSCHEDULABLE = 4
    IN_FLIGHT = 5


class QueuedPod:
    """A pod in the queue or in flight. Owned by the queue, which alone changes `place`."""

    __slots__ = (
        "attempts",
        "backoff_expiration",
        "consecutive_errors",
        "flush_timestamp",
        "gating_plugin",
        "group_size",
        "initial_attempt_timestamp",
        "key",
        "pending_plugins",
        "place",
        "pod",
        "signature",
        "ticket",
        "timestamp",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed",
    )

    def __init__(self, pod: Pod, now: float) -> None:
        self.pod = pod
        self.key = pod.key
        self.timestamp = now
        """When the pod was last added; PrioritySort's second key."""
        self.attempts = 0
        self.backoff_expiration = 0.0
        """When backoff ends, in whole seconds; 0 until it is asked for."""
        self.unschedulable_count = 0
        self.consecutive_errors = 0
        self.initial_attempt_timestamp: float | None = None
        self.was_flushed = False
        self.flush_timestamp = 0.0
        self.unschedulable_plugins = NO_PLUGINS
        """Plugins that rejected the pod; their events may bring it back."""
        self.pending_plugins = NO_PLUGINS
        """Like these, but their events bring it back without backoff."""
        self.gating_plugin = ""
        """The PreEnqueue plugin that keeps the pod out, if any."""
        self.group_size = 0
        """With how many pods of its group it failed, if it waits with them."""
        self.signature: bytes | None = None
        """What pods alike have in common (`PodInfo.signature`), once an attempt worked it out."""
        self.place = Place.NOWHERE
        self.ticket: int
        """Which heap entry stands for the pod; entries with another ticket are stale."""

    @classmethod
    def beside(cls, other: QueuedPod, pod: Pod) -> QueuedPod:
        """A pod that waits with another one of its group, which failed."""
        item = cls(pod, other.timestamp)
        item.backoff_expiration = other.backoff_expiration
        item.unschedulable_count = other.unschedulable_count
        item.consecutive_errors = other.consecutive_errors
        item.unschedulable_plugins = other.unschedulable_plugins
        item.group_size = other.group_size
        return item

    @property
    def rejectors(self) -> frozenset[str]:
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def gated(self) -> bool:
        return self.gating_plugin != ""

    @property
    def where(self) -> str:
        """Its place in words; a pod that waits with its group does so after no error."""
        if self.place is Place.UNSCHEDULABLE and self.gated:
            return f"gated by {self.gating_plugin}"
        place = self.place
        if place is Place.ERROR_BACKOFF and self.rejectors:
            place = Place.BACKOFF
        return place.name.lower().replace("_", " ")

    def rejected_by(self, unschedulable: Iterable[str], pending: Iterable[str] = ()) -> None:
        """Record who rejected the last attempt; nobody means that it failed by an error."""
        self.unschedulable_plugins = frozenset(unschedulable)
        self.pending_plugins = frozenset(pending)

    def __repr__(self) -> str:
        return f"QueuedPod({self.key}, {self.place.name}, attempts={self.attempts})"

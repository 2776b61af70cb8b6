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


PLACE_NAMES = {
    Place.NOWHERE: "none",
    Place.ACTIVE: "active",
    Place.BACKOFF: "backoff",
    Place.ERROR_BACKOFF: "backoff",
    Place.UNSCHEDULABLE: "unschedulable",
    Place.IN_FLIGHT: "in-flight",
}
"""Names as kube-scheduler's metrics have them; `gated` is unschedulable with a gating plugin."""


class QueuedPod:
    """A pod in the queue or in flight. Owned by the queue, which alone changes `place`."""

    __slots__ = (
        "attempts",
        "backoff_expiration",
        "consecutive_errors",
        "flush_timestamp",
        "gating_plugin",
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
        self.signature: bytes | None = None
        """What pods alike have in common (`PodInfo.signature`), once an attempt worked it out."""
        self.place = Place.NOWHERE
        self.ticket = 0
        """Which heap entry stands for the pod; entries with another ticket are stale."""

    @property
    def rejectors(self) -> frozenset[str]:
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def gated(self) -> bool:
        return self.gating_plugin != ""

    def rejected_by(self, unschedulable: Iterable[str], pending: Iterable[str] = ()) -> None:
        """Record who rejected the last attempt; nobody means that it failed by an error."""
        self.unschedulable_plugins = frozenset(unschedulable)
        self.pending_plugins = frozenset(pending)

    def __repr__(self) -> str:
        return f"QueuedPod({self.key}, {self.place.name}, attempts={self.attempts})"

"""How long a pod waits after a failed attempt: 1, 2, 4, 8, 10, 10 ... seconds.

A pod group waits longer in the end, by the square root of the number of its pods.

Errors in a row and rejections are counted apart. With `aligned` (kube-scheduler's
SchedulerPopFromBackoffQ) the end is floored to the second, so that pods of one second are ordered
by importance, and the second in which backoff ends still counts as backing off.
"""

from __future__ import annotations

import math

from bayplan.engine.queue.pods import QueuedPod


class Backoff:
    """The rule, with its limits in seconds; a maximum of 0 switches backoff off."""

    __slots__ = ("_steps", "aligned", "initial", "maximum")

    def __init__(self, initial: float, maximum: float, *, aligned: bool) -> None:
        self.initial = initial
        self.maximum = maximum
        self.aligned = aligned
        self._steps = [initial * 2.0**failures for failures in range(63)]

    def duration(self, count: int, size: int = 0) -> float:
        """How long a pod waits after so many failures, or a pod group of a size."""
        most = self.maximum * math.sqrt(size) if size > 1 else self.maximum
        step = self._steps[count - 1 if count < 63 else 62]
        return step if step < most else most

    def expiration(self, item: QueuedPod) -> float:
        """When a pod's backoff ends; 0 if it has none."""
        count = item.consecutive_errors or item.unschedulable_count
        if count == 0 or self.maximum == 0:
            return 0.0
        if not item.backoff_expiration:
            end = item.timestamp + self.duration(count, item.group_size)
            item.backoff_expiration = math.floor(end) if self.aligned else end
        return item.backoff_expiration

    def active(self, item: QueuedPod, now: float) -> bool:
        """Whether the pod still backs off."""
        return self.expiration(item) >= self.edge(now)

    def edge(self, now: float) -> float:
        """The earliest end of a backoff that is not over."""
        return math.floor(now) if self.aligned else now

    def over_at(self, item: QueuedPod) -> float:
        """The first moment at which the pod no longer backs off."""
        end = self.expiration(item)
        return end + 1.0 if self.aligned else math.nextafter(end, math.inf)

"""Orders the queue: higher priority first, then who waits longer."""

from __future__ import annotations

from typing import Protocol

from bayplan.api import Pod
from bayplan.framework import Handle

NAME = "PrioritySort"


class Queued(Protocol):
    """A pod in the queue, and when it entered."""

    @property
    def pod(self) -> Pod: ...
    @property
    def timestamp(self) -> float: ...


def priority_key(item: Queued) -> tuple[int, float]:
    """Smaller for pods that come first."""
    return (-(item.pod.spec.priority or 0), item.timestamp)


class PrioritySort:
    """QueueSort: `spec.priority` descending, then time of entering the queue."""

    name = NAME
    sort_key = staticmethod(priority_key)

    def less(self, a: Queued, b: Queued) -> bool:
        first, second = a.pod.priority, b.pod.priority
        return first > second or (first == second and a.timestamp < b.timestamp)


def new(args: None, handle: Handle) -> PrioritySort:
    return PrioritySort()

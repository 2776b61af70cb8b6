"""Pods that a Permit plugin parked, until every plugin that asked to wait lets them go.

Time is an argument: `expire(now)` rejects those whose deadline passed. The first signal decides;
later ones are ignored. Who parked the pod reads the outcome with `take_decided`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bayplan.api import Pod
from bayplan.framework.contract.status import Code, Status


class WaitingPod:
    """A pod on its way to a node, and the plugins it waits for."""

    __slots__ = ("_deadlines", "_timeouts", "node_name", "outcome", "pod")

    def __init__(self, pod: Pod, node_name: str, timeouts: Mapping[str, float], now: float) -> None:
        self.pod = pod
        self.node_name = node_name
        self.outcome: Status | None = None
        """Set once decided; a success status means allowed."""
        self._timeouts = dict(timeouts)
        self._deadlines = {plugin: now + seconds for plugin, seconds in timeouts.items()}

    @property
    def pending(self) -> list[str]:
        return sorted(self._deadlines)

    @property
    def deadline(self) -> float:
        return min(self._deadlines.values(), default=float("inf"))

    def allow(self, plugin: str) -> bool:
        """Stop waiting for a plugin; True if the pod is now free to go."""
        self._deadlines.pop(plugin, None)
        if self.outcome is None and not self._deadlines:
            self.outcome = Status(Code.SUCCESS)
            return True
        return False

    def reject(self, plugin: str, message: str) -> bool:
        """Send the pod back as unschedulable; False if it was already decided."""
        return self._decide(Status(Code.UNSCHEDULABLE, message, plugin=plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """Send the pod back to be tried again; False if it was already decided."""
        return self._decide(Status(Code.ERROR, message, plugin=plugin))

    def expire(self, now: float) -> bool:
        """Reject the pod if a plugin's time is up."""
        for plugin, deadline in self._deadlines.items():
            if deadline <= now:
                took = go_duration(self._timeouts[plugin])
                return self.reject(
                    plugin, f"rejected due to timeout after waiting {took} at plugin {plugin}"
                )
        return False

    def _decide(self, status: Status) -> bool:
        if self.outcome is not None:
            return False
        self.outcome = status
        return True


class WaitingPods:
    """All parked pods, by uid; shared by all profiles."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def add(self, waiting: WaitingPod) -> None:
        self._pods[waiting.pod.metadata.uid] = waiting

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def remove(self, uid: str) -> WaitingPod | None:
        return self._pods.pop(uid, None)

    def reject(self, uid: str) -> bool:
        """Reject a pod that was removed; False if it does not wait."""
        waiting = self._pods.get(uid)
        return waiting is not None and waiting.reject("", "removed")

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)

    def next_deadline(self) -> float:
        return min((w.deadline for w in self._pods.values()), default=float("inf"))

    def take_decided(self, now: float) -> list[WaitingPod]:
        """Expire what is due, then remove and return every pod whose wait is over."""
        for waiting in self._pods.values():
            waiting.expire(now)
        decided = [waiting for waiting in self._pods.values() if waiting.outcome is not None]
        for waiting in decided:
            del self._pods[waiting.pod.metadata.uid]
        return decided


def go_duration(seconds: float) -> str:
    """Write a duration as Go does: `15m0s`, `1h0m0s`, `1.5s`, `20ms`."""
    nanos = round(seconds * 1e9)
    if nanos == 0:
        return "0s"
    if nanos < 1_000_000_000:
        for unit, size in (("ms", 1_000_000), ("µs", 1_000), ("ns", 1)):
            if nanos >= size:
                return f"{nanos / size:g}{unit}"
    hours, rest = divmod(nanos, 3600 * 10**9)
    minutes, rest = divmod(rest, 60 * 10**9)
    whole, fraction = divmod(rest, 10**9)
    tail = f"{whole}.{fraction:09d}".rstrip("0") if fraction else str(whole)
    if hours:
        return f"{hours}h{minutes}m{tail}s"
    return f"{minutes}m{tail}s" if minutes else f"{tail}s"

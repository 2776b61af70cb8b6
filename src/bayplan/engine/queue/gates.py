"""PreEnqueue plugins: who may not be tried yet.

A gate that closes before a pod keeps it among those that wait, until an event that its plugin
asked for. As upstream, the gate that held a pod last time is asked first, and one that raises
is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bayplan.api import Pod
from bayplan.engine.queue.pods import QueuedPod
from bayplan.engine.queue.requeuing import SAMPLE, Problem
from bayplan.errors import RAISED
from bayplan.framework.contract.status import Status, is_success

Gate = tuple[str, Callable[[Pod], Status | None]]
"""A PreEnqueue plugin: its name and method."""
TimeGates = Callable[[str, Sequence[Gate]], Sequence[Gate]]
"""Puts timers in front of a profile's gates."""


class Gates:
    """The PreEnqueue plugins of every profile."""

    __slots__ = ("_asked", "_problem", "by_profile", "timed")

    def __init__(self, by_profile: Mapping[str, Sequence[Gate]], problem: Problem) -> None:
        self.by_profile = by_profile
        self.timed: TimeGates | None = None
        """If given, one pod in ten meets gates with timers."""
        self._problem = problem
        self._asked = 0

    def hold(self, item: QueuedPod) -> bool:
        """Whether a gate is closed before a pod, which then bears its plugin's name."""
        profile = item.pod.spec.scheduler_name
        gates = self.by_profile.get(profile, ())
        last = item.gating_plugin
        self._asked += 1
        if self._asked % SAMPLE == 1 and self.timed is not None:
            gates = self.timed(profile, gates)
        if last:
            gates = sorted(gates, key=lambda gate: gate[0] != last)
        for name, pre_enqueue in gates:
            try:
                closed = not is_success(pre_enqueue(item.pod))
            except RAISED as error:  # as upstream, an error gates the pod
                self._problem(profile, name, "pre_enqueue", error)
                closed = True
            if closed:
                item.gating_plugin = name
                item.unschedulable_plugins |= {name}
                return True
        item.gating_plugin = ""
        return False

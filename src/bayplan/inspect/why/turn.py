"""Pending pods in turn: who of those that fit alone still fits when others come first.

Each pod is asked about alone, as its scheduler speaks of it. But ten pods that fit one free slot
are not ten pods that would be placed. So all that alone find a node, or victims, are given to the
rules of a what-if: by priority and age, gangs whole, victims gone. Who is left without a node then
is told what the scheduler would say in that moment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from bayplan.api import Pod
from bayplan.inspect.amounts import listed
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.whatif.budgets import Budgets
from bayplan.inspect.whatif.rehearsal import Rehearsal
from bayplan.inspect.whatif.settling import Settling, Waiting
from bayplan.inspect.why.answer import Answer, FunnelRow
from bayplan.inspect.why.judging import alike
from bayplan.inspect.why.pod import compare, why_pod
from bayplan.plugins.gang_scheduling import NAME
from bayplan.words import plural

PLACEABLE = ("fits", "nominated")
"""States of pods that would get a node if they came first."""


class Turn:
    """What came of placing pods one after the other; the engine holds it meanwhile."""

    def __init__(self, cluster: Cluster, settling: Settling) -> None:
        self._cluster, self._ends = cluster, settling.ends
        self._victims: dict[str, list[str]] = defaultdict(list)
        for item in settling.preempted:
            self._victims[item.by.uid].append(item.pod.key)
        self._placed = sorted(_rank(end) for end in self._ends.values() if end.node)

    def crowded(self, pod: Pod) -> bool:
        """Whether a pod was tried and found the room taken."""
        return pod.uid in self._ends and not self._ends[pod.uid].node

    def told(self, pod: Pod, alone: Answer) -> Answer:
        """The answer of a pod that would get a node, in turn."""
        end = self._ends.get(pod.uid)
        if end is None:
            return alone
        victims = self._victims.get(pod.uid)
        if victims:
            text = f"it preempts {listed(victims)} and gets {end.node} when they are gone"
            return replace(alone, state="nominated", node="", summary=text)
        if alone.state == "nominated":
            text = f"it gets {end.node} when the victims of others are gone"
            return replace(alone, summary=text)
        return replace(alone, node=end.node, summary=f"it would be placed on {end.node} now")

    def refused(
        self, pod: Pod, alone: Answer, *, with_fixes: bool = False, every_node: bool = False
    ) -> Answer:
        """The answer of a pod that finds the room taken, with the engine full of the others."""
        end = self._ends[pod.uid]
        if pod.spec.scheduling_group is None:
            found = why_pod(self._cluster, pod, with_fixes=with_fixes, every_node=every_node)
        else:
            rows = (FunnelRow(NAME, (end.message,), alone.nodes),) if alone.nodes else ()
            judged = alike(self._cluster, NAME, end.message) if every_node else ()
            found = replace(alone, message=end.message, funnel=rows, judged=judged, node="")
            found = compare(self._cluster, pod, found)
        return replace(found, state="pending")

    def behind(self, pod: Pod) -> str:
        """How many take the room before a pod."""
        count = bisect_left(self._placed, _rank(self._ends[pod.uid]))
        noun = "that comes before it takes" if count == 1 else "that come before it take"
        return f"it would fit, but {plural(count, 'pending pod')} {noun} the room"


def _rank(end: Waiting) -> tuple[int, int]:
    return -end.pod.priority, end.seen


@contextmanager
def in_turn(cluster: Cluster, pods: Iterable[Pod]) -> Iterator[Turn]:
    """Place pods one after the other as the scheduler would; all is taken back afterwards."""
    with Rehearsal(cluster.engine, cluster.now) as trial:
        settling = Settling(cluster, trial, Budgets(cluster))
        for pod in pods:
            settling.add(pod)
        settling.run()
        yield Turn(cluster, settling)

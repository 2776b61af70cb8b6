"""Places a gang as a whole: all of its pods in one go, or none of them.

When a pod of a gang is popped and fewer than `minCount` pods of its group have a node, all pods of
the group that wait are popped with it and placed together, each seeing those before it. Either
enough of them fit, and all of these go on at once, or all go back to wait. So a gang never holds
nodes that it cannot use, whoever else is in the queue, and is tried once per change of the cluster,
not once per pod. Nobody is preempted for a gang.
"""

from __future__ import annotations

from typing import NamedTuple

from bayplan.api import Pod
from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.loop.shared import Failure, Shared
from bayplan.engine.queue import QueuedPod
from bayplan.framework import CLEAR_NOMINATION, Status
from bayplan.framework.contract.status import Code
from bayplan.plugins.gang_scheduling import NAME, group_key, members_of, min_count


class Gangs:
    """The group side of an attempt."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._members = members_of(shared.cache.objects)

    def changed(self, pod: Pod) -> None:
        """A pod appeared or changed."""
        self._members.put(pod)

    def deleted(self, pod: Pod) -> None:
        """A pod is gone or has finished."""
        self._members.delete(pod)

    def gather(self, item: QueuedPod) -> Gang | None:
        """Take the rest of a popped pod's gang out of the queue; None if it can go alone."""
        shared, pod = self._shared, item.pod
        key = group_key(pod)
        wanted = min_count(shared.cache.objects, key)
        needed = 0 if wanted is None else wanted - self._members.scheduled(key)
        if needed <= 0:
            return None
        items: list[QueuedPod] = []
        for member in self._members.unscheduled(key):
            if member.uid == pod.uid:
                items.append(item)
            elif shared.responsible_for(member):
                other = shared.queue.pop_specific(member, shared.now)
                if other is not None:
                    items.append(other)
        return Gang(items if item in items else [item, *items], needed)


class Gang(NamedTuple):
    """Pods that are tried together, and how many of them must find a node."""

    items: list[QueuedPod]
    needed: int

    def failure(self, decisions: list[Decision]) -> Failure:
        """What each of them is told if too few do."""
        return _failure(decisions, self.needed)


def _failure(decisions: list[Decision], needed: int) -> Failure:
    fit = sum(decision.placed for decision in decisions)
    missing = [decision for decision in decisions if not decision.placed]
    first = missing[0].message if missing else f"only {len(decisions)} pods are known"
    text = f"pod group is unschedulable, {fit} of {needed} needed pods fit: {first}"
    plugins = {NAME}.union(*(decision.unschedulable_plugins for decision in missing))
    return Failure(
        Status(Code.UNSCHEDULABLE, text, plugin=NAME),
        text,
        frozenset(plugins),
        nominating=CLEAR_NOMINATION,
    )

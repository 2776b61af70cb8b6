"""Tries a gang as a whole before any of its pods takes a node.

When a pod of a gang is popped and fewer than `minCount` pods of its group have a node, all pods of
the group are tried together, each seeing those before it, and nothing of that stays. Only if enough
of them fit is the pod placed; it then waits in Permit for the others, which are activated. A gang
that cannot fit thus never holds nodes. Nobody is preempted for a gang.
"""

from __future__ import annotations

from bayplan.api import Pod
from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.loop.shared import Failure, Shared
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

    def refusal(self, pod: Pod) -> Failure | None:
        """Why a pod's gang cannot be placed now; None if it can or the pod has no gang."""
        shared, key = self._shared, group_key(pod)
        wanted = min_count(shared.cache.objects, key)
        if wanted is None:
            return None
        needed = wanted - self._members.scheduled(key)
        if needed <= 0:
            return None
        pods = [p for p in self._members.unscheduled(key) if shared.responsible_for(p)]
        result = shared.engine.trial(pods, shared.wall, needed)
        if result.placed:
            return None
        return _failure(result.decisions, needed)


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

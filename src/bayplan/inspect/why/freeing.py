"""How many pods one change frees: they are placed one after the other with the change made."""

from __future__ import annotations

from collections.abc import Sequence

from jsonpatch import JsonPatchException
from jsonpointer import JsonPointerException

from bayplan.api import Pod
from bayplan.framework.runtime.filtering import run_pre_enqueue
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.gangs import group_of
from bayplan.inspect.step import Step, patched
from bayplan.inspect.trial import Trial
from bayplan.inspect.why.answer import Fix
from bayplan.inspect.why.case import Case
from bayplan.inspect.why.fixes import verified
from bayplan.inspect.why.gangs import Tried, group_fixes, incomplete_fixes
from bayplan.plugins.gang_scheduling import group_key

NOT_FOR_THIS_POD = (JsonPatchException, JsonPointerException)
CHANGES = 3
"""Of how many changes it is counted what they free."""
PLACED = 200
"""How many pods are placed at most to count them."""


def best_fix(cluster: Cluster, pods: Sequence[Pod]) -> tuple[Fix | None, int, bool]:
    """The change that frees most pods, of those that free the first; how many; if maybe more."""
    best: Fix | None = None
    most = 0
    for fix, step in _changes(cluster, pods[0])[:CHANGES]:
        frees = _freed(cluster, step, pods[:PLACED])
        if frees > most:
            best, most = fix, frees
    return best, most, most == PLACED < len(pods)


def _changes(cluster: Cluster, pod: Pod) -> list[tuple[Fix, Step]]:
    """Verified changes for one pod, the least disturbing first."""
    group = group_of(cluster.engine, pod)
    if group is None or pod.spec.scheduling_gates:
        return verified(Case(cluster, pod, cluster.decide(pod)))
    gate = run_pre_enqueue(cluster.engine.profiles[pod.spec.scheduler_name], pod)
    if gate is not None:
        return incomplete_fixes(cluster, pod)
    return group_fixes(cluster, pod, Tried(cluster, pod, group))


def _freed(cluster: Cluster, step: Step, pods: Sequence[Pod]) -> int:
    count, groups = 0, set[str]()
    with cluster.trial() as trial:
        trial.put_all(step.put)
        for item in step.delete:
            trial.delete(item)
        for pod in pods:
            group, key = group_of(cluster.engine, pod), group_key(pod)
            if group is None:
                count += _placed(trial, pod, step)
            elif key not in groups:
                groups.add(key)
                found = Tried(cluster, pod, group)
                count += sum(bool(found.found.node(n)) for n in range(len(found.gang.items)))
    return count


def _placed(trial: Trial, pod: Pod, step: Step) -> bool:
    """Place a pod with the change made to it, taking its victims away if it has any."""
    try:
        changed = patched(pod, step.patch)
    except NOT_FOR_THIS_POD:  # but for another template of the group
        return False
    decision = trial.place(changed)
    if decision.placed:
        return True
    return bool(decision.victims is not None and trial.preempt(decision))

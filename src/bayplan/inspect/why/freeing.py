"""How many pods one change frees: they are placed one after the other with the change made.

Pods of a group wait for the same cause, but not all are of one template: changes are looked for
with one pod of each of its largest templates. What frees most of a group is told with the group;
those changes are then counted over all groups, since one node or label may help several causes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from jsonpatch import JsonPatchException
from jsonpointer import JsonPointerException

from bayplan.api import Pod
from bayplan.cluster.pod_groups import group_key
from bayplan.framework.runtime.filtering import run_pre_enqueue
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.gangs import group_of
from bayplan.inspect.step import Step, patched
from bayplan.inspect.trial import Trial
from bayplan.inspect.why.answer import Fix
from bayplan.inspect.why.case import Case
from bayplan.inspect.why.fixes import other_schedulers, verified
from bayplan.inspect.why.gangs import Tried, group_fixes, incomplete_fixes

NOT_FOR_THIS_POD = (JsonPatchException, JsonPointerException)
TEMPLATES = 3
"""With how many templates of a group changes are looked for."""
CHANGES = 3
"""Of how many changes of a template it is counted what they free."""
PLACED = 200
"""How many pods of a group are placed at most to count them."""


class Freeing(msgspec.Struct, frozen=True):
    """A change, and how many pods it frees."""

    fix: Fix
    step: Step
    frees: int
    more: bool = False
    """Whether counting ended before all were placed."""


def best_fix(cluster: Cluster, pods: Sequence[Pod]) -> Freeing | None:
    """The change that frees most pods of a group; of equals, the least disturbing."""
    best: Freeing | None = None
    seen: set[str] = set()
    for pod in _templates(cluster, pods):
        for fix, step in _changes(cluster, pod)[:CHANGES]:
            if step.change in seen:
                continue
            seen.add(step.change)
            frees = _freed(cluster, step, pods[:PLACED])
            if best is None or frees > best.frees:
                best = Freeing(fix, step, frees, frees == PLACED < len(pods))
    return best if best is not None and best.frees else None


def best_of_all(
    cluster: Cluster, found: Sequence[Freeing], groups: Sequence[Sequence[Pod]]
) -> Freeing | None:
    """Of the changes that help some group most, the one that frees most pods of all groups."""
    best: Freeing | None = None
    for item in {freeing.step.change: freeing for freeing in found}.values():
        helped = [pods for pods in groups if _freed(cluster, item.step, pods[:1])]
        pods = [pod for some in helped for pod in some[:PLACED]]
        frees = _freed(cluster, item.step, pods)
        if best is None or frees > best.frees:
            more = frees == len(pods) < sum(map(len, helped))
            best = Freeing(item.fix, item.step, frees, more)
    return best


def _templates(cluster: Cluster, pods: Sequence[Pod]) -> list[Pod]:
    """One pod of each of the largest templates."""
    counts: dict[bytes, list[Pod]] = {}
    for pod in pods:
        counts.setdefault(cluster.engine.cache.infos.make(pod).signature, []).append(pod)
    ordered = sorted(counts.values(), key=len, reverse=True)  # those first that are older
    return [some[0] for some in ordered[:TEMPLATES]]


def _changes(cluster: Cluster, pod: Pod) -> list[tuple[Fix, Step]]:
    """Verified changes for one pod, the least disturbing first."""
    profile = cluster.engine.profiles.get(pod.spec.scheduler_name)
    if profile is None:
        return other_schedulers(cluster, pod)
    group = group_of(cluster.engine, pod)
    if group is None or pod.spec.scheduling_gates:
        return verified(Case(cluster, pod, cluster.decide(pod)))
    if run_pre_enqueue(profile, pod) is not None:
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
    profile = trial.engine.profiles.get(changed.spec.scheduler_name)
    if profile is None or changed.spec.scheduling_gates:
        return False
    decision = trial.place(changed)
    if decision.placed:
        return True
    return bool(decision.victims is not None and trial.preempt(decision))

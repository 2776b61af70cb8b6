"""All pending pods at once, grouped by cause.

Pods that cannot be told apart by what rejects them get one answer: they are decided once and share
it, so a thousand replicas, or a thousand jobs with labels of their own, cost as much as one. A
cause is what rejects most nodes, in few words. For each group the change that frees most of its
pods is looked for, and how many it frees is counted by placing them one after the other with the
change made.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec
from jsonpatch import JsonPatchException
from jsonpointer import JsonPointerException
from msgspec.structs import replace

from bayplan.api import Pod
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.why.answer import Answer, Fix, Group, Pending
from bayplan.inspect.why.gangs import Groups
from bayplan.inspect.why.observed import observe
from bayplan.inspect.why.pod import age, owner_title, why_pod
from bayplan.inspect.why.step import patched

_ENCODER = msgspec.msgpack.Encoder()
NOT_FOR_THIS_POD = (JsonPatchException, JsonPointerException)

COMMON = ("TaintToleration", "NodeUnschedulable")
NAMED = 5
GROUPS_WITH_FIXES = 12
PLACED = 200
"""How many pods of a group are placed to count how many a change frees."""


def why_pending(cluster: Cluster, namespace: str = "", *, with_fixes: bool = True) -> Pending:
    """Why every pending pod waits; only those of one namespace if it is given."""
    pods = [pod for pod in cluster.pending() if not namespace or pod.namespace == namespace]
    known: dict[Hashable, Answer] = {}
    answers: list[Answer] = []
    groups: Groups = {}
    for pod in pods:
        template, alike = _keys(cluster, pod)
        answer = known.get(template) or known.get(alike)
        if answer is None:
            answer = why_pod(cluster, pod, with_fixes=False, groups=groups)
            known[template] = answer
            if answer.state != "fits":  # where it would go hangs on labels too
                known[alike] = answer
        answers.append(_as_for(cluster, pod, answer))
    causes = _groups(cluster, pods, answers, with_fixes)
    said = [answer for answer in answers if answer.identical is not None]
    return Pending(
        len(pods),
        causes,
        tuple(answers),
        sum(1 for answer in said if answer.identical),
        len(said),
        len(cluster.nodes),
        cluster.origin.unread,
    )


def _keys(cluster: Cluster, pod: Pod) -> tuple[Hashable, Hashable]:
    """What pods of one template share, and what pods share that are rejected alike.

    Labels count where the pod's own rules may select it, or where placed pods' terms do.
    """
    spec, nominated = pod.spec, pod.status.nominated_node_name
    own_claims = spec.resource_claims or any(item.ephemeral is not None for item in spec.volumes)
    if own_claims or spec.scheduling_group is not None:
        return pod.key, pod.key  # its claims, or its place in a group, are its own
    cache, labels = cluster.engine.cache, pod.labels
    affinity = spec.affinity
    selects = spec.topology_spread_constraints or (
        affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    )
    about = cache.objects.namespace_labels(pod.namespace)
    terms = cache.table.counts.terms_about(labels, pod.namespace, about)
    own = tuple(sorted(labels.items())) if selects else ()
    alike = (_ENCODER.encode(spec), pod.namespace, tuple(map(id, terms)), own, nominated)
    return (cache.infos.make(pod).signature, nominated), alike


def _as_for(cluster: Cluster, pod: Pod, answer: Answer) -> Answer:
    """The answer of another pod of the template, for this one."""
    if answer.pod == pod.key:
        return answer
    seen = observe(cluster, pod, answer.message)
    foreign = answer.state == "otherScheduler"
    return replace(
        answer,
        pod=pod.key,
        age_seconds=age(cluster, pod),
        owner=owner_title(cluster, pod),
        observed=seen.message,
        observed_reason=seen.reason,
        event=seen.event,
        identical=None if foreign else seen.identical,
        difference="" if foreign else seen.difference,
    )


def cause(answer: Answer) -> str:
    """Why a pod waits, in few words: what rejects most nodes, with what all have in common."""
    if answer.state in ("fits", "otherScheduler", "nominated", "gated"):
        return {
            "fits": "would be placed now",
            "nominated": "waits for its victims to leave",
            "otherScheduler": f'waits for the scheduler "{answer.scheduler}"',
            "gated": f"gated: {answer.summary.removeprefix('it is held back by ')}",
        }[answer.state]
    if not answer.funnel:
        return answer.message or answer.summary
    # taints and cordons are everywhere; what else is in the way tells causes apart
    own = [row for row in answer.funnel if row.plugin not in COMMON] or list(answer.funnel)
    return "; ".join(", ".join(row.reasons) for row in own[:2])


def _groups(
    cluster: Cluster, pods: list[Pod], answers: list[Answer], with_fixes: bool
) -> tuple[Group, ...]:
    members: dict[str, list[tuple[Pod, Answer]]] = {}
    for pod, answer in zip(pods, answers, strict=True):
        members.setdefault(cause(answer), []).append((pod, answer))
    ordered = sorted(members.items(), key=lambda item: (-len(item[1]), item[0]))
    found = []
    for place, (text, some) in enumerate(ordered):
        fix, frees = None, 0
        if with_fixes and place < GROUPS_WITH_FIXES:
            fix, frees = _best_fix(cluster, some)
        owners = dict.fromkeys(answer.owner for _, answer in some if answer.owner)
        found.append(
            Group(
                text,
                len(some),
                max(answer.age_seconds for _, answer in some),
                tuple(pod.key for pod, _ in some[:NAMED]),
                tuple(owners)[:NAMED],
                some[0][1].message,
                fix,
                frees,
            )
        )
    return tuple(found)


def _best_fix(cluster: Cluster, members: list[tuple[Pod, Answer]]) -> tuple[Fix | None, int]:
    """The change that frees most of a group, of those that free its first pod."""
    first = members[0]
    if first[1].state not in ("pending", "gated"):
        return None, 0
    best: tuple[Fix | None, int] = (None, 0)
    for fix in why_pod(cluster, first[0]).fixes[:3]:
        frees = _freed(cluster, fix, [pod for pod, _ in members[:PLACED]])
        if frees > best[1]:
            best = fix, frees
    return best


def _freed(cluster: Cluster, fix: Fix, pods: list[Pod]) -> int:
    """How many pods find a node, one after the other, with a change made."""
    if fix.side != "pod":
        return 1
    with cluster.trial() as trial:
        count = 0
        for pod in pods:
            try:
                changed = patched(pod, fix.patch)
            except NOT_FOR_THIS_POD:  # but for another template of the group
                continue
            count += trial.place(changed).placed
    return count

"""All pending pods at once, grouped by cause.

Pods of one template get one answer: they are decided once and share it, so a thousand replicas cost
as much as one. A cause is what rejects most nodes, in few words. For each group the change that
frees most of its pods is looked for, and how many it frees is counted by placing them one after
the other with the change made.
"""

from __future__ import annotations

from jsonpatch import JsonPatchException
from jsonpointer import JsonPointerException
from msgspec.structs import replace

from bayplan.api import Pod
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.why.answer import Answer, Fix, Group, Pending
from bayplan.inspect.why.observed import observe
from bayplan.inspect.why.pod import age, why_pod
from bayplan.inspect.why.step import patched

NOT_FOR_THIS_POD = (JsonPatchException, JsonPointerException)

COMMON = ("TaintToleration", "NodeUnschedulable")
NAMED = 5
GROUPS_WITH_FIXES = 12
PLACED = 200
"""How many pods of a group are placed to count how many a change frees."""


def why_pending(cluster: Cluster, namespace: str = "", *, with_fixes: bool = True) -> Pending:
    """Why every pending pod waits; only those of one namespace if it is given."""
    pods = [pod for pod in cluster.pending() if not namespace or pod.namespace == namespace]
    known: dict[tuple[bytes, str], Answer] = {}
    answers: list[Answer] = []
    for pod in pods:
        key = (cluster.engine.cache.infos.make(pod).signature, pod.status.nominated_node_name)
        if key not in known:
            known[key] = why_pod(cluster, pod, with_fixes=False)
        answers.append(_as_for(cluster, pod, known[key]))
    groups = _groups(cluster, pods, answers, with_fixes)
    said = [answer for answer in answers if answer.identical is not None]
    return Pending(
        len(pods),
        groups,
        tuple(answers),
        sum(1 for answer in said if answer.identical),
        len(said),
        len(cluster.nodes),
        cluster.origin.unread,
    )


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

"""All pending pods at once, grouped by cause.

Pods that cannot be told apart by what rejects them get one answer: they are decided once and share
it, so a thousand replicas, or a thousand jobs with labels of their own, cost as much as one. Those
that fit are then placed in turn (`turn`). A cause is what rejects most nodes, in few words. For
each group the change that frees most of its pods is looked for, and how many it frees is counted by
placing them one after the other with the change made.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import nullcontext
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from bayplan.api import Pod
from bayplan.cluster.pod_groups import group_key
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.whatif.owners import title
from bayplan.inspect.why.answer import Answer, Group, Pending
from bayplan.inspect.why.freeing import Freeing, best_fix, best_of_all
from bayplan.inspect.why.gangs import Groups
from bayplan.inspect.why.observed import observe
from bayplan.inspect.why.pod import age, why_pod
from bayplan.inspect.why.ranks import Ranks
from bayplan.inspect.why.turn import PLACEABLE, Turn, in_turn
from bayplan.words import plural

_ENCODER = msgspec.msgpack.Encoder()

COMMON = ("TaintToleration", "NodeUnschedulable")
TAKEN = "no room is left by those before: "
NAMED = 5
GROUPS_WITH_FIXES = 12

Members = dict[str, list[tuple[Pod, Answer]]]
"""Pods with their answers, by cause."""


def why_pending(
    cluster: Cluster,
    namespace: str = "",
    *,
    with_fixes: bool = True,
    details: bool = True,
    every_node: bool = False,
) -> Pending:
    """Why every pending pod waits; only those of one namespace if it is given.

    Without `details` the groups are the same, and the answers of single pods are brief;
    `every_node` fills their `judged`.
    """
    if namespace:
        cluster.check_namespace(namespace)
    pods = [pod for pod in cluster.pending() if not namespace or pod.namespace == namespace]
    answers = _alone(cluster, pods, brief=not details, every_node=every_node)
    members: Members = {}
    rivals = _rivals(cluster, pods, answers)
    # what a change frees is counted while those that fit hold their room
    with in_turn(cluster, rivals) if rivals else nullcontext() as turn:
        if turn is not None:
            answers = _in_turn(cluster, turn, pods, answers, every_node)
        for pod, answer in zip(pods, answers, strict=True):
            before = TAKEN if turn is not None and turn.crowded(pod) else ""
            members.setdefault(before + cause(answer), []).append((pod, answer))
        ordered = sorted(members.items(), key=lambda item: (-len(item[1]), item[0]))
        helped = _helped(cluster, dict(ordered[:GROUPS_WITH_FIXES])) if with_fixes else {}
        waiting = [[pod for pod, _ in some] for _, some in ordered if _waits(some[0][1])]
        best = best_of_all(cluster, list(helped.values()), waiting)
    said = [answer for answer in answers if answer.identical is not None]
    return Pending(
        count=len(pods),
        groups=tuple(_group(text, some, helped.get(text)) for text, some in ordered),
        pods=tuple(answers),
        identical=sum(1 for answer in said if answer.identical),
        observed=len(said),
        nodes=len(cluster.nodes),
        fix=None if best is None else best.fix,
        frees=0 if best is None else best.frees,
        frees_more=best is not None and best.more,
        unread=cluster.origin.unread,
        version=cluster.settings.gates.version,
        version_note=cluster.version_note,
    )


def _waits(answer: Answer) -> bool:
    """Whether a change could free such a pod."""
    silent = answer.observed is None and answer.event is None
    return answer.state in ("pending", "gated") or (answer.state == "otherScheduler" and silent)


def _helped(cluster: Cluster, members: Members) -> dict[str, Freeing]:
    """What frees most of each cause."""
    found = {
        text: best_fix(cluster, [pod for pod, _ in some])
        for text, some in members.items()
        if _waits(some[0][1])
    }
    return {text: best for text, best in found.items() if best is not None}


def _alone(cluster: Cluster, pods: list[Pod], *, brief: bool, every_node: bool) -> list[Answer]:
    """Each pod's answer as if it were the only one that waits."""
    known: dict[Hashable, Answer] = {}
    groups: Groups = {}
    answers = []
    ranks = Ranks(cluster) if brief else None
    for pod in pods:
        template, alike, rest = _keys(cluster, pod)
        answer = known.get(template) or known.get(alike)
        rank = None if answer is not None or ranks is None or rest is None else ranks.of(pod)
        if answer is None and rank is not None:
            answer = known.get((rank, rest))
        if answer is None:
            answer = why_pod(
                cluster,
                pod,
                with_fixes=False,
                groups=groups,
                brief=brief,
                every_node=every_node,
            )
            known[template] = answer
            if answer.state != "fits":  # where it would go hangs on labels too
                known[alike] = answer
            if answer.state == "pending" and rank is not None:
                known[rank, rest] = answer
        answers.append(_as_for(cluster, pod, answer))
    return answers


def _rivals(cluster: Cluster, pods: list[Pod], answers: list[Answer]) -> list[Pod]:
    """All pods, of any namespace, that would get a node if they came first; none if only one."""
    mine = {p.uid for p, a in zip(pods, answers, strict=True) if a.state in PLACEABLE}
    if not mine:
        return []
    asked = {pod.uid for pod in pods}
    known: dict[Hashable, bool] = {}
    found = [
        pod
        for pod in cluster.pending()
        if (pod.uid in mine if pod.uid in asked else _placeable(cluster, pod, known))
    ]
    return found if len(found) > 1 else []


def _placeable(cluster: Cluster, pod: Pod, known: dict[Hashable, bool]) -> bool:
    """Whether a pod would get a node if it came first; asked once a template."""
    key = _keys(cluster, pod)[0]
    if key not in known:
        known[key] = why_pod(cluster, pod, with_fixes=False, brief=True).state in PLACEABLE
    return known[key]


_PLACEABLE: WeakKeyDictionary[Cluster, dict[Hashable, bool]] = WeakKeyDictionary()


def why_in_turn(cluster: Cluster, pod: Pod, *, every_node: bool = False) -> Answer:
    """Why a pod waits, as `--pending` tells it: after the pending pods that come before it.

    Those are placed first if the pod, alone, would get a node; a pod that does not exist yet comes
    after all that are as important.
    """
    alone = why_pod(cluster, pod, every_node=every_node)
    if alone.state not in PLACEABLE:
        return alone
    known = _PLACEABLE.setdefault(cluster, {})
    own = group_key(pod)
    first = [
        other
        for other in cluster.before(pod)
        if not (own and group_key(other) == own) and _placeable(cluster, other, known)
    ]
    if not first:
        return alone
    groups = {group_key(other) for other in (*first, pod)} - {""}
    whole = {other.uid: other for other in (*first, pod)}
    whole |= {other.uid: other for other in cluster.pending() if group_key(other) in groups}
    with in_turn(cluster, whole.values()) as turn:
        if not turn.crowded(pod):
            verb = "comes" if len(first) == 1 else "come"
            note = f"{plural(len(first), 'pending pod')} {verb} before it and would get a node too"
            return replace(turn.told(pod, alone), notes=(*alone.notes, note))
        found = turn.refused(pod, alone, with_fixes=True, every_node=every_node)
        return replace(found, summary=turn.behind(pod))


def _in_turn(
    cluster: Cluster, turn: Turn, pods: list[Pod], alone: list[Answer], every_node: bool
) -> list[Answer]:
    known: dict[Hashable, Answer] = {}
    answers = []
    for pod, answer in zip(pods, alone, strict=True):
        if not turn.crowded(pod):
            answers.append(turn.told(pod, answer))
            continue
        key = (_keys(cluster, pod)[0], pod.priority)
        first = known.get(key)
        if first is None:
            first = known[key] = turn.refused(pod, answer, every_node=every_node)
        answers.append(replace(_as_for(cluster, pod, first), summary=turn.behind(pod)))
    return answers


def _keys(cluster: Cluster, pod: Pod) -> tuple[Hashable, Hashable, Hashable]:
    """What pods of one template share, and what pods share that are rejected alike; without specs.

    Labels count where the pod's own rules may select it, or where placed pods' terms do.
    """
    spec, nominated = pod.spec, pod.status.nominated_node_name
    own_claims = spec.resource_claims or any(item.ephemeral is not None for item in spec.volumes)
    if own_claims or spec.scheduling_group is not None:
        return pod.key, pod.key, None  # its claims, or its place in a group, are its own
    cache, labels = cluster.engine.cache, pod.labels
    affinity = spec.affinity
    selects = spec.topology_spread_constraints or (
        affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    )
    about = cache.objects.namespace_labels(pod.namespace)
    terms = cache.table.counts.terms_about(labels, pod.namespace, about)
    own = tuple(sorted(labels.items())) if selects else ()
    rest = (pod.namespace, tuple(map(id, terms)), own, nominated)
    template = (cache.infos.make(pod).signature, nominated)
    return template, (_ENCODER.encode(spec), *rest), rest


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
        owner=title(cluster, pod),
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


def _group(text: str, some: list[tuple[Pod, Answer]], best: Freeing | None) -> Group:
    owners = dict.fromkeys(answer.owner or pod.key for pod, answer in some)
    return Group(
        cause=text,
        count=len(some),
        oldest_seconds=max(answer.age_seconds for _, answer in some),
        pods=tuple(pod.key for pod, _ in some[:NAMED]),
        owners=tuple(owners)[:NAMED],
        owner_count=len(owners),
        message=some[0][1].message,
        fix=None if best is None else best.fix,
        frees=0 if best is None else best.frees,
        frees_more=best is not None and best.more,
    )

"""`why deployment/web`: its pods that wait, or why it has not made them at all."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from bayplan.api import Pod, plain
from bayplan.inspect.admission import Admission, admitted
from bayplan.inspect.cluster import Cluster, is_pending
from bayplan.inspect.commands import where
from bayplan.inspect.objects import Owner, ordinal
from bayplan.inspect.why.answer import Answer
from bayplan.inspect.why.making import as_refused
from bayplan.inspect.why.observed import events_about
from bayplan.inspect.why.pending import why_in_turn
from bayplan.inspect.why.pod import why_pod

REFUSED_BY_OTHERS = (
    "nothing that is checked here refuses it now: its controller tries again by itself, or a "
    "webhook or policy refuses it, and only that can be changed"
)


class OwnerAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Why the pods of an owner are where they are."""

    owner: str
    wanted: int
    made: int
    pending: int
    summary: str
    notes: tuple[str, ...] = ()
    """Why pods were not made."""
    pods: tuple[Answer, ...] = ()


def why_owner(cluster: Cluster, owner: Owner, *, every_node: bool = False) -> OwnerAnswer:
    """Ask about an owner: first its pending pods, one of each template; else one that runs."""
    pods = [pod for pod in cluster.pods_of(owner) if not pod.finished]
    waiting = [pod for pod in pods if is_pending(pod)]
    seen: set[bytes] = set()
    chosen = []
    for pod in waiting:
        signature = cluster.engine.cache.infos.make(pod).signature
        if signature not in seen:
            seen.add(signature)
            chosen.append(pod)
    ended = _ended(owner)
    missing = 0 if ended else max(0, owner.wanted - len(pods))
    asked = (chosen or pods[:1])[:5]
    answers = [why_in_turn(cluster, pod, every_node=every_node) for pod in asked]
    notes = held_back(owner, waiting) if missing else []
    if missing and not notes:
        notes = failures(cluster, owner)
        one = _not_made(cluster, owner, missing, notes, every_node)
        answers = [*(answers if waiting else ()), one]
    return OwnerAnswer(
        f"{owner.KIND.lower()}/{owner.key}",
        owner.wanted,
        len(pods),
        len(waiting),
        ended or _summary(owner, len(pods), len(waiting), missing),
        tuple(notes),
        tuple(answers),
    )


def _ended(owner: Owner) -> str:
    """How a job has ended; empty if it has not, or is none."""
    done, spec = owner.status.succeeded, owner.spec
    of = "" if spec.completions is None else f" of {spec.completions}"
    for condition in owner.status.conditions if owner.KIND == "Job" else ():
        if condition.status == "True" and condition.type == "Complete":
            return f"it is complete: {done}{of} succeeded"
        if condition.status == "True" and condition.type == "Failed":
            why = f" ({condition.message})" if condition.message else ""
            return f"it has failed{why}: {done}{of} succeeded"
    return ""


def _summary(owner: Owner, made: int, waiting: int, missing: int) -> str:
    if not owner.wanted:
        return "it wants no pods"
    if missing:
        return f"{missing} of {owner.wanted} pods have not been made, {waiting} wait for a node"
    if waiting:
        return f"{waiting} of {made} pods wait for a node"
    return "its pod has a node" if made == 1 else f"all {made} pods have a node"


def held_back(owner: Owner, waiting: list[Pod]) -> list[str]:
    """Why an owner does not even try to make its pods."""
    if owner.spec.suspend:
        command = f'kubectl patch job {where(owner)} -p \'{{"spec": {{"suspend": false}}}}\''
        return [f"it is suspended; this lets it go on: {command}"]
    ordered = owner.KIND == "StatefulSet" and owner.spec.pod_management_policy != "Parallel"
    if ordered and waiting:
        return [f"it makes the next pod when {min(waiting, key=ordinal).name} is ready"]
    return []


def failures(cluster: Cluster, owner: Owner) -> list[str]:
    """Why an owner could not make its pods: its FailedCreate events and its conditions."""
    makers = [owner]
    if owner.KIND == "Deployment":
        makers += [item for item in cluster.owners()
                   if item.controller is not None and item.controller.uid == owner.uid]  # fmt: skip
    found: dict[str, None] = {}
    for item in makers:
        for text in events_about(cluster, item.KIND, item.key, "FailedCreate")[-1:]:
            found[f'{item.title} could not make a pod: "{text}"'] = None
        for condition in item.status.conditions:
            if condition.type == "ReplicaFailure" and condition.status == "True":
                found[f"{item.title} says: {condition.message}"] = None
    return list(found)


def template_body(owner: Owner) -> dict[str, Any]:
    """A pod of the owner's template as plain data."""
    body = plain(owner.spec.template)
    meta = body.setdefault("metadata", {})
    meta["namespace"] = owner.namespace
    meta["name"] = f"{owner.name}-new"
    ref = {"apiVersion": owner.API_VERSION, "kind": owner.KIND, "name": owner.name}
    meta["ownerReferences"] = [{**ref, "uid": owner.uid, "controller": True}]
    return body


def _not_made(
    cluster: Cluster, owner: Owner, missing: int, notes: list[str], every_node: bool
) -> Answer:
    """What keeps a pod of the template from being made, and what lets it be made."""
    pod = admitted(cluster, template_body(owner))
    obstacles = Admission(cluster).obstacles(pod, missing)
    if obstacles:
        notes += [item.text for item in obstacles]
        answer = why_pod(cluster, pod, with_fixes=False, made=True, every_node=every_node)
        return as_refused(cluster, pod, obstacles, answer, times=missing)
    answer = why_pod(cluster, pod, with_fixes=not notes, every_node=every_node)
    if notes:
        return replace(
            answer,
            state="notMade",
            summary="it has not been made: its controller was refused",
            node="",
            notes=(REFUSED_BY_OTHERS, f"if it were made: {answer.message or answer.summary}"),
        )
    return replace(
        answer,
        state="notMade",
        summary=f"it has not been made yet, and nothing refuses it; then {answer.summary}",
    )

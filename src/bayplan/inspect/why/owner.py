"""`why deployment/web`: its pods that wait, or why it has not made them at all."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from bayplan.api import Pod, plain
from bayplan.inspect.cluster import Cluster, is_pending
from bayplan.inspect.objects import Owner
from bayplan.inspect.why.admission import admitted, refused
from bayplan.inspect.why.answer import Answer, Fix
from bayplan.inspect.why.fixes import verify
from bayplan.inspect.why.observed import events_about
from bayplan.inspect.why.pod import why_pod
from bayplan.inspect.why.step import patched, together


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


def why_owner(cluster: Cluster, owner: Owner) -> OwnerAnswer:
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
    missing = max(0, owner.wanted - len(pods))
    answers = [why_pod(cluster, pod) for pod in (chosen or pods[:1])[:5]]
    notes = not_made(cluster, owner) if missing else []
    if missing and (notes or not pods):
        answers = [*(answers if waiting else ()), _not_made(cluster, owner, notes)]
    return OwnerAnswer(
        f"{owner.KIND.lower()}/{owner.key}",
        owner.wanted,
        len(pods),
        len(waiting),
        _summary(owner, len(pods), len(waiting), missing),
        tuple(notes),
        tuple(answers),
    )


def _summary(owner: Owner, made: int, waiting: int, missing: int) -> str:
    if not owner.wanted:
        return "it wants no pods"
    if missing:
        return f"{missing} of {owner.wanted} pods have not been made, {waiting} wait for a node"
    if waiting:
        return f"{waiting} of {owner.wanted} pods wait for a node"
    return f"all {made} pods have a node"


def not_made(cluster: Cluster, owner: Owner) -> list[str]:
    """Why an owner has not made its pods: its FailedCreate events, conditions, and our checks."""
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
    for obstacle in refused(cluster, admitted(cluster, template_body(owner)), _account(owner)):
        found[obstacle.text] = None
    return list(found)


def _account(owner: Owner) -> str:
    return owner.spec.template.spec.service_account_name or "default"


def template_body(owner: Owner) -> dict[str, Any]:
    """A pod of the owner's template as plain data."""
    body = plain(owner.spec.template)
    meta = body.setdefault("metadata", {})
    meta["namespace"] = owner.namespace
    meta["name"] = f"{owner.name}-new"
    ref = {"apiVersion": owner.API_VERSION, "kind": owner.KIND, "name": owner.name}
    meta["ownerReferences"] = [{**ref, "uid": owner.uid, "controller": True}]
    return body


def _not_made(cluster: Cluster, owner: Owner, notes: list[str]) -> Answer:
    """What would happen to a pod of the template if it were made, and what lets it be made."""
    pod = admitted(cluster, template_body(owner))
    answer = why_pod(cluster, pod)
    if not notes:
        return replace(answer, state="notMade")
    found = _making(cluster, pod, _account(owner))
    return replace(
        answer,
        state="notMade",
        summary="it has not been made",
        node="",
        notes=(*notes, *(note for note in answer.notes if note not in notes)),
        fixes=(found, *answer.fixes) if found is not None else answer.fixes,
    )


def _making(cluster: Cluster, pod: Pod, account: str) -> Fix | None:
    """What takes every obstacle away, checked again; None if one has no remedy."""
    steps = [obstacle.step for obstacle in refused(cluster, pod, account)]
    known = [step for step in steps if step is not None]
    if not known or len(known) < len(steps):
        return None
    step = together(tuple(known)) if len(known) > 1 else known[0]
    objects = dict(cluster.objects)
    for item in step.put:
        objects[type(item)] = {**objects.get(type(item), {}), item.key: item}
    changed = Cluster(objects, origin=cluster.origin, settings=cluster.settings)
    if refused(changed, patched(pod, step.patch), account):
        return None
    return verify(cluster, pod, step)

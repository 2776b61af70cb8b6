"""Pods that do not exist yet: from an owner's template or like a pod that it has, as admitted.

A pod of the owner is the better pattern, since admission plugins and webhooks have had their say;
the template is used where there is none, as the API server would admit it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import jsonpatch
from msgspec.structs import replace

from bayplan.api import (
    Affinity,
    Container,
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Object,
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    PodStatus,
    ReplicaSet,
    Toleration,
    Volume,
)
from bayplan.api.quantity import nanos
from bayplan.api.storage import Phase
from bayplan.api.volumes import ClaimVolume
from bayplan.api.workloads import SelectorSpec
from bayplan.errors import DecodeError
from bayplan.framework import ClusterObjects
from bayplan.inspect.admitting import admitted
from bayplan.inspect.errors import InspectError, unknown
from bayplan.inspect.objects import LimitRange, Owner
from bayplan.inspect.step import patched
from bayplan.inspect.whatif.rehearsal import Rehearsal

HASH = "pod-template-hash"
POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
DAEMON_TOLERATIONS = tuple(
    Toleration(f"node.kubernetes.io/{name}", "Exists", "", effect)
    for name, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)

T = TypeVar("T", bound=Object)


def with_priority(objects: ClusterObjects, pod: Pod, text: str) -> Pod:
    """The pod with a priority given as a number or by the name of a class."""
    if text.lstrip("-").isdigit():
        return replace(pod, spec=replace(pod.spec, priority=int(text), priority_class_name=""))
    found = objects.priority_classes.get(text)
    if found is None:
        raise unknown("priority class", text, [c.name for c in objects.priority_classes])
    policy = found.preemption_policy
    return replace(
        pod,
        spec=replace(
            pod.spec,
            priority=found.value,
            priority_class_name=text,
            preemption_policy=policy or pod.spec.preemption_policy,
        ),
    )


def new_pod(
    owner: Owner,
    like: Pod | None,
    number: int,
    trial: Rehearsal,
    ranges: Iterable[LimitRange] = (),
) -> Pod:
    """One more pod of an owner; `number` is the ordinal for a stateful set."""
    objects = trial.engine.cache.objects
    stateful = owner.KIND == "StatefulSet"
    name = f"{owner.name}-{number}" if stateful else f"{owner.name}-new-{number}"
    base = like or _from_template(owner, trial)
    labels = dict(base.labels)
    if stateful:
        labels |= {POD_NAME: name, POD_INDEX: str(number)}
    meta = replace(
        base.metadata,
        name=name,
        namespace=owner.namespace,
        uid=f"new:{owner.namespace}/{name}",
        labels=labels,
        deletion_timestamp="",
    )
    spec = replace(base.spec, node_name="")
    pod = Pod(metadata=meta, spec=spec, status=PodStatus())
    if stateful and owner.spec.volume_claim_templates:
        pod = _with_own_claims(owner, pod, trial)
    return pod if like is not None else admitted(pod, objects.priority_classes, ranges)


def _from_template(owner: Owner, trial: Rehearsal) -> Pod:
    template = owner.spec.template
    kind, name, labels = owner.KIND, owner.name, dict(template.metadata.labels)
    if owner.KIND == "Deployment":
        labels, ref = new_replica_set(owner, trial)
    else:
        ref = OwnerReference(owner.API_VERSION, kind, name, owner.uid, controller=True)
    meta = ObjectMeta(labels=labels, owner_references=(ref,))
    return Pod(metadata=replace(meta, annotations=template.metadata.annotations),
               spec=template.spec)  # fmt: skip


def new_replica_set(owner: Owner, trial: Rehearsal) -> tuple[dict[str, str], OwnerReference]:
    """What a deployment makes for a new template: the labels of its pods, and their owner."""
    labels = {**owner.spec.template.metadata.labels, HASH: "new"}
    name, uid = f"{owner.name}-new", f"new:{owner.key}"
    trial.put(
        ReplicaSet(
            metadata=ObjectMeta(name=name, namespace=owner.namespace, uid=uid),
            spec=SelectorSpec(selector=LabelSelector(match_labels=labels)),
        )
    )
    return labels, OwnerReference("apps/v1", "ReplicaSet", name, uid, controller=True)


def _with_own_claims(owner: Owner, pod: Pod, trial: Rehearsal) -> Pod:
    """Name (and make, where it is missing) the claim of each of the owner's claim templates."""
    claims = trial.engine.cache.objects.persistent_volume_claims
    own = {template.metadata.name for template in owner.spec.volume_claim_templates}
    volumes = [volume for volume in pod.spec.volumes if volume.name not in own]
    for template in owner.spec.volume_claim_templates:
        name = f"{template.metadata.name}-{pod.name}"
        source = ClaimVolume(claim_name=name)
        volumes.append(Volume(name=template.metadata.name, persistent_volume_claim=source))
        if claims.get(f"{pod.namespace}/{name}") is None:
            meta = ObjectMeta(name=name, namespace=pod.namespace, uid=f"new:{name}")
            status = Phase(phase="Pending")
            trial.put(PersistentVolumeClaim(metadata=meta, spec=template.spec, status=status))
    return replace(pod, spec=replace(pod.spec, volumes=tuple(volumes)))


def daemon_pod(pod: Pod, node: str, *, template: bool = False) -> Pod:
    """A daemon set's pod for a node: pinned to it, as the daemon set controller does."""
    name = f"{(pod.controller or pod).name}-{node}"
    tolerations = pod.spec.tolerations + (DAEMON_TOLERATIONS if template else ())
    meta = replace(
        pod.metadata, name=name, uid=f"new:{pod.namespace}/{name}", deletion_timestamp=""
    )
    spec = replace(pod.spec, node_name="", tolerations=tolerations)
    return Pod(metadata=meta, spec=pinned(spec, node))


def pinned(spec: PodSpec, node: str) -> PodSpec:
    """What fits one node only, in the way of the daemon set controller."""
    here = (NodeSelectorRequirement("metadata.name", "In", (node,)),)
    affinity = spec.affinity or Affinity()
    wanted = affinity.node_affinity or NodeAffinity()
    terms = (
        (NodeSelectorTerm(),) if wanted.required is None else wanted.required.node_selector_terms
    )
    required = NodeSelector(tuple(replace(term, match_fields=here) for term in terms))
    affinity = replace(affinity, node_affinity=replace(wanted, required=required))
    return replace(spec, affinity=affinity)


def pinned_to(pod: Pod) -> str:
    """The node that a daemon set made a pod for; empty if it may go anywhere."""
    affinity = None if pod.spec.affinity is None else pod.spec.affinity.node_affinity
    required = None if affinity is None else affinity.required
    if pod.controller is None or pod.controller.kind != "DaemonSet" or required is None:
        return ""
    fields = [field for term in required.node_selector_terms for field in term.match_fields]
    names = [name for item in fields if item.key == "metadata.name" for name in item.values]
    return names[0] if names else ""


def with_requests(pod: Pod, amounts: Mapping[str, str]) -> Pod:
    """The pod with other requests for all its containers, as `kubectl set resources` writes them.

    A limit below its request is raised to it, since nobody could create such a pod.
    """
    containers = tuple(asking(container, amounts) for container in pod.spec.containers)
    return replace(pod, spec=replace(pod.spec, containers=containers))


def with_patch(item: T, ops: tuple[dict[str, Any], ...]) -> T:
    """A pod or node after a JSON patch."""
    try:
        return patched(item, ops)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, DecodeError) as problem:
        raise InspectError(f"patching {item.KIND.lower()} {item.key}: {problem}") from problem


def asking(container: Container, amounts: Mapping[str, str]) -> Container:
    """One container with other requests."""
    old = container.resources
    limits = {
        name: amounts[name] if name in amounts and nanos(limit) < nanos(amounts[name]) else limit
        for name, limit in old.limits.items()
    }
    asked = replace(old, requests={**old.requests, **amounts}, limits=limits)
    return replace(container, resources=asked)

"""Who makes a pod again when it is gone, when, and as what.

The new pod is a copy of the old one without its node and status, which is what its owner's template
and the admission plugins came to. It keeps the old name, so that an answer can speak of it; to the
scheduler only a stateful set's name means anything, and that one stays.

| owner | makes it again |
| --- | --- |
| ReplicaSet, ReplicationController, Job, other controllers | as soon as the old one is told to go |
| StatefulSet | when the old one is gone; by ordinal, waiting for each unless Parallel |
| DaemonSet, Node (a static pod) | only on that very node; when the old one is gone |
| none | not at all |
"""

from __future__ import annotations

from enum import Enum

from msgspec.structs import replace

from bayplan.api import (
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaim,
    Pod,
    PodResourceClaimStatus,
    PodStatus,
    ResourceClaim,
    ResourceClaimStatus,
)
from bayplan.api.storage import Phase
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.objects import StatefulSetOwner
from bayplan.inspect.whatif.rehearsal import Rehearsal

MIRROR = "kubernetes.io/config.mirror"


class Remake(Enum):
    """What becomes of a pod that was taken away."""

    AT_ONCE = "at once"
    WHEN_GONE = "when gone"
    STAYS = "stays"
    NEVER = "never"


def remake(pod: Pod) -> Remake:
    """When a pod's owner makes it again."""
    owner = pod.controller
    if MIRROR in pod.annotations or (owner is not None and owner.kind in ("DaemonSet", "Node")):
        return Remake.STAYS
    if owner is None:
        return Remake.NEVER
    return Remake.WHEN_GONE if owner.kind == "StatefulSet" else Remake.AT_ONCE


def is_daemon(pod: Pod) -> bool:
    """Whether a daemon set makes it, for one node each."""
    return pod.controller is not None and pod.controller.kind == "DaemonSet"


def title(cluster: Cluster, pod: Pod) -> str:
    """The owner as kubectl names it, such as `deployment/web`; empty if there is none."""
    owner, ref = cluster.maker_of(pod), pod.controller
    if owner is not None:
        return owner.title
    return "" if ref is None else f"{ref.kind.lower()}/{ref.name}"


def is_ordered(cluster: Cluster, pod: Pod) -> bool:
    """Whether its owner waits for the pods with lower ordinals."""
    ref = pod.controller
    if ref is None or ref.kind != "StatefulSet":
        return False
    found = cluster.of(StatefulSetOwner).get(f"{pod.namespace}/{ref.name}")
    return found is None or found.spec.pod_management_policy != "Parallel"


def successor(pod: Pod, number: int) -> Pod:
    """The pod that the owner makes in place of this one."""
    meta = replace(
        pod.metadata,
        uid=f"{pod.uid.partition('~')[0]}~{number}",
        deletion_timestamp="",
        resource_version="",
    )
    spec = replace(pod.spec, node_name="") if pod.spec.node_name else pod.spec
    return Pod(metadata=meta, spec=spec)


def with_claims(trial: Rehearsal, old: Pod, new: Pod) -> Pod:
    """Make the claims that live and die with a pod again, for the new one."""
    objects = trial.engine.cache.objects
    for volume in old.spec.volumes:
        if volume.ephemeral is None:
            continue
        claim = objects.persistent_volume_claims.get(f"{old.namespace}/{old.name}-{volume.name}")
        if claim is not None:
            trial.put(
                PersistentVolumeClaim(
                    metadata=_owned(claim.metadata, new),
                    spec=replace(claim.spec, volume_name=""),
                    status=Phase(phase="Pending"),
                )
            )
    statuses: list[PodResourceClaimStatus] = []
    for status in old.status.resource_claim_statuses:
        name = status.resource_claim_name
        devices = objects.resource_claims.get(f"{old.namespace}/{name}") if name else None
        if devices is None:
            statuses.append(status)
            continue
        again = f"{devices.name.partition('~')[0]}~{new.uid.rpartition('~')[2]}"
        meta = replace(_owned(devices.metadata, new), name=again, uid=f"{old.namespace}/{again}")
        trial.put(ResourceClaim(metadata=meta, spec=devices.spec))
        statuses.append(replace(status, resource_claim_name=again))
    if not statuses:
        return new
    return replace(new, status=PodStatus(resource_claim_statuses=tuple(statuses)))


def release_claims(trial: Rehearsal, pod: Pod) -> None:
    """A pod is gone: its own device claims go with it, shared ones lose a user."""
    objects = trial.engine.cache.objects
    made = {status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for wanted in pod.spec.resource_claims:
        if wanted.resource_claim_name:
            claim = objects.resource_claims.get(f"{pod.namespace}/{wanted.resource_claim_name}")
            if claim is not None:
                trial.put(_without_user(claim, pod.uid))
    for name in made:
        claim = objects.resource_claims.get(f"{pod.namespace}/{name}") if name else None
        if claim is not None:
            trial.delete(claim)


def _without_user(claim: ResourceClaim, uid: str) -> ResourceClaim:
    users = tuple(user for user in claim.status.reserved_for if user.uid != uid)
    status = replace(claim.status, reserved_for=users) if users else ResourceClaimStatus()
    return replace(claim, status=status)


def _owned(meta: ObjectMeta, pod: Pod) -> ObjectMeta:
    owner = OwnerReference("v1", "Pod", pod.name, pod.uid, controller=True)
    return replace(meta, owner_references=(owner,), resource_version="")

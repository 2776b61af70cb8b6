"""What the volume plugins share: the claims that a pod names, and the words for what is missing."""

from __future__ import annotations

from typing import NamedTuple

from bayplan.api import Object, PersistentVolume, PersistentVolumeClaim, Pod, Volume

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class PodClaim(NamedTuple):
    """A claim that a pod needs; an ephemeral one is made for the pod and named after it."""

    name: str
    ephemeral: bool


def claim_of(pod: Pod, volume: Volume) -> PodClaim | None:
    """The claim behind a volume, if there is one."""
    if volume.persistent_volume_claim is not None:
        return PodClaim(volume.persistent_volume_claim.claim_name, False)
    if volume.ephemeral is not None:
        return PodClaim(f"{pod.metadata.name}-{volume.name}", True)
    return None


def pod_claims(pod: Pod) -> list[PodClaim]:
    """All claims that a pod needs, in the order of its volumes."""
    found = (claim_of(pod, volume) for volume in pod.spec.volumes)
    return [claim for claim in found if claim is not None]


def has_claims(pod: Pod) -> bool:
    """Whether any volume of the pod is backed by a claim."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
            return True
    return False


def class_of_claim(claim: PersistentVolumeClaim) -> str:
    """The storage class of a claim; the old annotation wins over the field."""
    old = claim.metadata.annotations.get(BETA_CLASS)
    return (claim.spec.storage_class_name or "") if old is None else old


def class_of_volume(volume: PersistentVolume) -> str:
    """The storage class of a volume; the old annotation wins over the field."""
    return volume.metadata.annotations.get(BETA_CLASS, volume.spec.storage_class_name)


def not_found(resource: str, name: str) -> str:
    """What a lister says about a missing object."""
    return f'{resource} "{name}" not found'


def owner_problem(pod: Pod, claim: PersistentVolumeClaim) -> str:
    """Why an ephemeral volume's claim cannot be used; empty if it was made for this pod."""
    owner = claim.controller
    if claim.namespace == pod.namespace and owner is not None and owner.uid == pod.uid:
        return ""
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def names_claim(pod: Pod, claim: Object | None, *, ephemeral: bool = True) -> bool:
    """Whether the pod uses this very claim."""
    if not isinstance(claim, PersistentVolumeClaim) or claim.namespace != pod.namespace:
        return False
    return any(
        found.name == claim.name and (ephemeral or not found.ephemeral) for found in pod_claims(pod)
    )

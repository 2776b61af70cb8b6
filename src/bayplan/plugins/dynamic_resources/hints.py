"""Which changes may help a pod that DynamicResources rejected."""

from __future__ import annotations

from bayplan.api import Object, Pod, ResourceClaim
from bayplan.framework import (
    ActionType,
    ClusterEventWithHint,
    ClusterObjects,
    QueueingHint,
    Resource,
    on,
)
from bayplan.plugins.dynamic_resources.claims import ClaimProblem, pod_resource_claims
from bayplan.plugins.hints import hint

_CHANGED = ActionType.ADD | ActionType.UPDATE


def events(objects: ClusterObjects) -> tuple[ClusterEventWithHint, ...]:
    """The events to register; claims are looked up in `objects`."""

    def claim_changed(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
        if not isinstance(new, ResourceClaim):
            return QueueingHint.SKIP
        try:
            mine = pod_resource_claims(pod, objects)
        except ClaimProblem:
            return QueueingHint.SKIP
        had = isinstance(old, ResourceClaim) and old.status.allocation is not None
        if had and new.status.allocation is None:
            return QueueingHint.QUEUE
        if all(claim.uid != new.uid for claim in mine):
            return QueueingHint.SKIP
        return hint(not isinstance(old, ResourceClaim) or old.status != new.status)

    def pod_changed(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
        if not isinstance(new, Pod) or new.uid != pod.uid:
            return QueueingHint.SKIP
        try:
            pod_resource_claims(new, objects)
        except ClaimProblem:
            return QueueingHint.SKIP
        return QueueingHint.QUEUE

    node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
    generated = ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
    return (
        on(Resource.NODE, node),
        on(Resource.RESOURCE_CLAIM, _CHANGED, claim_changed),
        on(Resource.POD, generated, pod_changed),
        on(Resource.DEVICE_CLASS, _CHANGED),
        on(Resource.RESOURCE_SLICE, _CHANGED),
    )

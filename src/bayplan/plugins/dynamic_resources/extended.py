"""Extended resources that are served by device drivers instead of device plugins.

A device class may name an extended resource (every class has an implicit name, too). A pod that
asks for such a resource gets one claim for all of them, made by the scheduler when it binds the
pod. Containers that run at the same time have requests of their own; ordinary init containers use
what later containers will have, and only ask for what is missing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from bayplan.api import (
    Container,
    ContainerExtendedResourceRequest,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceRequestDetail,
    ObjectMeta,
    OwnerReference,
    Pod,
    ResourceClaim,
    ResourceClaimSpec,
    parse_time,
    plain,
    quantity,
)
from bayplan.api.requests import is_extended
from bayplan.framework import ApiCall, Lister

IN_MEMORY_NAME = "<extended-resources>"
ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"

Mappings = tuple[ContainerExtendedResourceRequest, ...]


def may_be_served(name: str) -> bool:
    """Whether a resource could be served by a device class, by its name alone."""
    return is_extended(name) or name.startswith(IMPLICIT_PREFIX)


def class_for(name: str, classes: Iterable[DeviceClass]) -> DeviceClass | None:
    """The class that serves a resource; of several the newest, then the first by name."""
    found = [
        item
        for item in classes
        if name in (item.spec.extended_resource_name, f"{IMPLICIT_PREFIX}{item.name}")
    ]
    return min(found, key=lambda item: (-_created(item), item.name), default=None)


def _created(item: DeviceClass) -> float:
    text = item.metadata.creation_timestamp
    return parse_time(text) if text else 0.0


def served_names(names: Iterable[str], classes: Lister[DeviceClass]) -> list[str]:
    """Those of the names that a class serves, sorted."""
    return sorted(n for n in names if may_be_served(n) and class_for(n, classes) is not None)


def find_claim(pod: Pod, claims: Lister[ResourceClaim]) -> ResourceClaim | None:
    """The claim that an earlier attempt made for this pod."""
    for claim in claims.in_namespace(pod.namespace):
        if claim.annotations.get(ANNOTATION) != "true":
            continue
        owner = claim.controller
        if owner is not None and (owner.uid, owner.name) == (pod.uid, pod.name):
            return claim
    return None


def in_memory_claim(pod: Pod) -> ResourceClaim:
    """A claim that stands for the pod's extended resources until it is written."""
    owner = OwnerReference("v1", "Pod", pod.name, pod.uid, True)
    meta = ObjectMeta(
        name=IN_MEMORY_NAME,
        namespace=pod.namespace,
        uid=f"{pod.uid}/{IN_MEMORY_NAME}",
        annotations={ANNOTATION: "true"},
        owner_references=(owner,),
    )
    return ResourceClaim(metadata=meta)


def claim_for_node(
    claim: ResourceClaim, pod: Pod, names: Sequence[str], classes: Lister[DeviceClass]
) -> tuple[ResourceClaim, Mappings]:
    """Fill in what must come from devices on one node, and who uses which request."""
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for name in names:
        device_class = class_for(name, classes)
        if device_class is not None:
            more, its = _requests(pod, name, device_class.name)
            requests += more
            mappings += its
    requests.sort(key=lambda request: request.name)
    spec = ResourceClaimSpec(DeviceClaim(tuple(requests)))
    return msgspec.structs.replace(claim, spec=spec), tuple(mappings)


def _requests(
    pod: Pod, name: str, class_name: str
) -> tuple[list[DeviceRequest], list[ContainerExtendedResourceRequest]]:
    """Requests of all containers for one resource, and the mappings to them."""
    containers = pod.spec.init_containers + pod.spec.containers
    first_regular = len(pod.spec.init_containers)
    lasting: dict[int, DeviceRequest] = {}
    mappings: list[ContainerExtendedResourceRequest] = []
    passing: list[int] = []
    for number, container in enumerate(containers):
        if number < first_regular and not container.restartable:
            passing.append(number)
            continue
        amount = _amount(container, name)
        if amount:
            request = _request(number, container, name, class_name, amount)
            lasting[number] = request
            mappings.append(ContainerExtendedResourceRequest(container.name, name, request.name))
    largest: DeviceRequest | None = None
    missing: list[ContainerExtendedResourceRequest] = []
    for number in passing:
        container = containers[number]
        left = _amount(container, name)
        for other, request in lasting.items():
            if other >= number and left > 0:
                left -= _count(request)
                user = ContainerExtendedResourceRequest(container.name, name, request.name)
                mappings.append(user)
        if left > 0:
            request = _request(number, container, name, class_name, left)
            missing.append(ContainerExtendedResourceRequest(container.name, name, request.name))
            if largest is None or _count(largest) < left:
                largest = request
    if largest is None:
        return list(lasting.values()), mappings
    # Init containers run one after the other, so the largest request serves them all.
    mappings += [msgspec.structs.replace(item, request_name=largest.name) for item in missing]
    return [largest, *lasting.values()], mappings


def _amount(container: Container, name: str) -> int:
    text = container.resources.requests.get(name)
    return 0 if text is None else quantity.value(text)


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0


def _request(
    number: int, container: Container, name: str, class_name: str, count: int
) -> DeviceRequest:
    place = sorted(container.resources.requests).index(name)
    detail = DeviceRequestDetail(
        device_class_name=class_name, allocation_mode="ExactCount", count=count
    )
    return DeviceRequest(f"container-{number}-request-{place}", detail)


def written_claim(claim: ResourceClaim, pod: Pod) -> ResourceClaim:
    """The claim with the name under which it is written; equal decisions give equal names."""
    ending = hashlib.sha256(pod.uid.encode()).hexdigest()[:5]
    name = f"{pod.name[:223]}-extended-resources-{ending}"
    meta = msgspec.structs.replace(claim.metadata, name=name, uid="")
    return msgspec.structs.replace(claim, metadata=meta)


def create_call(claim: ResourceClaim) -> ApiCall:
    """The write that makes the claim."""
    meta = claim.metadata
    owners = [{**plain(owner), "blockOwnerDeletion": True} for owner in meta.owner_references]
    body: dict[str, object] = {
        "apiVersion": claim.API_VERSION,
        "kind": claim.KIND,
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "annotations": meta.annotations,
            "ownerReferences": owners,
        },
        "spec": plain(claim.spec),
    }
    resource = "resourceclaims.resource.k8s.io"
    return ApiCall("create", resource, meta.namespace, meta.name, body)


def status_call(claim: ResourceClaim, pod: Pod, mappings: Mappings) -> ApiCall:
    """The write that tells the kubelet which claim serves the pod's resources."""
    status = {
        "resourceClaimName": claim.name,
        "requestMappings": [plain(item) for item in mappings],
    }
    body: dict[str, object] = {"status": {"extendedResourceClaimStatus": status}}
    return ApiCall("patch", "pods", pod.namespace, pod.name, body, subresource="status")

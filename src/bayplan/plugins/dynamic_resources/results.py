"""Turns picked devices into what is written to a claim: its allocation and its reservation."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from bayplan.api import (
    AllocationResult,
    DeviceAllocation,
    DeviceClass,
    DeviceResult,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    ResourceClaim,
    Resources,
    plain,
    quantity,
)
from bayplan.framework import ApiCall, Lister
from bayplan.plugins.dynamic_resources.allocator import Picked
from bayplan.plugins.dynamic_resources.pools import Offer

RESOURCE = "resourceclaims.resource.k8s.io"
FINALIZER = "resource.kubernetes.io/delete-protection"
MERGE_PATCH = "application/merge-patch+json"


def allocation_of(
    claim: ResourceClaim, picked: Sequence[Picked], classes: Lister[DeviceClass], node_name: str
) -> AllocationResult:
    """What a claim gets."""
    results = tuple(_result(claim, number, item) for number, item in enumerate(picked))
    devices = DeviceAllocation(results, _config(claim, picked, classes))
    return AllocationResult(devices, _node_selector([p.offer for p in picked], node_name))


def _result(claim: ResourceClaim, number: int, picked: Picked) -> DeviceResult:
    driver, pool, device = picked.offer.id
    consumed: Resources = {}
    share = ""
    if picked.consumed is not None:
        consumed = {
            name: quantity.format_nanos(amount, quantity.parse(capacity.value).format)
            for name, amount in picked.consumed.items()
            if (capacity := picked.offer.device.capacity[name])
        }
        share = _share_id(claim, number, device)
    detail = picked.alternative.detail
    return DeviceResult(
        request=picked.alternative.label,
        driver=driver,
        pool=pool,
        device=device,
        admin_access=detail.admin_access,
        tolerations=detail.tolerations,
        binding_conditions=picked.offer.device.binding_conditions,
        binding_failure_conditions=picked.offer.device.binding_failure_conditions,
        share_id=share,
        consumed_capacity=consumed,
    )


def _share_id(claim: ResourceClaim, number: int, device: str) -> str:
    """A UUID that is the same whenever the same decision is made."""
    digest = hashlib.sha256(f"{claim.uid}/{claim.key}/{number}/{device}".encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"


def _config(
    claim: ResourceClaim, picked: Sequence[Picked], classes: Lister[DeviceClass]
) -> tuple[dict[str, object], ...]:
    """Drivers' parameters: of the classes first, then of the claim."""
    found: list[dict[str, object]] = []
    chosen = {item.alternative.label: item.alternative for item in picked}
    for label, alternative in chosen.items():
        device_class = classes.get(alternative.detail.device_class_name)
        if device_class is not None:
            source = {"source": "FromClass", "requests": [label]}
            found.extend(source | config for config in device_class.spec.config)
    for config in claim.spec.devices.config:
        requests = config.get("requests") or []
        names = requests if isinstance(requests, list) else []
        labels = {*chosen, *(label.partition("/")[0] for label in chosen)}
        if not names or any(name in labels for name in names):
            found.append({"source": "FromClaim", **config})
    return tuple(found)


def _node_selector(offers: Sequence[Offer], node_name: str) -> NodeSelector | None:
    """Where the devices can be used: one node, nodes by labels, or anywhere."""
    if any(offer.node_name or offer.device.binds_to_node for offer in offers):
        field = NodeSelectorRequirement("metadata.name", "In", (node_name,))
        return NodeSelector((NodeSelectorTerm(match_fields=(field,)),))
    labels: dict[NodeSelectorRequirement, None] = {}
    fields: dict[NodeSelectorRequirement, None] = {}
    for offer in offers:
        spec = offer.slice.spec
        selector = spec.node_selector
        if spec.per_device_node_selection:
            selector = offer.device.node_selector
        for term in selector.node_selector_terms[:1] if selector is not None else ():
            labels.update(dict.fromkeys(term.match_expressions))
            fields.update(dict.fromkeys(term.match_fields))
    if not labels and not fields:
        return None
    return NodeSelector((NodeSelectorTerm(tuple(labels), tuple(fields)),))


def bind_calls(
    claim: ResourceClaim, allocation: AllocationResult | None, pod: Pod, now: str
) -> list[ApiCall]:
    """The writes that allocate a claim, if that is still to do, and reserve it for a pod."""
    calls: list[ApiCall] = []
    version = claim.metadata.resource_version
    meta: dict[str, object] = {"uid": claim.uid}
    consumer = {"resource": "pods", "name": pod.name, "uid": pod.uid}
    reserved = [plain(item) for item in claim.status.reserved_for]
    status: dict[str, object] = {"reservedFor": [*reserved, consumer]}
    if allocation is None:
        if version:
            meta["resourceVersion"] = version
    else:
        body = plain(allocation)
        body.setdefault("allocationTimestamp", now)
        status["allocation"] = body
        if FINALIZER not in claim.metadata.finalizers:
            finalizers = [*claim.metadata.finalizers, FINALIZER]
            first: dict[str, object] = {"uid": claim.uid, "finalizers": finalizers}
            if version:
                first["resourceVersion"] = version
            calls.append(_patch(claim, {"metadata": first}))
    calls.append(_patch(claim, {"metadata": meta, "status": status}, "status"))
    return calls


def deallocate_call(claim: ResourceClaim) -> ApiCall:
    """The write that takes a claim's devices away, so that others can be found."""
    empty = {"allocation": None, "reservedFor": None, "devices": None}
    meta: dict[str, object] = {"uid": claim.uid}
    if claim.metadata.resource_version:
        meta["resourceVersion"] = claim.metadata.resource_version
    return _patch(claim, {"metadata": meta, "status": empty}, "status")


def _patch(claim: ResourceClaim, body: dict[str, object], subresource: str = "") -> ApiCall:
    return ApiCall(
        "patch",
        RESOURCE,
        claim.namespace,
        claim.name,
        body,
        subresource=subresource,
        patch=MERGE_PATCH,
    )


def delete_calls(claim: ResourceClaim) -> list[ApiCall]:
    """The writes that remove a claim that the scheduler made."""
    left = [item for item in claim.metadata.finalizers if item != FINALIZER]
    unblock: dict[str, object] = {"metadata": {"uid": claim.uid, "finalizers": left}}
    gone = ApiCall("delete", RESOURCE, claim.namespace, claim.name, ignore_not_found=True)
    return [_patch(claim, unblock), gone]

"""Turns picked devices into what is written to a claim: its allocation and its reservation."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence

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
from bayplan.plugins.dynamic_resources.requests import Alternative

RESOURCE = "resourceclaims.resource.k8s.io"
FINALIZER = "resource.kubernetes.io/delete-protection"
MERGE_PATCH = "application/merge-patch+json"


def allocation_of(
    claim: ResourceClaim,
    picked: Sequence[Picked],
    classes: Lister[DeviceClass],
    node_name: str,
    *,
    modern: bool,
) -> AllocationResult:
    """What a claim gets."""
    results = tuple(_result(claim, number, item) for number, item in enumerate(picked))
    devices = DeviceAllocation(results, _config(claim, picked, classes, modern=modern))
    return AllocationResult(devices, _node_selector([p.offer for p in picked], node_name))


def _result(claim: ResourceClaim, number: int, picked: Picked) -> DeviceResult:
    driver, pool, device = picked.offer.id
    consumed: Resources = {}
    share = ""
    if picked.consumed is not None:
        consumed = {name: quantity.canonical(item) for name, item in picked.consumed.items()}
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
    claim: ResourceClaim, picked: Sequence[Picked], classes: Lister[DeviceClass], *, modern: bool
) -> tuple[dict[str, object], ...]:
    """Drivers' parameters: of the classes first, then of the claim.

    In 1.36 those of the claim come once for each request that they name, and those for all
    requests name them all.
    """
    chosen = {item.request: item.alternative for item in picked}
    found = _of_classes(chosen.values(), classes)
    labels = [(wanted.label.partition("/")[0], wanted.label) for wanted in chosen.values()]
    for config in claim.spec.devices.config:
        rest = {"source": "FromClaim", **{k: v for k, v in config.items() if k != "requests"}}
        asked = config.get("requests")
        names = [str(name) for name in asked] if isinstance(asked, list) else []
        times = sum(not {*pair}.isdisjoint(names) for pair in labels) if names else 1
        found += [(names, rest)] * (min(times, 1) if modern else times)
    return tuple(
        config
        if not names or (modern and _mean_all(names, labels))
        else config | {"requests": names}
        for names, config in found
    )


def _of_classes(
    chosen: Iterable[Alternative], classes: Lister[DeviceClass]
) -> list[tuple[list[str], dict[str, object]]]:
    """The parameters of each class, with the requests that it serves."""
    served: dict[str, list[str]] = {}
    for wanted in chosen:
        served.setdefault(wanted.detail.device_class_name, []).append(wanted.label)
    return [
        (labels, {"source": "FromClass"} | config)
        for name, labels in served.items()
        if (device_class := classes.get(name)) is not None
        for config in device_class.spec.config
    ]


def _mean_all(names: Collection[str], labels: Iterable[tuple[str, str]]) -> bool:
    return all(not {*pair}.isdisjoint(names) for pair in labels)


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

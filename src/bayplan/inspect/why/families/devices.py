"""DynamicResources: the claim, its state, its device class, and the devices that there are."""

from __future__ import annotations

import difflib
from collections import Counter

from bayplan.api import DeviceClass, ResourceClaim, ResourceSlice
from bayplan.cluster.arrays import IntArray
from bayplan.framework import Status
from bayplan.inspect.amounts import listed
from bayplan.inspect.errors import unknown
from bayplan.inspect.step import Step, set_to
from bayplan.inspect.why.case import Case
from bayplan.words import did_you_mean, plural


def claim_names(case: Case) -> list[tuple[str, str]]:
    """The pod's claims: the name in the pod, and the object's name if it is known."""
    made = {item.name: item.resource_claim_name for item in case.pod.status.resource_claim_statuses}
    return [
        (item.name, item.resource_claim_name or made.get(item.name) or "")
        for item in case.pod.spec.resource_claims
    ]


def facts(case: Case, status: Status, rows: IntArray) -> list[str]:
    found = [_claim_fact(case, name, key) for name, key in claim_names(case)]
    free = devices_by_driver(case)
    if free:
        shown = listed([f"{driver}: {plural(n, 'device')}" for driver, n in free.most_common()], 3)
        found.append(f"devices published by nodes: {shown}")
    else:
        found.append("no node publishes devices (there is no ResourceSlice)")
    return found


def _claim_fact(case: Case, name: str, key: str) -> str:
    if not key:
        return f'the claim "{name}" has not been made from its template yet'
    claims = case.cluster.of(ResourceClaim)
    claim = claims.get(f"{case.pod.namespace}/{key}")
    if claim is None:
        names = [c.name for c in claims.values() if c.namespace == case.pod.namespace]
        return str(unknown("the resource claim", key, names, f'namespace "{case.pod.namespace}"'))
    if claim.status.allocation is not None:
        users = [item.name for item in claim.status.reserved_for]
        used = f", reserved for {listed(users, 2)}" if users else ""
        return f'the resource claim "{key}" is allocated already{used}'
    asks = [_request(case, request) for request in claim.spec.devices.requests]
    return f'the resource claim "{key}" is not allocated: {", ".join(asks)}'


def _request(case: Case, request: object) -> str:
    exactly = getattr(request, "exactly", None) or request
    name = getattr(exactly, "device_class_name", "") or ""
    count = getattr(exactly, "count", 1) or 1
    known = case.cluster.of(DeviceClass)
    if not name:
        return f"request {getattr(request, 'name', '')}"
    hint = "" if name in known else f", which is not in this cluster{did_you_mean(name, known)}"
    return f"asks {count} of class {name}{hint}"


def devices_by_driver(case: Case) -> Counter[str]:
    found: Counter[str] = Counter()
    for item in case.cluster.of(ResourceSlice).values():
        found[item.spec.driver] += len(item.spec.devices)
    return found


def whole_steps(case: Case) -> list[Step]:
    """Name the nearest claim that there is."""
    names = {c.name for c in case.cluster.of(ResourceClaim).values()
             if c.namespace == case.pod.namespace}  # fmt: skip
    found = []
    for number, item in enumerate(case.pod.spec.resource_claims):
        name = item.resource_claim_name
        if not name or name in names:
            continue
        for near in difflib.get_close_matches(name, sorted(names), n=2, cutoff=0.5):
            op = set_to(near, "spec", "resourceClaims", number, "resourceClaimName")
            found.append(Step(f'use the resource claim "{near}"', 20, "device claim", (op,)))
    return found


def lacks(case: Case, row: int) -> str:
    status = case.status("DynamicResources", row)
    name = case.name(row)
    here = sum(
        len(item.spec.devices)
        for item in case.cluster.of(ResourceSlice).values()
        if item.spec.node_name == name
    )
    reason = ", ".join(status.all_reasons) if status is not None else "devices are missing"
    return f"{reason} ({plural(here, 'device')} on it)"

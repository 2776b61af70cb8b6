"""The four volume plugins: the claim, its state, its volume, and where that can be reached."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api import (
    CSINode,
    NodeSelector,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from bayplan.cluster.arrays import IntArray
from bayplan.framework import Status
from bayplan.inspect.amounts import listed
from bayplan.inspect.errors import unknown
from bayplan.inspect.step import Step
from bayplan.inspect.why.case import Case
from bayplan.inspect.why.families.selectors import written

WAIT = "WaitForFirstConsumer"


def claims(case: Case) -> Iterator[tuple[str, PersistentVolumeClaim | None]]:
    """The claims that a pod names, also the ones made for it, with their objects if there are."""
    known = case.cluster.of(PersistentVolumeClaim)
    for volume in case.pod.spec.volumes:
        name = ""
        if volume.persistent_volume_claim is not None:
            name = volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            name = f"{case.pod.name}-{volume.name}"
        if name:
            yield name, known.get(f"{case.pod.namespace}/{name}")


def facts(case: Case, status: Status, rows: IntArray) -> list[str]:
    """What there is to know about each claim."""
    return [_claim_fact(case, name, claim) for name, claim in claims(case)]


def _claim_fact(case: Case, name: str, claim: PersistentVolumeClaim | None) -> str:
    if claim is None:
        names = [c.name for c in case.cluster.of(PersistentVolumeClaim).values()
                 if c.namespace == case.pod.namespace]  # fmt: skip
        near = str(unknown("claim", name, names, f'namespace "{case.pod.namespace}"'))
        return near.replace('claim "', 'the claim "', 1)
    if claim.terminating:
        return f'the claim "{name}" is being deleted'
    if not claim.spec.volume_name:
        return f'the claim "{name}" is {_unbound(case, claim)}'
    volume = case.cluster.of(PersistentVolume).get(claim.spec.volume_name)
    if volume is None:
        return (
            f'the claim "{name}" is bound to the volume "{claim.spec.volume_name}", '
            "which does not exist"
        )
    where = _reach(volume)
    return f'the claim "{name}" is bound to the volume "{volume.name}"{where}'


def _unbound(case: Case, claim: PersistentVolumeClaim) -> str:
    size = claim.spec.resources.requests.get("storage", "?")
    modes = ", ".join(claim.spec.access_modes)
    name = claim.spec.storage_class_name
    if not name:
        free = _free_volumes(case, "")
        return (
            f"not bound ({size}, {modes}) and has no storage class; "
            f"{free} wait without one" if free else
            f"not bound ({size}, {modes}), has no storage class, and no volume is there for it"
        )  # fmt: skip
    found = case.cluster.of(StorageClass).get(name)
    if found is None:
        near = str(unknown("storage class", name, case.cluster.of(StorageClass)))
        return f"not bound: {near}"
    free = _free_volumes(case, name)
    if found.volume_binding_mode == WAIT:
        made = "" if "no-provisioner" in found.provisioner else f" or {found.provisioner} makes one"
        limit = _topology(found)
        there = free or "no free volume of that class"
        return f"waiting for a first consumer ({size}, class {name}{limit}): {there}{made}"
    return (
        f"not bound yet ({size}, class {name}, bound immediately by {found.provisioner}); "
        f"{free or 'no free volume of that class is there'}"
    )


def _topology(found: StorageClass) -> str:
    values = [
        f"{item.key} in ({', '.join(item.values)})"
        for term in found.allowed_topologies
        for item in term.match_label_expressions
    ]
    return f", only where {' or '.join(values)}" if values else ""


def _free_volumes(case: Case, storage_class: str) -> str:
    free = [
        volume
        for volume in case.cluster.of(PersistentVolume).values()
        if volume.spec.storage_class_name == storage_class and volume.spec.claim_ref is None
    ]
    shown = [f"{v.name} ({v.spec.capacity.get('storage', '?')}{_reach(v)})" for v in free]
    return f"free volumes: {listed(shown, 3)}" if shown else ""


def _reach(volume: PersistentVolume) -> str:
    """Where a volume can be used."""
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        return f", usable only where {_selector(affinity.required)}"
    zones = {
        key.rsplit("/", 1)[-1]: value
        for key, value in volume.labels.items()
        if key.endswith(("/zone", "/region"))
    }
    if zones:
        return f", which is in {', '.join(f'{key} {value}' for key, value in zones.items())}"
    return ""


def _selector(selector: NodeSelector) -> str:
    return " or ".join(
        " and ".join(written(item) for item in (*term.match_expressions, *term.match_fields))
        for term in selector.node_selector_terms
    )


def lacks(case: Case, row: int) -> str:
    """What a volume asks of the node."""
    labels = case.table.nodes[row].labels
    parts = []
    for name, claim in claims(case):
        volume = None
        if claim is not None and claim.spec.volume_name:
            volume = case.cluster.of(PersistentVolume).get(claim.spec.volume_name)
        if volume is not None and (reach := _reach(volume)):
            zone = labels.get("topology.kubernetes.io/zone")
            here = f"; this node is in zone {zone}" if zone else ""
            parts.append(f'the volume of "{name}"{reach}{here}')
        elif claim is not None and not claim.spec.volume_name:
            parts.append(f'no volume for "{name}" can be had here')
    return ", ".join(parts) or "its volumes cannot be had here"


def volume_labels(case: Case) -> dict[str, str]:
    """The labels that a node needs to reach the volumes that are bound already."""
    found: dict[str, str] = {}
    for _, claim in claims(case):
        name = "" if claim is None else claim.spec.volume_name
        volume = case.cluster.of(PersistentVolume).get(name)
        if volume is None:
            continue
        found |= {k: v for k, v in volume.labels.items() if k.endswith(("/zone", "/region"))}
        affinity = volume.spec.node_affinity
        required = None if affinity is None else affinity.required
        terms = () if required is None else required.node_selector_terms
        for item in terms[0].match_expressions if terms else ():
            if item.operator == "In" and item.values:
                found[item.key] = item.values[0]
    return found


def limit_facts(case: Case, status: Status, rows: IntArray) -> list[str]:
    found = []
    for row in rows[:3].tolist():
        name = case.name(row)
        csi = case.cluster.of(CSINode).get(name)
        limits = [
            f"{driver.name} allows {driver.allocatable.count}"
            for driver in (() if csi is None else csi.spec.drivers)
            if driver.allocatable is not None and driver.allocatable.count is not None
        ]
        if limits:
            found.append(f"{name}: {', '.join(limits)} volumes, all in use")
    return found or ["every one of these nodes has as many volumes attached as its driver allows"]


def limit_lacks(case: Case, row: int) -> str:
    return "no more volumes can be attached"


def restriction_facts(case: Case, status: Status, rows: IntArray) -> list[str]:
    """Who uses the claim or disk that only one may use."""
    found = []
    if any(claim is None for _, claim in claims(case)):
        return facts(case, status, rows)
    for name, claim in claims(case):
        if claim is None:
            continue
        users = [
            pod
            for pod in case.cluster.pods.values()
            if pod.namespace == case.pod.namespace and pod.spec.node_name and not pod.finished
            and any(v.persistent_volume_claim is not None
                    and v.persistent_volume_claim.claim_name == name for v in pod.spec.volumes)
        ]  # fmt: skip
        if users and "ReadWriteOncePod" in claim.spec.access_modes:
            found.append(
                f'the claim "{name}" is ReadWriteOncePod and is used by {users[0].key} '
                f"on {users[0].spec.node_name}"
            )
    return found or ["another pod there uses the same disk"]


def restriction_lacks(case: Case, row: int) -> str:
    return "the disk or claim is in use by another pod"


def no_steps(case: Case, row: int) -> list[Step]:
    return []


def no_whole_steps(case: Case) -> list[Step]:
    return []

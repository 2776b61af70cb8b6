"""Changes that give a pod the volumes that it lacks: another claim, a new claim, a new volume.

A claim that is bound immediately is decided about as the volume controller will leave it: bound to
the new volume.
"""

from __future__ import annotations

import difflib
from typing import Any

from msgspec.structs import replace

from bayplan.api import (
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    convert,
    to_builtins,
)
from bayplan.inspect.step import Step, set_to
from bayplan.inspect.why.case import Case
from bayplan.inspect.why.families.volumes import WAIT, claims

HOSTNAME = "kubernetes.io/hostname"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
BOUND = "pv.kubernetes.io/bind-completed"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
NEW_SIZE = "1Gi"


def claim_steps(case: Case) -> list[Step]:
    """For claims that end the attempt: they do not exist, or are not bound."""
    missing = [name for name, claim in claims(case) if claim is None]
    if missing:
        return [*_other_claims(case, missing), *_new_claim(case, missing)]
    return _bound_claims(case)


def _other_claims(case: Case, missing: list[str]) -> list[Step]:
    names = [c.name for c in case.cluster.of(PersistentVolumeClaim).values()
             if c.namespace == case.pod.namespace and not c.terminating]  # fmt: skip
    found = []
    for number, volume in enumerate(case.pod.spec.volumes):
        source = volume.persistent_volume_claim
        if source is None or source.claim_name not in missing:
            continue
        for near in difflib.get_close_matches(source.claim_name, names, n=2, cutoff=0.5):
            path = ("spec", "volumes", number, "persistentVolumeClaim", "claimName")
            text = f'use the claim "{near}" instead of "{source.claim_name}"'
            found.append(Step(text, 20, "other claim", (set_to(near, *path),)))
    return found


def _new_claim(case: Case, missing: list[str]) -> list[Step]:
    """Make the claims, of a class whose volumes are made for them, or with volumes of their own."""
    named = {v.persistent_volume_claim.claim_name for v in case.pod.spec.volumes
             if v.persistent_volume_claim is not None}  # fmt: skip
    if not named.issuperset(missing):
        return []  # one that lives with its pod is made by a controller, for that pod only
    classes = [
        item
        for item in case.cluster.of(StorageClass).values()
        if item.provisioner != NO_PROVISIONER
    ]
    chosen = min(classes, key=_preference, default=None)
    name = "" if chosen is None else chosen.name
    made = tuple(_claim(case.pod.namespace, claim, name) for claim in missing)
    bodies = tuple(map(to_builtins, made))
    shown = " and ".join(f'"{claim}"' for claim in missing)
    text = f"create the claim {shown} (class {name or 'none'}, {NEW_SIZE} or what is needed)"
    if chosen is not None and chosen.volume_binding_mode == WAIT:
        return [Step(text, 35, "new claim", put=made, creates=bodies)]
    volumes = [_volume(claim, driver=_driver(case, claim)) for claim in made]
    put = (*volumes, *map(_bound_to, made, volumes))
    if chosen is not None:  # its provisioner makes the volumes
        return [Step(text, 37, "new claim", put=put, creates=bodies)]
    manifests = tuple(map(_manifest, volumes))
    return [
        Step(f"{text} and a volume for it", 46, "new claim", put=put, creates=bodies + manifests)
    ]


def _preference(item: StorageClass) -> tuple[bool, bool, str]:
    """Those that wait for a consumer first, then the default, then by name."""
    default = item.annotations.get(DEFAULT_CLASS) == "true"
    return item.volume_binding_mode != WAIT, not default, item.name


def _bound_to(claim: PersistentVolumeClaim, volume: PersistentVolume) -> PersistentVolumeClaim:
    """The claim as the volume controller leaves it."""
    meta = replace(claim.metadata, annotations={**claim.metadata.annotations, BOUND: "yes"})
    return replace(claim, metadata=meta, spec=replace(claim.spec, volume_name=volume.name))


def _claim(namespace: str, name: str, storage_class: str) -> PersistentVolumeClaim:
    spec = {
        "storageClassName": storage_class,
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": NEW_SIZE}},
    }
    meta = {"name": name, "namespace": namespace, "uid": f"new/{namespace}/{name}"}
    return convert(PersistentVolumeClaim, {"metadata": meta, "spec": spec})


def _bound_claims(case: Case) -> list[Step]:
    """Give each unbound claim a volume of its own, and see it bound."""
    open_claims = [claim for _, claim in claims(case) if claim and not claim.spec.volume_name]
    volumes = [_volume(claim, driver=_driver(case, claim)) for claim in open_claims]
    if not volumes:
        return []
    bound = map(_bound_to, open_claims, volumes)
    manifests = tuple(map(_manifest, volumes))
    return [Step(_text(volumes, ""), 45, "volume", put=(*volumes, *bound), creates=manifests)]


def volume_steps(case: Case, row: int) -> list[Step]:
    """A volume on this node for each claim that waits for its first consumer."""
    node = case.table.nodes[row]
    open_claims = [claim for _, claim in claims(case) if claim and not claim.spec.volume_name]
    if HOSTNAME not in node.labels or not open_claims:
        return []
    made = [_volume(claim, node.labels[HOSTNAME]) for claim in open_claims]
    manifests = tuple(map(_manifest, made))
    return [Step(_text(made, f" on {node.name}"), 45, "volume", put=(*made,), creates=manifests)]


def _text(volumes: list[PersistentVolume], where: str) -> str:
    shown = " and ".join(
        f"a volume of {item.spec.capacity['storage']}, class "
        f'{item.spec.storage_class_name or "none"}, for the claim "{item.name[4:]}"'
        for item in volumes
    )
    return f"create {shown}{where}"


def _manifest(volume: PersistentVolume) -> dict[str, Any]:
    """The volume with a place for its data, which scheduling does not read."""
    body = to_builtins(volume)
    if volume.spec.csi is None:
        kind = "hostPath" if volume.spec.node_affinity is None else "local"
        body["spec"][kind] = {"path": f"/mnt/{volume.name}"}
    return body


def _driver(case: Case, claim: PersistentVolumeClaim) -> str:
    """The CSI driver that makes volumes of a claim's class; limits of nodes count them."""
    found = case.cluster.of(StorageClass).get(claim.spec.storage_class_name or "")
    if found is None or found.provisioner.startswith("kubernetes.io/"):
        return ""
    return found.provisioner


def _volume(claim: PersistentVolumeClaim, host: str = "", *, driver: str = "") -> PersistentVolume:
    """A volume that a claim can be bound to, by hand as without a provisioner."""
    spec: dict[str, object] = {
        "capacity": {"storage": claim.spec.resources.requests.get("storage", NEW_SIZE)},
        "accessModes": list(claim.spec.access_modes),
        "storageClassName": claim.spec.storage_class_name or "",
        "volumeMode": claim.spec.volume_mode or "Filesystem",
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"name": claim.name, "namespace": claim.namespace},
    }
    if driver:
        spec["csi"] = {"driver": driver, "volumeHandle": f"for-{claim.name}"}
    if host:
        expression = {"key": HOSTNAME, "operator": "In", "values": [host]}
        terms = [{"matchExpressions": [expression]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    volume = convert(PersistentVolume, {"spec": spec})
    return replace(volume, metadata=ObjectMeta(name=f"for-{claim.name}"))

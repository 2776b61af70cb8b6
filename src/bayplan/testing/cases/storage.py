"""Random volumes: bound and unbound claims, classes, limits, capacities, volumes in the pod."""

from __future__ import annotations

from bayplan.testing.cases.draw import Body, Draw
from bayplan.testing.cases.nodes import ZONE, ZONES
from bayplan.testing.cases.selectors import node_term

DRIVER = "csi.example.com"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
MODES = ("ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod")
SIZES = ("1Gi", "2Gi", "5Gi", "1500Mi")
CLAIMS = 4


def storage(draw: Draw, names: list[str]) -> Body:
    """Objects by resource; the claims are `claim-0` and so on, in `default`."""
    volumes, claims = [], []
    for i in range(_claims(draw)):
        volume, claim = _pair(draw, i, names)
        volumes += [volume] if volume else []
        claims += [claim] if claim else []
    volumes += [_volume(draw, f"free-{i}", names) for i in range(draw.number(0, 3))]
    if "many claims" in draw.traits:
        volumes += [_numbered(draw, i, names) for i in range(24)]
    objects: Body = {
        "storageClasses": _classes(draw),
        "persistentVolumes": volumes,
        "persistentVolumeClaims": claims,
        "csiNodes": [_csi_node(draw, name) for name in names if draw.chance(0.7)],
    }
    if draw.wants("capacity"):
        spec = {"storageCapacity": draw.chance(0.8), "attachRequired": draw.chance(0.8)}
        if draw.wants("required drivers"):
            spec["preventPodSchedulingIfMissing"] = True
        objects["csiDrivers"] = [{"metadata": {"name": DRIVER}, "spec": spec}]
        objects["csiStorageCapacities"] = [_capacity(draw, i) for i in range(draw.number(0, 3))]
    return objects


def _claims(draw: Draw) -> int:
    return 24 if "many claims" in draw.traits else CLAIMS


def mount(draw: Draw, pod: Body, claims: int = 0) -> None:
    """Give a pod of `default` volumes."""
    names = [f"claim-{i}" for i in range(_claims(draw))] + ["absent"] * draw.chance(0.05)
    least, most = (10, 20) if "many claims" in draw.traits and not claims else (0, claims or 2)
    volumes: list[Body] = [
        {"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}}
        for i, name in enumerate(draw.some(names, most, least))
    ]
    if draw.chance(0.15):
        disk = {"pdName": draw.pick(("d1", "d2")), "readOnly": draw.chance(0.5)}
        volumes.append({"name": "disk", "gcePersistentDisk": disk})
    if draw.chance(0.1):
        volumes.append({"name": "ebs", "awsElasticBlockStore": {"volumeID": "vol-1"}})
    if draw.chance(0.1):
        volumes.append({"name": "scratch", "emptyDir": {}})
    if draw.wants("odd volumes"):
        volumes += _odd_volumes(draw)
    if volumes:
        pod["spec"]["volumes"] = volumes


def _odd_volumes(draw: Draw) -> list[Body]:
    """Volumes that need no claim of their own name, or share what only some may."""
    iscsi = {"targetPortal": "10.0.0.1:3260", "iqn": draw.pick(("iqn.a", "iqn.b")), "lun": 0}
    rbd = {"monitors": draw.some(("m1", "m2"), 2, 1), "image": "i", "pool": "p"}
    only = {"readOnly": draw.chance(0.5)}
    template = {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    every: tuple[Body, ...] = (
        {"csi": {"driver": DRIVER}},
        {"iscsi": {**iscsi, **only}},
        {"rbd": {**rbd, **only}},
        {"ephemeral": {"volumeClaimTemplate": template}},
        {"hostPath": {"path": "/data"}},
        {"azureDisk": {"diskName": "a", "diskURI": "/a"}},
    )
    return [{"name": f"odd{i}", **body} for i, body in enumerate(draw.some(every, 2, 1))]


def _pair(draw: Draw, i: int, names: list[str]) -> tuple[Body | None, Body | None]:
    name, mode, uid = f"claim-{i}", draw.pick(MODES), f"uid-claim-{i}"
    claim: Body = {
        "metadata": {"name": name, "namespace": "default", "uid": uid},
        "spec": {
            "accessModes": [mode],
            "resources": {"requests": {"storage": draw.pick(SIZES)}},
            "storageClassName": draw.pick(("wait", "wait", "now", "local")),
            "volumeMode": "Filesystem",
        },
        "status": {"phase": "Pending"},
    }
    if draw.chance(0.1):
        claim["spec"]["selector"] = {"matchLabels": {"tier": "gold"}}
    if "many claims" not in draw.traits and draw.chance(0.05):
        claim["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    if "many claims" in draw.traits:
        # most wait for one of the free volumes, for which there are not too many kinds of claims
        claim["spec"] |= {"accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
        if draw.chance(0.4):
            claim["spec"]["selector"] = {"matchLabels": {"tier": "gold"}}
        if draw.chance(0.95):
            return None, claim
    if draw.wants("odd claims"):
        _make_odd(draw, claim, names)
    if not draw.chance(0.6):
        return None, claim
    volume = _volume(draw, f"pv-{i}", names, claim["spec"].get("storageClassName", "local"))
    volume["spec"]["accessModes"] = [mode]
    volume["spec"]["claimRef"] = {"name": name, "namespace": "default", "uid": uid}
    volume["status"] = {"phase": "Bound"}
    claim["metadata"].setdefault("annotations", {}).update(BOUND)
    claim["spec"]["volumeName"] = volume["metadata"]["name"]
    claim["status"] = {"phase": "Bound"}
    return (None if draw.chance(0.03) else volume), claim


def _make_odd(draw: Draw, claim: Body, names: list[str]) -> None:
    """Give a claim what few have."""
    kind = draw.pick(("node", "node", "block", "beta", "attributes", "size", "absent", "lost"))
    spec, meta = claim["spec"], claim["metadata"]
    if kind == "node":
        meta["annotations"] = {"volume.kubernetes.io/selected-node": draw.pick(names)}
    elif kind == "block":
        spec["volumeMode"] = "Block"
    elif kind == "beta":
        meta["annotations"] = {"volume.beta.kubernetes.io/storage-class": "local"}
        del spec["storageClassName"]
    elif kind == "attributes":
        spec["volumeAttributesClassName"] = "gold"
    elif kind == "size":
        spec["resources"]["requests"]["storage"] = draw.pick(("1073741824", "0.5Gi", "1e9", "1"))
    elif kind == "absent":
        spec["storageClassName"] = "missing"
    else:
        claim["status"]["phase"] = "Lost"


def _volume(draw: Draw, name: str, names: list[str], storage_class: str = "") -> Body:
    spec: Body = {
        "capacity": {"storage": draw.pick(("1Gi", "2Gi", "5Gi", "10Gi"))},
        "accessModes": draw.some(("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"), 2, 1),
        "storageClassName": storage_class or draw.pick(("wait", "local", "now")),
        "csi": {"driver": DRIVER, "volumeHandle": f"h-{name}"},
        "volumeMode": "Filesystem",
        "persistentVolumeReclaimPolicy": "Retain",
    }
    if draw.chance(0.5):
        terms = [node_term(draw, names) for _ in range(draw.number(1, 2))]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if draw.wants("odd claims"):
        spec |= draw.pick(({"volumeMode": "Block"}, {"volumeAttributesClassName": "gold"}))
    meta: Body = {"name": name, "labels": {}}
    if draw.chance(0.3):
        meta["labels"][ZONE] = draw.pick((*ZONES, "z1__z2"))
    if draw.chance(0.3):
        meta["labels"]["tier"] = "gold"
    return {"metadata": meta, "spec": spec, "status": {"phase": "Available"}}


def _numbered(draw: Draw, i: int, names: list[str]) -> Body:
    """A free volume of a size of its own, so that upstream does not draw among equals."""
    body = _volume(draw, f"own-{i}", names, "local")
    body["spec"]["accessModes"] = ["ReadWriteOnce"]
    body["spec"]["capacity"] = {"storage": f"{1000 + 200 * i}Mi"}
    body["spec"].pop("nodeAffinity", None)
    if draw.chance(0.3):
        body["metadata"]["labels"]["tier"] = "gold"
    return body


def _classes(draw: Draw) -> list[Body]:
    found: list[Body] = []
    for name, mode in (
        ("wait", "WaitForFirstConsumer"),
        ("now", "Immediate"),
        ("local", "WaitForFirstConsumer"),
    ):
        provisioner = "kubernetes.io/no-provisioner" if name == "local" else DRIVER
        body: Body = {
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": mode,
        }
        if name == "wait" and draw.chance(0.4):
            values = draw.some(ZONES, 2, 1)
            body["allowedTopologies"] = [
                {"matchLabelExpressions": [{"key": ZONE, "values": values}]}
            ]
        found.append(body)
    return found


def _csi_node(draw: Draw, name: str) -> Body:
    driver: Body = {"name": DRIVER, "nodeID": name, "topologyKeys": []}
    if draw.chance(0.8):
        driver["allocatable"] = {"count": draw.number(0, 3)}
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {"drivers": [driver]}}


def _capacity(draw: Draw, i: int) -> Body:
    topology: Body = {"matchLabels": {ZONE: draw.pick(ZONES)}} if draw.chance(0.7) else {}
    body: Body = {
        "metadata": {"name": f"capacity-{i}", "namespace": "default"},
        "storageClassName": draw.pick(("wait", "wait", "now")),
        "nodeTopology": topology,
        "capacity": draw.pick(("500Mi", "1Gi", "3Gi", "100Gi")),
    }
    if draw.chance(0.3):
        body["maximumVolumeSize"] = draw.pick(("1Gi", "4Gi"))
    return body

"""Random nodes."""

from __future__ import annotations

from bayplan.testing.cases.draw import Body, Draw
from bayplan.testing.cases.quantities import capacity

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
ZONES = ("z1", "z2", "z3")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
TAINTS = ("dedicated", "gpu", "spot")
IMAGES = tuple(f"registry.example/img{i}:v1" for i in range(8))
SIZES = (10, 50, 120, 200, 600, 900, 1500, 3000)
"""In MiB. An image has one size on all nodes, as one digest has."""
FEATURES = ("GuestMemorySnapshot", "InPlacePodLevelResourcesVerticalScaling", "UserNamespaces")


def nodes(draw: Draw, count: int) -> list[Body]:
    return [_node(draw, f"node-{i}") for i in range(count)]


def _node(draw: Draw, name: str) -> Body:
    size = capacity(draw)
    allocatable = dict(size)
    if draw.wants("reserved"):
        allocatable["cpu"] = draw.pick(("500m", "900m", "1"))
    spec: Body = {}
    status: Body = {"capacity": size, "allocatable": allocatable}
    if taints := _taints(draw):
        spec["taints"] = taints
    if draw.wants("cordoned"):
        spec["unschedulable"] = True
    if draw.wants("images"):
        status["images"] = _images(draw)
    if draw.wants("declared"):
        status["declaredFeatures"] = sorted(draw.some(FEATURES))
    return {
        "metadata": {"name": name, "labels": _labels(draw, name)},
        "spec": spec,
        "status": status,
    }


def _labels(draw: Draw, name: str) -> Body:
    labels = {HOSTNAME: name}
    if draw.chance(0.85):
        labels[ZONE] = draw.pick(ZONES)
    if draw.chance(0.7):
        labels[REGION] = draw.pick(("r1", "r2"))
    if draw.chance(0.4):
        labels["disk"] = draw.pick(("ssd", "hdd"))
    if draw.chance(0.4):
        labels["gen"] = draw.pick(("2", "5", "9", "007", "x", ""))
    if draw.chance(0.3):
        labels["rack"] = draw.pick(("r1", "r2"))
    if draw.wants("unnamed hosts"):
        del labels[HOSTNAME]
    return labels


def _taints(draw: Draw) -> list[Body]:
    """Taints with different pairs of key and effect, as the API server demands."""
    if not draw.wants("taints"):
        return []
    pairs = [(key, effect) for key in TAINTS for effect in EFFECTS]
    found: list[Body] = []
    for key, effect in draw.some(pairs, 3, 1):
        body: Body = {"key": key, "effect": effect}
        if value := draw.pick(("", "a", "b", "5", "12")):
            body["value"] = value
        found.append(body)
    return found


def _images(draw: Draw) -> list[Body]:
    return [
        {"names": [IMAGES[i]], "sizeBytes": SIZES[i] << 20}
        for i in sorted(draw.some(range(len(IMAGES)), 5))
    ]

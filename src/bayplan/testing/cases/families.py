"""Families of decision cases: what they are about, as traits with probabilities.

`case(family, seed)` gives a case in the form of the recorded decisions, without `expect`.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.api.defaults.registry import apply_defaults
from bayplan.testing.cases.configs import configuration
from bayplan.testing.cases.devices import devices, split_counters, use_devices
from bayplan.testing.cases.draw import Body, Draw
from bayplan.testing.cases.nodes import nodes
from bayplan.testing.cases.pods import nominated, pod, running
from bayplan.testing.cases.selectors import NAMESPACES, label_selector, labels, namespaces
from bayplan.testing.cases.storage import mount, storage

Traits = Mapping[str, float]

_PLAIN: Traits = {
    "extended": 0.1,
    "ephemeral": 0.15,
    "taints": 0.1,
    "tolerations": 0.1,
    "images": 0.2,
}
_PLACES: Traits = {
    "node selector": 0.15,
    "required nodes": 0.2,
    "preferred nodes": 0.2,
    "match fields": 0.15,
}
_PODS: Traits = {
    "required podAffinity": 0.15,
    "required podAntiAffinity": 0.2,
    "preferred podAffinity": 0.2,
    "preferred podAntiAffinity": 0.2,
    "hard spread": 0.2,
    "soft spread": 0.25,
}
_ROOM: Traits = {
    "odd": 0.35,
    "extended": 0.25,
    "hugepages": 0.2,
    "ephemeral": 0.3,
    "limits": 0.25,
    "init containers": 0.25,
    "overhead": 0.2,
    "pod level": 0.2,
    "reserved": 0.2,
}
_ODD: Traits = {
    "cordoned": 0.08,
    "priority": 0.5,
    "terminating": 0.08,
    "nominated": 0.25,
    "ports": 0.15,
    "resize": 0.1,
    "unnamed hosts": 0.05,
    "budgets": 0.3,
    "services": 0.4,
    "started together": 0.3,
    "not started": 0.1,
    "odd budgets": 0.3,
}
_DEVICES: Traits = {"devices": 1.0, "extended": 0.1}
_SCORED_DEVICES: Traits = {
    **_DEVICES,
    "device resource": 0.95,
    "device scoring": 1.0,
    "allocated claims": 0.7,
    "config": 1.0,
}

CHANGED_GATES: dict[str, dict[str, bool]] = {
    "no device taints": {"DRADeviceTaints": False, "DRADeviceTaintRules": False},
    "no partitions": {"DRAPartitionableDevices": False},
    "no sharing": {"DRAConsumableCapacity": False},
    "no binding conditions": {"DRADeviceBindingConditions": False},
    "no prioritized lists": {"DRAPrioritizedList": False},
    "no pod level": {
        "PodLevelResources": False,
        "PodLevelResourcesFixDefaulting": False,
        "PodLevelResourcesFixKubeletQOSClass": False,
        "InPlacePodLevelResourcesVerticalScaling": False,
    },
    "no pod level resize": {"InPlacePodLevelResourcesVerticalScaling": False},
    "no label keys": {
        "MatchLabelKeysInPodTopologySpread": False,
        "MatchLabelKeysInPodTopologySpreadSelectorMerge": False,
    },
    "no capacity scoring": {"StorageCapacityScoring": False},
    "no limit scaling": {"VolumeLimitScaling": False},
    "capacity scoring": {"StorageCapacityScoring": True},
    "comparing tolerations": {"TaintTolerationComparisonOperators": True},
}
"""Gates by the trait that changes them."""

FAMILIES: dict[str, Traits] = {
    "fit": {**_PLAIN, **_ROOM},
    "taints": {**_PLAIN, "taints": 0.7, "tolerations": 0.8, "cordoned": 0.2},
    "nodeaffinity": {
        **_PLAIN,
        "node selector": 0.3,
        "required nodes": 0.7,
        "preferred nodes": 0.6,
        "match fields": 0.3,
    },
    "taintscompared": {
        **_PLAIN,
        "taints": 0.7,
        "tolerations": 0.9,
        "comparing tolerations": 0.7,
        "hard spread": 0.2,
    },
    "spread": {**_PLAIN, **_PLACES, "hard spread": 0.9, "taints": 0.3, "unnamed hosts": 0.1},
    "softspread": {**_PLAIN, **_PLACES, "soft spread": 0.9, "taints": 0.3, "unnamed hosts": 0.1},
    "defaultspread": {**_PLAIN, "services": 1.0, "owners": 0.5},
    "interpod": {**_PLAIN, "required podAffinity": 0.4, "required podAntiAffinity": 0.5},
    "softinterpod": {
        **_PLAIN,
        "preferred podAffinity": 0.6,
        "preferred podAntiAffinity": 0.6,
        "required podAffinity": 0.1,
    },
    "ports": {**_PLAIN, "ports": 0.8},
    "portspreempted": {
        **_PLAIN,
        "ports": 0.9,
        "crowded": 1.0,
        "priority": 0.8,
        "urgent": 0.7,
        "nominated": 0.2,
    },
    "images": {**_PLAIN, "images": 0.9, "init containers": 0.3},
    "volumes": {**_PLAIN, "storage": 1.0, "capacity": 0.5},
    "manyclaims": {**_PLAIN, "storage": 1.0, "many claims": 1.0, "capacity": 0.3},
    "volumesodd": {
        **_PLAIN,
        "storage": 1.0,
        "capacity": 0.5,
        "odd claims": 0.3,
        "odd volumes": 0.5,
        "crowded": 0.4,
        "priority": 0.5,
        "config": 0.3,
        "storage shape": 0.5,
        "capacity scoring": 1.0,
        "multipoint": 0.2,
    },
    "drivers": {**_PLAIN, "storage": 1.0, "capacity": 1.0, "required drivers": 0.7},
    "manyvictims": {
        **_PLAIN,
        "packed": 1.0,
        "urgent": 0.9,
        "priority": 0.5,
        "started together": 0.7,
        "not started": 0.1,
        "budgets": 0.3,
        "terminating": 0.05,
    },
    "preempt": {**_PLAIN, **_ODD, "crowded": 1.0, "priority": 0.8, "never preempts": 0.03},
    "preemptmixed": {**_PLAIN, **_ODD, **_PODS, **_PLACES, "crowded": 1.0, "storage": 0.2},
    "nominated": {**_PLAIN, **_PODS, "priority": 0.7, "nominated": 1.0, "self nominated": 0.4},
    "resize": {**_PLAIN, **_ROOM, "resize": 0.8, "crowded": 0.5, "priority": 0.4},
    "config": {**_PLAIN, **_ROOM, **_PLACES, **_PODS, "odd": 0.1, "config": 1.0, "services": 0.4},
    "profiles": {
        **_PLAIN,
        **_PODS,
        "config": 1.0,
        "other profile": 0.5,
        "priority": 0.4,
        "crowded": 0.4,
    },
    "multipoint": {
        **_PLAIN,
        **_PODS,
        **_PLACES,
        **_ODD,
        "config": 1.0,
        "multipoint": 0.9,
        "cordoned": 0.2,
        "crowded": 0.3,
    },
    "mixed": {**_PLAIN, **_ROOM, **_PLACES, **_PODS, **_ODD, "odd": 0.1, "config": 0.1},
    "large": {**_PLAIN, **_PLACES, **_PODS, **_ODD, "large": 1.0},
    "declared": {**_PLAIN, "declared": 0.7, "pod level": 0.4, "resize": 0.3},
    "devices": {**_DEVICES, "allocated claims": 0.4, "prioritized": 0.15, "admin access": 0.05},
    "devicesmore": {
        **_DEVICES,
        "allocated claims": 0.4,
        "prioritized": 0.3,
        "admin access": 0.15,
        "device taints": 0.3,
        "partitions": 0.4,
        "consumable": 0.3,
    },
    "devicesodd": {
        **_DEVICES,
        "allocated claims": 0.6,
        "prioritized": 0.2,
        "device taints": 0.4,
        "valued tolerations": 0.5,
        "partitions": 0.2,
        "consumable": 0.5,
        "request policies": 0.6,
        "shared allocations": 0.5,
        "binding conditions": 0.3,
        "own nodes": 0.3,
        "generations": 0.2,
        "versions": 0.5,
        "second driver": 0.3,
        "some requests": 0.5,
        "sound selectors": 0.9,
        "few requests": 0.7,
    },
    "devicesheld": {
        **_DEVICES,
        "held devices": 1.0,
        "all devices": 0.35,
        "constraints": 0.4,
        "slots": 0.3,
        "prioritized": 0.1,
        "admin access": 0.1,
        "partitions": 0.4,
        "shared partitions": 0.5,
        "consumable": 0.4,
        "request policies": 0.3,
        "own nodes": 0.2,
        "sound selectors": 0.95,
        "few requests": 0.6,
    },
    "deviceresource": {**_DEVICES, "device resource": 0.9, "allocated claims": 0.3},
    "devicescoring": {**_SCORED_DEVICES, "device taints": 0.1, "partitions": 0.1},
    "devicebalance": {**_SCORED_DEVICES, "bare classes": 1.0, "consumable": 0.2},
    "promiseddevices": {**_DEVICES, "device taints": 0.2, "nominated": 1.0, "priority": 0.5},
    "gatesoff": {
        **_PLAIN,
        **_PODS,
        **_ODD,
        "crowded": 0.5,
        "pod level": 0.5,
        "resize": 0.5,
        "hard spread": 0.4,
        "label keys": 0.5,
        "storage": 0.3,
        "capacity": 0.7,
        "required drivers": 0.5,
        "no pod level": 0.4,
        "no pod level resize": 0.3,
        "no label keys": 0.5,
        "no capacity scoring": 0.4,
        "no limit scaling": 0.4,
    },
    "devicegatesoff": {
        **_DEVICES,
        "device resource": 0.2,
        "allocated claims": 0.4,
        "prioritized": 0.3,
        "admin access": 0.1,
        "device taints": 0.6,
        "partitions": 0.4,
        "consumable": 0.3,
        "shared allocations": 0.3,
        "binding conditions": 0.3,
        "own nodes": 0.2,
        "sound selectors": 0.9,
        "few requests": 0.7,
        "no device taints": 0.3,
        "no partitions": 0.3,
        "no sharing": 0.25,
        "no binding conditions": 0.25,
        "no prioritized lists": 0.1,
    },
    "taintrules": {**_DEVICES, "device taints": 0.2, "taint rules": 1.0, "rules gate": 0.5},
}


def case(family: str, seed: object) -> Body:
    """One case of a family; the same seed gives the same case."""
    draw = Draw(f"{family}-{seed}", FAMILIES[family])
    found = nodes(draw, _count(draw))
    names = [node["metadata"]["name"] for node in found]
    pods = _placed(draw, names)
    asked = pod(draw, "pending", names, "default" if _needs_default(draw.traits) else "")
    if draw.wants("urgent"):
        asked["spec"]["priority"] = 1000
    objects: Body = {"nodes": found, "namespaces": namespaces(), "pods": pods}
    if draw.wants("nominated"):
        pods += [nominated(draw, f"w{i}", names) for i in range(draw.number(1, 2))]
    if draw.wants("self nominated"):
        asked["status"] = {"phase": "Pending", "nominatedNodeName": draw.pick([*names, "absent"])}
    _add_workloads(draw, objects, asked)
    _add_stores(draw, objects, pods, asked, names)
    body: Body = {"id": f"{family}-{seed}", "family": family, "objects": objects, "pod": asked}
    if draw.wants("config"):
        body["config"] = configuration(draw)
        if draw.wants("other profile") and len(body["config"]["profiles"]) > 1:
            asked["spec"]["schedulerName"] = "other-scheduler"
    if gates := _gates(draw):
        body["gates"] = gates
    return body


def _gates(draw: Draw) -> dict[str, bool]:
    """Gates that are not as by default; the fuzzer leaves out those that a version lacks."""
    found: dict[str, bool] = {}
    if draw.wants("rules gate"):  # which 1.36 needs to look at them
        found["DRADeviceTaintRules"] = True
    for trait, gates in CHANGED_GATES.items():
        if draw.wants(trait):
            found |= gates
    if "DRAConsumableCapacity" in found:
        # without both, upstream takes pools in the order of a Go map
        found.pop("DRADeviceBindingConditions", None)
    return found


def _count(draw: Draw) -> int:
    if draw.wants("large"):
        return draw.number(20, 60)
    return draw.number(1, 3 if draw.wants("packed") else 8)


def _placed(draw: Draw, names: list[str]) -> list[Body]:
    least, most = 0, 5 if draw.wants("crowded") else 2
    if draw.wants("packed"):
        least, most = 13, 60  # Go sorts more than 12 in another way than fewer
    count = draw.number(least * len(names), most * len(names))
    return [running(draw, f"p{i}", names) for i in range(count)]


def equipped(draw: Draw, name: str, names: list[str]) -> Body:
    """A waiting pod with the volumes and devices that the traits ask for."""
    asked = pod(draw, name, names, "default" if _needs_default(draw.traits) else "")
    if draw.wants("storage"):
        mount(draw, asked)
    if draw.wants("devices"):
        use_devices(draw, asked)
    return asked


def _needs_default(traits: Traits) -> bool:
    return bool({"storage", "devices"} & traits.keys())


def _add_workloads(draw: Draw, objects: Body, asked: Body) -> None:
    if draw.wants("services"):
        objects["services"] = [
            {
                "metadata": {"name": f"s{i}", "namespace": asked["metadata"]["namespace"]},
                "spec": {"selector": labels(draw)},
            }
            for i in range(draw.number(1, 2))
        ]
    if draw.wants("owners"):
        _add_owner(draw, objects, asked)
    if draw.wants("budgets"):
        objects["podDisruptionBudgets"] = [_budget(draw, i) for i in range(draw.number(1, 3))]


def _add_owner(draw: Draw, objects: Body, asked: Body) -> None:
    kind, plural, version = draw.pick(
        (
            ("ReplicaSet", "replicaSets", "apps/v1"),
            ("ReplicaSet", "replicaSets", "apps/v1"),
            ("StatefulSet", "statefulSets", "apps/v1"),
            ("ReplicationController", "replicationControllers", "v1"),
        )
    )
    chosen = labels(draw) or {"app": "web"}
    template = {"metadata": {"labels": chosen}, "spec": {"containers": []}}
    selector: Body = chosen if version == "v1" else {"matchLabels": chosen}
    meta = {"name": "owner", "namespace": asked["metadata"]["namespace"], "uid": "uid-owner"}
    objects[plural] = [{"metadata": meta, "spec": {"selector": selector, "template": template}}]
    owner = {"apiVersion": version, "kind": kind, "name": "owner", "uid": "uid-owner"}
    asked["metadata"]["ownerReferences"] = [{**owner, "controller": True}]


def _budget(draw: Draw, i: int) -> Body:
    spec: Body = {"selector": {"matchLabels": labels(draw)}, "maxUnavailable": 1}
    status: Body = {"disruptionsAllowed": draw.number(0, 2)}
    if draw.wants("odd budgets"):
        spec["selector"] = label_selector(draw)
        if draw.chance(0.3):
            gone = draw.some([f"p{n}" for n in range(6)], 3, 1)
            status["disruptedPods"] = dict.fromkeys(gone, "2026-01-01T00:00:00Z")
    namespace = draw.pick(tuple(NAMESPACES)) if draw.wants("odd budgets") else "default"
    return {"metadata": {"name": f"b{i}", "namespace": namespace}, "spec": spec, "status": status}


def _add_stores(draw: Draw, objects: Body, pods: list[Body], asked: Body, names: list[str]) -> None:
    if draw.wants("storage"):
        objects |= storage(draw, names)
        mount(draw, asked)
        for body in pods:
            if body["metadata"]["namespace"] == "default" and draw.chance(0.4):
                mount(draw, body, 1)
    if draw.wants("devices"):
        objects |= devices(draw, names)
        objects["resourceSlices"] = split_counters(objects["resourceSlices"])
        for key in ("resourceClaims", "resourceSlices"):
            for body in objects[key]:
                apply_defaults("resource.k8s.io", key.lower(), body)
        use_devices(draw, asked)

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
from bayplan.testing.cases.selectors import labels, namespaces
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
}
_DEVICES: Traits = {"devices": 1.0, "extended": 0.1}
_SCORED_DEVICES: Traits = {
    **_DEVICES,
    "device resource": 0.95,
    "device scoring": 1.0,
    "allocated claims": 0.7,
    "config": 1.0,
}

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
    "images": {**_PLAIN, "images": 0.9, "init containers": 0.3},
    "volumes": {**_PLAIN, "storage": 1.0, "capacity": 0.5},
    "drivers": {**_PLAIN, "storage": 1.0, "capacity": 1.0, "required drivers": 0.7},
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
    "deviceresource": {**_DEVICES, "device resource": 0.9, "allocated claims": 0.3},
    "devicescoring": {**_SCORED_DEVICES, "device taints": 0.1, "partitions": 0.1},
    "devicebalance": {**_SCORED_DEVICES, "bare classes": 1.0, "consumable": 0.2},
    "promiseddevices": {**_DEVICES, "device taints": 0.2, "nominated": 1.0, "priority": 0.5},
    "taintrules": {**_DEVICES, "device taints": 0.2, "taint rules": 1.0, "rules gate": 0.5},
}


def case(family: str, seed: object) -> Body:
    """One case of a family; the same seed gives the same case."""
    draw = Draw(f"{family}-{seed}", FAMILIES[family])
    count = draw.number(20, 60) if draw.wants("large") else draw.number(1, 8)
    found = nodes(draw, count)
    names = [node["metadata"]["name"] for node in found]
    per_node = 5 if draw.wants("crowded") else 2
    pods = [running(draw, f"p{i}", names) for i in range(draw.number(0, per_node * count))]
    asked = pod(draw, "pending", names, "default" if _needs_default(draw.traits) else "")
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
    if draw.wants("rules gate"):  # which 1.36 needs to look at them
        body["gates"] = {"DRADeviceTaintRules": True}
    return body


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
        name, namespace = "rs", asked["metadata"]["namespace"]
        selector = {"matchLabels": labels(draw) or {"app": "web"}}
        template = {"metadata": {"labels": selector["matchLabels"]}, "spec": {"containers": []}}
        meta = {"name": name, "namespace": namespace, "uid": "uid-rs"}
        spec = {"selector": selector, "template": template}
        objects["replicaSets"] = [{"metadata": meta, "spec": spec}]
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": "uid-rs"}
        asked["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    if draw.wants("budgets"):
        objects["podDisruptionBudgets"] = [_budget(draw, i) for i in range(draw.number(1, 3))]


def _budget(draw: Draw, i: int) -> Body:
    spec = {"selector": {"matchLabels": labels(draw)}, "maxUnavailable": 1}
    status = {"disruptionsAllowed": draw.number(0, 2)}
    return {"metadata": {"name": f"b{i}", "namespace": "default"}, "spec": spec, "status": status}


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
                apply_defaults("resource.k8s.io", "v1", key.lower(), body)
        use_devices(draw, asked)

"""Random clusters with several waiting pods and pod groups, for runs of a whole scheduler."""

from __future__ import annotations

from copy import deepcopy

from bayplan.api.defaults.registry import apply_defaults
from bayplan.testing.cases.devices import devices, use_devices
from bayplan.testing.cases.draw import Body, Draw
from bayplan.testing.cases.nodes import HOSTNAME, ZONE, nodes
from bayplan.testing.cases.pods import pod, running
from bayplan.testing.cases.selectors import namespaces

GATES = {"GenericWorkload": True, "OpportunisticBatching": False}
"""Batching breaks ties between equal nodes in another order; see docs/design/conformance.md."""
GATES_1_36 = {**GATES, "GangScheduling": True}
TOPOLOGY_GATES = {"TopologyAwareWorkloadScheduling": True}
COMPOSITE_GATES = {"CompositePodGroup": True}
_TRAITS = {
    "taints": 0.1,
    "tolerations": 0.2,
    "required nodes": 0.1,
    "preferred nodes": 0.2,
    "required podAntiAffinity": 0.1,
    "preferred podAffinity": 0.1,
    "hard spread": 0.1,
    "prioritized": 0.2,
    "admin access": 0.1,
    "consumable": 0.2,
    "device resource": 0.2,
    "request policies": 0.5,
    "slots": 0.4,
    "held devices": 0.2,
    "parameters": 0.3,
    "sound selectors": 0.8,
    "not started": 0.1,
    "started together": 0.2,
    "ports": 0.1,
    "init containers": 0.1,
    "overhead": 0.1,
    "never preempts": 0.05,
}


def run_case(seed: object, *, modern: bool = True) -> Body:
    """One case; the same seed gives the same case.

    1.36 tries the pods of a group in the order of a Go map, so that they must be alike there.
    """
    draw = Draw(f"run-{seed}", _TRAITS)
    found = nodes(draw, draw.number(1, 5))
    names = [node["metadata"]["name"] for node in found]
    groups = [_group(draw, f"g{i}") for i in range(draw.number(1, 3))]
    whole = Draw(f"whole-{seed}", {})
    as_whole = not modern and whole.chance(0.4)
    for group in groups if as_whole else ():
        if whole.chance(0.6):
            group["spec"]["priority"] = 10
    placed = [running(draw, f"p{i}", names) for i in range(draw.number(0, 3 * len(names)))]
    for body in placed:
        body["spec"]["priority"] = draw.pick((0, 0, 5))
    waiting = [member for group in groups for member in _members(draw, group, names, modern)]
    alone = [pod(draw, f"w{i}", names, "default") for i in range(draw.number(0, 3))]
    if (modern or as_whole) and draw.chance(0.5):
        groups.append(_old_group(draw, placed))
        for body in alone:
            body["spec"]["priority"] = draw.pick((0, 20))
    waiting += alone
    for number, body in enumerate(draw.some(waiting, least=len(waiting))):
        body["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{number:02}Z"
    waiting.sort(key=lambda body: str(body["metadata"]["creationTimestamp"]))
    objects: Body = {"nodes": found, "namespaces": namespaces(), "podGroups": groups}
    objects["pods"] = placed + waiting
    if draw.chance(0.4):
        objects |= devices(draw, names)
        for key in ("resourceClaims", "resourceSlices"):
            for body in objects[key]:
                apply_defaults("resource.k8s.io", key.lower(), body)
        for body in waiting:
            if "schedulingGroup" not in body["spec"] and draw.chance(0.7):
                use_devices(draw, body)
    budgets = Draw(f"budgets-{seed}", {})
    if budgets.chance(0.3):  # one: of several, upstream draws the order
        objects["podDisruptionBudgets"] = [_budget(budgets)]
    gates = GATES
    if not modern:
        gates = GATES_1_36
        if as_whole:
            gates = {**gates, "WorkloadAwarePreemption": True}
        for group in groups:
            group["spec"] = _as_1_36(group["spec"], whole=as_whole)
    topology = Draw(f"topology-{seed}", {})
    if topology.chance(0.4):
        gates = {**gates, **TOPOLOGY_GATES}
        _keep_together(topology, groups, placed)
        if modern and topology.chance(0.4):
            gates = {**gates, **COMPOSITE_GATES}
            objects["compositePodGroups"] = _join(topology, groups, placed + waiting)
    return {"id": f"run-{seed}", "family": "run", "objects": objects, "gates": gates}


def _budget(draw: Draw) -> Body:
    selector = {"matchLabels": {"app": draw.pick(("web", "db"))}}
    return {
        "metadata": {"name": "budget", "namespace": "default"},
        "spec": {"selector": selector, "maxUnavailable": 1},
        "status": {"disruptionsAllowed": draw.number(0, 2)},
    }


def _group(draw: Draw, name: str) -> Body:
    policy: Body = {"gang": {"minCount": draw.number(1, 4)}}
    if draw.chance(0.2):
        policy = {"basic": {}}
    spec: Body = {"schedulingPolicy": policy}
    if draw.chance(0.5):
        spec["priority"] = 10
    if draw.chance(0.3):
        spec["disruptionMode"] = {draw.pick(("all", "single")): {}}
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": spec}


def _as_1_36(spec: Body, *, whole: bool) -> Body:
    """The spec of a group; behind WorkloadAwarePreemption it has more."""
    found: Body = {"schedulingPolicy": spec["schedulingPolicy"]}
    if whole and "priority" in spec:
        found["priority"] = spec["priority"]
    if whole and "disruptionMode" in spec:
        found["disruptionMode"] = "PodGroup" if "all" in spec["disruptionMode"] else "Pod"
    return found


def _old_group(draw: Draw, placed: list[Body]) -> Body:
    """A group whose pods are placed, for others to preempt."""
    group = _group(draw, "old")
    group["spec"]["priority"] = draw.pick((0, 5))
    group["spec"]["disruptionMode"] = {draw.pick(("all", "all", "single")): {}}
    for body in draw.some(placed, 4):
        body["metadata"]["namespace"] = "default"
        body["spec"]["schedulingGroup"] = {"podGroupName": "old"}
        body["spec"]["priority"] = group["spec"]["priority"]
    return group


def _keep_together(draw: Draw, groups: list[Body], placed: list[Body]) -> None:
    """Give groups topology constraints, and to some of them a pod that runs already."""
    for group in groups:
        spec, name = group["spec"], group["metadata"]["name"]
        if draw.chance(0.8):
            key = draw.pick((ZONE, ZONE, HOSTNAME, "rack"))
            spec["schedulingConstraints"] = {"topology": [{"key": key}]}
        alone = [body for body in placed if "schedulingGroup" not in body["spec"]]
        for body in draw.some(alone, draw.pick((0, 0, 1, 2))):
            body["metadata"]["namespace"] = "default"
            body["spec"]["schedulingGroup"] = {"podGroupName": name}
            body["spec"]["priority"] = spec.get("priority", 0)


def _join(draw: Draw, groups: list[Body], pods: list[Body]) -> list[Body]:
    """Put groups below composite ones, all with one priority."""
    priority = draw.pick((0, 10))
    found = [_composite(draw, f"c{number}", priority) for number in range(draw.number(1, 3))]
    for number, composite in enumerate(found[1:], 1):
        if draw.chance(0.7):
            parent = found[draw.number(0, number - 1)]["metadata"]["name"]
            composite["spec"]["parentCompositePodGroupName"] = parent
    for group in groups:
        if draw.chance(0.2):
            continue
        parent = draw.pick(found)["metadata"]["name"]
        group["spec"]["parentCompositePodGroupName"] = parent
        group["spec"]["workloadRef"] = {"workloadName": "w", "templateName": "t"}
        group["spec"]["priority"] = priority
        name = {"podGroupName": group["metadata"]["name"]}
        for body in pods:
            if body["spec"].get("schedulingGroup") == name:
                body["spec"]["priority"] = priority
    return found


def _composite(draw: Draw, name: str, priority: int) -> Body:
    policy: Body = {"gang": {"minGroupCount": draw.pick((1, 1, 2, 3))}}
    if draw.chance(0.3):
        policy = {"basic": {}}
    spec: Body = {"schedulingPolicy": policy, "priority": priority}
    spec["workloadRef"] = {"workloadName": "w", "templateName": "t"}
    if draw.chance(0.4):
        key = draw.pick((ZONE, ZONE, HOSTNAME, "rack"))
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    if draw.chance(0.4):
        spec["disruptionMode"] = {draw.pick(("all", "single")): {}}
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": spec}


def _members(draw: Draw, group: Body, names: list[str], modern: bool) -> list[Body]:
    name, spec = group["metadata"]["name"], group["spec"]
    least = spec["schedulingPolicy"].get("gang", {}).get("minCount", 1)
    found = []
    for number in range(least - draw.chance(0.1) + draw.number(0, 2)):
        body = pod(draw, f"{name}-{number}", names, "default")
        body["spec"]["schedulingGroup"] = {"podGroupName": name}
        body["spec"]["priority"] = spec.get("priority", 0)
        found.append(body)
    if not modern:
        for body in found[1:]:
            body["spec"] = deepcopy(found[0]["spec"])
            body["metadata"]["labels"] = dict(found[0]["metadata"].get("labels") or {})
    return found

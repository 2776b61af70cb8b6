"""Random clusters with several waiting pods and pod groups, for runs of a whole scheduler."""

from __future__ import annotations

from copy import deepcopy

from bayplan.api.defaults.registry import apply_defaults
from bayplan.testing.cases.devices import devices, use_devices
from bayplan.testing.cases.draw import Body, Draw
from bayplan.testing.cases.nodes import nodes
from bayplan.testing.cases.pods import pod, running
from bayplan.testing.cases.selectors import namespaces

GATES = {"GenericWorkload": True, "OpportunisticBatching": False}
"""Batching breaks ties between equal nodes in another order; see docs/design/conformance.md."""
GATES_1_36 = {**GATES, "GangScheduling": True}
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
}


def run_case(seed: object, *, modern: bool = True) -> Body:
    """One case; the same seed gives the same case.

    1.36 tries the pods of a group in the order of a Go map, so that they must be alike there.
    """
    draw = Draw(f"run-{seed}", _TRAITS)
    found = nodes(draw, draw.number(1, 5))
    names = [node["metadata"]["name"] for node in found]
    groups = [_group(draw, f"g{i}") for i in range(draw.number(1, 3))]
    placed = [running(draw, f"p{i}", names) for i in range(draw.number(0, 3 * len(names)))]
    for body in placed:
        body["spec"]["priority"] = draw.pick((0, 0, 5))
    waiting = [member for group in groups for member in _members(draw, group, names, modern)]
    alone = [pod(draw, f"w{i}", names, "default") for i in range(draw.number(0, 3))]
    if modern and draw.chance(0.5):
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
                apply_defaults("resource.k8s.io", "v1", key.lower(), body)
        for body in waiting:
            if "schedulingGroup" not in body["spec"] and draw.chance(0.7):
                use_devices(draw, body)
    if not modern:
        for group in groups:
            group["spec"] = {"schedulingPolicy": group["spec"]["schedulingPolicy"]}
    gates = GATES if modern else GATES_1_36
    return {"id": f"run-{seed}", "family": "run", "objects": objects, "gates": gates}


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

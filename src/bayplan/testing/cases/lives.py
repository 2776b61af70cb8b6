"""A random life of a cluster, step by step: pods come and go, room is made, nodes close.

Only what a scheduler does the same each time: pods come one by one, and one that found no place is
taken away before anything changes that could help it, since its next try would be a race with its
backoff. Nodes have sizes of their own, so that hardly two are equally good.
"""

from __future__ import annotations

from bayplan.testing.cases.draw import Body, Draw
from bayplan.testing.cases.nodes import HOSTNAME, ZONE
from bayplan.testing.cases.placement import place

PRIORITIES = {"high": 1000, "low": 10}
_TRAITS = {
    "tolerations": 0.2,
    "node selector": 0.05,
    "required nodes": 0.1,
    "preferred nodes": 0.2,
    "required podAffinity": 0.05,
    "required podAntiAffinity": 0.15,
    "preferred podAffinity": 0.1,
    "preferred podAntiAffinity": 0.1,
    "hard spread": 0.15,
    "soft spread": 0.1,
    "ports": 0.1,
}
_SIZES = (3, 5, 7, 11, 13, 17)
_TAINT = {"key": "dedicated", "value": "a", "effect": "NoSchedule"}


def life(seed: object, steps: int = 16) -> list[Body]:
    """The steps of one life: each has one of `nodes`, `pod`, `delete` and `close`.

    `delete` is the number of a pod among those that have a node; how many there are is known only
    when it happens, so it is taken modulo.
    """
    draw = Draw(f"life-{seed}", _TRAITS)
    found = [_node(draw, i, size) for i, size in enumerate(draw.some(_SIZES, 5, 3))]
    names = [node["metadata"]["name"] for node in found]
    told: list[Body] = [{"nodes": found}]
    for number in range(steps):
        if draw.chance(0.25):
            told.append({"delete": draw.number(0, 1000)})
        if draw.chance(0.08):
            told.append({"close": draw.pick(names)})
        told.append({"pod": _pod(draw, f"p{number:02}", names)})
    return told


def _node(draw: Draw, number: int, size: int) -> Body:
    name = f"n{number}"
    room = {"cpu": str(size), "memory": f"{4 * size + number}Gi", "pods": "110"}
    labels = {HOSTNAME: name, ZONE: f"z{1 + number % 3}", "disk": draw.pick(("ssd", "hdd"))}
    spec: Body = {"taints": [_TAINT]} if draw.chance(0.15) else {}
    status = {"capacity": room, "allocatable": room}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def _pod(draw: Draw, name: str, names: list[str]) -> Body:
    app = draw.pick(("web", "db"))
    requests = {"cpu": draw.pick(("300m", "700m", "1100m", "1900m", "4")), "memory": "256Mi"}
    container: Body = {"name": "c", "image": "pause:3.10", "resources": {"requests": requests}}
    if draw.wants("ports"):
        container["ports"] = [{"containerPort": 80, "hostPort": draw.pick((80, 8080))}]
    spec: Body = {"containers": [container], "terminationGracePeriodSeconds": 0}
    spec["priorityClassName"] = draw.pick(("low", "low", "high"))
    place(draw, spec, names)
    return {"metadata": {"name": name, "labels": {"app": app}}, "spec": spec}

"""Random pods: what runs, what waits with a nomination, and the one to place."""

from __future__ import annotations

from bayplan.api.defaults.registry import apply_defaults
from bayplan.testing.cases.draw import Body, Draw
from bayplan.testing.cases.nodes import IMAGES
from bayplan.testing.cases.placement import place
from bayplan.testing.cases.quantities import cpu, memory, resources
from bayplan.testing.cases.selectors import NAMESPACES, labels

PRIORITIES = (-10, 0, 0, 10, 100)
PORTS = (80, 8080, 8081)


def running(draw: Draw, name: str, names: list[str]) -> Body:
    """A pod that is on a node."""
    body = pod(draw, name, names)
    body["spec"]["nodeName"] = draw.pick(names)
    body["status"] = {"phase": "Running"}
    if not draw.wants("not started"):
        second = draw.number(0, 2 if draw.wants("started together") else 59)
        body["status"]["startTime"] = f"2026-01-01T00:00:{second:02}Z"
    if draw.wants("resize"):
        _resize(draw, body)
    if draw.wants("terminating"):
        body["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
        body["metadata"]["deletionGracePeriodSeconds"] = 30
    return body


def nominated(draw: Draw, name: str, names: list[str]) -> Body:
    """A pod that waits for its victims to go."""
    body = pod(draw, name, names)
    body["status"] = {"phase": "Pending", "nominatedNodeName": draw.pick(names)}
    return body


def pod(draw: Draw, name: str, names: list[str], namespace: str = "") -> Body:
    """A pod that no node was chosen for, with the API server's defaults."""
    count = 2 if draw.chance(0.25) else 1
    spec: Body = {"containers": [_container(draw, f"c{i}") for i in range(count)]}
    if draw.wants("init containers"):
        spec["initContainers"] = [_init(draw, f"i{i}") for i in range(draw.number(1, 2))]
    if draw.wants("overhead"):
        spec["overhead"] = {"cpu": "10m", "memory": draw.pick(("1Mi", "64Mi"))}
    if draw.wants("pod level"):
        _pod_level(draw, spec)
    if draw.wants("priority"):
        spec["priority"] = draw.pick(PRIORITIES)
    if draw.wants("never preempts"):
        spec["preemptionPolicy"] = "Never"
    place(draw, spec, names)
    namespace = namespace or (draw.pick(tuple(NAMESPACES)) if draw.chance(0.4) else "default")
    meta: Body = {"name": name, "uid": f"uid-{name}", "namespace": namespace}
    meta["creationTimestamp"] = f"2025-12-31T23:{draw.number(0, 59):02}:00Z"
    if found := labels(draw):
        meta["labels"] = found
    body: Body = {"metadata": meta, "spec": spec}
    apply_defaults("", "pods", body)
    return body


def _container(draw: Draw, name: str) -> Body:
    body: Body = {"name": name, "image": _image(draw)}
    if asked := resources(draw):
        body["resources"] = asked
    if draw.wants("ports"):
        body["ports"] = [_port(draw, i) for i in range(draw.number(1, 2))]
    return body


def _image(draw: Draw) -> str:
    image = draw.pick(IMAGES)
    return image.removesuffix(":v1") if draw.chance(0.1) else image


def _port(draw: Draw, index: int) -> Body:
    body: Body = {"containerPort": 80 + index}
    if draw.chance(0.8):
        body["hostPort"] = draw.pick(PORTS)
    if draw.chance(0.5):
        body["protocol"] = draw.pick(("TCP", "UDP", "SCTP"))
    if draw.chance(0.3):
        body["hostIP"] = draw.pick(("127.0.0.1", "0.0.0.0", "10.0.0.1"))
    return body


def _init(draw: Draw, name: str) -> Body:
    body = {"name": name, "image": _image(draw), "resources": resources(draw)}
    if draw.chance(0.5):
        body["restartPolicy"] = "Always"
    return body


def _pod_level(draw: Draw, spec: Body) -> None:
    """Requests of the whole pod, at least those of its containers."""
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        container["resources"] = {}
    spec["resources"] = {"requests": {"cpu": cpu(draw), "memory": memory(draw)}}


def _resize(draw: Draw, body: Body) -> None:
    """A resize under way: the status still holds other resources than the spec."""
    statuses = []
    for container in body["spec"]["containers"]:
        status: Body = {"name": container["name"]}
        # the API server keeps no empty maps
        if held := resources(draw)["requests"]:
            status["allocatedResources"] = held
        if draw.chance(0.8) and (given := resources(draw)["requests"]):
            status["resources"] = {"requests": given}
        statuses.append(status)
    body["status"]["containerStatuses"] = statuses
    if "resources" in body["spec"] and draw.chance(0.7):
        body["status"]["allocatedResources"] = {"cpu": cpu(draw), "memory": memory(draw)}
        body["status"]["resources"] = {"requests": {"cpu": cpu(draw), "memory": memory(draw)}}
    if draw.chance(0.5):
        reason = draw.pick(("Infeasible", "Deferred"))
        condition = {"type": "PodResizePending", "status": "True", "reason": reason}
        body["status"]["conditions"] = [condition]

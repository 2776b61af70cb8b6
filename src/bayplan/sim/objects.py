"""Nodes and pods in one line each, and durations, for scenarios.

Everything returns plain dictionaries as a user would write them; nothing is defaulted here that
the API server defaults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from bayplan.config import DEFAULT_GATES
from bayplan.sim.errors import ScenarioError

Object = dict[str, object]

SIMULATED = "bayplan.dev/simulated"
RUN_SECONDS = "bayplan.dev/run-seconds"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(value: object) -> float:
    """Read `90`, `1.5`, `"90s"`, `"1h30m"`, `"250ms"`; raises ScenarioError."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    text = str(value).strip()
    parts = list(_PART.finditer(text))
    if parts and "".join(part.group(0) for part in parts) == text:
        return sum(float(part.group(1)) * _UNITS[part.group(2)] for part in parts)
    raise ScenarioError(f'"{value}" is not a duration; write 90, 1.5s, 250ms, 10m or 1h30m')


def node(
    name: str,
    *,
    cpu: str | int = "4",
    memory: str = "16Gi",
    pods: str | int = 110,
    zone: str = "",
    labels: Mapping[str, str] | None = None,
    taints: list[object] | None = None,
    unschedulable: bool = False,
    images: list[object] | None = None,
    extra: Mapping[str, str | int] | None = None,
    simulated: bool = True,
) -> Object:
    """Return a ready node with the labels that a kubelet sets."""
    every: dict[str, str] = {
        HOSTNAME: name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    if zone:
        every[ZONE] = zone
    capacity = {"cpu": str(cpu), "memory": memory, "pods": str(pods), "ephemeral-storage": "100Gi"}
    capacity |= {key: str(value) for key, value in (extra or {}).items()}
    meta: Object = {"name": name, "labels": {**every, **(labels or {})}}
    if simulated:
        meta["annotations"] = {SIMULATED: "true"}
    spec: Object = {}
    if taints:
        spec["taints"] = taints
    if unschedulable:
        spec["unschedulable"] = True
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated"}
    status: Object = {
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": [ready],
        "addresses": [{"type": "Hostname", "address": name}],
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": name,
            "containerRuntimeVersion": "simulated://1",
            "kernelVersion": "simulated",
            "kubeProxyVersion": "",
            "kubeletVersion": DEFAULT_GATES.release,
            "machineID": name,
            "operatingSystem": "linux",
            "osImage": "simulated",
            "systemUUID": name,
        },
    }
    if images:
        status["images"] = images
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status}


def pod(
    name: str,
    *,
    cpu: str | int | None = None,
    memory: str | None = None,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    lifetime: float | None = None,
    image: str = "registry.k8s.io/pause:3.10",
    extra: Mapping[str, str | int] | None = None,
    **spec: object,
) -> Object:
    """Return a pod of one container; `lifetime` lets it succeed that long after it started.

    Other keyword arguments are fields of the spec, in their JSON spelling.
    """
    requests: Object = {}
    if cpu is not None:
        requests["cpu"] = str(cpu)
    if memory is not None:
        requests["memory"] = memory
    resources: Object = {}
    if extra:
        limits = {key: str(value) for key, value in extra.items()}
        requests |= limits
        resources["limits"] = limits
    if requests:
        resources["requests"] = requests
    container: Object = {"name": "main", "image": image}
    if resources:
        container["resources"] = resources
    meta: Object = {"name": name, "namespace": namespace}
    if labels:
        meta["labels"] = dict(labels)
    notes = dict(annotations or {})
    body: Object = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    if lifetime is not None:
        notes[RUN_SECONDS] = f"{lifetime:g}"
        body["restartPolicy"] = "Never"
    if notes:
        meta["annotations"] = notes
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**body, **spec}}

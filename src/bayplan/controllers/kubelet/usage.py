"""What simulated pods and nodes use of cpu and memory, as metrics.k8s.io tells it.

A pod uses what it was told to (`cpu`, `memory`: see `behaviour`), shared equally by its containers;
without that half of what a container requests, or next to nothing. A node uses the sum of its pods.
"""

from __future__ import annotations

from bayplan.api import quantity
from bayplan.controllers.kubelet.container import Container
from bayplan.controllers.kubelet.pod import PodRun
from bayplan.controllers.objects import Json, Object

WINDOW_SECONDS = 15
LEAST = {"cpu": quantity.nanos("1m"), "memory": quantity.nanos("4Mi")}


def container_usage(run: PodRun, container: Container, now: float) -> dict[str, int]:
    """Return what a running container uses, in nanos."""
    found: dict[str, int] = {}
    requests = (container.spec.get("resources") or {}).get("requests") or {}
    for name, least in LEAST.items():
        told = run.told.amount(name, now - run.began)
        if told is not None:
            found[name] = told // max(len(run.of("main")), 1)
        else:
            half = quantity.nanos(requests[name]) // 2 if name in requests else 0
            found[name] = max(half, least)
    return found


def pod_metrics(run: PodRun, now: float) -> Json | None:
    """Return the PodMetrics of a pod; None while nothing runs in it."""
    running = [c for c in run.of("main", "sidecar") if c.state == "running"]
    if not running:
        return None
    meta = run.pod.metadata
    return {
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "labels": meta.labels,
            "creationTimestamp": run.stamp(now),
        },
        **_window(run.stamp(now)),
        "containers": [
            {"name": c.name, "usage": _texts(container_usage(run, c, now))} for c in running
        ],
    }


def node_metrics(node: Object, runs: list[PodRun], stamp: str, now: float) -> Json:
    """Return the NodeMetrics of a node."""
    total = dict.fromkeys(LEAST, 0)
    for run in runs:
        for container in run.of("main", "sidecar"):
            if container.state == "running":
                for name, amount in container_usage(run, container, now).items():
                    total[name] += amount
    meta = node.metadata
    return {
        "metadata": {"name": meta.name, "labels": meta.labels, "creationTimestamp": stamp},
        **_window(stamp),
        "usage": _texts(total),
    }


def _window(stamp: str) -> Json:
    return {"timestamp": stamp, "window": f"{WINDOW_SECONDS}s"}


def _texts(amounts: dict[str, int]) -> Json:
    return {
        "cpu": f"{amounts['cpu']}n",
        "memory": f"{amounts['memory'] // quantity.NANO // 1024}Ki",
    }

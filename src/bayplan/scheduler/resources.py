"""`/metrics/resources`: what each pod asks for and may use, in kube-scheduler's names.

The page is made anew from the informer's pods whenever it is read; nothing is kept, and scheduling
pays nothing for it. Pods that are over are left out, as are resources of which nothing is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from bayplan.api import Pod
from bayplan.api.pod import Container, ResourceRequirements
from bayplan.api.requests import parse_all, pod_requests

LABELS = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
_NANO = 1_000_000_000
_UNITS = {"cpu": "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes"}


def resources_page(pods: Iterable[Pod]) -> bytes:
    """Return the text of the page."""
    registry = CollectorRegistry()
    registry.register(_Resources(pods))
    return generate_latest(registry)


class _Resources(Collector):
    def __init__(self, pods: Iterable[Pod]) -> None:
        self._pods = pods

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        requests = GaugeMetricFamily(
            "kube_pod_resource_request", "What pods ask for, by resource.", labels=LABELS
        )
        limits = GaugeMetricFamily(
            "kube_pod_resource_limit", "What pods may use at most, by resource.", labels=LABELS
        )
        for pod in self._pods:
            if pod.spec.node_name and pod.status.phase in ("Succeeded", "Failed"):
                continue
            _add(requests, pod, pod_requests(pod))
            _add(limits, pod, pod_limits(pod))
        yield requests
        yield limits


def _add(family: GaugeMetricFamily, pod: Pod, amounts: dict[str, int]) -> None:
    meta, spec = pod.metadata, pod.spec
    priority = "" if spec.priority is None else str(spec.priority)
    whose = (meta.namespace, meta.name, spec.node_name, spec.scheduler_name, priority)
    for name, amount in amounts.items():
        if amount:
            family.add_metric((*whose, name, _unit(name)), amount / _NANO)


def _unit(name: str) -> str:
    if name.startswith("hugepages-"):
        return "bytes"
    return _UNITS.get(name, "integer" if name.startswith("attachable-volumes-") else "")


def pod_limits(pod: Pod) -> dict[str, int]:
    """A pod's limits by the rules of requests; overhead counts only where there is a limit."""
    spec = pod.spec
    total = pod_requests(
        replace(
            pod,
            spec=replace(
                spec,
                containers=tuple(map(_limits_as_requests, spec.containers)),
                init_containers=tuple(map(_limits_as_requests, spec.init_containers)),
                resources=ResourceRequirements(requests=spec.resources.limits)
                if spec.resources
                else None,
                overhead={},
            ),
        )
    )
    for name, amount in parse_all(spec.overhead, "spec.overhead").items():
        if total.get(name):
            total[name] += amount
    return total


def _limits_as_requests(container: Container) -> Container:
    return replace(container, resources=ResourceRequirements(requests=container.resources.limits))

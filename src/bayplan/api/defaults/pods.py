"""Defaults that only Pods get, not the templates they are made from."""

from __future__ import annotations

from bayplan.api.defaults.json_types import Object
from bayplan.api.defaults.pod_spec import default_pod_spec
from bayplan.api.defaults.quantities import add, maximum

_POD_LEVEL = ("cpu", "memory")
_HUGEPAGES = "hugepages-"


def default_pod(pod: Object) -> None:
    """Write all defaults of a Pod."""
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            _requests_from_limits(container["resources"])
    if spec.get("resources"):
        _default_pod_limits(spec)
        _default_pod_requests(spec)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    if spec.get("hostNetwork"):
        _default_host_ports(spec)
    if pod.get("status"):
        _default_addresses(pod["status"])


def _default_addresses(status: Object) -> None:
    """Keep `podIP` and the first of `podIPs` equal; the older field wins where they differ."""
    first, addresses = status.get("podIP"), status.get("podIPs") or []
    if first and (not addresses or addresses[0].get("ip") != first):
        status["podIPs"] = [{"ip": first}]
    elif addresses and not first:
        status["podIP"] = addresses[0].get("ip", "")


def _requests_from_limits(resources: Object) -> None:
    limits = resources.get("limits")
    if not limits:
        return
    requests = resources.get("requests")
    if requests is None:
        requests = resources["requests"] = {}
    for name, quantity in limits.items():
        requests.setdefault(name, quantity)


def _default_host_ports(spec: Object) -> None:
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            for port in container.get("ports") or ():
                if not port.get("hostPort"):
                    port["hostPort"] = port.get("containerPort", 0)


def _default_pod_limits(spec: Object) -> None:
    """Sum up hugepage limits of the containers where the pod level names none."""
    resources = spec["resources"]
    if not resources.get("limits") and not resources.get("requests"):
        return
    limits = dict(resources.get("limits") or {})
    requested = resources.get("requests") or {}
    for name, total in aggregate(spec, "limits").items():
        if name.startswith(_HUGEPAGES) and name not in requested:
            limits.setdefault(name, total)
    if limits:
        resources["limits"] = limits


def _default_pod_requests(spec: Object) -> None:
    resources = spec["resources"]
    limits = resources.get("limits")
    if not limits:
        return
    requests = dict(resources.get("requests") or {})
    for name, total in aggregate(spec, "requests").items():
        if name in _POD_LEVEL:
            requests.setdefault(name, total)
    for name, quantity in limits.items():
        if name in _POD_LEVEL or name.startswith(_HUGEPAGES):
            requests.setdefault(name, quantity)
    if requests:
        resources["requests"] = requests


def aggregate(spec: Object, kind: str) -> dict[str, str]:
    """Return what all containers together need: `kind` is `requests` or `limits`.

    Sidecars run beside the containers and beside the init containers after them; other init
    containers run alone, so the largest of them counts.
    """
    totals: dict[str, str] = {}
    for container in spec.get("containers") or ():
        _sum_into(totals, container, kind)
    sidecars: dict[str, str] = {}
    peak: dict[str, str] = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            _sum_into(totals, container, kind)
            _sum_into(sidecars, container, kind)
            needed = dict(sidecars)
        else:
            needed = dict(sidecars)
            _sum_into(needed, container, kind)
        _peak_into(peak, needed)
    _peak_into(totals, peak)
    return totals


def _sum_into(totals: dict[str, str], container: Object, kind: str) -> None:
    for name, quantity in ((container.get("resources") or {}).get(kind) or {}).items():
        totals[name] = add(totals[name], quantity) if name in totals else quantity


def _peak_into(totals: dict[str, str], other: dict[str, str]) -> None:
    for name, quantity in other.items():
        totals[name] = maximum(totals[name], quantity) if name in totals else quantity

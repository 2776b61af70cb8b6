"""Defaults of the other core kinds: services, volumes, nodes, namespaces, limits."""

from __future__ import annotations

import base64

from bayplan.api.defaults.json_types import Object, absent, empty, struct
from bayplan.api.defaults.quantities import round_lists
from bayplan.api.defaults.volumes import default_claim_spec, default_volume_source

NAME_LABEL = "kubernetes.io/metadata.name"
_SESSION_TIMEOUT_SECONDS = 10800
_ROUTED = ("ClusterIP", "NodePort", "LoadBalancer")


def default_service(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    empty(spec, type="ClusterIP", sessionAffinity="None")
    _default_session_affinity(spec)
    for port in spec.get("ports") or ():
        empty(port, protocol="TCP", targetPort=port.get("port", 0))
    kind = spec["type"]
    external = kind in ("NodePort", "LoadBalancer") or (
        kind == "ClusterIP" and spec.get("externalIPs")
    )
    if external:
        empty(spec, externalTrafficPolicy="Cluster")
    if kind in _ROUTED:
        absent(spec, internalTrafficPolicy="Cluster")
    if kind == "LoadBalancer":
        absent(spec, allocateLoadBalancerNodePorts=True)
        balancer = (obj.get("status") or {}).get("loadBalancer") or {}
        for ingress in balancer.get("ingress") or ():
            if ingress.get("ip"):
                absent(ingress, ipMode="VIP")


def _default_session_affinity(spec: Object) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = spec.get("sessionAffinityConfig") or {}
        if (config.get("clientIP") or {}).get("timeoutSeconds") is None:
            client = {"timeoutSeconds": _SESSION_TIMEOUT_SECONDS}
            spec["sessionAffinityConfig"] = {"clientIP": client}


def default_secret(obj: Object) -> None:
    plain = obj.pop("stringData", None)
    if plain:
        data = obj.get("data") or {}
        for key, text in plain.items():
            data[key] = base64.b64encode(text.encode()).decode()
        obj["data"] = data
    _fill_nulls(obj.get("data"))
    empty(obj, type="Opaque")


def default_config_map(obj: Object) -> None:
    _fill_nulls(obj.get("binaryData"))


def _fill_nulls(data: dict[str, str | None] | None) -> None:
    """A null where bytes belong is an empty value."""
    for key, value in (data or {}).items():
        if value is None and data is not None:
            data[key] = ""


def default_persistent_volume(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    empty(spec, persistentVolumeReclaimPolicy="Retain")
    absent(spec, volumeMode="Filesystem")
    round_lists(spec, "capacity")
    default_volume_source(spec)
    empty(struct(obj, "status"), phase="Pending")


def default_claim(obj: Object) -> None:
    default_claim_spec(obj.setdefault("spec", {}))
    status = struct(obj, "status")
    empty(status, phase="Pending")
    round_lists(status, "capacity", "allocatedResources")


def default_namespace(obj: Object) -> None:
    metadata = obj.setdefault("metadata", {})
    if metadata.get("name"):
        struct(metadata, "labels")[NAME_LABEL] = metadata["name"]
    empty(struct(obj, "status"), phase="Active")


def default_node(obj: Object) -> None:
    spec = obj.get("spec") or {}
    first, ranges = spec.get("podCIDR"), spec.get("podCIDRs") or []
    # The older singular field wins where the two differ.
    if first and ranges[:1] != [first]:
        spec["podCIDRs"] = [first]
    elif ranges and not first:
        spec["podCIDR"] = ranges[0]
    status = obj.get("status")
    if not status:
        return
    round_lists(status, "capacity", "allocatable")
    if status.get("capacity"):
        absent(status, allocatable=dict(status["capacity"]))


def default_endpoints(obj: Object) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            empty(port, protocol="TCP")


def default_limit_range(obj: Object) -> None:
    for item in obj.setdefault("spec", {}).get("limits") or ():
        round_lists(item, "max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
        if item.get("type") == "Container":
            _default_limit_item(item)


def _default_limit_item(item: Object) -> None:
    limits = {**(item.get("max") or {}), **(item.get("default") or {})}
    requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
    if limits:
        item["default"] = limits
    if requests:
        item["defaultRequest"] = requests


def default_resource_quota(obj: Object) -> None:
    round_lists(obj.setdefault("spec", {}), "hard")
    round_lists(obj.get("status") or {}, "hard", "used")

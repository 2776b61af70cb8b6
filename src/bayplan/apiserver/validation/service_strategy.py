"""What the server writes into services that depends on their older form.

Cluster IPs and node ports are handed out by admission (`ServiceAddresses`), which can read the
other services; here is only kept what a service already has.
"""

from __future__ import annotations

from bayplan.api.defaults.json_types import Object

_ADDRESSING = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


def prepare_service_create(obj: Object) -> None:
    obj["status"] = {"loadBalancer": {}}
    spec = obj["spec"]
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def prepare_service_update(obj: Object, old: Object) -> None:
    obj["status"] = old.get("status", {})
    spec, before = obj["spec"], old["spec"]
    _keep_addresses(spec, before)
    if needs_node_ports(spec) and needs_node_ports(before):
        _keep_node_ports(spec, before)
    elif needs_node_ports(before) and spec.get("type") not in ("NodePort", "LoadBalancer"):
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    if before.get("type") == "LoadBalancer" != spec.get("type"):
        for name in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(name) == before.get(name):
                spec.pop(name, None)
        obj["status"] = {**obj["status"], "loadBalancer": {}}
    policy = "externalTrafficPolicy"
    same = spec.get(policy) == before.get(policy)
    if same and is_reachable(before) and not is_reachable(spec):
        spec.pop(policy, None)


def is_reachable(spec: Object) -> bool:
    """Say whether a service can be reached from outside of the cluster."""
    kind = spec.get("type")
    if kind in ("NodePort", "LoadBalancer"):
        return True
    return kind == "ClusterIP" and bool(spec.get("externalIPs"))


def needs_node_ports(spec: Object) -> bool:
    kind = spec.get("type")
    if kind == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts") is not False
    return bool(kind == "NodePort")


def _keep_addresses(spec: Object, before: Object) -> None:
    had = before.get("type") != "ExternalName"
    needs = spec.get("type") != "ExternalName"
    if had and needs:
        if not spec.get("clusterIP") and before.get("clusterIP"):
            spec["clusterIP"] = before["clusterIP"]
        if not spec.get("clusterIPs") and before.get("clusterIPs"):
            spec["clusterIPs"] = before["clusterIPs"]
        if not spec.get("ipFamilies") and before.get("ipFamilies"):
            spec["ipFamilies"] = before["ipFamilies"]
        if spec.get("ipFamilyPolicy") is None and before.get("ipFamilyPolicy"):
            spec["ipFamilyPolicy"] = before["ipFamilyPolicy"]
        same = spec.get("clusterIPs") == before.get("clusterIPs")
        if spec.get("clusterIP") != before.get("clusterIP") and same:
            spec["clusterIPs"] = [spec["clusterIP"]]
    elif had:
        for name in (*_ADDRESSING, "internalTrafficPolicy"):
            if spec.get(name) == before.get(name):
                spec.pop(name, None)
    elif spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def _keep_node_ports(spec: Object, before: Object) -> None:
    old_ports = {p.get("name", ""): p.get("nodePort") for p in before.get("ports") or ()}
    taken = {p.get("nodePort") for p in spec.get("ports") or ()} & set(old_ports.values())
    for port in spec.get("ports") or ():
        known = old_ports.get(port.get("name", ""))
        if not port.get("nodePort") and known and known not in taken:
            port["nodePort"] = known

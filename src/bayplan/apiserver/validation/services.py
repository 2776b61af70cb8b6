"""Services, Endpoints and EndpointSlices."""

from __future__ import annotations

import ipaddress

from bayplan.api.defaults.json_types import Object
from bayplan.api.names import dns1123_label, dns1123_subdomain, qualified_name
from bayplan.apiserver.validation.causes import (
    Causes,
    allowed,
    duplicate,
    forbidden,
    invalid,
    known,
    once,
    one_of,
    repeated,
    required,
)
from bayplan.apiserver.validation.formats import check, ip_address, port_number, port_or_name
from bayplan.apiserver.validation.labels import validate_labels

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_DAY_SECONDS = 86400


def is_headless(spec: Object) -> bool:
    return bool(spec.get("clusterIPs") == ["None"])


def validate_service(obj: Object) -> Causes:
    spec = obj["spec"]
    kind, ports = spec.get("type"), spec.get("ports") or []
    causes: Causes = []
    if not ports and not is_headless(spec) and kind != "ExternalName":
        causes.append(required("spec.ports"))
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        text = f"may not be set to 'None' for {kind} services"
        causes.append(invalid("spec.clusterIPs[0]", "None", text))
    if kind == "ExternalName":
        causes += _validate_external_name(spec)
    causes += _validate_ports(spec, ports)
    causes += validate_labels("spec.selector", spec.get("selector"))
    causes += _validate_affinity(spec)
    for i, address in enumerate(spec.get("externalIPs") or ()):
        path = f"spec.externalIPs[{i}]"
        causes += check(path, address, ip_address) or validate_endpoint_ip(path, address)
    causes += one_of("spec.type", kind, TYPES)
    causes += _validate_load_balancer(spec)
    causes += _validate_traffic(spec)
    return causes


def _validate_external_name(spec: Object) -> Causes:
    causes: Causes = []
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name):
            causes.append(forbidden(f"spec.{name}", "may not be set for ExternalName services"))
    name = spec.get("externalName", "").removesuffix(".")
    if not name:
        return [*causes, required("spec.externalName")]
    return causes + check("spec.externalName", name, dns1123_subdomain)


def _validate_ports(spec: Object, ports: list[Object]) -> Causes:
    causes: Causes = []
    names: set[str] = set()
    pairs: set[tuple[str, int]] = set()
    node_pairs: set[tuple[str, int]] = set()
    for i, port in enumerate(ports):
        path = f"spec.ports[{i}]"
        causes += _validate_port(path, port, len(ports) > 1, names)
        protocol, number = port.get("protocol", ""), port.get("port", 0)
        node_port = port.get("nodePort", 0)
        if node_port and spec.get("type") == "ClusterIP":
            text = "may not be used when `type` is 'ClusterIP'"
            causes.append(forbidden(f"{path}.nodePort", text))
        if node_port and (protocol, node_port) in node_pairs:
            causes.append(duplicate(f"{path}.nodePort", node_port))
        node_pairs.add((protocol, node_port))
        if (protocol, number) in pairs:
            causes.append(duplicate(path, {"protocol": protocol, "port": number}))
        pairs.add((protocol, number))
    return causes


def _validate_port(path: str, port: Object, need_name: bool, names: set[str]) -> Causes:
    causes: Causes = []
    name = port.get("name")
    if name:
        causes += check(f"{path}.name", name, dns1123_label)
        causes += once(f"{path}.name", name, names)
    elif need_name:
        causes.append(required(f"{path}.name"))
    number = port.get("port", 0)
    causes += [invalid(f"{path}.port", number, problem) for problem in port_number(number)]
    causes += one_of(f"{path}.protocol", port.get("protocol"), _PROTOCOLS)
    causes += port_or_name(f"{path}.targetPort", port.get("targetPort", 0))
    if port.get("appProtocol") is not None:
        causes += check(f"{path}.appProtocol", port["appProtocol"], qualified_name)
    return causes


def _validate_affinity(spec: Object) -> Causes:
    affinity = spec.get("sessionAffinity")
    causes = one_of("spec.sessionAffinity", affinity, ("ClientIP", "None"))
    if affinity == "ClientIP":
        config = spec.get("sessionAffinityConfig") or {}
        seconds = (config.get("clientIP") or {}).get("timeoutSeconds", 0)
        if not 0 < seconds <= _DAY_SECONDS:
            path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            text = f"must be greater than 0 and less than {_DAY_SECONDS}"
            causes.append(invalid(path, seconds, text))
    return causes


def validate_addresses(obj: Object) -> Causes:
    """Validate cluster IPs and families, which the server looks at before everything else."""
    spec = obj["spec"]
    if spec.get("type") == "ExternalName":
        return []
    causes: Causes = []
    first, addresses = spec.get("clusterIP"), spec.get("clusterIPs") or []
    if first and not addresses:
        causes.append(required("spec.clusterIPs"))
    elif first and addresses[0] != first:
        text = "first value must match `clusterIP`"
        causes.append(invalid("spec.clusterIPs", addresses, text))
    elif addresses and not first:
        text = "must be empty when `clusterIP` is not specified"
        causes.append(invalid("spec.clusterIPs", addresses, text))
    families = spec.get("ipFamilies") or []
    again = repeated(families)
    for i, family in enumerate(families):
        causes += known(f"spec.ipFamilies[{i}]", family, _FAMILIES)
        if i in again:
            causes.append(duplicate(f"spec.ipFamilies[{i}]", family))
    policy = spec.get("ipFamilyPolicy")
    causes += allowed("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES)
    if addresses == ["None"]:
        return causes
    return causes + _validate_address_list(addresses, families)


def _validate_address_list(addresses: list[str], families: list[str]) -> Causes:
    causes: Causes = []
    for i, address in enumerate(addresses):
        if i == 0 and address == "None":
            text = "'None' must be the first and only value"
            causes.append(invalid("spec.clusterIPs", addresses, text))
        else:
            causes += check(f"spec.clusterIPs[{i}]", address, ip_address)
    wrong = bool(causes)
    if len(addresses) > 2:
        causes.append(invalid("spec.clusterIPs", addresses, "may only hold up to 2 values"))
    if wrong:
        return causes
    if len(addresses) > 1 and len({":" in address for address in addresses}) < 2:
        text = "may specify no more than one IP for each IP family"
        causes.append(invalid("spec.clusterIPs", addresses, text))
    for i, (address, family) in enumerate(zip(addresses, families, strict=False)):
        if family in _FAMILIES and (":" in address) != (family == "IPv6"):
            text = f"expected an {family} value as indicated by `ipFamilies[{i}]`"
            causes.append(invalid(f"spec.clusterIPs[{i}]", address, text))
    return causes


def validate_endpoint_ip(field: str, text: str) -> Causes:
    """Refuse addresses that can never be an endpoint."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return [invalid(field, text, "must be a valid IP address")]
    if address.version == 6 and address.ipv4_mapped is not None:
        return [invalid(field, text, "must not be an IPv4-mapped IPv6 address")]
    if address.is_unspecified:
        return [invalid(field, text, f"may not be unspecified ({text})")]
    if address.is_loopback:
        why = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
        return [invalid(field, text, why)]
    if address.is_link_local:
        why = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        return [invalid(field, text, why)]
    return []


def _validate_load_balancer(spec: Object) -> Causes:
    causes: Causes = []
    balancer = spec.get("type") == "LoadBalancer"
    only = "may only be used when `type` is 'LoadBalancer'"
    ranges = spec.get("loadBalancerSourceRanges") or []
    if ranges and not balancer:
        causes.append(forbidden("spec.LoadBalancerSourceRanges", only))
    for i, cidr in enumerate(ranges):
        try:
            ipaddress.ip_network(cidr.strip(), strict=False)
        except ValueError:
            text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            causes.append(invalid(f"spec.LoadBalancerSourceRanges[{i}]", cidr.strip(), text))
    if spec.get("allocateLoadBalancerNodePorts") is not None and not balancer:
        causes.append(forbidden("spec.allocateLoadBalancerNodePorts", only))
    name = spec.get("loadBalancerClass")
    if name is not None:
        if balancer:
            causes += check("spec.loadBalancerClass", name, qualified_name)
        else:
            causes.append(forbidden("spec.loadBalancerClass", only))
    return causes


def _validate_traffic(spec: Object) -> Causes:
    causes: Causes = []
    kind, external = spec.get("type"), spec.get("externalTrafficPolicy")
    reachable = kind in ("LoadBalancer", "NodePort") or (
        kind == "ClusterIP" and bool(spec.get("externalIPs"))
    )
    if reachable:
        causes += one_of("spec.externalTrafficPolicy", external, ("Cluster", "Local"))
    elif external:
        text = "may only be set for externally-accessible services"
        causes.append(invalid("spec.externalTrafficPolicy", external, text))
    health = spec.get("healthCheckNodePort", 0)
    if health and not (kind == "LoadBalancer" and external == "Local"):
        text = "may only be set when `type` is 'LoadBalancer' and "
        text += "`externalTrafficPolicy` is 'Local'"
        causes.append(invalid("spec.healthCheckNodePort", health, text))
    internal = spec.get("internalTrafficPolicy")
    causes += allowed("spec.internalTrafficPolicy", internal, ("Cluster", "Local"))
    distribution = spec.get("trafficDistribution")
    return causes + allowed("spec.trafficDistribution", distribution, _DISTRIBUTIONS)


def validate_service_update(obj: Object, old: Object) -> Causes:
    spec, before = obj["spec"], old["spec"]
    causes: Causes = []
    if "ExternalName" not in (spec.get("type"), before.get("type")):
        causes += _validate_kept_addresses(spec, before)
    both = spec.get("type") == before.get("type") == "LoadBalancer"
    if both and spec.get("loadBalancerClass") != before.get("loadBalancerClass"):
        value = spec.get("loadBalancerClass")
        causes.append(invalid("spec.loadBalancerClass", value, "may not change once set"))
    return causes


def validate_service_status(obj: Object, old: Object) -> Causes:
    """Validate the addresses that a load balancer was given."""
    causes: Causes = []
    balancer = (obj.get("status") or {}).get("loadBalancer") or {}
    ingress = balancer.get("ingress") or []
    field = "status.loadBalancer.ingress"
    if ingress and obj["spec"].get("type") != "LoadBalancer":
        text = "may only be used when `spec.type` is LoadBalancer"
        return [forbidden(field, text)]
    for i, point in enumerate(ingress):
        path, address, mode = f"{field}[{i}]", point.get("ip"), point.get("ipMode")
        if address:
            causes += check(f"{path}.ip", address, ip_address)
            if mode is None:
                causes.append(required(f"{path}.ipMode", "must be specified when `ip` is set"))
        elif mode is not None:
            text = "may not be specified when `ip` is not set"
            causes.append(forbidden(f"{path}.ipMode", text))
        causes += allowed(f"{path}.ipMode", mode, ("Proxy", "VIP"))
        if point.get("hostname"):
            causes += check(f"{path}.hostname", point["hostname"], dns1123_subdomain)
    return causes


def _validate_kept_addresses(spec: Object, before: Object) -> Causes:
    causes: Causes = []
    released = len(before.get("ipFamilies") or ()) > 1 == len(spec.get("ipFamilies") or ())
    if released and spec.get("ipFamilyPolicy") != "SingleStack":
        text = "must be 'SingleStack' to release the secondary IP family"
        causes.append(invalid("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), text))
    if is_headless(spec) and is_headless(before):
        return causes
    new, old = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    if old and not new:
        text = "primary clusterIP can not be unset"
        causes.append(invalid("spec.clusterIPs[0]", new, text))
    for i, (address, was) in enumerate(zip(new, old, strict=False)):
        if address != was:
            causes.append(invalid(f"spec.clusterIPs[{i}]", new, "may not change once set"))
    if is_headless(spec) != is_headless(before):
        return causes
    families, were = spec.get("ipFamilies") or [], before.get("ipFamilies") or []
    if families and were and families[0] != were[0]:
        causes.append(invalid("spec.ipFamilies[0]", families, "may not change once set"))
    return causes


def validate_endpoints(obj: Object) -> Causes:
    causes: Causes = []
    for i, subset in enumerate(obj.get("subsets") or ()):
        path = f"subsets[{i}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            causes.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
        for kind in ("addresses", "notReadyAddresses"):
            for j, address in enumerate(subset.get(kind) or ()):
                causes += _validate_endpoint_address(f"{path}.{kind}[{j}]", address)
        ports = subset.get("ports") or []
        for j, port in enumerate(ports):
            causes += _validate_endpoint_port(f"{path}.ports[{j}]", port, len(ports) > 1)
    return causes


def _validate_endpoint_address(field: str, address: Object) -> Causes:
    text = address.get("ip", "")
    causes = check(f"{field}.ip", text, ip_address)
    if address.get("hostname"):
        causes += check(f"{field}.hostname", address["hostname"], dns1123_label)
    if address.get("nodeName") is not None:
        causes += check(f"{field}.nodeName", address["nodeName"], dns1123_subdomain)
    return causes + validate_endpoint_ip(f"{field}.ip", text)


def _validate_endpoint_port(field: str, port: Object, need_name: bool) -> Causes:
    causes: Causes = []
    if port.get("name"):
        causes += check(f"{field}.name", port["name"], dns1123_label)
    elif need_name:
        causes.append(required(f"{field}.name"))
    number = port.get("port", 0)
    causes += [invalid(f"{field}.port", number, problem) for problem in port_number(number)]
    return causes + one_of(f"{field}.protocol", port.get("protocol"), _PROTOCOLS)

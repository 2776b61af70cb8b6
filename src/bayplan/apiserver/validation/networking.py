"""NetworkPolicy, Ingress, IngressClass, EndpointSlice, RuntimeClass, VolumeAttributesClass.

Kinds that nothing in Bayplan acts on, but that manifests bring along.
"""

from __future__ import annotations

import ipaddress
import re

from bayplan.api.defaults.json_types import Object
from bayplan.api.names import Checker, dns1123_label, dns1123_subdomain, label_value, qualified_name
from bayplan.apiserver.validation.causes import (
    Causes,
    allowed,
    duplicate,
    forbidden,
    immutable,
    invalid,
    known,
    not_supported,
    once,
    one_of,
    repeated,
    required,
    too_long,
    too_many,
)
from bayplan.apiserver.validation.formats import (
    check,
    ip_address,
    named,
    path_segment,
    port_name,
    port_number,
    port_or_name,
)
from bayplan.apiserver.validation.labels import validate_label_selector, validate_labels
from bayplan.apiserver.validation.meta import validate_meta
from bayplan.apiserver.validation.resources import validate_requirements
from bayplan.apiserver.validation.scheduling import validate_tolerations
from bayplan.apiserver.validation.services import validate_endpoint_ip

MAX_ENDPOINTS, MAX_ADDRESSES, MAX_PORTS, MAX_HINTS = 1000, 100, 20_000, 8  # of a slice
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDINGS = ("/..", "/.")
_WILDCARD = re.compile(r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_HTTP_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def validate_network_policy(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    causes = validate_label_selector("spec.podSelector", spec.get("podSelector"))
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for i, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{i}]"
            for j, port in enumerate(rule.get("ports") or ()):
                causes += _validate_policy_port(f"{path}.ports[{j}]", port)
            for j, peer in enumerate(rule.get(peers) or ()):
                causes += _validate_peer(f"{path}.{peers}[{j}]", peer)
    types = spec.get("policyTypes") or []
    if len(types) > 2:
        text = "may not specify more than two policyTypes"
        return [*causes, invalid("spec.policyTypes", types, text)]
    for i, kind in enumerate(types):
        causes += known(f"spec.policyTypes[{i}]", kind, ("Ingress", "Egress"))
    return causes


def _validate_policy_port(field: str, port: Object) -> Causes:
    causes: Causes = []
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    causes += allowed(f"{field}.protocol", protocol, _PROTOCOLS)
    if number is not None:
        causes += port_or_name(f"{field}.port", number)
    if end is None:
        return causes
    if number is None:
        text = "may not be specified when `port` is not specified"
        causes.append(invalid(f"{field}.endPort", end, text))
    elif isinstance(number, str):
        text = "may not be specified when `port` is non-numeric"
        causes.append(invalid(f"{field}.endPort", end, text))
    else:
        if end < number:
            text = "must be greater than or equal to `port`"
            causes.append(invalid(f"{field}.endPort", number, text))
        causes += [invalid(f"{field}.endPort", end, problem) for problem in port_number(end)]
    return causes


def _validate_peer(field: str, peer: Object) -> Causes:
    causes: Causes = []
    kinds = ("podSelector", "namespaceSelector", "ipBlock")
    given = [kind for kind in kinds if peer.get(kind) is not None]
    for kind in given:
        if kind == "ipBlock":
            causes += _validate_ip_block(f"{field}.ipBlock", peer["ipBlock"])
        else:
            causes += validate_label_selector(f"{field}.{kind}", peer[kind])
    if not given:
        causes.append(required(field, "must specify a peer"))
    elif len(given) > 1 and "ipBlock" in given:
        causes.append(forbidden(field, "may not specify both ipBlock and another peer"))
    return causes


def _network(text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def _validate_ip_block(field: str, block: Object) -> Causes:
    text = block.get("cidr")
    if not text:
        return [required(f"{field}.cidr")]
    outer = _network(text)
    if outer is None:
        return [invalid(f"{field}.cidr", text, _CIDR)]
    causes: Causes = []
    for i, inner_text in enumerate(block.get("except") or ()):
        path, inner = f"{field}.except[{i}]", _network(inner_text)
        if inner is None:
            causes.append(invalid(path, inner_text, _CIDR))
        elif (
            inner.version != outer.version
            or inner.network_address not in outer
            or outer.prefixlen >= inner.prefixlen
        ):
            causes.append(invalid(path, inner_text, "must be a strict subset of `cidr`"))
    return causes


def validate_ingress(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    rules, default = spec.get("rules") or [], spec.get("defaultBackend")
    causes: Causes = []
    if not rules and default is None:
        text = "either `defaultBackend` or `rules` must be specified"
        causes.append(invalid("spec", rules, text))
    if default is not None:
        causes += _validate_backend("spec.defaultBackend", default)
    for i, rule in enumerate(rules):
        causes += _validate_ingress_rule(f"spec.rules[{i}]", rule)
    for i, tls in enumerate(spec.get("tls") or ()):
        for j, host in enumerate(tls.get("hosts") or ()):
            causes += _validate_host(f"spec.tls[{i}].hosts[{j}]", host)
        if tls.get("secretName"):
            causes += check(f"spec.tls[{i}].secretName", tls["secretName"], dns1123_subdomain)
    name = spec.get("ingressClassName")
    if name is not None:
        causes += check("spec.ingressClassName", name, dns1123_subdomain)
    return causes


def _validate_host(field: str, host: str) -> Causes:
    if "*" not in host:
        return check(field, host, dns1123_subdomain)
    if _WILDCARD.fullmatch(host):
        return []
    text = (
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, "
        "which must consist of lower case alphanumeric characters, '-' or '.' and end with an "
        f"alphanumeric character (e.g. '*.example.com', regex used for validation is "
        f"'{_WILDCARD.pattern}')"
    )
    return [invalid(field, host, text)]


def _validate_ingress_rule(field: str, rule: Object) -> Causes:
    causes: Causes = []
    host = rule.get("host")
    if host:
        if not ip_address(host):
            text = "must be a DNS name, not an IP address"
            causes.append(invalid(f"{field}.host", host, text))
        causes += _validate_host(f"{field}.host", host)
    http = rule.get("http")
    if http is None:
        return causes
    paths = http.get("paths") or []
    if not paths:
        causes.append(required(f"{field}.http.paths"))
    for i, path in enumerate(paths):
        causes += _validate_http_path(f"{field}.http.paths[{i}]", path)
    return causes


def _validate_http_path(field: str, path: Object) -> Causes:
    kind, text = path.get("pathType"), path.get("path", "")
    if kind is None:
        return [required(f"{field}.pathType", "pathType must be specified")]
    causes: Causes = []
    where = f"{field}.path"
    if kind not in _PATH_TYPES:
        causes.append(not_supported(f"{field}.pathType", kind, _PATH_TYPES))
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        causes.append(invalid(where, text, "must be an absolute path"))
    if kind in ("Exact", "Prefix"):
        for part in _BAD_SEQUENCES:
            if part in text:
                causes.append(invalid(where, text, f"must not contain '{part}'"))
        for part in _BAD_ENDINGS:
            if text.endswith(part):
                causes.append(invalid(where, text, f"cannot end with '{part}'"))
    return causes + _validate_backend(f"{field}.backend", path.get("backend") or {})


def _validate_backend(field: str, backend: Object) -> Causes:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [invalid(field, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _validate_reference(f"{field}.resource", resource)
    if service is None:
        return [invalid(field, "", "resource or service backend is required")]
    causes = named(f"{field}.service.name", service.get("name"), dns1123_label)
    port = service.get("port") or {}
    name, number = port.get("name"), port.get("number")
    if name and number:
        causes.append(invalid(field, "", "cannot set both port name & port number"))
    elif name:
        causes += check(f"{field}.service.port.name", name, port_name)
    elif number:
        path = f"{field}.service.port.number"
        causes += [invalid(path, number, problem) for problem in port_number(number)]
    else:
        causes.append(required(field, "port name or number is required"))
    return causes


def _validate_reference(field: str, reference: Object) -> Causes:
    causes: Causes = []
    group = reference.get("apiGroup")
    if group is not None:
        causes += check(f"{field}.apiGroup", group, dns1123_subdomain)
    for part in ("kind", "name"):
        causes += named(f"{field}.{part}", reference.get(part), path_segment)
    return causes


def validate_ingress_class(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    controller = spec.get("controller") or ""
    causes: Causes = [too_long("spec.controller", 250)] if len(controller) > 250 else []
    causes += domain_path("spec.controller", controller)
    parameters = spec.get("parameters")
    if parameters is not None:
        causes += _validate_reference("spec.parameters", parameters)
        scope = parameters.get("scope")
        if scope is None:
            causes.append(required("spec.parameters.scope"))
        elif scope not in ("Cluster", "Namespace"):
            kinds = ("Cluster", "Namespace")
            causes.append(not_supported("spec.parameters.scope", scope, kinds))
        elif scope == "Namespace" and not parameters.get("namespace"):
            text = "`parameters.scope` is set to 'Namespace'"
            causes.append(required("spec.parameters.namespace", text))
        elif scope == "Cluster" and parameters.get("namespace"):
            text = "`parameters.scope` is set to 'Cluster'"
            causes.append(forbidden("spec.parameters.namespace", text))
    return causes


def domain_path(field: str, text: str) -> Causes:
    """Demand `domain/path`."""
    if not text:
        return [required(field)]
    domain, _, path = text.partition("/")
    if not domain or not path:
        why = 'must be a domain-prefixed path (such as "acme.io/foo")'
        return [invalid(field, text, why)]
    causes = check(field, domain, dns1123_subdomain)
    if not _HTTP_PATH.fullmatch(path):
        why = f"Invalid path (regex used for validation is '{_HTTP_PATH.pattern}')"
        causes.append(invalid(field, path, why))
    return causes


def validate_endpoint_slice(obj: Object) -> Causes:
    causes = _validate_slice_ports(obj)
    endpoints = obj.get("endpoints") or []
    if len(endpoints) > MAX_ENDPOINTS:
        return [*causes, too_many("endpoints", len(endpoints), MAX_ENDPOINTS)]
    for i, endpoint in enumerate(endpoints):
        causes += _validate_endpoint(f"endpoints[{i}]", endpoint, obj.get("addressType"))
    return causes


def _validate_slice_ports(obj: Object) -> Causes:
    kind = obj.get("addressType")
    causes = one_of("addressType", kind, ("FQDN", "IPv4", "IPv6"))
    ports = obj.get("ports") or []
    if len(ports) > MAX_PORTS:
        return [*causes, too_many("ports", len(ports), MAX_PORTS)]
    names: set[str] = set()
    for i, port in enumerate(ports):
        path, name = f"ports[{i}]", port.get("name") or ""
        if name:
            causes += check(f"{path}.name", name, dns1123_label)
        causes += once(f"{path}.name", name, names)
        causes += known(f"{path}.protocol", port.get("protocol"), sorted(_PROTOCOLS))
        if port.get("appProtocol") is not None:
            causes += check(f"{path}.appProtocol", port["appProtocol"], qualified_name)
    return causes


def _validate_endpoint(field: str, endpoint: Object, kind: str | None) -> Causes:
    causes: Causes = []
    addresses = endpoint.get("addresses") or []
    if not addresses:
        causes.append(required(f"{field}.addresses", "must contain at least 1 address"))
    elif len(addresses) > MAX_ADDRESSES:
        causes.append(too_many(f"{field}.addresses", len(addresses), MAX_ADDRESSES))
        addresses = []
    for i, address in enumerate(addresses):
        path = f"{field}.addresses[{i}]"
        if kind in ("IPv4", "IPv6"):
            found = check(path, address, ip_address)
            if not found:
                if (":" in address) != (kind == "IPv6"):
                    text = f"must be an {kind} address"
                    found.append(invalid(f"{field}.addresses", address, text))
                found += validate_endpoint_ip(path, address)
            causes += found
        elif kind == "FQDN":
            causes += check(path, address.removesuffix("."), dns1123_subdomain)
    if endpoint.get("nodeName") is not None:
        causes += check(f"{field}.nodeName", endpoint["nodeName"], dns1123_subdomain)
    causes += validate_labels(f"{field}.deprecatedTopology", endpoint.get("deprecatedTopology"))
    if endpoint.get("hostname") is not None:
        causes += check(f"{field}.hostname", endpoint["hostname"], dns1123_label)
    hints = endpoint.get("hints") or {}
    causes += _validate_hints(f"{field}.hints.forZones", hints.get("forZones") or [], label_value)
    nodes = hints.get("forNodes") or []
    return causes + _validate_hints(f"{field}.hints.forNodes", nodes, dns1123_subdomain)


def _validate_hints(field: str, hints: list[Object], form: Checker) -> Causes:
    if len(hints) > MAX_HINTS:
        return [too_many(field, len(hints), MAX_HINTS)]
    causes: Causes = []
    names = [hint.get("name", "") for hint in hints]
    again = repeated(names)
    for i, name in enumerate(names):
        if i in again:
            causes.append(duplicate(f"{field}[{i}].name", name))
        causes += check(f"{field}[{i}].name", name, form)
    return causes


def validate_endpoint_slice_update(obj: Object, old: Object) -> Causes:
    """Validate a changed slice; endpoints that stay as they were are not looked at again."""
    same = (obj.get("endpoints") or []) == (old.get("endpoints") or [])
    causes = validate_meta(obj["metadata"], dns1123_subdomain, namespaced=True)
    causes += _validate_slice_ports(obj) if same else validate_endpoint_slice(obj)
    return causes + immutable("addressType", obj.get("addressType"), old.get("addressType"))


def validate_runtime_class(obj: Object) -> Causes:
    causes = named("handler", obj.get("handler"), dns1123_label)
    overhead = (obj.get("overhead") or {}).get("podFixed")
    if overhead:
        causes += validate_requirements("overhead", {"limits": overhead}, ())
    scheduling = obj.get("scheduling") or {}
    causes += validate_labels("scheduling.nodeSelector", scheduling.get("nodeSelector"))
    tolerations = scheduling.get("tolerations") or []
    causes += validate_tolerations("scheduling.tolerations", tolerations)
    bare = [{k: v for k, v in t.items() if k != "tolerationSeconds"} for t in tolerations]
    for i in sorted(repeated(bare)):
        causes.append(duplicate(f"scheduling.tolerations[{i}]", tolerations[i]))
    return causes


def validate_attributes_class(obj: Object) -> Causes:
    driver, parameters = obj.get("driverName"), obj.get("parameters") or {}
    causes: Causes = []
    causes += named("driverName", driver and driver.lower(), qualified_name)
    if "" in parameters:
        causes.append(invalid("parameters", "", "field can not be empty."))
    if not parameters:
        causes.append(required("parameters", "must contain at least one key/value pair"))
    return causes


def attributes_class_is_immutable(obj: Object, old: Object) -> Causes:
    return [
        forbidden(name, f"updates to {name} are forbidden.")
        for name in ("driverName", "parameters")
        if (obj.get(name) or None) != (old.get(name) or None)
    ]

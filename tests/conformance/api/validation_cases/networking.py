"""Kinds that are only kept: network policies, ingresses, endpoint slices and the like."""

# ruff: noqa: E501  one case a line is easier to read

from __future__ import annotations

from tests.conformance.api.validation_cases.build import Body, Step, patch, post

_BACKEND = {"service": {"name": "s", "port": {"number": 80}}}

CASES: dict[str, dict[str, Body]] = {
    "NetworkPolicy": {
        "plain": {"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}], "from": [{"podSelector": {}}]}]}},
        "egress": {"spec": {"podSelector": {"matchLabels": {"a": "b"}}, "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}]}},
        "bad": {"spec": {"podSelector": {"matchLabels": {"a b": "c"}}, "policyTypes": ["Odd"], "ingress": [
            {"ports": [{"port": 0, "protocol": "X"}, {"endPort": 5}, {"port": "web", "endPort": 5}, {"port": 80, "endPort": 70}],
             "from": [{}, {"ipBlock": {"cidr": "x"}}, {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16", "y"]}, "podSelector": {}}]}]}},
    },
    "Ingress": {
        "plain": {"spec": {"defaultBackend": _BACKEND}},
        "rules": {"spec": {"ingressClassName": "c", "tls": [{"hosts": ["a.example", "*.b.example"], "secretName": "s"}],
                           "rules": [{"host": "a.example", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": _BACKEND}]}}]}},
        "empty": {"spec": {}},
        "bad": {"spec": {"ingressClassName": "Bad!", "defaultBackend": {}, "tls": [{"hosts": ["A", "*b"], "secretName": "S!"}],
                         "rules": [{"host": "1.2.3.4"}, {"host": "*", "http": {"paths": []}}, {"http": {"paths": [
                             {"path": "x", "pathType": "Exact", "backend": {"service": {"name": "", "port": {"name": "a", "number": 5}}}},
                             {"path": "/a//b", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {}}}},
                             {"path": "/", "pathType": "Odd", "backend": {"resource": {"kind": "", "name": ""}}}, {"path": "/", "backend": _BACKEND}]}}]}},
    },
    "IngressClass": {
        "plain": {"spec": {"controller": "a.example/x"}},
        "parameters": {"spec": {"controller": "a.example/x", "parameters": {"kind": "K", "name": "n"}}},
        "bad": {"spec": {"controller": "nodomain", "parameters": {"kind": "", "name": "", "scope": "Odd"}}},
        "empty": {},
    },
    "EndpointSlice": {
        "plain": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [{"port": 80}]},
        "bad": {"addressType": "IPv4", "endpoints": [{"addresses": ["x", "::1", "127.0.0.1"], "nodeName": "N!", "hostname": "a.b"}, {"addresses": []}],
                "ports": [{"name": "A"}, {"name": "b", "protocol": "X"}, {"name": "b"}]},
        "type": {"addressType": "Odd", "endpoints": []},
    },
    "RuntimeClass": {
        "plain": {"handler": "runc", "overhead": {"podFixed": {"cpu": "0.5"}}, "scheduling": {"nodeSelector": {"a": "b"}}},
        "bad": {"handler": "Bad!", "overhead": {"podFixed": {"gizmo": "1"}}, "scheduling": {"nodeSelector": {"a b": "c"}, "tolerations": [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Exists"}]}},
        "empty": {"handler": ""},
    },
    "VolumeAttributesClass": {
        "plain": {"driverName": "d.example", "parameters": {"iops": "5"}},
        "bad": {"driverName": "a b"},
    },
}  # fmt: skip
CHANGES = [
    ("NetworkPolicy", "spec", "networkpolicy-plain", {"spec": {"podSelector": {"matchLabels": {"x": "y"}}}}),
    ("Ingress", "spec", "ingress-plain", {"spec": {"defaultBackend": {"service": {"port": {"number": 81}}}}}),
    ("IngressClass", "controller", "ingressclass-plain", {"spec": {"controller": "b.example/x"}}),
    ("EndpointSlice", "type", "endpointslice-plain", {"addressType": "IPv6"}),
    ("RuntimeClass", "handler", "runtimeclass-plain", {"handler": "other"}),
    ("VolumeAttributesClass", "parameters", "volumeattributesclass-plain", {"parameters": {"iops": "6"}}),
]  # fmt: skip


def steps(namespace: str) -> list[Step]:
    out = [
        post(kind, case, body, namespace)
        for kind, cases in CASES.items()
        for case, body in cases.items()
    ]
    return out + [patch(kind, case, name, body, namespace) for kind, case, name, body in CHANGES]

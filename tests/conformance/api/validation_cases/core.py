"""The simple core kinds."""

# ruff: noqa: E501  one case a line is easier to read

from __future__ import annotations

from tests.conformance.api.validation_cases.build import Body, Step, post, template

_B64 = "eA=="

CASES: dict[str, dict[str, Body]] = {
    "ConfigMap": {
        "plain": {"data": {"a": "1"}, "binaryData": {"b": _B64}},
        "empty": {},
        "both": {"data": {"a": "1"}, "binaryData": {"a": _B64, "a b": _B64}},
        "dots": {"data": {".": "x", "..": "y", "..z": "w", ".ok": "v"}},
        "name": {"metadata": {"name": "Under_Score"}},
        "immutable": {"immutable": True, "data": {"a": "1"}},
    },
    "Secret": {
        "plain": {"data": {"a": _B64}, "stringData": {"b": "text", "a": "wins"}},
        "bad-key": {"data": {"a b": _B64}},
        "bad-base64": {"data": {"a": "***"}},
        "tls": {"type": "kubernetes.io/tls", "data": {"tls.crt": _B64}},
        "basic": {"type": "kubernetes.io/basic-auth"},
        "ssh": {"type": "kubernetes.io/ssh-auth"},
        "docker": {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": _B64}},
        "docker-ok": {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{}"}},
        "docker-old": {"type": "kubernetes.io/dockercfg"},
        "token": {"type": "kubernetes.io/service-account-token"},
        "own-type": {"type": "example.com/mine", "immutable": True},
    },
    "ServiceAccount": {
        "plain": {},
        "secrets": {"secrets": [{"name": "s", "kind": "Secret", "namespace": "other"}], "imagePullSecrets": [{"name": "p"}],
                    "automountServiceAccountToken": False},
        "name": {"metadata": {"name": "Bad!"}},
    },
    "Namespace": {
        "labels": {"metadata": {"name": "ns-labels", "labels": {"kubernetes.io/metadata.name": "liar"}}},
        "finalizers": {"metadata": {"name": "ns-fin"}, "spec": {"finalizers": ["a.example/f"]}},
        "finalizers-bad": {"metadata": {"name": "ns-finbad"}, "spec": {"finalizers": ["bad"]}},
        "name-dots": {"metadata": {"name": "a.b"}},
        "name-long": {"metadata": {"name": "n" * 64}},
        "phase": {"metadata": {"name": "ns-phase"}, "status": {"phase": "Terminating"}},
    },
    "Endpoints": {
        "plain": {"subsets": [{"addresses": [{"ip": "10.1.1.1", "nodeName": "n"}], "ports": [{"port": 80}]}]},
        "bad": {"subsets": [{}, {"addresses": [{"ip": "x"}, {"ip": "127.0.0.1"}, {"ip": "10.1.1.1", "hostname": "A.b"}],
                                 "ports": [{"port": 0}, {"port": 1, "name": "A", "protocol": "X"}]}]},
    },
    "ReplicationController": {
        "plain": {"spec": {"template": template()}},
        "explicit": {"spec": {"replicas": 0, "selector": {"app": "x"}, "template": template()}},
        "mismatch": {"spec": {"selector": {"app": "y"}, "template": template()}},
        "no-template": {"spec": {"selector": {"app": "y"}}},
        "bad": {"spec": {"replicas": -1, "minReadySeconds": -1, "template": template(restartPolicy="Never", activeDeadlineSeconds=5)}},
    },
    "LimitRange": {
        "plain": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}, "default": {"memory": "1Gi"}}]}},
        "order": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}, "default": {"cpu": "3"}, "defaultRequest": {"cpu": "4"}}]}},
        "pod-default": {"spec": {"limits": [{"type": "Pod", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}]}},
        "claim": {"spec": {"limits": [{"type": "PersistentVolumeClaim"}]}},
        "types": {"spec": {"limits": [{"type": "Odd"}, {"type": "Pod"}, {"type": "Pod", "max": {"gizmo": "1"}}, {"type": ""}]}},
        "ratio": {"spec": {"limits": [{"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}},
                                      {"type": "Pod", "max": {"cpu": "2"}, "min": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "5"}}]}},
    },
    "ResourceQuota": {
        "scopes": {"spec": {"hard": {"pods": "100", "secrets": "100"}, "scopes": ["BestEffort", "NotBestEffort", "Odd"]}},
        "names": {"spec": {"hard": {"gizmo": "1", "count/deployments.apps": "500", "pods": "1.5", "cpu": "-1"}}},
        "selector": {"spec": {"hard": {"pods": "100"}, "scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In"}, {"scopeName": "Odd", "operator": "Near"}]}}},
        "plain": {"spec": {"hard": {"pods": "1k", "requests.cpu": "1000.5", "count/widgets.example": "5"}, "scopes": ["Terminating"]}},
    },
    "Event": {
        "plain": {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "checks"}, "reason": "R", "message": "m", "type": "Normal"},
        "no-namespace": {"involvedObject": {"kind": "Node", "name": "n"}},
        "new-fields": {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "checks"}, "eventTime": "2026-01-01T00:00:00.000000Z"},
        "odd-type": {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "checks"}, "type": "Odd", "action": "a"},
    },
}  # fmt: skip


def steps(namespace: str) -> list[Step]:
    return [
        post(kind, case, body, namespace)
        for kind, cases in CASES.items()
        for case, body in cases.items()
    ]

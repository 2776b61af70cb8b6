"""Policies, priorities, leases, RBAC and devices."""

# ruff: noqa: E501  one case a line is easier to read

from __future__ import annotations

from typing import Any

from tests.conformance.api.validation_cases.build import Body, Step, post

_RBAC = "rbac.authorization.k8s.io"


def exact(**request: Any) -> Body:
    return {
        "spec": {
            "devices": {
                "requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", **request}}]
            }
        }
    }


def _slice(**spec: Any) -> Body:
    base = {
        "driver": "d.example",
        "pool": {"name": "p", "resourceSliceCount": 1, "generation": 1},
        "nodeName": "n",
    }
    merged = {**base, **spec}
    return {"spec": {key: value for key, value in merged.items() if value is not None}}


def binding(kind: str = "ClusterRole", *subjects: Body) -> Body:
    return {"roleRef": {"kind": kind, "name": "r"}, "subjects": list(subjects)}


CASES: dict[str, dict[str, Body]] = {
    "PodDisruptionBudget": {
        "plain": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
        "percent": {"spec": {"maxUnavailable": "50%", "unhealthyPodEvictionPolicy": "AlwaysAllow"}},
        "bad": {"spec": {"minAvailable": -1, "selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}, "unhealthyPodEvictionPolicy": "Odd"}},
        "percent-bad": {"spec": {"maxUnavailable": "101%"}},
        "word": {"spec": {"maxUnavailable": "many"}},
        "empty": {"spec": {}},
        "name": {"metadata": {"name": "Up.Per_case"}, "spec": {}},
        "label": {"metadata": {"name": "pdb-label", "labels": {"a b": "c"}}, "spec": {}},
    },
    "PriorityClass": {
        "plain": {"value": 5},
        "negative": {"value": -5, "preemptionPolicy": "Never", "description": "d"},
        "policy-empty": {"value": 5, "preemptionPolicy": ""},
        "zero": {},
    },
    "Lease": {
        "plain": {"spec": {"holderIdentity": "h", "leaseDurationSeconds": 15, "acquireTime": "2026-01-01T00:00:00.000000Z"}},
        "empty": {},
        "name": {"metadata": {"name": "Bad!"}},
        "finalizer": {"metadata": {"name": "lease-fin", "finalizers": ["odd"]}},
    },
    "Role": {
        "plain": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
        "bad": {"rules": [{"apiGroups": [], "resources": [], "verbs": []}, {"nonResourceURLs": ["/x"], "verbs": ["get"], "resources": ["pods"]}]},
        "name": {"metadata": {"name": "system:thing"}, "rules": []},
        "name-slash": {"metadata": {"name": "a/b"}},
    },
    "ClusterRole": {
        "plain": {"rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]},
        "aggregate": {"aggregationRule": {"clusterRoleSelectors": []}},
        "aggregate-ok": {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}},
    },
    "RoleBinding": {
        "plain": binding("Role", {"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s"}),
        "bad": binding("Odd", {"kind": "Odd", "name": ""}, {"kind": "User", "name": "u", "apiGroup": "x"}, {"kind": "ServiceAccount", "name": "S!", "apiGroup": "y"}),
        "no-role": {"subjects": []},
        "group": {"roleRef": {"apiGroup": "other", "kind": "Role", "name": "r"}},
    },
    "ClusterRoleBinding": {
        "plain": binding("ClusterRole", {"kind": "ServiceAccount", "name": "s", "namespace": "checks"}),
        "bad": binding("Role", {"kind": "ServiceAccount", "name": "s"}),
    },
    "DeviceClass": {
        "plain": {"spec": {"selectors": [{"cel": {"expression": "device.driver == 'd.example'"}}]}},
        "bad": {"spec": {"selectors": [{}], "config": [{}]}},
        "name": {"metadata": {"name": "Bad!"}, "spec": {}},
    },
    "ResourceClaim": {
        "plain": exact(),
        "count": exact(count=-1),
        "all": exact(allocationMode="All"),
        "all-count": exact(allocationMode="All", count=2),
        "mode": exact(allocationMode="Odd"),
        "class-missing": exact(deviceClassName=""),
        "class-bad": exact(deviceClassName="Bad!"),
        "neither": {"spec": {"devices": {"requests": [{"name": "r"}]}}},
        "names": {"spec": {"devices": {"requests": [{"name": "A", "exactly": {"deviceClassName": "g"}}, {"name": "r", "exactly": {"deviceClassName": "g"}},
                                                    {"name": "r", "exactly": {"deviceClassName": "g"}}]}}},
        "first": {"spec": {"devices": {"requests": [{"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "g"}, {"name": "b", "deviceClassName": "h", "count": 2}]}],
                                       "constraints": [{"requests": ["r"], "matchAttribute": "d.example/x"}]}}},
        "constraints": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "g"}}],
                                             "constraints": [{"requests": ["no"], "matchAttribute": "nodomain"}, {}],
                                             "config": [{"requests": ["no"]}]}}},
        "tolerations": exact(tolerations=[{"key": "a"}, {"operator": "Exists", "effect": "Odd"}]),
        "empty": {"spec": {}},
    },
    "ResourceClaimTemplate": {
        "plain": {"spec": {"metadata": {"labels": {"a": "b"}}, "spec": exact()["spec"]}},
        "bad": {"spec": {"spec": exact(deviceClassName="")["spec"]}},
    },
    "ResourceSlice": {
        "plain": _slice(devices=[{"name": "d0", "attributes": {"x": {"string": "a"}}, "capacity": {"memory": {"value": "1.5Gi"}}}]),
        "nowhere": _slice(nodeName=None),
        "two-places": _slice(allNodes=True),
        "bad": _slice(driver="", pool={"name": "", "resourceSliceCount": 0, "generation": -1}, devices=[{"name": "A"}, {"name": "b"}, {"name": "b"}]),
        "attributes": _slice(devices=[{"name": "d", "attributes": {"x": {}, "y": {"int": 1, "bool": True}}}]),
    },
}  # fmt: skip


def steps(namespace: str) -> list[Step]:
    return [
        post(kind, case, body, namespace)
        for kind, cases in CASES.items()
        for case, body in cases.items()
    ]

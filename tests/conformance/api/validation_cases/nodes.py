"""Nodes."""

# ruff: noqa: E501  one case a line is easier to read

from __future__ import annotations

from tests.conformance.api.validation_cases.build import Body, Step, post

CASES: dict[str, Body] = {
    "bare": {},
    "full": {"spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}], "unschedulable": True, "podCIDRs": ["10.0.0.0/24"],
                      "providerID": "x://y"},
             "status": {"capacity": {"cpu": "4", "memory": "8388608Ki", "pods": "110", "vendor.example/chip": "2"},
                        "conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                        "images": [{"names": ["a:1"], "sizeBytes": 5}], "nodeInfo": {"kubeletVersion": "v1.36.0"}}},
    "taints": {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}, {"key": "b"},
                                   {"key": "c", "value": "a b", "effect": "NoExecute"}]}},
    "amounts": {"status": {"capacity": {"cpu": "-1", "pods": "1.5", "vendor.example/chip": "500m"}, "allocatable": {"memory": "-5"}}},
    "cidrs": {"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.2.0.0/24"]}},
    "cidrs-bad": {"spec": {"podCIDRs": ["10.0.0.0/24", "10.1.0.0/24", "x"]}},
    "labels": {"metadata": {"name": "node-labels", "labels": {"kubernetes.io/hostname": "h", "bad key": "x"}}},
    "name": {"metadata": {"name": "Bad_Name"}},
    "fraction": {"status": {"capacity": {"cpu": "3.5", "memory": "1.5Gi", "ephemeral-storage": "1e9"}}},
}  # fmt: skip


def steps(namespace: str) -> list[Step]:
    return [post("Node", case, body, namespace) for case, body in CASES.items()]

"""Defaults of the kinds besides pods."""

# ruff: noqa: E501  one case a line is easier to read

import copy

import pytest

from bayplan.api.defaults import apply_defaults
from tests.conformance.api.validation_cases.build import GROUPS
from tests.conformance.api.validation_suite import steps


def defaulted(kind, body):
    version, resource = GROUPS[kind]
    group = version.rpartition("/")[0]
    apply_defaults(group, resource, body)
    return body


@pytest.mark.parametrize(
    ("kind", "body", "path", "expected"),
    [
        ("Service", {"spec": {"ports": [{"port": 80}]}}, "spec",
         {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "type": "ClusterIP",
          "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"}),
        ("StorageClass", {}, "", {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
        ("PriorityClass", {}, "", {"preemptionPolicy": "PreemptLowerPriority"}),
        ("Namespace", {"metadata": {"name": "n"}}, "metadata",
         {"name": "n", "labels": {"kubernetes.io/metadata.name": "n"}}),
        ("Secret", {"stringData": {"a": "text"}}, "", {"type": "Opaque", "data": {"a": "dGV4dA=="}}),
        ("Node", {"status": {"capacity": {"cpu": "3.5"}}}, "status",
         {"capacity": {"cpu": "3500m"}, "allocatable": {"cpu": "3500m"}}),
        ("Node", {"spec": {"podCIDR": "10.0.0.0/24"}}, "spec",
         {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}),
        ("LimitRange", {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}]}},
         "spec", {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"},
                              "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2", "memory": "1Mi"}}]}),
        ("RoleBinding", {"roleRef": {"kind": "Role", "name": "r"}}, "roleRef",
         {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}),
        ("ResourceClaim", {"spec": {"devices": {"requests": [{"name": "r", "exactly": {}}]}}}, "spec",
         {"devices": {"requests": [{"name": "r", "exactly": {"allocationMode": "ExactCount", "count": 1}}]}}),
    ],
)  # fmt: skip
def test_defaults_of_one_kind(kind, body, path, expected):
    found = defaulted(kind, body)

    assert expected == (found[path] if path else found)


def test_a_kind_without_defaults_stays_as_it_is():
    body = {"anything": [1]}

    apply_defaults("example.com", "harbours", body)

    assert {"anything": [1]} == body


VALID = [s for s in steps() if s["method"] == "POST" and s["body"]["kind"] in GROUPS]


@pytest.mark.parametrize("step", VALID, ids=lambda step: step["id"])
def test_defaulting_twice_is_defaulting_once(step):
    body = copy.deepcopy(step["body"])
    once = copy.deepcopy(defaulted(body["kind"], body))

    assert once == defaulted(body["kind"], body)

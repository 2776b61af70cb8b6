"""Strategies: what the server writes and keeps, and what stays as it was."""

# ruff: noqa: E501  one case a line is easier to read

import pytest

from bayplan.apiserver import validation
from tests.apiserver.validation.helper import (
    create_causes,
    created,
    merged,
    prepared,
    update_causes,
)

TEMPLATE = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"containers": [{"name": "c", "image": "i:1"}]},
}
WORKLOAD = {
    "kind": "Deployment",
    "metadata": {"name": "w", "namespace": "d"},
    "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE},
}


def updated(group, resource, old, change, subresource=""):
    new = merged(old, change)
    validation.prepare_for_update(group, resource, new, old, subresource)
    return new


def test_a_new_deployment_has_generation_one_and_no_status():
    stored = created("apps", "deployments", {**WORKLOAD, "status": {"replicas": 9}})

    assert (1, {}) == (stored["metadata"]["generation"], stored["status"])


@pytest.mark.parametrize(
    ("change", "generation"),
    [
        pytest.param({"spec": {"replicas": 5}}, 2, id="the spec"),
        pytest.param(
            {"metadata": {"annotations": {"a": "b"}}}, 2, id="annotations of a deployment"
        ),
        pytest.param({"metadata": {"labels": {"a": "b"}}}, 1, id="labels do not count"),
        pytest.param({"status": {"replicas": 5}}, 1, id="the status is kept"),
    ],
)
def test_what_raises_the_generation(change, generation):
    old = created("apps", "deployments", WORKLOAD)

    new = updated("apps", "deployments", old, change)

    assert generation == new["metadata"]["generation"]
    assert old["status"] == new["status"]


def test_the_status_path_keeps_spec_and_a_deployments_labels():
    old = created("apps", "deployments", WORKLOAD)
    change = {
        "spec": {"replicas": 9},
        "metadata": {"labels": {"x": "y"}},
        "status": {"replicas": 1},
    }

    new = updated("apps", "deployments", old, change, "status")

    assert (old["spec"], {"replicas": 1}) == (new["spec"], new["status"])
    assert "labels" not in new["metadata"]


def test_nobody_can_rename_a_namespace_by_its_label():
    stored = created("", "namespaces", {"metadata": {"name": "n"}})
    new = merged(stored, {"metadata": {"labels": {"kubernetes.io/metadata.name": "liar"}}})

    validation.canonicalize("", "namespaces", new)

    assert ["kubernetes"] == stored["spec"]["finalizers"]
    assert {"kubernetes.io/metadata.name": "n"} == new["metadata"]["labels"]


def test_a_job_selects_its_pods_by_uid():
    body = {
        "metadata": {"name": "j", "namespace": "d", "uid": "u-7"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
    }  # fmt: skip

    stored = created("batch", "jobs", body)

    labels = stored["spec"]["template"]["metadata"]["labels"]
    assert {"batch.kubernetes.io/controller-uid": "u-7"} == stored["spec"]["selector"][
        "matchLabels"
    ]
    assert ("u-7", "j") == (labels["controller-uid"], labels["job-name"])
    assert labels == stored["metadata"]["labels"]


def test_a_service_keeps_its_addresses_on_update():
    spec = {"ports": [{"port": 80, "nodePort": 30001}], "type": "NodePort", "clusterIP": "10.0.0.9"}
    old = prepared("", "services", {"metadata": {"name": "s", "namespace": "d"}, "spec": spec})
    new = merged(old, {"spec": {"clusterIP": None, "clusterIPs": None, "ports": [{"port": 81}]}})

    validation.prepare_for_update("", "services", new, old)

    assert ("10.0.0.9", 30001) == (new["spec"]["clusterIP"], new["spec"]["ports"][0]["nodePort"])


@pytest.mark.parametrize(
    ("group", "resource", "body", "causes"),
    [
        ("", "configmaps", {"data": {"no spaces": "x"}}, [("Invalid", "data[no spaces]")]),
        ("", "configmaps", {"metadata": {"name": "f", "namespace": "d", "finalizers": ["Not A Name"]}},
         [("Invalid", "metadata.finalizers"), ("Invalid", "metadata.finalizers[0]")]),
        ("policy", "poddisruptionbudgets", {"spec": {"minAvailable": 1, "maxUnavailable": 1}}, [("Invalid", "spec")]),
        ("coordination.k8s.io", "leases", {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}},
         [("Invalid", "spec.leaseDurationSeconds"), ("Invalid", "spec.leaseTransitions")]),
        ("", "persistentvolumeclaims", {"spec": {"resources": {}}},
         [("Required", "spec.accessModes"), ("Required", "spec.resources[storage]")]),
        ("batch", "cronjobs", {"spec": {"schedule": "61 * * * *", "jobTemplate": {"spec": {"template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}}, [("Invalid", "spec.schedule")]),
        ("example.com", "harbours", {"metadata": {"name": "Bad Name", "namespace": "d"}}, [("Invalid", "metadata.name")]),
    ],
)  # fmt: skip
def test_causes_of_a_create(group, resource, body, causes):
    body.setdefault("metadata", {"name": "it", "namespace": "d"})

    assert causes == create_causes(group, resource, body)


def test_an_immutable_config_map_stays():
    old = created("", "configmaps", {"metadata": {"name": "c", "namespace": "d"}, "immutable": True, "data": {"a": "1"}})  # fmt: skip

    causes = update_causes("", "configmaps", old, {"data": {"a": "2"}, "immutable": None})

    assert [("Forbidden", "immutable"), ("Forbidden", "data")] == causes


def test_a_wrong_label_is_named_once_for_each_check_of_an_update():
    """The generic checks and those of the kind both look at metadata, as upstream's do."""
    old = created("", "configmaps", {"metadata": {"name": "c", "namespace": "d"}})

    causes = update_causes("", "configmaps", old, {"metadata": {"labels": {"a b": "x"}}})

    assert [("Invalid", "metadata.labels")] * 4 == causes


def test_who_may_be_created_by_put():
    assert validation.create_on_update("coordination.k8s.io", "leases")
    assert not validation.create_on_update("", "pods")
    assert not validation.unconditional_update("example.com", "harbours")


def a_slice(endpoint=None, **fields):
    endpoints = [{"addresses": ["10.0.0.1"], **(endpoint or {})}]
    meta = {"name": "s", "namespace": "d"}
    return {"metadata": meta, "addressType": "IPv4", "endpoints": endpoints, **fields}


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        (a_slice(endpoints=[{"addresses": ["10.0.0.1"]}] * 1001), ("TooMany", "endpoints")),
        (
            a_slice({"addresses": [f"10.0.0.{n}" for n in range(1, 102)]}),
            ("TooMany", "endpoints[0].addresses"),
        ),
        (
            a_slice(ports=[{"name": f"p{n}", "port": 1} for n in range(20_001)]),
            ("TooMany", "ports"),
        ),
        (
            a_slice({"hints": {"forZones": [{"name": f"z{n}"} for n in range(9)]}}),
            ("TooMany", "endpoints[0].hints.forZones"),
        ),
        (
            a_slice({"hints": {"forNodes": [{"name": f"n{n}"} for n in range(9)]}}),
            ("TooMany", "endpoints[0].hints.forNodes"),
        ),
        (
            a_slice({"hints": {"forZones": [{"name": "z"}] * 2}}),
            ("Duplicate", "endpoints[0].hints.forZones[1].name"),
        ),
        (
            a_slice({"hints": {"forNodes": [{"name": "A_"}]}}),
            ("Invalid", "endpoints[0].hints.forNodes[0].name"),
        ),
    ],
    ids=["endpoints", "addresses", "ports", "zones", "nodes", "a zone twice", "a node's name"],
)
def test_a_slice_of_endpoints_has_limits(given, cause):
    assert [cause] == create_causes("discovery.k8s.io", "endpointslices", given)

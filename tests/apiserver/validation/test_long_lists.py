"""A list of as many elements as a body holds is judged in the time of reading it.

Comparing each element with each takes thousands of yardsticks.
"""

import pytest

from bayplan.apiserver.validation import quoting, validate_create, validate_update
from bayplan.apiserver.validation.causes import MAX_QUOTED, repeated
from bayplan.apiserver.validation.warnings import pod_warnings
from tests.effort import at_most

MANY = 20_000
WORK = 300  # yardsticks
KEYS = [f"k{n}" for n in range(MANY)]
SELECTOR = {"matchExpressions": [{"key": key, "operator": "Exists"} for key in KEYS]}


def made(**fields):
    return {"metadata": {"name": "x", "namespace": "default", "resourceVersion": "1"}, **fields}


def pod(**fields):
    container = {"name": "c", "image": "i", "imagePullPolicy": "Always"}
    return made(spec={"containers": [container], "restartPolicy": "Always", **fields})


def spread(**fields):
    return {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "topologyKey": "z", **fields}


TOLERATIONS = [{"key": key, "operator": "Exists"} for key in KEYS]
NEW = {
    "spread by many keys": (
        "",
        "pods",
        pod(topologySpreadConstraints=[spread(topologyKey=key) for key in KEYS]),
    ),
    "spread among those with many labels": (
        "",
        "pods",
        pod(topologySpreadConstraints=[spread(matchLabelKeys=KEYS, labelSelector=SELECTOR)]),
    ),
    "tolerations of a runtime": (
        "node.k8s.io",
        "runtimeclasses",
        made(handler="h", scheduling={"tolerations": TOLERATIONS}),
    ),
    "blocks of a bundle that never end": (
        "certificates.k8s.io",
        "clustertrustbundles",
        made(spec={"trustBundle": "-----BEGIN A-----" * MANY}),
    ),
    "a block of a bundle that is only space": (
        "certificates.k8s.io",
        "clustertrustbundles",
        made(spec={"trustBundle": "-----BEGIN A-----" + " " * 10 * MANY}),
    ),
}


@pytest.fixture(autouse=True)
def quick():
    with at_most(WORK):
        yield


@pytest.mark.parametrize("name", NEW)
def test_a_new_object_with_a_long_list(name):
    validate_create(*NEW[name])


def test_tolerations_in_another_order():
    validate_update("", "pods", pod(tolerations=TOLERATIONS), pod(tolerations=TOLERATIONS[::-1]))


def test_addresses_of_a_node():
    addresses = [{"type": "Hostname", "address": key} for key in KEYS]
    node = made(status={"addresses": addresses})

    validate_update("", "nodes", node, node, "status")


def test_causes_that_quote_the_whole_list_each():
    """Each of 20,000 texts would hold two megabytes."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "uid": "u", "controller": True}
    many = made()
    many["metadata"]["ownerReferences"] = [{**owner, "name": key} for key in KEYS]

    with quoting():
        causes = validate_create("", "configmaps", many)

    assert MANY - 1 == len(causes)
    assert sum(len(cause.message) for cause in causes) < 2 * MAX_QUOTED
    assert "k19999" in causes[0].message


@pytest.mark.parametrize(
    "ports",
    [
        [{"containerPort": 1}] * MANY,
        [{"containerPort": 1, "hostPort": 1 + n} for n in range(MANY)],
        [{"containerPort": 1, "hostPort": 1, "hostIP": f"10.0.{n}"} for n in range(MANY)],
    ],
    ids=["alike", "on other host ports", "on other host addresses"],
)
def test_warnings_of_ports(ports):
    """Each pair of alike ones is a warning: two hundred millions."""
    assert len(pod_warnings("", {}, {"containers": [{"name": "c", "ports": ports}]})) < 2 * MANY


def test_claims_of_a_container():
    known = [{"name": key, "resourceClaimName": key} for key in KEYS]
    used = [{"name": f"not-{key}"} for key in KEYS]
    container = {"name": "c", "image": "i", "resources": {"claims": used}}

    with quoting():
        causes = validate_create("", "pods", pod(resourceClaims=known, containers=[container]))

    assert sum(len(cause.message) for cause in causes) < 2 * MAX_QUOTED


def test_what_a_pod_may_not_change():
    def with_variables(value):
        variables = [{"name": key, "value": value} for key in KEYS]
        container = {"name": "c", "image": "i", "env": variables}
        return pod(containers=[container])

    causes = validate_update("", "pods", with_variables("1"), with_variables("2"))

    assert any('"value": "2"' in cause.message for cause in causes)


def test_what_was_there_before_is_found():
    values = ["a", {"k": 1, "l": 2}, "b", {"l": 2, "k": 1}, "a", {"k": 2}, "a"]

    assert {3, 4, 6} == repeated(values)

"""Karpenter with its KWOK provider, unmodified: nodes appear for pending pods and go again.

Its nodes carry the annotation of simulated ones, so that our kubelets run what is placed on them.
"""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api import yaml
from bayplan.testing.ports import free_port
from bayplan.testing.servers import start_embedded
from tests.kube.operators import folder, kubectl, needs, until
from tests.kube.test_operators import NODES, PODS, pod, start_scheduler
from tests.kube.twins import Connection

pytestmark = [pytest.mark.operators, needs("karpenter"), pytest.mark.timeout(600)]
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
NODE_CLASS = {
    "apiVersion": "karpenter.kwok.sh/v1alpha1",
    "kind": "KWOKNodeClass",
    "metadata": {"name": "default"},
}
POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "metadata": {"annotations": {"bayplan.dev/simulated": "true"}},
            "spec": {
                "nodeClassRef": {
                    "group": "karpenter.kwok.sh",
                    "kind": "KWOKNodeClass",
                    "name": "default",
                },
                "requirements": [
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                ],
            },
        },
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1s"},
        "limits": {"cpu": "100"},
    },
}


@pytest.fixture
def cluster(tmp_path):
    with start_embedded(tmp_path, "--controllers=*") as started:
        yield started


@pytest.fixture
def api(cluster):
    connection = Connection(cluster)
    yield connection
    connection.close()


@pytest.fixture
def karpenter(cluster, tmp_path):
    kubectl(cluster, "apply", "--server-side", "-f", str(folder() / "karpenter.files"))
    start_scheduler(cluster, tmp_path)
    return cluster.start(
        [
            "env",
            f"KUBECONFIG={cluster.kubeconfig}",
            "DISABLE_LEADER_ELECTION=true",
            "SYSTEM_NAMESPACE=kube-system",
            str(folder() / "karpenter"),
            f"--metrics-port={free_port()}",
            f"--health-probe-port={free_port()}",
        ],
        "karpenter.log",
    )


def wants(name: str, cpu: str) -> dict[str, Any]:
    body = pod(name, terminationGracePeriodSeconds=0)
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return body


def nodes_of(api: Connection) -> list[str]:
    """The nodes of the pods that run, one for each pod."""
    found = api.ask("GET", PODS)[1]["items"]
    return [each["spec"]["nodeName"] for each in found if each["status"].get("phase") == "Running"]


def nodes(api: Connection) -> dict[str, str]:
    """Of each node the pool that it belongs to."""
    return {
        node["metadata"]["name"]: node["metadata"]["labels"].get("karpenter.sh/nodepool", "")
        for node in api.ask("GET", NODES)[1]["items"]
    }


def come_and_go(api: Connection) -> None:
    for name in ("a", "b"):
        assert 201 == api.ask("POST", PODS, wants(name, "3"))[0]
    until(lambda: len(nodes_of(api)) == 2, "two pods that run", 180)
    there = nodes(api)
    assert set(nodes_of(api)) <= set(there)
    assert {"default"} == set(there.values())

    for name in ("a", "b"):
        assert 200 == api.ask("DELETE", f"{PODS}/{name}")[0]
    until(lambda: not nodes(api), "the end of the nodes", 180)
    until(lambda: not api.ask("GET", CLAIMS)[1]["items"], "the end of the claims")


def test_nodes_appear_for_pending_pods_and_go_again(cluster, api, karpenter):
    for body in (NODE_CLASS, POOL):
        kubectl(cluster, "apply", "-f", "-", given=yaml.dump(body))

    try:
        come_and_go(api)
    except AssertionError as problem:
        raise AssertionError(f"{problem}\n{karpenter.last_words(4000)}") from problem

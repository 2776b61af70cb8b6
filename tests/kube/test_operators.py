"""Programs of others, unmodified, on our API server: each must show its effect.

They are built by `hack/operators` and take long to build, so these tests have a target of their
own, `make test-operators`. One whose program has not been built is skipped, and where CI is set
that is a failure.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bayplan.api import yaml
from bayplan.testing.servers import ServedCluster, start_embedded
from tests.kube.operators import folder, needs, until
from tests.kube.twins import Connection

pytestmark = pytest.mark.operators
NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.example/app:1"}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


@pytest.fixture
def cluster(tmp_path):
    with start_embedded(tmp_path) as started:
        yield started


@pytest.fixture
def api(cluster):
    connection = Connection(cluster)
    yield connection
    connection.close()


def start_kwok(cluster: ServedCluster) -> None:
    """Start KWOK as the kubelet of every node."""
    stages = folder() / "kwok.files"
    names = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
    files = [
        path
        for name in names
        for path in sorted((stages / name).glob("*.yaml"))
        if path.name != "kustomization.yaml"
    ]
    cluster.start(
        [
            str(folder() / "kwok"),
            f"--kubeconfig={cluster.kubeconfig}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=40",
            *(f"--config={path}" for path in files),
        ],
        "kwok.log",
    )


def start_scheduler(cluster: ServedCluster, tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(cluster.kubeconfig)},
    }
    config.write_text(yaml.dump(document))
    cluster.bayplan_scheduler(config)


@needs("kwok")
def test_kwok_is_the_kubelet(cluster, api, tmp_path):
    start_kwok(cluster)
    start_scheduler(cluster, tmp_path)
    assert api.ask("POST", NODES, {"metadata": {"name": "n1"}})[0] == 201
    assert api.ask("POST", PODS, pod("p"))[0] == 201

    def ready() -> bool:
        conditions = api.ask("GET", f"{NODES}/n1")[1].get("status", {}).get("conditions", ())
        return ("Ready", "True") in {(c["type"], c["status"]) for c in conditions}

    until(ready, "a node that is ready")
    running = until(lambda: _running(api, "p"), "a pod that runs")
    lease = until(lambda: _at(api, f"{LEASES}/n1"), "a lease")
    assert "n1" == running["spec"]["nodeName"]
    assert running["status"]["podIP"]
    assert lease["spec"]["holderIdentity"]

    assert api.ask("DELETE", f"{PODS}/p")[0] == 200
    until(lambda: api.ask("GET", f"{PODS}/p")[0] == 404, "the end of the pod")


def _at(api: Connection, path: str) -> Any:
    code, found = api.ask("GET", path)
    return found if code == 200 else None


def _running(api: Connection, name: str) -> Any:
    found = _at(api, f"{PODS}/{name}")
    return found if found and found["status"].get("phase") == "Running" else None


POLICY = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerPolicy",
    "profiles": [
        {
            "name": "taints",
            "pluginConfig": [
                {"name": "DefaultEvictor", "args": {"evictLocalStoragePods": True}},
                {"name": "RemovePodsViolatingNodeTaints", "args": {}},
            ],
            "plugins": {"deschedule": {"enabled": ["RemovePodsViolatingNodeTaints"]}},
        }
    ],
}


@needs("descheduler")
def test_descheduler_evicts_what_a_new_taint_does_not_tolerate(cluster, api, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.dump(POLICY))
    for name in ("n1", "n2"):
        assert api.ask("POST", NODES, {"metadata": {"name": name}})[0] == 201
        ready = {"type": "Ready", "status": "True"}
        room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        status = {"conditions": [ready], "allocatable": room, "capacity": room}
        path = f"{NODES}/{name}/status"
        assert api.patch("merge", path, {"status": status})[0] == 200
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "r",
        "uid": "0000",
        "controller": True,
    }
    tolerations = [{"key": "old", "operator": "Exists"}]
    for name, more in (("stays", {"tolerations": tolerations}), ("goes", {})):
        body = pod(name, nodeName="n1", terminationGracePeriodSeconds=0, **more)
        body["metadata"]["ownerReferences"] = [owner]
        assert api.ask("POST", PODS, body)[0] == 201
        assert (
            api.patch("merge", f"{PODS}/{name}/status", {"status": {"phase": "Running"}})[0] == 200
        )
    taint = {"spec": {"taints": [{"key": "old", "effect": "NoSchedule"}]}}
    assert api.patch("merge", f"{NODES}/n1", taint)[0] == 200

    done = subprocess.run(
        [
            folder() / "descheduler",
            f"--kubeconfig={cluster.kubeconfig}",
            f"--policy-config-file={policy}",
            "--secure-port=0",
            "--v=2",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "HOME": str(tmp_path)},
    )

    assert 0 == done.returncode, done.stderr[-3000:]
    assert 404 == api.ask("GET", f"{PODS}/goes")[0], done.stderr[-3000:]
    assert 200 == api.ask("GET", f"{PODS}/stays")[0]

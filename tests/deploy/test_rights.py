"""The scheduler works with exactly the rights that the manifests give it."""

import json
import ssl
import time
import urllib.request
from pathlib import Path

import pytest
import yaml

from bayplan.testing.servers import bayplan_command, start_embedded

INSTALL = Path(__file__).parents[2] / "deploy" / "install.yaml"
TOKEN = "scheduler-token"
USER = "system:serviceaccount:kube-system:bayplan-scheduler"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PATHS = {
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    "Role": f"{RBAC}/namespaces/kube-system/roles",
    "RoleBinding": f"{RBAC}/namespaces/kube-system/rolebindings",
}


def call(cluster, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {cluster.token}", "Content-Type": "application/json"}
    request = urllib.request.Request(cluster.server + path, data, headers, method=method)
    context = ssl._create_unverified_context()
    with urllib.request.urlopen(request, timeout=60, context=context) as answer:
        return json.load(answer)


@pytest.fixture
def cluster(tmp_path):
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(f'{TOKEN},{USER},1,"system:authenticated"\n')
    words = ("--authorization-mode=RBAC", f"--token-file={tokens}")
    with start_embedded(tmp_path / "server", *words) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def folder(tmp_path):
    (tmp_path / "server").mkdir()


def pod(name, cpu, priority=""):
    resources = {"requests": {"cpu": cpu}}
    spec = {
        "schedulerName": "bayplan",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "x", "resources": resources}],
    }
    if priority:
        spec["priorityClassName"] = priority
    return {"metadata": {"name": name}, "spec": spec}


def test_binding_preempting_events_and_election_need_no_more(cluster, tmp_path):
    for item in yaml.safe_load_all(INSTALL.read_text()):
        if item["kind"] in PATHS:
            call(cluster, "POST", PATHS[item["kind"]], item)
        if item["kind"] == "ConfigMap":
            config = tmp_path / "config.yaml"
            config.write_text(item["data"]["config.yaml"])
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    document["users"][0]["user"] = {"token": TOKEN}
    mine = tmp_path / "scheduler.kubeconfig"
    mine.write_text(yaml.safe_dump(document))
    settings = yaml.safe_load(config.read_text())
    settings["clientConnection"]["kubeconfig"] = str(mine)
    config.write_text(yaml.safe_dump(settings))
    capacity = {"cpu": "2", "memory": "8Gi", "pods": "10"}
    call(
        cluster,
        "POST",
        "/api/v1/nodes",
        {"metadata": {"name": "n"}, "status": {"capacity": capacity}},
    )
    words = ["--config", str(config), "--secure-port=0", "--v=4"]
    process = cluster.start([*bayplan_command("scheduler"), *words], "scheduler.log")

    pods = "/api/v1/namespaces/kube-system/pods"
    call(cluster, "POST", pods, pod("weak", "2"))
    wait_bound(cluster, f"{pods}/weak")
    call(cluster, "POST", pods, pod("strong", "2", "system-cluster-critical"))
    wait_bound(cluster, f"{pods}/strong")

    def reasons():
        events = call(cluster, "GET", "/apis/events.k8s.io/v1/events")["items"]
        return {"Scheduled", "FailedScheduling", "Preempted"} <= {e["reason"] for e in events}

    wait(reasons)
    assert process.stop() == 0
    assert "orbidden" not in process.last_words(100_000)


def wait(check, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.05)


def wait_bound(cluster, path):
    wait(lambda: call(cluster, "GET", path)["spec"].get("nodeName"))

"""Unmodified programs of others on our API server: kube-controller-manager and Helm.

Our own controllers are off; what appears is the work of the real ones.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time

import pytest

from bayplan.apiserver.certificates import CLIENT
from bayplan.testing.servers import kube_assets, start_embedded
from tests.apiserver.test_certificates import CSRS, ask
from tests.kube.twins import Connection

ASSETS = kube_assets()
pytestmark = [
    pytest.mark.kube,
    pytest.mark.skipif(ASSETS is None, reason="needs make kube-assets"),
]
DEFAULT = "namespaces/default"
LABELS = {"app": "web"}
POD = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def has(program):
    return ASSETS is not None and (ASSETS / program).exists()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with start_embedded(tmp_path_factory.mktemp("embedded")) as started:
        yield started


@pytest.fixture(scope="module")
def api(cluster):
    connection = Connection(cluster)
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def manager(cluster, tmp_path_factory):
    assert ASSETS is not None
    folder = tmp_path_factory.mktemp("manager")
    tls = cluster.folder / "data" / "tls"
    cluster.start(
        [
            str(ASSETS / "kube-controller-manager"),
            f"--kubeconfig={cluster.kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--cert-dir={folder}",
            f"--cluster-signing-cert-file={tls / 'ca.crt'}",
            f"--cluster-signing-key-file={tls / 'ca.key'}",
            f"--root-ca-file={tls / 'ca.crt'}",
            "--concurrent-gc-syncs=2",
        ],
        "controller-manager.log",
    )


def until(found, what, seconds=90):
    """Wait for something that the real controllers do."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.2)
    raise AssertionError(f"{what} did not happen in {seconds} s")


def create(api, path, body):
    status, made = api.ask("POST", path, body)
    assert 201 == status, made
    return made


def pods_of(api, owner):
    _, found = api.ask("GET", f"/api/v1/{DEFAULT}/pods")
    return [
        each
        for each in found["items"]
        if any(o["kind"] == owner for o in each["metadata"].get("ownerReferences", ()))
    ]


@pytest.mark.skipif(not has("kube-controller-manager"), reason="not built")
def test_the_real_controllers_run_workloads(api, manager):
    spec = {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": POD}
    create(api, f"/apis/apps/v1/{DEFAULT}/deployments", {"metadata": {"name": "d"}, "spec": spec})
    template = {"spec": {**POD["spec"], "restartPolicy": "Never"}}
    create(
        api,
        f"/apis/batch/v1/{DEFAULT}/jobs",
        {"metadata": {"name": "j"}, "spec": {"template": template}},
    )
    stateful = {"serviceName": "s", "selector": {"matchLabels": {"a": "s"}}}
    stateful["template"] = {**POD, "metadata": {"labels": {"a": "s"}}}
    create(
        api,
        f"/apis/apps/v1/{DEFAULT}/statefulsets",
        {"metadata": {"name": "s"}, "spec": stateful},
    )

    until(lambda: len(pods_of(api, "ReplicaSet")) == 2, "two pods of the deployment")
    until(lambda: pods_of(api, "Job"), "a pod of the job")
    until(lambda: pods_of(api, "StatefulSet"), "a pod of the stateful set")
    api.ask("DELETE", f"/apis/apps/v1/{DEFAULT}/deployments/d")
    until(lambda: not pods_of(api, "ReplicaSet"), "garbage collection of the deployment's pods")


@pytest.mark.skipif(not has("kube-controller-manager"), reason="not built")
def test_the_real_controllers_keep_quota_and_accounts(api, manager):
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "100"}}}
    create(api, f"/api/v1/{DEFAULT}/resourcequotas", quota)

    def used():
        _, found = api.ask("GET", f"/api/v1/{DEFAULT}/resourcequotas/q")
        return found.get("status", {}).get("used", {}).get("configmaps")

    assert until(used, "the use of the quota")
    until(
        lambda: api.ask("GET", f"/api/v1/{DEFAULT}/serviceaccounts/default")[0] == 200,
        "the default account",
    )
    until(
        lambda: api.ask("GET", f"/api/v1/{DEFAULT}/configmaps/kube-root-ca.crt")[0] == 200,
        "the root certificate",
    )


@pytest.mark.skipif(not has("kube-controller-manager"), reason="not built")
def test_the_real_controllers_find_all_kinds_that_they_follow(cluster, api, manager):
    """Every controller reads its kinds at once, and says so when one is not served."""
    log = cluster.folder / "controller-manager.log"
    until(lambda: "Caches are synced" in log.read_text(), "controllers that have read their kinds")

    missing = [
        line
        for line in log.read_text().splitlines()
        if "could not find the requested resource" in line
    ]
    assert [] == missing


@pytest.mark.slow
@pytest.mark.skipif(not has("kube-controller-manager"), reason="not built")
def test_the_real_cron_job_controller_makes_a_job_each_minute(api, manager):
    template = {"spec": {**POD["spec"], "restartPolicy": "Never"}}
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}}
    create(api, f"/apis/batch/v1/{DEFAULT}/cronjobs", {"metadata": {"name": "c"}, "spec": spec})

    def made():
        jobs = api.ask("GET", f"/apis/batch/v1/{DEFAULT}/jobs")[1]["items"]
        return [job for job in jobs if job["metadata"]["name"].startswith("c-")]

    assert until(made, "a job of the cron job")


@pytest.mark.skipif(not has("kube-controller-manager"), reason="not built")
def test_the_real_signer_signs_with_our_authority(api, manager):
    _, request = ask("jane", "dev")
    spec = {
        "request": base64.b64encode(request).decode(),
        "signerName": CLIENT,
        "usages": ["client auth"],
    }
    made = create(api, CSRS, {"metadata": {"name": "jane"}, "spec": spec})
    condition = {"type": "Approved", "status": "True", "reason": "Test", "message": "test"}
    made["status"] = {"conditions": [condition]}
    status, answer = api.ask("PUT", f"{CSRS}/jane/approval", made)
    assert 200 == status, answer

    def certificate():
        return api.ask("GET", f"{CSRS}/jane")[1].get("status", {}).get("certificate")

    assert b"BEGIN CERTIFICATE" in base64.b64decode(until(certificate, "the certificate"))


CHART = {
    "Chart.yaml": "apiVersion: v2\nname: boat\nversion: 0.1.0\n",
    "values.yaml": "colour: red\n",
    "crds/buoys.yaml": """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: buoys.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: buoys, kind: Buoy}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
""",
    "templates/all.yaml": """apiVersion: v1
kind: ConfigMap
metadata: {name: boat}
data: {colour: {{ .Values.colour }}}
---
apiVersion: example.com/v1
kind: Buoy
metadata: {name: one}
colour: {{ .Values.colour }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: hook
  annotations: {"helm.sh/hook": "pre-install,pre-upgrade"}
data: {ran: "{{ .Release.Revision }}"}
""",
}


@pytest.mark.skipif(not has("helm"), reason="not built")
def test_helm_installs_upgrades_and_rolls_back(cluster, api, tmp_path):
    assert ASSETS is not None
    for name, text in CHART.items():
        (tmp_path / "boat" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "boat" / name).write_text(text)
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(tmp_path)}

    def helm(*words):
        done = subprocess.run(
            [ASSETS / "helm", *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert 0 == done.returncode, done.stderr
        return done.stdout

    def colours():
        _, map_ = api.ask("GET", f"/api/v1/{DEFAULT}/configmaps/boat")
        _, buoy = api.ask("GET", f"/apis/example.com/v1/{DEFAULT}/buoys/one")
        return map_["data"]["colour"], buoy["colour"]

    chart = str(tmp_path / "boat")
    helm("install", "b", chart)
    assert ("red", "red") == colours()
    helm("upgrade", "b", chart, "--set", "colour=blue")
    assert ("blue", "blue") == colours()
    _, hook = api.ask("GET", f"/api/v1/{DEFAULT}/configmaps/hook")
    assert {"ran": "2"} == hook["data"]
    helm("rollback", "b", "1")
    assert ("red", "red") == colours()
    assert [1, 2, 3] == [
        each["revision"] for each in json.loads(helm("history", "b", "-o", "json"))
    ]
    helm("uninstall", "b")
    assert 404 == api.ask("GET", f"/api/v1/{DEFAULT}/configmaps/boat")[0]


@pytest.mark.skipif(not has("kubectl"), reason="not built")
def test_kubectl_explains_every_field(cluster):
    """Two levels of several kinds: no field without words, as `kubectl explain` prints them."""
    assert ASSETS is not None
    for path in ("pod", "pod.spec.containers", "deployment.spec", "node.status", "cronjob.spec"):
        done = subprocess.run(
            [str(ASSETS / "kubectl"), f"--kubeconfig={cluster.kubeconfig}", "explain", path],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "<no description>" not in done.stdout
        assert "<empty>" not in done.stdout
        assert "FIELDS:" in done.stdout

"""Kueue, unmodified, on our API server: its webhooks, its conversion, its queues.

Its own manifests are applied with kubectl. What a kubelet would do for its pod is done here: the
program is started, and the certificate that it makes for itself is laid where it looks for it. The
Service of its webhooks is an external name, since there is no cluster network.
"""

from __future__ import annotations

import base64
import threading
from pathlib import Path
from typing import Any

import pytest

from bayplan.api import yaml
from bayplan.testing.ports import free_port
from bayplan.testing.servers import ServedCluster, start_embedded
from tests.kube.operators import folder, kubectl, needs, until
from tests.kube.twins import Connection

pytestmark = [pytest.mark.operators, needs("kueue"), pytest.mark.timeout(600)]
SPACE = "kueue-system"
SECRET = f"/api/v1/namespaces/{SPACE}/secrets/kueue-webhook-server-cert"
OLD, NEW = "/apis/kueue.x-k8s.io/v1beta1", "/apis/kueue.x-k8s.io/v1beta2"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def manifests(cluster: ServedCluster, port: int) -> list[Any]:
    """Kueue's own, with the webhooks at a port of this machine and no pod to run them."""
    text = kubectl(cluster, "kustomize", str(folder() / "kueue.files" / "default"))
    kept = [
        each for each in yaml.load_all(text) if each["kind"] not in ("APIService", "Deployment")
    ]
    for each in kept:
        if each["metadata"]["name"] == "kueue-webhook-service":
            each["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        configs = [hook["clientConfig"] for hook in each.get("webhooks", ())]
        if each["kind"] == "CustomResourceDefinition":
            conversion = each["spec"].get("conversion", {})
            configs += [hook["clientConfig"] for hook in [conversion.get("webhook")] if hook]
        for config in configs:
            config["service"]["port"] = port
    return kept


def configuration(tmp_path: Path, port: int) -> Path:
    document = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": SPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{free_port()}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": port, "host": "127.0.0.1", "certDir": str(tmp_path / "certs")},
        "leaderElection": {"leaderElect": False},
        "integrations": {"frameworks": ["batch/job"]},
        "featureGates": {"VisibilityOnDemand": False},
    }
    path = tmp_path / "kueue.yaml"
    path.write_text(yaml.dump(document))
    return path


def mount(cluster: ServedCluster, where: Path, over: threading.Event) -> None:
    """Do as a kubelet does: lay the secret into the folder as soon as it holds something."""
    api = Connection(cluster)
    where.mkdir()
    while not over.wait(0.5):
        data = api.ask("GET", SECRET)[1].get("data") or {}
        if "tls.crt" in data:
            for name, value in data.items():
                (where / name).write_bytes(base64.b64decode(value))
            break
    api.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with start_embedded(tmp_path_factory.mktemp("kueue"), "--controllers=*") as started:
        yield started


@pytest.fixture(scope="module")
def api(cluster):
    connection = Connection(cluster)
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def kueue(cluster, api, tmp_path_factory):
    """Kueue, ready to be asked; a cluster queue for two CPUs that lets the urgent go first."""
    tmp_path, port = tmp_path_factory.mktemp("manager"), free_port()
    given = "---\n".join(yaml.dump(each) for each in manifests(cluster, port))
    kubectl(cluster, "apply", "--server-side", "-f", "-", given=given)
    over = threading.Event()
    kubelet = threading.Thread(target=mount, args=(cluster, tmp_path / "certs", over))
    kubelet.start()
    process = cluster.start(
        [
            str(folder() / "kueue"),
            f"--config={configuration(tmp_path, port)}",
            f"--kubeconfig={cluster.kubeconfig}",
            "--zap-log-level=2",
        ],
        "kueue.log",
    )
    flavor = written(NEW, "ResourceFlavor", "default", spec={})
    answers: list[Any] = []

    def made() -> bool:
        answers.append(api.ask("POST", f"{NEW}/resourceflavors", flavor))
        return bool(answers[-1][0] == 201)

    try:
        until(made, "an answer of Kueue's webhooks")
    except AssertionError:
        raise AssertionError(f"{answers[-1]}\n{process.last_words()}") from None
    finally:
        over.set()
        kubelet.join()
    for path, body in QUEUES:
        status, made = api.ask("POST", path, body)
        assert 201 == status, made
    return process


def written(version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    api_version = version.removeprefix("/apis/")
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def groups(*flavors: str, cpu: str = "2") -> list[Any]:
    return [
        {
            "coveredResources": ["cpu"],
            "flavors": [
                {"name": name, "resources": [{"name": "cpu", "nominalQuota": cpu}]}
                for name in flavors
            ],
        }
    ]


QUEUES: list[tuple[str, Any]] = [
    (
        f"{OLD}/clusterqueues",
        written(
            OLD,
            "ClusterQueue",
            "two",
            spec={
                "cohort": "all",
                "namespaceSelector": {},
                "preemption": {"withinClusterQueue": "LowerPriority"},
                "resourceGroups": groups("default"),
            },
        ),
    ),
    (
        f"{OLD}/namespaces/default/localqueues",
        written(OLD, "LocalQueue", "mine", spec={"clusterQueue": "two"}),
    ),
    (
        f"{OLD}/workloadpriorityclasses",
        written(OLD, "WorkloadPriorityClass", "urgent", value=1000),
    ),
]


def job(name: str, cpu: str, **labels: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "mine", **labels}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def make(api: Connection, body: dict[str, Any]) -> None:
    status, made = api.ask("POST", JOBS, body)
    assert 201 == status, made
    assert made["spec"]["suspend"], "Kueue's webhook holds a new job back"


def runs(api: Connection, name: str) -> bool:
    found = api.ask("GET", f"{JOBS}/{name}")[1]
    return not found["spec"]["suspend"] and found["status"].get("active") == 1


def conditions(api: Connection, name: str) -> dict[str, tuple[str, str]]:
    """Of a job's workload: whether each holds, and why."""
    found = api.ask("GET", f"{NEW}/namespaces/default/workloads")[1]["items"]
    return {
        each["type"]: (each["status"], each["reason"])
        for item in found
        if item["metadata"]["ownerReferences"][0]["name"] == name
        for each in item["status"].get("conditions", ())
    }


def test_jobs_are_queued_admitted_by_quota_and_preempted(api, kueue):
    make(api, job("first", "1"))
    make(api, job("second", "1"))
    until(lambda: runs(api, "first") and runs(api, "second"), "two jobs that run")
    make(api, job("third", "1"))
    until(lambda: conditions(api, "third").get("QuotaReserved", ("",))[0] == "False", "a queue")
    assert api.ask("GET", f"{JOBS}/third")[1]["spec"]["suspend"]

    assert api.ask("DELETE", f"{JOBS}/first?propagationPolicy=Background")[0] == 200
    until(lambda: runs(api, "third"), "the turn of the third job")

    make(api, job("urgent", "2", **{"kueue.x-k8s.io/priority-class": "urgent"}))
    until(lambda: runs(api, "urgent"), "preemption")
    for name in ("second", "third"):
        assert ("True", "Preempted") == conditions(api, name)["Evicted"]
        assert api.ask("GET", f"{JOBS}/{name}")[1]["spec"]["suspend"]
    urgent = [
        each["metadata"]["name"]
        for each in api.ask("GET", "/api/v1/namespaces/default/pods")[1]["items"]
    ]
    assert 1 == len([name for name in urgent if name.startswith("urgent-")])


@pytest.mark.parametrize("version", [OLD, NEW])
def test_its_webhooks_refuse_what_is_wrong_in_either_version(api, kueue, version):
    """They know the new version only: what is written in the old one is converted for them."""
    spec = {"namespaceSelector": {}, "resourceGroups": groups("default") + groups("other")}
    body = written(version, "ClusterQueue", "wrong", spec=spec)

    status, told = api.ask("POST", f"{version}/clusterqueues", body)

    assert 403 == status, told
    assert 'admission webhook "vclusterqueue.kb.io" denied the request' in told["message"]


def test_what_is_written_in_one_version_is_read_in_the_other(api, kueue):
    old = api.ask("GET", f"{OLD}/clusterqueues/two")[1]
    new = api.ask("GET", f"{NEW}/clusterqueues/two")[1]
    listed = api.ask("GET", f"{NEW}/clusterqueues")[1]["items"]

    assert ("kueue.x-k8s.io/v1beta1", "all") == (old["apiVersion"], old["spec"]["cohort"])
    assert ("kueue.x-k8s.io/v1beta2", "all") == (new["apiVersion"], new["spec"]["cohortName"])
    assert ["all"] == [each["spec"]["cohortName"] for each in listed]

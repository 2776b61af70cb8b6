"""The ways to deploy, walked with the real programs: helm, kubectl apply -k, and taking over.

Helm lints, renders and installs the chart on the real API server and on ours; the Lease passes
from kube-scheduler to Bayplan and back.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from bayplan.testing.servers import kube_assets, start_embedded, start_kube
from tests.deploy import checks
from tests.deploy.checks import CHART, DEPLOY, configuration, documents, of_kind
from tests.kube.twins import Connection
from tests.kube.world import node, pod

pytestmark = pytest.mark.kube
PATIENCE = 60.0
PLUGIN = """
from bayplan.framework import FilterPlugin, Status


class Nowhere(FilterPlugin):
    name = "Nowhere"

    def filter(self, state, pod, node):
        return Status.unschedulable("nowhere")
"""
EVERYTHING = {
    "mode": "default",
    "replicas": 3,
    "profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}],
    "extenders": [{"urlPrefix": "http://extender:8888", "filterVerb": "filter"}],
    "plugins": {"nowhere.py": PLUGIN},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "networkPolicy": {"enabled": True, "metricsFrom": [{"namespaceSelector": {}}]},
    "tolerations": [{"operator": "Exists"}],
    "nodeSelector": {"role": "control"},
    "image": {"tag": "9"},
}
VALUES = {
    "second": {},
    "default": {"mode": "default", "replicas": 3},
    "named": {"schedulerName": "mine", "podDisruptionBudget": False},
    "everything": EVERYTHING,
}


def program(name: str, *arguments: str, kubeconfig: Path | None = None) -> str:
    """Run one of the real programs; its output."""
    folder = kube_assets()
    assert folder is not None
    env = {**os.environ, "HOME": "/nonexistent"}
    if kubeconfig:
        env["KUBECONFIG"] = str(kubeconfig)
    done = subprocess.run(
        [str(folder / name), *arguments], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def values_file(folder: Path, values: dict) -> str:
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    return f"--values={file}"


def rendered(folder: Path, values: dict) -> list[dict]:
    version = "--kube-version=1.36.0"  # a helm built from its module believes in 1.20
    words = ("template", "bayplan", str(CHART), "-n", "kube-system", version)
    return documents(program("helm", *words, values_file(folder, values)))


@pytest.mark.parametrize("name", VALUES)
def test_the_chart_is_sound(name, tmp_path):
    items = rendered(tmp_path, VALUES[name])

    checks.check_schema(items)
    checks.check_references(items)
    checks.check_lease(items)
    checks.check_containers(items)
    checks.check_arguments(items)


def test_lint_finds_nothing(tmp_path):
    program("helm", "lint", "--strict", str(CHART), values_file(tmp_path, EVERYTHING))


@pytest.mark.parametrize(
    ("name", "served", "lease"),
    [
        ("second", ["bayplan"], "bayplan-scheduler"),
        ("default", ["default-scheduler"], "kube-scheduler"),
        ("named", ["mine"], "bayplan-scheduler"),
        ("everything", ["a", "b"], "kube-scheduler"),
    ],
)
def test_the_chart_serves_the_right_names(name, served, lease, tmp_path):
    config = configuration(rendered(tmp_path, VALUES[name]))

    assert served == [profile.scheduler_name for profile in config.profiles]
    assert lease == config.leader_election.resource_name


def test_values_reach_the_manifests(tmp_path):
    items = rendered(tmp_path, EVERYTHING)
    spec = of_kind(items, "Deployment")[0]["spec"]["template"]["spec"]
    (plugins,) = [i for i in of_kind(items, "ConfigMap") if "nowhere.py" in i["data"]]

    assert [{"operator": "Exists"}] == spec["tolerations"]
    assert spec["nodeSelector"] == {"role": "control"}
    assert spec["containers"][0]["image"] == "bayplan:9"
    assert "--plugins=/etc/bayplan-plugins/nowhere.py" in spec["containers"][0]["args"]
    assert plugins["data"]["nowhere.py"] == PLUGIN
    assert of_kind(items, "NetworkPolicy")[0]["spec"]["ingress"][0]["from"]
    assert of_kind(items, "ServiceMonitor")[0]["metadata"]["labels"] == {"release": "prometheus"}
    assert [] == of_kind(rendered(tmp_path, VALUES["named"]), "PodDisruptionBudget")


def test_chart_and_plain_manifests_ask_for_the_same_rights(tmp_path):
    plain = documents((DEPLOY / "install.yaml").read_text())

    assert (
        of_kind(plain, "ClusterRole")[0]["rules"]
        == of_kind(rendered(tmp_path, {}), "ClusterRole")[0]["rules"]
    )


@pytest.fixture(scope="module", params=["kube-apiserver", "embedded"])
def cluster(request):
    start = start_kube if request.param == "kube-apiserver" else start_embedded
    with start() as cluster:
        yield cluster


def test_helm_installs_upgrades_and_rolls_back(cluster, tmp_path):
    def helm(*words: str) -> str:
        return program("helm", *words, "-n", "kube-system", kubeconfig=cluster.kubeconfig)

    def replicas() -> int:
        words = ("get", "deployment", "bayplan-scheduler", "-n", "kube-system", "-o", "json")
        found = json.loads(program("kubectl", *words, kubeconfig=cluster.kubeconfig))
        return found["spec"]["replicas"]

    chart, values = str(CHART), {**EVERYTHING, "serviceMonitor": {"enabled": False}}
    seen = []
    helm("install", "bayplan", chart)
    seen.append(replicas())
    helm("upgrade", "bayplan", chart, values_file(tmp_path, values))
    seen.append(replicas())
    helm("rollback", "bayplan", "1")
    seen.append(replicas())
    helm("uninstall", "bayplan")
    left = program(
        "kubectl", "get", "deploy,cm,sa", "-A", "-o", "name", kubeconfig=cluster.kubeconfig
    )

    assert seen == [2, 3, 2]
    assert "bayplan" not in left


@pytest.mark.parametrize("folder", ["base", "overlays/default-scheduler"])
def test_kustomize_applies(cluster, folder):
    where = str(DEPLOY / folder)

    created = program("kubectl", "apply", "-k", where, kubeconfig=cluster.kubeconfig)
    again = program("kubectl", "apply", "-k", where, kubeconfig=cluster.kubeconfig)
    program("kubectl", "delete", "-k", where, kubeconfig=cluster.kubeconfig)

    assert "created" in created
    changed = [line for line in again.splitlines() if not line.endswith(" unchanged")]
    # kubectl replaces a budget's selector each time (patchStrategy: replace), on either server
    assert changed == ["poddisruptionbudget.policy/bayplan-scheduler configured"]


@pytest.fixture
def real():
    with start_kube() as cluster:
        yield cluster


def test_the_lease_passes_to_bayplan_and_back(real, tmp_path):
    """In kube-scheduler's place, with its Lease: never both at once, never nobody for long."""
    config = tmp_path / "config.yaml"
    election = {"leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms"}
    settings = configuration(rendered(tmp_path, VALUES["default"])).leader_election
    text = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(real.kubeconfig)},
        "leaderElection": {
            "leaderElect": True,
            "resourceName": settings.resource_name,
            "resourceNamespace": settings.resource_namespace,
            **election,
        },
    }
    config.write_text(json.dumps(text))
    api = Connection(real)
    api.ask("POST", "/api/v1/nodes", node("n"))

    theirs = real.kube_scheduler(config)
    first = holder_after_binding(api, "one")
    ours = real.bayplan_scheduler(config)
    second = holder_after_binding(api, "two")  # ours stands by
    theirs.stop()
    third = holder_after_binding(api, "three")
    real.kube_scheduler(config)
    ours.stop()
    fourth = holder_after_binding(api, "four")
    api.close()

    assert first == second
    assert len({first, third, fourth}) == 3


def holder_after_binding(api: Connection, name: str) -> str:
    """Make a pod and wait until it is bound; who holds the Lease then."""
    pods = "/api/v1/namespaces/default/pods"
    api.ask("POST", pods, pod(name))
    deadline = time.monotonic() + PATIENCE
    while not api.ask("GET", f"{pods}/{name}")[1]["spec"].get("nodeName"):
        assert time.monotonic() < deadline, f"nobody bound {name}"
        time.sleep(0.1)
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
    return api.ask("GET", lease)[1]["spec"]["holderIdentity"]

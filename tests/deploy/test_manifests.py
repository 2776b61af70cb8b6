"""The manifests parse, fit the API's schema, refer to each other rightly, and ask for little."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from bayplan.api import schema
from bayplan.config import load
from bayplan.scheduler.flags import parse
from bayplan.scheduler.options import load_options
from tests.deploy.gotemplate import Chart

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "bayplan-scheduler"
SECOND, DEFAULT = {}, {"mode": "default", "replicas": 3}


def documents(text: str) -> list[dict]:
    return [item for item in yaml.safe_load_all(text) if item]


def chart_documents(values: dict) -> list[dict]:
    texts = Chart(CHART, values, release="bayplan", namespace="kube-system").render().values()
    return [item for text in texts for item in documents(text)]


SETS = {
    "install.yaml": documents((DEPLOY / "install.yaml").read_text()),
    "static pod": documents((DEPLOY / "static-pod" / "kube-scheduler.yaml").read_text()),
    "chart, second scheduler": chart_documents(SECOND),
    "chart, default scheduler": chart_documents(DEFAULT),
}


def of_kind(items: list[dict], kind: str) -> list[dict]:
    return [item for item in items if item["kind"] == kind]


@pytest.mark.parametrize("name", SETS)
def test_objects_fit_the_schema(name):
    for item in SETS[name]:
        type_ = schema.type_for(item["apiVersion"], item["kind"])
        assert type_ is not None, item["kind"]
        assert [] == schema.unknown_fields(type_, item)
        schema.decode(item, type_)


@pytest.mark.parametrize("name", [name for name in SETS if name != "static pod"])
def test_references_meet(name):
    items = SETS[name]
    (deployment,) = of_kind(items, "Deployment")
    pod = deployment["spec"]["template"]
    names = {
        kind: {i["metadata"]["name"] for i in of_kind(items, kind)}
        for kind in ("ServiceAccount", "ConfigMap", "ClusterRole", "Role")
    }

    assert pod["spec"]["serviceAccountName"] in names["ServiceAccount"]
    for volume in pod["spec"]["volumes"]:
        if "configMap" in volume:
            assert volume["configMap"]["name"] in names["ConfigMap"]
    mounts = {mount["name"] for mount in pod["spec"]["containers"][0]["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["spec"]["volumes"]}
    labels = pod["metadata"]["labels"]
    for item in (deployment, *of_kind(items, "PodDisruptionBudget")):
        assert item["spec"]["selector"]["matchLabels"].items() <= labels.items()
    for binding in of_kind(items, "RoleBinding") + of_kind(items, "ClusterRoleBinding"):
        assert binding["roleRef"]["name"] in names[binding["roleRef"]["kind"]]
        (subject,) = binding["subjects"]
        assert subject["name"] in names["ServiceAccount"]
        assert subject["namespace"] == deployment["metadata"]["namespace"]


@pytest.mark.parametrize("name", [name for name in SETS if name != "static pod"])
def test_the_configuration_is_valid_and_its_lease_allowed(name):
    items = SETS[name]
    (config_map,) = of_kind(items, "ConfigMap")
    (role,) = of_kind(items, "Role")

    config = load(config_map["data"]["config.yaml"]).config

    assert [config.leader_election.resource_name] == role["rules"][1]["resourceNames"]
    assert config.leader_election.resource_namespace == role["metadata"]["namespace"]


@pytest.mark.parametrize(
    ("values", "scheduler", "lease"),
    [
        (SECOND, "bayplan", "bayplan-scheduler"),
        (DEFAULT, "default-scheduler", "kube-scheduler"),
        ({"schedulerName": "mine"}, "mine", "bayplan-scheduler"),
    ],
)
def test_the_chart_serves_the_right_name(values, scheduler, lease):
    (config_map,) = of_kind(chart_documents(values), "ConfigMap")

    config = load(config_map["data"]["config.yaml"]).config

    assert [scheduler] == [profile.scheduler_name for profile in config.profiles]
    assert lease == config.leader_election.resource_name


def test_chart_values_reach_the_manifests():
    values = {
        "profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}],
        "podDisruptionBudget": False,
        "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {"role": "control"},
        "image": {"tag": "9"},
    }
    items = chart_documents(values)
    spec = of_kind(items, "Deployment")[0]["spec"]["template"]["spec"]

    assert [] == of_kind(items, "PodDisruptionBudget")
    assert [{"operator": "Exists"}] == spec["tolerations"]
    assert spec["nodeSelector"] == {"role": "control"}
    assert spec["containers"][0]["image"] == "bayplan:9"
    config = load(of_kind(items, "ConfigMap")[0]["data"]["config.yaml"]).config
    assert ["a", "b"] == [profile.scheduler_name for profile in config.profiles]


@pytest.mark.parametrize("name", SETS)
def test_containers_are_locked_down(name):
    for item in SETS[name]:
        if item["kind"] not in ("Deployment", "Pod"):
            continue
        pod = item["spec"]["template"]["spec"] if item["kind"] == "Deployment" else item["spec"]
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
        assert item["kind"] == "Pod" or pod["securityContext"]["runAsNonRoot"] is True


def test_rights_are_least():
    """No wildcard, no secrets, writes only where a scheduler writes."""
    (role,) = of_kind(SETS["install.yaml"], "ClusterRole")
    writes = set()
    for rule in role["rules"]:
        assert "*" not in [*rule["resources"], *rule["verbs"], *rule["apiGroups"]]
        for verb in set(rule["verbs"]) - {"get", "list", "watch"}:
            writes |= {(verb, resource) for resource in rule["resources"]}
    assert "secrets" not in {resource for rule in role["rules"] for resource in rule["resources"]}
    assert writes == {
        ("delete", "pods"),
        ("create", "pods/binding"),
        ("patch", "pods/status"),
        ("create", "events"),
        ("patch", "events"),
        ("patch", "persistentvolumes"),
        ("patch", "persistentvolumeclaims"),
        ("create", "resourceclaims"),
        ("patch", "resourceclaims"),
        ("delete", "resourceclaims"),
        ("patch", "resourceclaims/status"),
        ("patch", "resourceclaims/binding"),
        ("create", "tokenreviews"),
        ("create", "subjectaccessreviews"),
    }


def test_chart_and_plain_manifests_ask_for_the_same_rights():
    plain = of_kind(SETS["install.yaml"], "ClusterRole")[0]["rules"]

    assert plain == of_kind(SETS["chart, second scheduler"], "ClusterRole")[0]["rules"]


def test_arguments_are_flags_that_the_scheduler_knows(tmp_path):
    for items in SETS.values():
        for item in items:
            if item["kind"] == "Deployment":
                command, *arguments = item["spec"]["template"]["spec"]["containers"][0]["args"]
            elif item["kind"] == "Pod":
                command, *arguments = item["spec"]["containers"][0]["command"][1:]
            else:
                continue
            values = parse(arguments)
            assert command == "scheduler"
            assert [] == values.without_meaning()
            if not values.text("config"):
                load_options(values)


def test_install_yaml_is_the_base_in_one_file():
    listed = yaml.safe_load((DEPLOY / "base" / "kustomization.yaml").read_text())["resources"]
    base = [item for name in listed for item in documents((DEPLOY / "base" / name).read_text())]

    assert base == SETS["install.yaml"], "run hack/render-install"


def test_dockerfile_runs_without_root():
    text = (DEPLOY / "Dockerfile").read_text()

    assert re.search(r"^USER 65532:65532$", text, re.MULTILINE)
    assert "slim" in text.split("AS build")[1]


@pytest.mark.skipif(shutil.which("helm") is None, reason="no helm here")
@pytest.mark.parametrize("values", [SECOND, DEFAULT])
def test_helm_renders_the_same(values):
    flags = [f"--set={key}={value}" for key, value in values.items()]
    command = ["helm", "template", "bayplan", str(CHART), "-n", "kube-system", *flags]
    command += ["--kube-version", "1.36.0"]  # a helm built from its module believes in 1.20
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def order(item):
        return item["kind"], item["metadata"]["name"]

    ours, theirs = (
        sorted(items, key=order) for items in (chart_documents(values), documents(text))
    )
    for item in (*ours, *theirs):
        if item["kind"] == "Deployment":
            item["spec"]["template"]["metadata"].pop("annotations")
    assert ours == theirs


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")
@pytest.mark.parametrize(
    ("folder", "lease"),
    [("base", "bayplan-scheduler"), ("overlays/default-scheduler", "kube-scheduler")],
)
def test_kustomize_builds(folder, lease):
    command = ["kubectl", "kustomize", str(DEPLOY / folder)]
    items = documents(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    (config_map,) = of_kind(items, "ConfigMap")
    (role,) = of_kind(items, "Role")
    assert load(config_map["data"]["config.yaml"]).config.leader_election.resource_name == lease
    assert [lease] == role["rules"][1]["resourceNames"]

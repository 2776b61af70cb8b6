"""What must hold for a set of our manifests, however it was rendered."""

from pathlib import Path

import yaml

from bayplan.api import schema
from bayplan.config import KubeSchedulerConfiguration, load
from bayplan.scheduler.flags import parse
from bayplan.scheduler.options import load_options

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "bayplan-scheduler"
FOREIGN = {"ServiceMonitor"}  # kinds of other projects


def documents(text: str) -> list[dict]:
    return [item for item in yaml.safe_load_all(text) if item]


def of_kind(items: list[dict], kind: str) -> list[dict]:
    return [item for item in items if item["kind"] == kind]


def configuration(items: list[dict]) -> KubeSchedulerConfiguration:
    """The scheduler's configuration, validated."""
    texts = [
        i["data"]["config.yaml"] for i in of_kind(items, "ConfigMap") if "config.yaml" in i["data"]
    ]
    (text,) = texts
    return load(text).config


def check_schema(items: list[dict]) -> None:
    for item in items:
        if item["kind"] in FOREIGN:
            continue
        type_ = schema.type_for(item["apiVersion"], item["kind"])
        assert type_ is not None, item["kind"]
        assert [] == schema.unknown_fields(type_, item)
        schema.decode(item, type_)


def check_references(items: list[dict]) -> None:
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


def check_lease(items: list[dict]) -> None:
    (role,) = of_kind(items, "Role")
    election = configuration(items).leader_election

    assert [election.resource_name] == role["rules"][1]["resourceNames"]
    assert election.resource_namespace == role["metadata"]["namespace"]


def check_containers(items: list[dict]) -> None:
    for item in items:
        if item["kind"] not in ("Deployment", "Pod"):
            continue
        pod = item["spec"]["template"]["spec"] if item["kind"] == "Deployment" else item["spec"]
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
        assert item["kind"] == "Pod" or pod["securityContext"]["runAsNonRoot"] is True


def check_arguments(items: list[dict]) -> None:
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

"""The manifests parse, fit the API's schema, refer to each other rightly, and ask for little.

The chart is rendered by the real helm in tests/kube/test_deploy.py.
"""

import re
import shutil
import subprocess

import pytest
import yaml

from tests.deploy import checks
from tests.deploy.checks import DEPLOY, configuration, documents, of_kind

SETS = {
    "install.yaml": documents((DEPLOY / "install.yaml").read_text()),
    "static pod": documents((DEPLOY / "static-pod" / "kube-scheduler.yaml").read_text()),
}


@pytest.mark.parametrize("name", SETS)
def test_objects_fit_the_schema(name):
    checks.check_schema(SETS[name])


def test_references_meet():
    checks.check_references(SETS["install.yaml"])


def test_the_configuration_is_valid_and_its_lease_allowed():
    checks.check_lease(SETS["install.yaml"])


@pytest.mark.parametrize("name", SETS)
def test_containers_are_locked_down(name):
    checks.check_containers(SETS[name])


@pytest.mark.parametrize("name", SETS)
def test_arguments_are_flags_that_the_scheduler_knows(name):
    checks.check_arguments(SETS[name])


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
        ("patch", "podgroups/status"),
        ("patch", "resourceclaims/status"),
        ("patch", "resourceclaims/binding"),
        ("create", "tokenreviews"),
        ("create", "subjectaccessreviews"),
    }


def test_install_yaml_is_the_base_in_one_file():
    listed = yaml.safe_load((DEPLOY / "base" / "kustomization.yaml").read_text())["resources"]
    base = [item for name in listed for item in documents((DEPLOY / "base" / name).read_text())]

    assert base == SETS["install.yaml"], "run hack/render-install"


def test_dockerfile_runs_without_root():
    text = (DEPLOY / "Dockerfile").read_text()

    assert re.search(r"^USER 65532:65532$", text, re.MULTILINE)
    assert "slim" in text.split("AS build")[1]


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")
@pytest.mark.parametrize(
    ("folder", "lease"),
    [("base", "bayplan-scheduler"), ("overlays/default-scheduler", "kube-scheduler")],
)
def test_kustomize_builds(folder, lease):
    command = ["kubectl", "kustomize", str(DEPLOY / folder)]
    items = documents(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    (role,) = of_kind(items, "Role")
    assert configuration(items).leader_election.resource_name == lease
    assert [lease] == role["rules"][1]["resourceNames"]

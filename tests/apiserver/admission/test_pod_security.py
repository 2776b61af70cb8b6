"""What Pod Security refuses, warns of and lets pass.

`tests/kube/test_pod_security.py` compares the same messages with the real kube-apiserver.
"""

import json
from pathlib import Path

import pytest

from bayplan.apiserver.admission import CREATE, UPDATE, AdmissionError, Attributes
from bayplan.apiserver.admission.podsecurity import check_pod_security
from tests.apiserver.admission.pods_security import GOOD, PODS, spec

RECORDED = json.loads((Path(__file__).parent / "pod_security.json").read_text())


class Namespace:
    """A reader of one namespace with these labels."""

    def __init__(self, **levels):
        self.labels = {
            f"pod-security.kubernetes.io/{mode}": level for mode, level in levels.items()
        }

    def get(self, group, resource, namespace, name):
        return {"metadata": {"name": name, "labels": self.labels}}

    def list(self, group, resource, namespace=""):
        return []


def write(pod, **more):
    obj = {"metadata": {"name": "p"}, "spec": pod}
    given = {"operation": CREATE, "group": "", "version": "v1", "resource": "pods", **more}
    return Attributes(**{"namespace": "n", "name": "p", "obj": obj, **given})


@pytest.mark.parametrize("level", ["baseline", "restricted"])
@pytest.mark.parametrize("name", PODS)
def test_pods_are_judged_as_recorded(level, name):
    message = ""
    try:
        check_pod_security(write(PODS[name]), Namespace(enforce=level))
    except AdmissionError as error:
        message = str(error)

    assert RECORDED[level][name] == message


def test_a_level_that_only_warns_lets_pass():
    attrs = write(PODS["host namespaces"])

    check_pod_security(attrs, Namespace(warn="baseline"))

    assert [
        'would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true, '
        "hostPID=true)"
    ] == attrs.warnings


def test_templates_are_warned_of_and_never_refused():
    template = {"spec": {"template": {"spec": PODS["plain"]}}}
    attrs = write({}, group="apps", resource="deployments", obj=template)

    check_pod_security(attrs, Namespace(enforce="restricted", warn="restricted"))

    assert attrs.warnings[0].startswith('would violate PodSecurity "restricted:latest": allow')


def test_an_update_that_leaves_the_spec_alone_is_not_judged():
    stored = {"metadata": {"name": "p"}, "spec": PODS["plain"]}
    attrs = write(PODS["plain"], operation=UPDATE, old=stored)

    check_pod_security(attrs, Namespace(enforce="restricted"))


def test_an_ephemeral_container_is_judged():
    bad = spec(GOOD, ephemeralContainers=[{"name": "e", "image": "i"}])
    attrs = write(bad, operation=UPDATE, subresource="ephemeralcontainers")

    with pytest.raises(AdmissionError, match='container "e"'):
        check_pod_security(attrs, Namespace(enforce="restricted"))

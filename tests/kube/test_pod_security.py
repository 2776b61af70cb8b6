"""Pods that a namespace does not allow are refused and warned of in the real server's words."""

from __future__ import annotations

import contextlib

import pytest

from bayplan.testing.servers import start_embedded, start_kube
from tests.apiserver.admission.pods_security import PODS
from tests.kube.twins import Connection

pytestmark = pytest.mark.kube


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        clusters = (
            stack.enter_context(start_kube(tmp_path_factory.mktemp("kube"))),
            stack.enter_context(start_embedded(tmp_path_factory.mktemp("ours"))),
        )
        made = [Connection(cluster) for cluster in clusters]
        for connection in made:
            for level in ("baseline", "restricted"):
                labels = {"pod-security.kubernetes.io/enforce": level}
                body = {"metadata": {"name": level, "labels": labels}}
                connection.ask("POST", "/api/v1/namespaces", body)
                account = {"metadata": {"name": "default"}}
                path = f"/api/v1/namespaces/{level}/serviceaccounts"
                connection.ask("POST", path, account)
        yield made
        for connection in made:
            connection.close()


# The real server runs without --allow-privileged here and refuses these before.
ASKED = [name for name in PODS if name not in ("privileged", "host process")]


@pytest.mark.parametrize("level", ["baseline", "restricted"])
@pytest.mark.parametrize("name", ASKED)
def test_pods_are_judged_alike(pair, level, name):
    body = {"metadata": {"name": "p"}, "spec": PODS[name]}
    path = f"/api/v1/namespaces/{level}/pods?dryRun=All"

    kube, ours = (connection.ask("POST", path, body) for connection in pair)

    assert (kube[0], kube[1].get("message")) == (ours[0], ours[1].get("message"))

"""Fields behind a gate that is off: the real server and ours keep and drop the same."""

import pytest

from bayplan.conformance.fuzz import minor
from bayplan.testing.servers import kube_version, start_embedded, start_kube
from tests.apiserver.test_gated_fields import GROUP, STOP, pod
from tests.kube.twins import Connection, without_managers

pytestmark = pytest.mark.kube
PROJECTED = {
    "sources": [
        {"clusterTrustBundle": {"name": "b", "path": "ca"}},
        {"podCertificate": {"signerName": "a.b/c", "keyType": "ED25519", "keyPath": "k"}},
    ]
}
SELECTED = {"matchLabels": {"a": "b"}}
TEMPLATE = {**pod(**GROUP), "metadata": {"labels": {"a": "b"}}}
ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
DEVICE = {
    "name": "d",
    "attributes": {"one": {"int": 1}, "many": {"ints": [1, 2]}},
    "taints": [{"key": "k", "effect": "NoSchedule"}],
}


def named(name, **spec):
    return {"metadata": {"name": name}, "spec": spec}


def bodies():
    """Path and object of everything that is made."""
    spaced = "namespaces/default"
    source = {"kind": "PersistentVolumeClaim", "name": "a", "namespace": "b"}
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    lease = {"strategy": "OldestEmulationVersion", "preferredHolder": "x"}
    yield f"/api/v1/{spaced}/pods", pod("group", **GROUP)
    yield f"/api/v1/{spaced}/pods", pod("stop", STOP)
    yield (
        f"/api/v1/{spaced}/pods",
        pod("projected", volumes=[{"name": "v", "projected": PROJECTED}]),
    )
    yield (
        f"/apis/apps/v1/{spaced}/deployments",
        named("d", selector=SELECTED, template=TEMPLATE),
    )
    for name, more in (("s", {}), ("t", {"updateStrategy": ROLLING})):
        body = named(name, serviceName="s", selector=SELECTED, template=TEMPLATE, **more)
        yield f"/apis/apps/v1/{spaced}/statefulsets", body
    yield f"/api/v1/{spaced}/persistentvolumeclaims", named("c", dataSourceRef=source, **size)
    yield f"/apis/coordination.k8s.io/v1/{spaced}/leases", named("l", **lease)
    yield "/apis/storage.k8s.io/v1/csidrivers", named("e", preventPodSchedulingIfMissing=True)
    yield "/apis/storage.k8s.io/v1/csidrivers", named("f")
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    yield (
        "/apis/resource.k8s.io/v1/resourceslices",
        named("r", driver="a.b", nodeName="n", pool=pool, devices=[DEVICE]),
    )


def answers(server):
    for path, body in bodies():
        status, found = server.ask("POST", path, body)
        if status == 422:
            yield path, body["metadata"]["name"], found["message"]
        else:
            assert status == 201, found
            yield path, body["metadata"]["name"], without_managers(found)["spec"]


@pytest.mark.parametrize("gates", ["", "DRADeviceTaints=false,DRADeviceTaintRules=false"])
def test_both_servers_drop_the_same(tmp_path, gates):
    version = minor(kube_version())
    flags = [f"--feature-gates={gates}"] if gates else []
    with (
        start_kube(flags=flags) as real,
        start_embedded(tmp_path, f"--emulated-version={version}", *flags) as ours,
    ):
        found = []
        for server in (Connection(real), Connection(ours)):
            found.append(list(answers(server)))
            server.close()

    assert found[0] == found[1]

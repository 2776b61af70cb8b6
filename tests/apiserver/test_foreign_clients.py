"""Clients that were not written for this server: the official one, kr8s and kopf.

They run against `bayplan apiserver` as a program of its own, over TLS, with the kubeconfig that it
writes.
"""

import subprocess
import sys
import textwrap
import threading
import time

import kr8s
import pytest
from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException

from bayplan.testing.servers import start_embedded
from tests.definitions import definition

NAMESPACE = "default"
# What other people's libraries leave open or think of this Kubernetes version is not our business.
pytestmark = [
    pytest.mark.xdist_group("foreign-clients"),
    pytest.mark.filterwarnings("ignore:Kubernetes version"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with start_embedded(tmp_path_factory.mktemp("foreign")) as started:
        yield started


@pytest.fixture
def core(cluster):
    with config.new_client_from_config(str(cluster.kubeconfig)) as api:
        yield client.CoreV1Api(api)


def pod(name, **labels):
    container = client.V1Container(name="c", image="registry.example/app:1")
    metadata = client.V1ObjectMeta(name=name, labels=labels or None)
    return client.V1Pod(metadata=metadata, spec=client.V1PodSpec(containers=[container]))


def test_official_client_creates_lists_and_patches(core):
    core.create_namespaced_pod(NAMESPACE, pod("off-1", app="off"))
    core.patch_namespaced_pod("off-1", NAMESPACE, {"metadata": {"labels": {"new": "yes"}}})

    found = core.list_namespaced_pod(NAMESPACE, label_selector="app=off,new").items

    assert ["off-1"] == [item.metadata.name for item in found]
    assert "Pending" == found[0].status.phase
    assert found[0].metadata.creation_timestamp is not None


def test_official_client_reads_errors(core):
    with pytest.raises(ApiException) as raised:
        core.read_namespaced_pod("nobody", NAMESPACE)

    assert (404, "Not Found") == (raised.value.status, raised.value.reason)


def test_official_client_pages(core):
    for number in range(5):
        core.create_namespaced_config_map(
            NAMESPACE, {"metadata": {"name": f"page-{number}", "labels": {"page": "x"}}}
        )

    names, token = [], None
    while True:
        found = core.list_namespaced_config_map(
            NAMESPACE, limit=2, _continue=token, label_selector="page=x"
        )
        names += [item.metadata.name for item in found.items]
        token = found.metadata._continue
        if not token:
            break

    assert [f"page-{number}" for number in range(5)] == names


def test_official_client_watches(core):
    version = core.list_namespaced_pod(NAMESPACE).metadata.resource_version
    seen = []
    watcher = watch.Watch()

    def change():
        core.create_namespaced_pod(NAMESPACE, pod("watched"))
        core.patch_namespaced_pod("watched", NAMESPACE, {"metadata": {"labels": {"a": "b"}}})
        core.delete_namespaced_pod("watched", NAMESPACE)

    thread = threading.Thread(target=change)
    thread.start()
    for event in watcher.stream(
        core.list_namespaced_pod, NAMESPACE, resource_version=version, timeout_seconds=20
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if event["type"] == "DELETED":
            watcher.stop()
    thread.join()

    expected = ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    assert [(kind, "watched") for kind in expected] == seen


ELECTION = """
    import sys
    from kubernetes import config
    from kubernetes.leaderelection import electionconfig, leaderelection
    from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

    config.load_kube_config(sys.argv[1])
    settings = electionconfig.Config(
        LeaseLock("election", "default", "candidate-1"),
        lease_duration=17,
        renew_deadline=15,
        retry_period=5,
        onstarted_leading=lambda: print("leading", flush=True),
        onstopped_leading=lambda: None,
    )
    leaderelection.LeaderElection(settings).run()
"""


def test_official_client_elects_a_leader(cluster, core):
    """In a process of its own: an elected leader never stops."""
    command = [sys.executable, "-c", textwrap.dedent(ELECTION), str(cluster.kubeconfig)]
    candidate = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        lines = iter(candidate.stdout.readline, "")
        assert "leading" in next(line.strip() for line in lines if "leading" in line)
        leases = client.CoordinationV1Api(core.api_client)
        lease = leases.read_namespaced_lease("election", NAMESPACE)
    finally:
        candidate.kill()
        candidate.communicate(timeout=60)

    assert "candidate-1" in str(lease.spec.holder_identity)


async def test_kr8s_creates_watches_and_deletes(cluster):
    api = await kr8s.asyncio.api(kubeconfig=str(cluster.kubeconfig))
    made = await kr8s.asyncio.objects.Pod(
        {
            "metadata": {"name": "kr8s", "namespace": NAMESPACE},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
        api=api,
    )
    await made.create()
    await made.label({"by": "kr8s"})
    found = [item async for item in api.get("pods", namespace=NAMESPACE, label_selector="by=kr8s")]
    await made.delete()
    await made.wait("delete", timeout=60)

    assert ["kr8s"] == [item.name for item in found]


OPERATOR = """
    import kopf

    @kopf.on.startup()
    def configure(settings, **_):
        settings.posting.enabled = True

    @kopf.on.create("boats.example.com")
    def launch(spec, name, **_):
        return {"launched": f"{name} with {spec['masts']} masts"}

    @kopf.on.delete("boats.example.com")
    def scrap(name, **_):
        print(f"scrapped {name}", flush=True)
"""
DEFINITION = definition(
    "boats",
    properties={
        "spec": {
            "type": "object",
            "properties": {"masts": {"type": "integer", "default": 3}},
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
    names={"singular": "boat"},
    subresources={"status": {}},
)
BOATS = {"group": "example.com", "version": "v1", "plural": "boats", "namespace": NAMESPACE}


def until(read, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := read():
            return found
        time.sleep(0.1)
    raise AssertionError("it did not happen in time")


def test_a_kopf_operator_works(cluster, core, tmp_path):
    """It writes status, holds objects back by a finalizer, and lets them go."""
    module = tmp_path / "operator.py"
    module.write_text(textwrap.dedent(OPERATOR), "utf-8")
    definitions = client.ApiextensionsV1Api(core.api_client)
    boats = client.CustomObjectsApi(core.api_client)
    definitions.create_custom_resource_definition(DEFINITION)
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "-A", str(module)]
    environment = {"KUBECONFIG": str(cluster.kubeconfig), "PATH": "/usr/bin:/bin"}
    operator = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        body = {
            "apiVersion": "example.com/v1",
            "kind": "Boat",
            "metadata": {"name": "argo"},
            "spec": {},
        }
        boats.create_namespaced_custom_object(**BOATS, body=body)

        def status():
            found = boats.get_namespaced_custom_object(**BOATS, name="argo")
            return (found.get("status") or {}).get("launch")

        launched = until(status)
        boats.delete_namespaced_custom_object(**BOATS, name="argo")
        until(lambda: not boats.list_namespaced_custom_object(**BOATS)["items"])
    finally:
        operator.terminate()
        output, _ = operator.communicate(timeout=60)

    assert {"launched": "argo with 3 masts"} == launched
    assert "scrapped argo" in output

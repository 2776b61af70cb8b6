"""Dumps as people have them: odd, edited, mixed, of other versions; one object never hides all."""

import json

import pytest
import yaml
from click.testing import CliRunner

from bayplan.cli.main import bayplan
from bayplan.inspect import Cluster
from bayplan.inspect.kinds import KINDS
from bayplan.inspect.sources.gather import Gathering
from bayplan.inspect.sources.snapshot import write_snapshot
from bayplan.testing.builders import make_node, make_pod

NODE = make_node("one").capacity(cpu=2, memory="4Gi", pods=10)
MEMBER = {"name": "x", "namespace": "default"}


def bodies():
    return [NODE.body(), make_pod("fits").req(cpu="1").body(), make_pod("big").req(cpu="3").body()]


def left_out(cluster):
    return " ".join(item.why for item in cluster.origin.unread)


def pod_with(requests):
    body = make_pod("odd").body()
    body["spec"]["containers"][0]["resources"] = {"requests": requests}
    return body


def node_with(allocatable):
    body = make_node("odd").body()
    body["status"]["allocatable"] = allocatable
    return body


def of(kind, version="v1", **fields):
    return {"apiVersion": version, "kind": kind, "metadata": dict(MEMBER), **fields}


UNREADABLE = [
    pytest.param(
        pod_with({"cpu": "lots"}),
        'pod "default/odd": spec.containers[0].resources.requests[cpu]: parsing quantity "lots"',
        id="a pod's request",
    ),
    pytest.param(
        node_with({"cpu": "4 cores"}), 'node "odd": status.allocatable[cpu]', id="a node's room"
    ),
    pytest.param(
        of("PersistentVolume", spec={"capacity": {"storage": "big"}}),
        'persistentvolume "x": spec.capacity[storage]',
        id="a volume's size",
    ),
    pytest.param(
        of("ResourceQuota", status={"hard": {"pods": "many"}}),
        'resourcequota "default/x": status.hard[pods]',
        id="a quota",
    ),
    pytest.param(
        of("CSIStorageCapacity", "storage.k8s.io/v1", capacity="some"),
        'csistoragecapacity "default/x": capacity: parsing quantity "some"',
        id="a capacity",
    ),
    pytest.param(
        of("Pod", spec={"containers": "none"}), "spec.containers", id="a field of the wrong type"
    ),
    pytest.param(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {}}, "without a name", id="no name"
    ),
    pytest.param(
        of("ResourceSlice", "resource.k8s.io/v1beta1"),
        "a ResourceSlice of resource.k8s.io/v1beta1 (only v1 is understood)",
        id="a version of another shape",
    ),
]


@pytest.mark.parametrize(("odd", "text"), UNREADABLE)
def test_what_cannot_be_read_is_left_out_and_named_in_every_answer(odd, text, tmp_path):
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*bodies(), odd]}))

    for cluster in (Cluster.from_objects([*bodies(), odd]), Cluster.from_files(path)):
        assert text in left_out(cluster)
        answer = cluster.why_pending()
        assert ["default/big", "default/fits"] == sorted(item.pod for item in answer.pods)
        assert (1, answer.unread) == (answer.nodes, cluster.origin.unread)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.plural)
def test_every_amount_of_every_kind_is_known_by_its_type(kind):
    """A kind whose fields cannot be told apart would let an amount through."""
    gathering = Gathering()
    api_version = kind.resource.api_version
    gathering.add(of(kind.resource.kind, api_version, reason="FailedScheduling"))

    assert set(kind.structs) == set(gathering.objects)


def test_items_of_a_list_that_are_no_objects_are_named(tmp_path):
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": [*bodies(), None, 5, {"kind": 7}]}))

    cluster = Cluster.from_files(path)

    assert 2 == len(cluster.pods)
    assert "3 object(s)" == cluster.origin.unread[0].what


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(of("Node", "config.openshift.io/v1"), id="OpenShift's Node"),
        pytest.param(of("Service", "serving.knative.dev/v1"), id="Knative's Service"),
        pytest.param(of("Job", "batch.volcano.sh/v1alpha1"), id="Volcano's Job"),
        pytest.param(of("PodGroup", "scheduling.x-k8s.io/v1alpha1"), id="another PodGroup"),
    ],
)
def test_kinds_of_other_groups_are_not_taken_for_kubernetes_own(other):
    cluster = Cluster.from_objects([*bodies(), other])

    assert ["one"] == list(cluster.nodes)
    assert () == cluster.origin.unread
    assert {"Node", "Pod"} == {kind.KIND for kind in cluster.objects}


def test_a_mixed_list_of_kubectl_in_yaml(tmp_path):
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": bodies()}))

    assert ["default/big", "default/fits"] == list(Cluster.from_files(path).pods)


@pytest.mark.parametrize("separator", ["\n", "\n\n"], ids=["lines", "lines apart"])
def test_json_documents_one_a_line(separator, tmp_path):
    path = tmp_path / "all.jsonl"
    path.write_text(separator.join(json.dumps(item) for item in bodies()))

    assert 2 == len(Cluster.from_files(path).pods)


def test_manifests_without_a_namespace_are_of_the_default_one(tmp_path):
    path = tmp_path / "all.yaml"
    body = make_pod("fresh").body()
    del body["metadata"]["namespace"]
    path.write_text(yaml.safe_dump_all([NODE.body(), body]))

    assert "fits" == Cluster.from_files(path).why("fresh").state


def test_a_pod_that_was_copied_with_its_uid_counts_as_another():
    first = make_pod("first").uid("same").req(cpu="1").node("one").body()
    second = make_pod("second").uid("same").req(cpu="1").node("one").body()
    cluster = Cluster.from_objects([NODE.body(), first, second, make_pod("w").req(cpu="1").body()])

    assert "0/1 nodes are available: 1 Insufficient cpu." in cluster.why("w").message


def test_fields_of_a_newer_version_are_passed_over():
    body = make_pod("newer").req(cpu="3").body()
    body["spec"]["quantumAffinity"] = {"spin": ["up"]}
    body["spec"]["containers"][0]["fromTheFuture"] = 1
    body["status"] = {"phase": "Pending", "vibes": {"good": True}}

    assert "1 Insufficient cpu" in Cluster.from_objects([NODE.body(), body]).why("newer").message


def test_a_snapshot_gives_back_what_was_saved(tmp_path):
    """Pods are kept as rows over shared parts; nothing of them may get lost on the way."""
    pods = [
        make_pod(f"p{number}").label(app="web").priority(number % 2).node("one" if number else "")
        for number in range(5)
    ]
    documents = [pod.body() for pod in pods]
    for number, document in enumerate(documents):
        document["metadata"] |= {
            "finalizers": ["a/b"],
            "generation": number,
            "resourceVersion": str(number),
            "creationTimestamp": f"2026-01-01T00:00:0{number}Z",
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "u"}],
        }
        document["status"] = {
            "phase": "Running",
            "startTime": f"2026-01-01T00:00:0{number}Z",
            "conditions": [{"type": "Ready", "status": "True"}],
        }
    documents[0]["status"] = {"phase": "Pending", "nominatedNodeName": "one"}
    cluster = Cluster.from_objects([NODE.body(), *documents])
    path = tmp_path / "cluster.bayplan"
    write_snapshot(cluster, path)

    assert cluster.objects == Cluster.from_files(path).objects


def test_no_pending_pod_is_not_the_whole_answer_where_pods_could_not_be_read(tmp_path):
    file = tmp_path / "cluster.json"
    waits = make_pod("waits").req(cpu="1").body()
    waits["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "lots"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [NODE.body(), waits]}))

    shown = CliRunner().invoke(bayplan, ["why", "--pending", "--from", str(file)]).stdout

    assert shown.startswith("No pod is pending.\n\nCould not be read, so the answer may lack")
    assert 'pod "default/waits"' in shown

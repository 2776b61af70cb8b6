"""A cluster is read from structs, plain data, files, dumps and snapshots, and says the same."""

import gzip
import json

import pytest
import yaml

from bayplan.api import Node, PersistentVolumeClaim, Pod, StorageClass
from bayplan.inspect import Cluster, Origin, SourceError, UnknownObject
from bayplan.inspect.objects import Deployment, Event, StatefulSetOwner
from bayplan.inspect.sources.scrub import scrubbed
from bayplan.inspect.sources.snapshot import write_snapshot
from bayplan.inspect.why.manifest import read_pods
from bayplan.testing.builders import make_node, make_pod

SECRET = "hunter2-planted"


def bodies():
    web = make_pod("web-1").req(cpu="3").body()
    web["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": SECRET}]
    web["spec"]["containers"][0]["command"] = ["serve", f"--password={SECRET}"]
    web["metadata"]["annotations"] = {"note": SECRET}
    web["metadata"]["managedFields"] = [{"manager": SECRET}]
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "annotations": {"a": SECRET}},
        "spec": {
            "replicas": 2,
            "template": {
                "metadata": {"annotations": {"a": SECRET}},
                "spec": {"containers": [{"name": "c", "env": [{"value": SECRET}]}]},
            },
        },
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default"},
        "stringData": {"password": SECRET},
    }
    failed = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e1", "namespace": "default"},
        "reason": "FailedScheduling",
        "message": "0/2 nodes are available: 2 Insufficient cpu.",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web-1"},
    }
    pulled = {**failed, "metadata": {"name": "e2", "namespace": "default"}, "reason": "Pulled"}
    return [
        make_node("a").capacity(cpu=2, memory="4Gi", pods=10).body(),
        make_node("b").capacity(cpu=1, memory="4Gi", pods=10).body(),
        make_pod("placed").req(cpu="1").node("a").body(),
        web,
        deployment,
        secret,
        failed,
        pulled,
    ]


def as_list(kind, items):
    return {"apiVersion": "v1", "kind": kind, "items": items}


def write_json(tmp_path):
    path = tmp_path / "all.json"
    path.write_text(json.dumps(as_list("List", bodies()), indent=2))
    return path


def write_yaml(tmp_path):
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump_all(bodies()))
    return path


def write_stream(tmp_path):
    """What `kubectl cluster-info dump` prints: documents between logs."""
    path = tmp_path / "dump.txt"
    nodes = [item for item in bodies() if item["kind"] == "Node"]
    rest = [item for item in bodies() if item["kind"] != "Node"]
    path.write_text(
        json.dumps(as_list("NodeList", nodes), indent=4)
        + "\n==== START logs for container c of pod default/web-1 ====\n{ not json\n"
        + "==== END logs for container c of pod default/web-1 ====\n"
        + json.dumps(as_list("List", rest), indent=4)
    )
    return path


def write_folder(tmp_path):
    """A must-gather: one file an object, lists without kinds of items, logs beside."""
    root = tmp_path / "must-gather"
    for item in bodies():
        namespace = item["metadata"].get("namespace")
        folder = root / (f"namespaces/{namespace}/core" if namespace else "cluster-scoped")
        folder.mkdir(parents=True, exist_ok=True)
        if item["kind"] == "Pod":
            continue
        (folder / f"{item['metadata']['name']}.yaml").write_text(yaml.safe_dump(item))
    pods = [{k: v for k, v in item.items() if k != "kind"} for item in bodies()
            if item["kind"] == "Pod"]  # fmt: skip
    (root / "namespaces/default/core/pods.yaml").write_text(
        yaml.safe_dump(as_list("PodList", pods))
    )
    (root / "namespaces/default/core/c.log").write_text("x")
    (root / "broken.yaml").write_text("a: [")
    return root


def write_saved(tmp_path):
    path = tmp_path / "cluster.bayplan"
    write_snapshot(Cluster.from_objects(bodies()), path)
    return path


SOURCES = [write_json, write_yaml, write_stream, write_folder, write_saved]


@pytest.mark.parametrize("write", SOURCES, ids=lambda write: write.__name__)
def test_every_source_gives_the_same_cluster(write, tmp_path):
    cluster = Cluster.from_files(write(tmp_path))

    assert ["a", "b"] == sorted(cluster.nodes)
    assert ["default/placed", "default/web-1"] == sorted(cluster.pods)
    assert 2 == cluster.of(Deployment)["default/web"].wanted
    assert ["FailedScheduling"] == [event.reason for event in cluster.of(Event).values()]
    said = cluster.decide(cluster.pod("web-1")).message
    assert said.startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_a_broken_file_in_a_folder_is_named_not_fatal(tmp_path):
    cluster = Cluster.from_files(write_folder(tmp_path))

    assert ["broken.yaml"] == [item.what.rsplit("/", 1)[-1] for item in cluster.origin.unread]


def test_a_snapshot_holds_nothing_secret(tmp_path):
    path = write_saved(tmp_path)

    content = gzip.decompress(path.read_bytes())
    assert SECRET.encode() not in content
    assert b"Secret" not in content


def test_a_snapshot_that_was_cut_off_is_refused(tmp_path):
    path = write_saved(tmp_path)
    whole = path.read_bytes()
    lines = gzip.decompress(whole).splitlines(keepends=True)
    short = tmp_path / "short.bayplan"
    damaged = tmp_path / "damaged.bayplan"
    newer = tmp_path / "newer.bayplan"
    path.write_bytes(whole[: len(whole) // 2])
    short.write_bytes(gzip.compress(b"".join(lines[:-1])))
    damaged.write_bytes(gzip.compress(b"".join([lines[0], b'{"struct":"Pod","items":[{]}\n'])))
    newer.write_bytes(lines[0].replace(b'"bayplanSnapshot":2', b'"bayplanSnapshot":99'))

    for file, text in (
        (path, "damaged or cut off"),
        (short, "cut off after"),
        (damaged, "line 2"),
        (newer, "install a newer Bayplan"),
    ):
        with pytest.raises(SourceError, match=text):
            Cluster.from_files(file)


def test_a_file_that_unpacks_to_more_than_any_cluster_is_refused(tmp_path):
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b"\0" * (32 << 20)))

    with pytest.raises(SourceError, match=r"bomb\.json\.gz\": the unpacked body is larger than"):
        Cluster.from_files(path)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(b"", "no Kubernetes object", id="empty"),
        pytest.param(b"hello", "expected objects, found text", id="prose"),
        pytest.param(b"\x00\xff\xfe", "reading", id="binary"),
        pytest.param(b'{"kind": "Pod"', "decoding JSON", id="cut JSON"),
        pytest.param(b"kind: Pod\nmetadata: {name: [", "yaml: line", id="cut YAML"),
        pytest.param(b"NAME READY\nweb: 1/1: Running", "yaml: line 2", id="a table"),
        pytest.param(b"<html>401</html>", "expected objects, found text", id="a page"),
        pytest.param(b"kind: Secret", "no Kubernetes object", id="only a secret"),
    ],
)
def test_a_file_that_is_no_cluster_is_refused_in_one_line(content, text, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)

    with pytest.raises(SourceError, match=text) as caught:
        Cluster.from_files(path)
    assert "\n" not in str(caught.value)
    assert "give a snapshot (`bayplan snapshot save`), `kubectl get nodes,pods" in str(caught.value)


@pytest.mark.parametrize("content", ["kind: Pod\nspec: [", "hello", "kind: Secret", '{"kind": "Po'])
def test_a_manifest_that_is_none_names_the_file_and_the_remedy(content, tmp_path):
    path = tmp_path / "web.yaml"
    path.write_text(content)
    cluster = Cluster.from_objects([make_node("a").body()])

    for ask in (
        lambda: cluster.what_if(f"apply={path}"),
        lambda: read_pods(cluster, str(path)),
        lambda: cluster.capacity(str(path)),
    ):
        with pytest.raises(SourceError, match=r"web\.yaml.*kubectl apply --dry-run") as caught:
            ask()
        assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(SourceError, match=r'"nowhere\.json" does not exist'):
        Cluster.from_files("nowhere.json")


def test_near_names_are_given():
    cluster = Cluster.from_objects(bodies())

    with pytest.raises(UnknownObject, match="did you mean web-1"):
        cluster.pod("web-2")
    with pytest.raises(UnknownObject, match="did you mean default/web-1"):
        cluster.pod("other/web-1")
    with pytest.raises(UnknownObject, match="did you mean default/web"):
        cluster.owner("deploy", "web", "other")
    with pytest.raises(UnknownObject, match='deployment "wob"'):
        cluster.owner("deploy", "wob")


def test_structs_and_plain_data_may_be_mixed():
    cluster = Cluster.from_objects([make_node("a").build(), make_pod("p").body()])

    assert [Node, Pod] == [type(cluster.node("a")), type(cluster.pod("p"))]


@pytest.mark.parametrize(
    ("server", "version"),
    [
        pytest.param("v1.36.4", "1.36", id="a known version"),
        pytest.param("v1.36.4+bayplan-0.1.0", "1.36", id="our own server, told to be 1.36"),
        pytest.param("v1.37.0-rc.1+abc", "1.37", id="a pre-release"),
        pytest.param("v1.29.3-gke.100", "1.36", id="older than all: the oldest"),
        pytest.param("v1.99.0", "1.37", id="newer than all: the newest"),
        pytest.param("", "1.37", id="unknown: the newest"),
    ],
)
def test_the_version_of_the_server_decides_the_defaults(server, version):
    origin = Origin(version=server)
    cluster = Cluster.from_objects(bodies(), origin=origin)

    assert version == cluster.settings.gates.version


def test_scrubbing_keeps_what_volumes_say_about_themselves():
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data",
            "namespace": "shop",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes", "note": SECRET},
        },
        "spec": {"volumeName": "disk-7"},
    }
    class_ = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "fast",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "disks.example",
    }

    found = scrubbed(Cluster.from_objects([claim, class_]))

    [kept] = found.objects[PersistentVolumeClaim].values()
    assert kept.metadata.annotations == {"pv.kubernetes.io/bind-completed": "yes"}
    assert (kept.metadata.name, kept.metadata.namespace) != ("data", "shop")
    [default] = found.objects[StorageClass].values()
    assert default.metadata.annotations == {"storageclass.kubernetes.io/is-default-class": "true"}


def test_exactly_the_annotations_that_decisions_read_are_kept():
    from bayplan.inspect.objects import DELETION_COST
    from bayplan.inspect.sources.bare import KEPT_ANNOTATIONS
    from bayplan.inspect.whatif.owners import MIRROR
    from bayplan.inspect.why.families.provision import DEFAULT_CLASS
    from bayplan.plugins import csi_migration, volume_claims
    from bayplan.plugins.dynamic_resources import extended

    assert {
        DELETION_COST,
        MIRROR,
        DEFAULT_CLASS,
        extended.ANNOTATION,
        csi_migration.MIGRATED_PLUGINS,
        volume_claims.BETA_CLASS,
        volume_claims.BIND_COMPLETED,
        volume_claims.BOUND_BY_CONTROLLER,
        volume_claims.SELECTED_NODE,
    } == KEPT_ANNOTATIONS


def replicas(kind, count, **spec):
    held = {"kind": kind, "metadata": {"name": "db", "namespace": "default", "uid": "u"}}
    held["spec"] = {"replicas": count, **spec}
    return [held, *(_of(kind, number) for number in range(count))]


def _of(kind, number):
    pod = make_pod(f"db-{number}").req(cpu="1").node(f"node-{number % 2}")
    body = pod.owner(kind, "db", uid="u").body()
    body["metadata"]["annotations"] = {
        "controller.kubernetes.io/pod-deletion-cost": str(9 - number)
    }
    return body


def two_nodes():
    return [make_node(f"node-{i}").capacity(cpu=4, memory="8Gi", pods=10).body() for i in range(2)]


def test_a_snapshot_scales_down_as_its_source(tmp_path):
    """The cheapest pods go first."""
    cluster = Cluster.from_objects([*two_nodes(), *replicas("ReplicaSet", 4)])
    write_snapshot(cluster, tmp_path / "x.bayplan")
    saved = Cluster.from_files(tmp_path / "x.bayplan")

    assert ("default/db-2", "default/db-3") == saved.what_if("scale=rs/db=2").deleted
    assert cluster.what_if("scale=rs/db=2").deleted == saved.what_if("scale=rs/db=2").deleted


@pytest.mark.parametrize("policy", ["Parallel", "OrderedReady"])
def test_a_scrubbed_stateful_set_keeps_its_order_and_its_claims(policy):
    claims = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    objects = [*two_nodes(), *replicas("StatefulSet", 3, podManagementPolicy=policy)]
    objects[2]["spec"]["volumeClaimTemplates"] = claims
    for number, body in enumerate(objects[3:]):
        named = {"claimName": f"data-db-{number}"}
        body["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": named}]
        meta = {"name": f"data-db-{number}", "namespace": "default"}
        objects.append({"kind": "PersistentVolumeClaim", "metadata": meta, "spec": {}})
    cluster = Cluster.from_objects(objects)
    hidden = scrubbed(cluster)

    def told(asked):
        (name,) = {pod.controller.name for pod in asked.pods.values()}
        found = asked.what_if(f"scale=sts/{name}=1")
        return [key.rpartition("-")[2] for key in found.deleted], len(found.stuck)

    assert (["1", "2"], 0) == told(cluster)
    assert told(cluster) == told(hidden)
    for pod in hidden.pods.values():
        claim = pod.spec.volumes[0].persistent_volume_claim.claim_name
        assert f"{pod.spec.volumes[0].name}-{pod.name}" == claim
        assert f"default/{claim}" in hidden.of(PersistentVolumeClaim)
    (owner,) = hidden.of(StatefulSetOwner).values()
    assert policy == owner.spec.pod_management_policy

"""Every change of a what-if says how it is made for real, in the order of the changes."""

import json

import pytest

from bayplan.inspect import Cluster
from bayplan.inspect.errors import InspectError
from tests.inspect.test_whatif import nodes, replica_set, web

JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "night", "namespace": "default"},
    "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}},
}
HIGH = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1000,
}
OF_WEB = "kubectl patch replicaset -n default web --type=json -p "
GONE = "kubectl delete pod -n default -l app=web"
RESOURCES = "/spec/template/spec/containers/0/resources"
CLASS = '[{"op": "add", "path": "/spec/template/spec/priorityClassName", "value": "%s"}]'


@pytest.fixture
def cluster():
    pods = [web(0, "node-0"), web(1, "node-1", owner="", name="alone")]
    return Cluster.from_objects([*nodes(), replica_set(1), JOB, HIGH, *pods])


@pytest.mark.parametrize(
    ("change", "commands"),
    [
        ("cordon=node-0,node-1", ["kubectl cordon node-0 node-1"]),
        ("uncordon=topology.kubernetes.io/zone=z0", ["kubectl uncordon node-0 node-2"]),
        ("remove=node-3", ["kubectl delete node node-3"]),
        ("add=2xnode-1", ["# let 2 x node-1 join: from your cloud or autoscaler"]),
        ("delete=pod/alone-1", ["kubectl delete pod -n default alone-1"]),
        ("delete=rs/web", ["kubectl delete replicaset -n default web"]),
        ("scale=rs/web=3", ["kubectl scale replicaset -n default web --replicas=3"]),
        ("priority=rs/web=high", [f"{OF_WEB}'{CLASS % 'high'}'", GONE]),
        ("priority=rs/web=1000", [f"{OF_WEB}'{CLASS % 'high'}'", GONE]),
        (
            "priority=rs/web=7",
            [
                "kubectl create priorityclass priority7 --value=7",
                f"{OF_WEB}'{CLASS % 'priority7'}'",
                GONE,
            ],
        ),
        (
            "request=rs/web=cpu=2",
            [
                f"{OF_WEB}"
                f"""'[{{"op": "add", "path": "{RESOURCES}/requests", "value": {{"cpu": "2"}}}}, """
                f"""{{"op": "add", "path": "{RESOURCES}/limits", "value": {{"cpu": "2"}}}}]'""",
                GONE,
            ],
        ),
        (
            "request=pod/alone-1=cpu=2",
            [
                "kubectl get pod -n default alone-1 -o json | kubectl patch --local -f - -o json "
                """--type=json -p '[{"op": "add", "path": """
                """"/spec/containers/0/resources/requests", "value": {"cpu": "2"}}, """
                """{"op": "remove", "path": "/spec/nodeName"}]'"""
                " | kubectl replace --force -f -"
            ],
        ),
        (
            'patch=job/night=[{"op":"add","path":"/spec/hostNetwork","value":true}]',
            [
                "kubectl get job -n default night -o json | kubectl patch --local -f - -o json "
                """--type=json -p '[{"op": "remove", "path": "/spec/selector"}, """
                """{"op": "add", "path": "/spec/template/spec/hostNetwork", "value": true}]'"""
                " | kubectl replace --force -f -"
            ],
        ),
        (
            'patch=node/node-0=[{"op":"add","path":"/metadata/labels/disk","value":"ssd"}]',
            [
                "kubectl patch node node-0 --type=json -p "
                """'[{"op": "add", "path": "/metadata/labels/disk", "value": "ssd"}]'"""
            ],
        ),
    ],
    ids=lambda value: value.partition("=")[0] + value[-6:] if isinstance(value, str) else "",
)
def test_a_change_says_how_it_is_made(change, commands, cluster):
    assert commands == list(cluster.what_if(change).commands)


def test_a_patched_node_is_what_pods_then_find(cluster):
    disk = '[{"op":"add","path":"/metadata/labels/disk","value":"ssd"}]'
    picky = web(7, "", owner="", name="picky")
    picky["spec"] = {**picky["spec"], "nodeSelector": {"disk": "ssd"}}
    with_picky = Cluster.from_objects([*nodes(), picky])

    found = with_picky.what_if(f"patch=node/node-2={disk}")

    assert [("default/picky-7", "node-2")] == [(start.pod, start.node) for start in found.starts]
    with pytest.raises(InspectError, match="patching node node-2"):
        with_picky.what_if('patch=node/node-2=[{"op":"remove","path":"/spec/none"}]')


def test_commands_come_in_the_order_of_the_changes(cluster, tmp_path):
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(web(7, "", owner="")))

    found = cluster.what_if("cordon=node-1", "drain=node-0", f"apply={file}", "scale=rs/web=0")

    assert [
        "kubectl cordon node-1",
        "kubectl drain node-0",
        f"kubectl apply -n default -f {file}",
        "kubectl scale replicaset -n default web --replicas=0",
    ] == list(found.commands)
    assert "To do it:\n  kubectl cordon node-1\n" in str(found)


def test_an_owner_may_be_changed_more_than_once(cluster):
    found = cluster.what_if("request=rs/web=cpu=2", "priority=rs/web=high", "request=rs/web=cpu=1")

    assert found.ok
    assert 6 == len(found.commands)
    assert ["default/web-0"] == [move.pod for move in found.moves]

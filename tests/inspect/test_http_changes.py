"""The same what-if, capacity and diff over HTTP as from the command, but no files of the server."""

import asyncio

import msgspec
import pytest

from bayplan.inspect import Cluster
from bayplan.inspect.http import Questions
from bayplan.inspect.whatif import changes
from bayplan.testing.builders import make_node, make_pod

CONFIG = '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}'


def ask(path, body=None, **query):
    nodes = [make_node(f"node-{i}").zone(f"z{i}").capacity(cpu=4, memory="8Gi", pods=20)
             for i in range(3)]  # fmt: skip
    pod = make_pod("web-0").req(cpu="1").owner("ReplicaSet", "web").with_spec(nodeName="node-0")
    cluster = Cluster.from_objects([item.build() for item in (*nodes, pod)])

    async def load():
        return cluster

    status, body = asyncio.run(Questions(load).answer(path, query, body))
    return status, msgspec.json.decode(body)


def test_each_question_is_answered():
    status, found = ask("whatif", changes="cordon=node-1;drain=node-0")
    assert (status, [m["to"] for m in found["moves"]]) == (200, ["node-2"])
    assert len(ask("whatif", each="zone")[1]["tries"]) == 3
    assert ask("capacity", templates="cpu=1")[1]["sets"] == 11
    assert ask("diff", config=CONFIG)[1]["changed"] == []


def given(**body):
    return msgspec.json.encode(body)


def test_changes_and_manifests_are_given_as_a_body():
    web = make_pod("more").req(cpu="1").body()
    drain = {"change": "drain", "nodes": "node-0"}
    status, found = ask("whatif", given(changes=["cordon=node-1", drain], apply=[web]))
    assert (status, [m["to"] for m in found["moves"]]) == (200, ["node-2"])
    assert [s["pod"] for s in found["starts"]] == ["default/more"]
    assert ask("capacity", given(templates=[web]))[1]["sets"] == 11
    config = msgspec.json.decode(CONFIG)
    assert ask("diff", given(config=config, emulatedVersion="1.36"))[1]["b"] == "the request (1.36)"
    assert ask("whatif", given(config=config))[1]["changes"] == ["schedule with the request (1.37)"]


def web(replicas):
    return {"change": "scale", "kind": "deployment", "name": "web", "replicas": replicas}


def added(count):
    return {"change": "add", "count": count, "shape": "node-0"}


TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}}
MANY = 2**31 - 1
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "wide"},
    "spec": {"replicas": MANY, "selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE},
}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "wide"},
    "spec": {"parallelism": MANY, "template": TEMPLATE},
}


def test_changes_together_make_only_so_many_pods(monkeypatch):
    monkeypatch.setattr(changes, "MOST_PODS", 5)
    three = {"spec": DEPLOYMENT["spec"] | {"replicas": 3}}
    made = [DEPLOYMENT | three | {"metadata": {"name": name}} for name in "ab"]
    assert 200 == ask("whatif", given(apply=made[:1]))[0]
    found = ask("whatif", given(apply=made))[1]

    assert "making 6 more pods; at most 5 are made" in found["error"]


@pytest.mark.parametrize(
    ("path", "body", "problem"),
    [
        ("whatif", {"changes": [{"change": "explode"}]}, "explode"),
        ("whatif", {"changes": [{"change": "apply", "path": "/etc"}]}, "apply reads files"),
        ("whatif", {"changes": [web(2**31)]}, "<= 300000"),
        ("whatif", {"changes": [web(-1)]}, ">= 0"),
        ("whatif", {"changes": [added(2**31)]}, "<= 10000"),
        ("whatif", {"changes": [added(1), added(10_000)]}, "adding 10001 nodes"),
        ("whatif", {"apply": [DEPLOYMENT]}, "making 2147483647 more pods; at most 300000"),
        ("whatif", {"apply": [JOB]}, "making 2147483647 more pods; at most 300000"),
        ("whatif", {"apply": [{"kind": "Pod", "metadata": 3}]}, "metadata"),
        ("whatif", {"changes": "drain=node-0"}, "Expected `array`"),
        ("capacity", {"templates": [{"kind": "Node"}]}, "there is no pod"),
        ("diff", {"config": 3}, "config"),
        ("diff", {"emulatedVersion": "1.12"}, "1.12"),
    ],
)
def test_a_bad_body_is_told(path, body, problem):
    status, found = ask(path, given(**body))
    assert status == 400
    assert problem in found["error"]


@pytest.mark.parametrize(
    ("path", "query", "problem"),
    [
        ("whatif", {}, "give changes=drain=node-1"),
        ("whatif", {"changes": "apply=/etc"}, "apply reads files"),
        ("capacity", {"templates": "/etc/x.yaml"}, "not read over HTTP"),
        ("capacity", {"templates": "cpu=1", "keepFree": "moon"}, "use node or zone"),
        ("diff", {}, "give config="),
        ("diff", {"config": '{"kind": "Pod"}'}, "kind"),
        ("diff", {"config": "a: [b"}, "config"),
    ],
)
def test_a_bad_question_is_told(path, query, problem):
    status, found = ask(path, **query)
    assert status == 400
    assert problem in found["error"]

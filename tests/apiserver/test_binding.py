"""Bindings: which are refused, and what they write."""

import pytest

from tests.apiserver.api import PODS, pod

NODES = "/api/v1/nodes"


async def bind(api, name, node="n", kind="Node", **metadata):
    target = {"kind": kind, "name": node}
    body = {"metadata": {"name": name, **metadata}, "target": target}
    return await api.call("POST", f"{PODS}/{name}/binding", body)


async def made(api, name="p", **spec):
    return await api.ok("POST", PODS, pod(name, **spec))


async def test_a_binding_writes_node_condition_and_annotations(api):
    await made(api)

    answer = await bind(api, "p", annotations={"a": "1"})

    assert (201, 201, "Success") == (answer.status, answer.body["code"], answer.body["status"])
    found = await api.ok("GET", f"{PODS}/p")
    assert ("n", "1") == (found["spec"]["nodeName"], found["metadata"]["annotations"]["a"])
    assert ("PodScheduled", "True") == tuple(
        found["status"]["conditions"][0][field] for field in ("type", "status")
    )


async def test_a_pod_is_told_the_zone_of_its_node(api):
    zone = {"topology.kubernetes.io/zone": "z", "other": "x"}
    await api.ok("POST", NODES, {"metadata": {"name": "n", "labels": zone}})
    await made(api)

    await bind(api, "p")

    labels = (await api.ok("GET", f"{PODS}/p"))["metadata"]["labels"]
    assert {"topology.kubernetes.io/zone": "z"} == labels


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"uid": "another"}, "Precondition failed: UID in precondition: another, "),
        ({"resourceVersion": "1"}, "Precondition failed: ResourceVersion in precondition: 1, "),
    ],
    ids=["uid", "version"],
)
async def test_a_binding_of_another_pod_of_that_name_is_refused(api, given, text):
    await made(api)

    answer = await bind(api, "p", **given)

    assert 409 == answer.status
    assert text in answer.body["message"]
    assert "nodeName" not in (await api.ok("GET", f"{PODS}/p"))["spec"]


async def test_the_pod_that_was_meant_is_bound(api):
    metadata = (await made(api))["metadata"]

    answer = await bind(api, "p", uid=metadata["uid"], resourceVersion=metadata["resourceVersion"])

    assert 201 == answer.status


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ({"kind": "Pod"}, 'target.kind: Unsupported value: "Pod": supported values: "Node", '),
        ({"node": ""}, "target.name: Required value"),
        ({"kind": "Pod", "node": ""}, "[target.kind: Unsupported value"),
    ],
    ids=["kind", "name", "both"],
)
async def test_a_wrong_target_is_a_bare_500_as_upstream(api, target, text):
    await made(api)

    answer = await bind(api, "p", **target)

    assert 500 == answer.status
    assert answer.body["message"].startswith(text)


async def test_a_pod_is_bound_once_and_not_behind_its_gates(api):
    await made(api)
    await made(api, "gated", schedulingGates=[{"name": "example.com/wait"}])
    await bind(api, "p")

    again, gated = await bind(api, "p", node="other"), await bind(api, "gated")

    assert (409, 409) == (again.status, gated.status)
    assert 'already assigned to node "n"' in again.body["message"]
    assert "has non-empty .spec.schedulingGates" in gated.body["message"]

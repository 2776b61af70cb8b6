"""Bindings: which are refused, and what they write."""

import pytest

from bayplan.apiserver.subresources.binding import ATTEMPTS, set_condition
from bayplan.store import Conflict, MemoryStore
from tests.apiserver.api import PODS, Api, pod

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


async def racing(api, times, change=None):
    """Let others write the pod before the first so many bindings do; return the attempts."""
    put, tried = api.server.store.put, []

    async def raced(key, value, **more):
        if key.endswith("pods/default/p") and more.get("expect"):
            tried.append(key)
            if len(tried) <= times:
                if change is not None:
                    await change()
                raise Conflict(key, None, more["expect"])
        return await put(key, value, **more)

    api.server.store.put = raced
    return tried


@pytest.mark.parametrize(
    ("times", "status", "attempts"), [(3, 201, 4), (ATTEMPTS, 409, ATTEMPTS)], ids=["some", "all"]
)
async def test_a_binding_is_tried_again_when_others_changed_the_pod(api, times, status, attempts):
    await made(api)
    tried = await racing(api, times)

    assert (status, attempts) == ((await bind(api, "p")).status, len(tried))


async def test_a_pod_that_went_meanwhile_is_not_found(api):
    await made(api)
    await racing(api, 1, lambda: api.ok("DELETE", f"{PODS}/p?gracePeriodSeconds=0"))

    answer = await bind(api, "p")

    assert (404, 'pods "p" not found') == (answer.status, answer.body["message"])


async def test_a_binding_names_the_pod_of_its_path_or_stands_alone(api):
    await made(api)
    body = {"metadata": {"name": "p"}, "target": {"name": "n"}}

    other = await api.call("POST", f"{PODS}/q/binding", body)
    alone = await api.call("POST", "/api/v1/namespaces/default/bindings", body)

    assert (400, "name in URL does not match name in Binding object") == (
        other.status,
        other.body["message"],
    )
    assert 201 == alone.status
    assert "n" == (await api.ok("GET", f"{PODS}/p"))["spec"]["nodeName"]


async def test_a_binding_that_is_only_tried_writes_nothing(api):
    await made(api)
    body = {"metadata": {"name": "p"}, "target": {"name": "n"}}

    answer = await api.call("POST", f"{PODS}/p/binding?dryRun=All", body)

    assert 201 == answer.status
    assert "nodeName" not in (await api.ok("GET", f"{PODS}/p"))["spec"]


async def test_a_pod_that_is_going_is_not_bound(api):
    await made(api)
    await api.ok("PATCH", f"{PODS}/p", {"metadata": {"finalizers": ["example.com/wait"]}})
    await api.ok("DELETE", f"{PODS}/p")

    answer = await bind(api, "p")

    assert 409 == answer.status
    assert "pod p is being deleted, cannot be assigned to a host" in answer.body["message"]


async def test_bindings_take_over_labels_and_end_a_nomination(api):
    await made(api)
    await api.ok("PATCH", f"{PODS}/p/status", {"status": {"nominatedNodeName": "n"}})

    await bind(api, "p", labels={"a": "1"})

    found = await api.ok("GET", f"{PODS}/p")
    assert {"a": "1"} == found["metadata"]["labels"]
    assert "nominatedNodeName" not in found["status"]


@pytest.mark.parametrize(
    ("old", "moment"),
    [
        pytest.param([], "now", id="a new one"),
        pytest.param(
            [{"type": "A", "status": "True", "lastTransitionTime": "then"}], "then", id="as before"
        ),
        pytest.param(
            [{"type": "A", "status": "False", "lastTransitionTime": "then"}], "now", id="it changed"
        ),
        pytest.param([{"type": "A", "status": "True"}], "now", id="no time was given"),
    ],
)
def test_the_time_of_a_condition_is_that_of_its_change(old, moment):
    other = {"type": "B", "status": "True", "lastTransitionTime": "then"}
    obj = {"status": {"conditions": [other, *old]}}

    set_condition(obj, {"type": "A", "status": "True"}, "now")

    expected = {"type": "A", "status": "True", "lastTransitionTime": moment}
    assert [other, expected] == obj["status"]["conditions"]


class Remote(MemoryStore):
    """A store that several servers share: nothing is read from it directly."""

    def __getattribute__(self, name):
        if name in ("get_now", "range_now"):
            raise AttributeError(name)
        return super().__getattribute__(name)


@pytest.fixture
async def servers():
    """Two servers on one store."""
    store = Remote()
    made = [await Api.start(store, check_capacity=True) for _ in range(2)]
    yield made
    for each in made:
        await each.close()


async def with_node(api):
    status = {"allocatable": {"cpu": "1", "pods": "3"}}
    await api.ok("POST", NODES, {"metadata": {"name": "n"}, "status": status})


async def test_the_room_of_a_node_that_another_server_has_just_made_is_checked(servers):
    one, other = servers
    for n in range(4):
        await made(one, f"p{n}", nodeName="n" if n else None)
    await with_node(one)
    reader = other.server.backend.reader
    get, reader.get = reader.get, lambda *which: None if "nodes" in which else get(*which)  # behind

    answer = await bind(other, "p0")

    assert 409 == answer.status
    assert "insufficient pods" in answer.body["message"]


@pytest.mark.parametrize("checks", [False, True])
async def test_bindings_of_several_servers_wait_for_each_other_where_room_is_checked(checks):
    api = await Api.start(Remote(), check_capacity=checks)
    await with_node(api)
    await made(api)

    answer = await bind(api, "p")

    assert 201 == answer.status
    assert checks == bool((await api.server.store.range("ranges/nodes")).items)
    await api.close()


async def test_a_store_of_one_server_gets_no_keys_for_the_room_of_nodes():
    api = await Api.start(check_capacity=True)
    await with_node(api)
    await made(api)

    answer = await bind(api, "p")

    assert (201, []) == (answer.status, (await api.server.store.range("ranges/nodes")).items)
    await api.close()

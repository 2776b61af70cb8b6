"""What the recorded suites cannot show: races, repeatability, sharing, limits."""

import asyncio
import base64
import itertools
import json

import pytest

from bayplan.store.memory import MemoryStore
from tests.apiserver.api import CONFIGMAPS, PODS, Api, configmap, pod
from tests.definitions import DEFINITIONS, definition

BINDING = {"target": {"kind": "Node", "name": "n1"}}


def binding(name, node="n1"):
    return {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}


async def test_patches_of_many_writers_are_all_kept(api):
    """A patch without a version is tried again after a lost race."""
    await api.ok("POST", CONFIGMAPS, configmap("c"))

    patches = ({"data": {f"k{n}": "v"}} for n in range(30))
    await asyncio.gather(*(api.ok("PATCH", f"{CONFIGMAPS}/c", patch) for patch in patches))

    found = await api.ok("GET", f"{CONFIGMAPS}/c")
    assert 31 == len(found["data"])


async def test_only_one_of_many_bindings_wins(api):
    await api.ok("POST", PODS, pod("p"))

    answers = await asyncio.gather(
        *(api.call("POST", f"{PODS}/p/binding", binding("p", f"n{n}")) for n in range(10))
    )

    assert sorted(answer.status for answer in answers) == [201] + [409] * 9


async def test_a_put_from_an_old_version_is_refused(api):
    first = await api.ok("POST", CONFIGMAPS, configmap("c"))
    await api.ok("PATCH", f"{CONFIGMAPS}/c", {"data": {"b": "2"}})

    answer = await api.call("PUT", f"{CONFIGMAPS}/c", first)

    assert 409 == answer.status
    assert "the object has been modified" in answer.body["message"]


async def test_a_generated_name_that_is_taken_is_drawn_again():
    endings = itertools.chain(["aaaaa", "aaaaa"], (f"b{n:04}" for n in itertools.count()))
    api = await Api.start(suffix=lambda: next(endings))
    body = {"metadata": {"generateName": "x-"}}

    names = [(await api.ok("POST", CONFIGMAPS, body))["metadata"]["name"] for _ in range(2)]

    assert ["x-aaaaa", "x-b0000"] == names
    await api.close()


async def test_where_all_generated_names_are_taken_the_client_is_told():
    api = await Api.start(suffix=lambda: "aaaaa")
    body = {"metadata": {"generateName": "x-"}}
    await api.ok("POST", CONFIGMAPS, body)

    answer = await api.call("POST", CONFIGMAPS, body)

    assert (409, "AlreadyExists") == (answer.status, answer.body["reason"])
    await api.close()


async def run_once():
    uids = (f"uid-{n}" for n in itertools.count())
    api = await Api.start(clock=lambda: 1_700_000_000.0, uid=lambda: next(uids))
    stream = await api.watch("/api/v1/pods?watch=1")
    await api.ok("POST", PODS, pod("p", schedulingGates=[{"name": "x.example/g"}]))
    await api.ok("POST", PODS, pod("q"))
    await api.ok("POST", f"{PODS}/q/binding", binding("q"))
    await api.ok("DELETE", f"{PODS}/p")
    await stream.until(5)
    await stream.leave()
    await api.close()
    return b"".join(stream.pieces)


async def test_the_same_requests_give_the_same_bytes():
    assert await run_once() == await run_once()


async def test_unknown_fields_of_custom_data_survive_a_binding(api):
    """Binding changes the stored pod; nothing else in it may be lost or reordered away."""
    before = await api.ok("POST", PODS, pod("p", nodeSelector={"disk": "ssd"}, priority=0))

    await api.ok("POST", f"{PODS}/p/binding", binding("p"))

    after = await api.ok("GET", f"{PODS}/p")
    assert before["spec"] | {"nodeName": "n1"} == after["spec"]


@pytest.mark.parametrize(
    ("requests", "status"),
    [
        pytest.param("500m", 201, id="fits beside the pod that runs there"),
        pytest.param("700m", 409, id="does not fit beside it"),
    ],
)
async def test_binding_is_refused_where_there_is_no_room(requests, status):
    api = await Api.start(check_capacity=True)
    node = {"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "1", "pods": "10"}}}
    await api.ok("POST", "/api/v1/nodes", node)
    for name, cpu in (("old", "500m"), ("new", requests)):
        body = pod(name)
        body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        await api.ok("POST", PODS, body)
    await api.ok("POST", f"{PODS}/old/binding", binding("old"))

    answer = await api.call("POST", f"{PODS}/new/binding", binding("new"))

    assert status == answer.status, answer.body
    await api.close()


async def test_a_page_of_a_past_that_is_gone_gives_410():
    store = MemoryStore()
    api = await Api.start(store)
    for n in range(3):
        await api.ok("POST", CONFIGMAPS, configmap(f"c{n}"))
    token = (await api.ok("GET", f"{CONFIGMAPS}?limit=1"))["metadata"]["continue"]
    await api.ok("POST", CONFIGMAPS, configmap("later"))
    await store.compact(store.revision)

    answer = await api.call("GET", f"{CONFIGMAPS}?limit=1&continue={token}")

    assert (410, "Expired") == (answer.status, answer.body["reason"])
    later = answer.body["metadata"]["continue"]  # goes on with what there is now
    rest = await api.ok("GET", f"{CONFIGMAPS}?limit=5&continue={later}")
    names = [item["metadata"]["name"] for item in rest["items"]]
    assert ["c1", "c2", "kube-root-ca.crt", "later"] == sorted({*names, "kube-root-ca.crt"})
    await api.close()


async def test_pages_show_one_moment(api):
    for n in range(5):
        await api.ok("POST", CONFIGMAPS, configmap(f"c{n}"))
    first = await api.ok("GET", f"{CONFIGMAPS}?limit=2")
    await api.ok("DELETE", f"{CONFIGMAPS}/c3")
    await api.ok("POST", CONFIGMAPS, configmap("c9"))

    token = first["metadata"]["continue"]
    rest = await api.ok("GET", f"{CONFIGMAPS}?continue={token}")

    assert ["c2", "c3", "c4"] == [item["metadata"]["name"] for item in rest["items"]]
    assert first["metadata"]["resourceVersion"] == rest["metadata"]["resourceVersion"]


def token(version="meta.k8s.io/v1", revision=1, start="default/x"):
    return json.dumps({"v": version, "rv": revision, "start": start})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (token(start="../../secrets"), "../../secrets"),
        (token(start="default/../x"), "default/../x"),
        (token(start="/x"), "/x"),
        pytest.param(token(start="\ud800"), "", id="half a character"),
        (token(start=""), "encoded start key empty (version meta.k8s.io/v1)"),
        (token("v2"), "server does not recognize this encoded version v2"),
        (token(revision=0), "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        (token(revision=10**9), "it is of the version 1000000000, still to come"),
        (token(revision=10**30), ""),
        (token(revision="7"), ""),
        ("[]", ""),
        ("no json", ""),
    ],
)
async def test_forged_continue_tokens_are_refused(api, text, why):
    forged = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    answer = await api.call("GET", f"{CONFIGMAPS}?limit=1&continue={forged}")

    assert (400, "BadRequest") == (answer.status, answer.body["reason"])
    text = "invalid continue token: continue key is not valid: "
    assert answer.body["message"].startswith(text + why)


async def test_a_deleted_definition_takes_its_objects_along(api):
    boats = "/apis/example.com/v1/namespaces/default/boats"
    boat = {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "b"}}
    await api.ok("POST", DEFINITIONS, definition("boats"))
    await api.ok("POST", boats, boat)

    await api.ok("DELETE", f"{DEFINITIONS}/boats.example.com")

    assert 404 == (await api.call("GET", boats)).status
    await api.ok("POST", DEFINITIONS, definition("boats"))
    assert [] == (await api.ok("GET", boats))["items"]


STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"metadata": {"labels": "no"}}, "cannot restore map from string"),
        ({"metadata": {"finalizers": 3}}, "cannot restore slice from int64"),
        ({"spec": {"securityContext": []}}, "cannot restore struct from: slice"),
    ],
)
async def test_a_strategic_patch_that_does_not_fit_says_what_it_cannot_restore(api, patch, text):
    await api.ok("POST", PODS, pod("p"))

    answer = await api.call("PATCH", f"{PODS}/p", patch, headers=STRATEGIC)

    assert 422 == answer.status
    assert answer.body["message"].endswith(text)


async def test_a_body_that_cannot_be_read_says_what_was_expected(api):
    answer = await api.call("POST", "/api/v1/namespaces", b"kind: Pod")

    assert 400 == answer.status
    said = answer.body["message"]
    assert said.startswith("the object provided is unrecognized (must be of type Namespace): ")
    assert said.endswith(f"({b'kind: Pod'.hex()})")


async def test_a_condition_without_times_tells_null_and_who_wrote_that(api):
    await api.ok("POST", PODS, pod("p"))
    ready = {"type": "Ready", "status": "True"}

    found = await api.ok("PATCH", f"{PODS}/p/status", {"status": {"conditions": [ready]}})

    assert [{**ready, "lastProbeTime": None, "lastTransitionTime": None}] == (
        found["status"]["conditions"]
    )
    (entry,) = (e for e in found["metadata"]["managedFields"] if e.get("subresource"))
    fields = entry["fieldsV1"]["f:status"]["f:conditions"]['k:{"type":"Ready"}']
    assert {".", "f:lastProbeTime", "f:lastTransitionTime", "f:status", "f:type"} == set(fields)


@pytest.mark.parametrize(
    "head", ["", '"kind":"ConfigMap",', '"kind":"ConfigMap","apiVersion":"v1",']
)
async def test_a_field_given_twice_is_found_whatever_else_is_left_out(api, head):
    body = '{%s"metadata":{"name":"%s"},"data":{"a":"1","a":"2"}}'

    refused = await api.call(
        "POST", f"{CONFIGMAPS}?fieldValidation=Strict", (body % (head, "a")).encode()
    )
    made = await api.call("POST", CONFIGMAPS, (body % (head, "b")).encode())

    assert 400 == refused.status
    assert 'duplicate field "data.a"' in refused.body["message"]
    assert (201, '299 - "duplicate field \\"data.a\\""') == (made.status, made.headers["warning"])


async def test_a_change_that_leaves_no_name_is_refused_in_the_real_servers_words(api):
    await api.ok("POST", CONFIGMAPS, configmap("c"))
    words = "the name of the object (c based on URL) was undeterminable: name must be provided"
    media = {"content-type": "application/json-patch+json"}

    patched = await api.call(
        "PATCH", f"{CONFIGMAPS}/c", [{"op": "remove", "path": "/metadata"}], headers=media
    )
    replaced = await api.call("PUT", f"{CONFIGMAPS}/c", {"metadata": {}})

    assert (400, words) == (patched.status, patched.body["message"])
    assert (400, words) == (replaced.status, replaced.body["message"])


async def test_a_version_on_a_new_object_is_refused_where_it_would_be_stored(api):
    body = configmap("c")
    body["metadata"]["resourceVersion"] = "7"

    stored = await api.call("POST", CONFIGMAPS, body)
    tried = await api.call("POST", f"{CONFIGMAPS}?dryRun=All", body)
    wrong = await api.call("POST", CONFIGMAPS, {**body, "data": {"no/key": "x"}})

    assert (400, 201, 422) == (stored.status, tried.status, wrong.status)
    assert "7" == tried.body["metadata"]["resourceVersion"]


async def test_owner_references_given_twice_are_kept_once_with_a_warning(api):
    def owner(name, uid, **more):
        return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, **more}

    one, other, same_uid = owner("a", "1"), owner("b", "2"), owner("a", "1", controller=True)
    body = configmap("c")
    body["metadata"]["ownerReferences"] = [one, other, one, same_uid, other]
    given = "entries; API server dedups"
    admitted = "entries after mutating admission happens; API server dedups"

    made = await api.call("POST", CONFIGMAPS, body)
    replaced = await api.call("PUT", f"{CONFIGMAPS}/c", body)
    add = {"op": "add", "path": "/metadata/ownerReferences/-", "value": one}
    media = {"content-type": "application/json-patch+json"}
    patched = await api.call("PATCH", f"{CONFIGMAPS}/c", [add], headers=media)

    for answer in (made, replaced, patched):
        assert [one, other, same_uid] == answer.body["metadata"]["ownerReferences"]
    for answer in (made, replaced):
        assert given in answer.headers["warning"]
        assert answer.headers["warning"].endswith('duplicate UID(s) observed: 1, 2"')
    assert admitted in patched.headers["warning"]
    assert 1 == patched.headers["warning"].count("duplicate entries")


async def test_a_patch_of_too_many_operations_is_too_large(api):
    await api.ok("POST", CONFIGMAPS, configmap("c"))
    many = [{"op": "test", "path": "/data/a", "value": "1"}] * 10_001
    patch = {"content-type": "application/json-patch+json"}

    answer = await api.call("PATCH", f"{CONFIGMAPS}/c", many, headers=patch)

    assert (413, "RequestEntityTooLarge") == (answer.status, answer.body["reason"])
    await api.ok("PATCH", f"{CONFIGMAPS}/c", many[1:], headers=patch)

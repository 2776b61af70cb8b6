"""Conversion webhooks: every verb in every version, storage versions that change, bad answers."""

import pytest

from tests.apiserver.api import Api
from tests.apiserver.crd.converted import convert, definition, gate, path
from tests.apiserver.dynamic.hooks import Hooks
from tests.definitions import DEFINITIONS


@pytest.fixture
async def hooks(tmp_path):
    async with Hooks(tmp_path) as started:
        started.handlers["/convert"] = convert
        yield started


@pytest.fixture
async def gates(api: Api, hooks: Hooks) -> Api:
    await api.ok("POST", DEFINITIONS, definition(hooks))
    return api


async def test_an_object_is_written_and_read_in_either_version(gates):
    made = await gates.ok("POST", path("v2"), gate("v2", "a", host="h", port="80"))
    one, two = await gates.ok("GET", path("v1", "a")), await gates.ok("GET", path("v2", "a"))

    assert {"host": "h", "port": "80", "size": 2} == made["spec"] == two["spec"]
    assert {"hostPort": "h:80", "size": 2} == one["spec"]
    assert ("conv.example.com/v1", "conv.example.com/v2") == (one["apiVersion"], two["apiVersion"])
    assert one["metadata"]["uid"] == two["metadata"]["uid"]
    assert one["metadata"]["resourceVersion"] == two["metadata"]["resourceVersion"]


async def test_a_list_is_converted_in_one_review(gates, hooks):
    for name in ("a", "b", "c"):
        await gates.ok("POST", path("v1"), gate("v1", name, hostPort=f"{name}:1"))
    hooks.asked.clear()

    found = await gates.ok("GET", path("v2"))
    again = await gates.ok("GET", path("v1"))

    assert ["a", "b", "c"] == [item["spec"]["host"] for item in found["items"]]
    assert ["a:1", "b:1", "c:1"] == [item["spec"]["hostPort"] for item in again["items"]]
    assert [3] == [len(asked["objects"]) for asked in hooks.asked]


async def test_a_watch_shows_the_version_that_it_asked_for(gates, hooks):
    await gates.ok("POST", path("v1"), gate("v1", "a", hostPort="a:1"))
    streams = [await gates.watch(path("v2") + "?watch=1") for _ in range(3)]
    for stream in streams:
        await stream.until(1)
    hooks.asked.clear()

    await gates.ok("POST", path("v1"), gate("v1", "b", hostPort="b:1"))
    for stream in streams:
        events = await stream.until(2)
        assert ["a", "b"] == [event["object"]["spec"]["host"] for event in events]
        await stream.leave()

    assert 1 == len(hooks.asked)  # once for all watchers


async def test_a_patch_changes_the_version_that_its_author_sees(gates):
    await gates.ok("POST", path("v1"), gate("v1", "a", hostPort="a:1"))

    await gates.ok("PATCH", path("v2", "a"), {"spec": {"port": "9"}})
    apply = {"content-type": "application/apply-patch+yaml"}
    await gates.ok(
        "PATCH",
        path("v2", "a") + "?fieldManager=me&force=true",
        gate("v2", "a", host="z"),
        headers=apply,
    )
    await gates.ok("PATCH", path("v2", "a") + "/status", {"status": {"ok": "yes"}})
    found = await gates.ok("GET", path("v1", "a"))

    assert {"hostPort": "z:9", "size": 1} == found["spec"]
    assert {"ok": "yes"} == found["status"]


async def test_an_unchanged_write_moves_an_object_to_the_new_storage_version(gates, hooks):
    before = await gates.ok("POST", path("v1"), gate("v1", "a", hostPort="a:1"))
    stored = await gates.ok("GET", f"{DEFINITIONS}/gates.conv.example.com")
    stored["spec"]["versions"][0]["storage"] = False
    stored["spec"]["versions"][1]["storage"] = True
    changed = await gates.ok("PUT", f"{DEFINITIONS}/gates.conv.example.com", stored)
    assert ["v1", "v2"] == changed["status"]["storedVersions"]
    assert before == await gates.ok("GET", path("v1", "a"))

    moved = await gates.ok("PUT", path("v1", "a"), before)
    hooks.asked.clear()
    found = await gates.ok("GET", path("v2", "a"))

    assert before["metadata"]["resourceVersion"] != moved["metadata"]["resourceVersion"]
    assert "a" == found["spec"]["host"]
    assert [] == hooks.asked  # it is stored as v2 now
    again = await gates.ok("PUT", path("v1", "a"), moved)
    assert moved["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]


async def test_objects_from_before_there_were_two_versions_are_of_the_first(api, hooks):
    first = definition(hooks)
    del first["spec"]["conversion"], first["spec"]["versions"][1]
    await api.ok("POST", DEFINITIONS, first)
    await api.ok("POST", path("v1"), gate("v1", "old", hostPort="o:1"))
    both = definition(hooks, storage="v2")
    stored = await api.ok("GET", f"{DEFINITIONS}/gates.conv.example.com")
    await api.ok("PUT", f"{DEFINITIONS}/gates.conv.example.com", {**stored, "spec": both["spec"]})

    found = await api.ok("GET", path("v2", "old"))

    assert {"host": "o", "port": "1", "size": 1} == found["spec"]


async def test_labels_may_change_but_not_the_rest_of_the_metadata(gates, hooks):
    def relabel(request):
        answer = convert(request)
        for obj in answer["convertedObjects"]:
            metadata = {**obj["metadata"], "labels": {"made": "here"}, "generation": 77}
            obj["metadata"] = metadata
        return answer

    made = await gates.ok("POST", path("v1"), gate("v1", "a", hostPort="a:1"))
    hooks.handlers["/convert"] = relabel
    found = await gates.ok("GET", path("v2", "a"))
    chosen = await gates.ok("GET", path("v2") + "?labelSelector=made%3Dhere")

    assert {"made": "here"} == found["metadata"]["labels"]
    assert made["metadata"]["generation"] == found["metadata"]["generation"]
    assert 1 == len(chosen["items"])


WRONG = {
    "fails": lambda r: {"result": {"status": "Failed", "message": "no such luck"}},
    "none": lambda r: {"result": {"status": "Success"}, "convertedObjects": []},
    "silent": lambda r: {"result": {}},
    "version": lambda r: {"result": {"status": "Success"}, "convertedObjects": r["objects"]},
}


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        ("fails", "failed: no such luck"),
        ("none", "returned 0 objects, expected 1"),
        ("silent", "failed: response.result.status was '', not 'Success'"),
        (
            "version",
            "returned invalid object at index 0: invalid groupVersion "
            "(expected conv.example.com/v2, received conv.example.com/v1)",
        ),
    ],
)
async def test_an_answer_that_cannot_be_used_is_said(gates, hooks, handler, words):
    await gates.ok("POST", path("v1"), gate("v1", "a", hostPort="a:1"))
    hooks.handlers["/convert"] = WRONG[handler]

    found = await gates.call("GET", path("v2", "a"))

    assert 500 == found.status
    assert f"conversion webhook for conv.example.com/v1, Kind=Gate {words}" == found.body["message"]


async def test_a_definition_goes_although_its_webhook_is_gone(gates, hooks):
    await gates.ok("POST", path("v1"), gate("v1", "a", hostPort="a:1"))
    hooks.handlers["/convert"] = WRONG["fails"]

    await gates.ok("DELETE", f"{DEFINITIONS}/gates.conv.example.com")

    answer = await gates.call("GET", f"{DEFINITIONS}/gates.conv.example.com")
    assert 404 == answer.status

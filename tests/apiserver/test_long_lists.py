"""Long lists, and deletions of many: who else waits, what is done beside the loop, who is gone."""

import asyncio
from types import SimpleNamespace

import pytest

from bayplan.apiserver.aside import LARGE
from bayplan.apiserver.negotiate import JSON, YAML, Output
from bayplan.apiserver.responses import YAML_FACTOR
from bayplan.apiserver.verbs import delete, read
from bayplan.apiserver.verbs.read import ASIDE_ITEMS, Page, is_long
from bayplan.clock import run_virtual
from bayplan.store import KeyValue
from tests.apiserver.api import CONFIGMAPS, configmap
from tests.apiserver.test_lists import fill


@pytest.mark.parametrize(
    ("media", "count", "size", "long"),
    [
        (JSON, ASIDE_ITEMS, 1, False),
        (JSON, ASIDE_ITEMS + 1, 1, True),
        (JSON, 1, LARGE - 1, False),
        (JSON, 1, LARGE, True),
        (JSON, 2, LARGE // 2, True),
        (YAML, 1, LARGE // YAML_FACTOR, True),
        (YAML, 1, LARGE // YAML_FACTOR - 1, False),
    ],
)
def test_which_lists_are_long(media, count, size, long):
    page = Page([KeyValue("k", b"x" * size, 1, 1)] * count, 1, "", None)

    assert long is is_long(SimpleNamespace(output=Output(media=media)), page)


@pytest.mark.parametrize("long", [True, False])
async def test_what_takes_long_is_written_beside_the_loop(api, monkeypatch, long):
    called = []

    async def beside(work, *given):
        called.append(work.__name__)
        return work(*given)

    monkeypatch.setattr(read, "beside", beside)
    monkeypatch.setattr(delete, "beside", beside)
    monkeypatch.setattr(read, "ASIDE_ITEMS", 2 if long else 9)
    await fill(api, 3)

    for method in ("GET", "DELETE"):
        answer = await api.call(method, CONFIGMAPS, headers={"accept": "application/yaml"})
        assert all(f"name: a{number}".encode() in answer.raw for number in range(3))

    assert (["_shown_list", "_shown"] if long else []) == called


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_others_have_their_turn_between_parts_of_a_list_and_no_more(monkeypatch, parts):
    """A turn for each part, which is over as soon as they have had it."""
    monkeypatch.setattr(read, "CHUNK_ITEMS", 2)
    monkeypatch.setattr(read, "PROTOBUF_ITEMS", 2)
    items = [KeyValue(f"k{n}", b"{}", n, n) for n in range(1, 2 * parts + 1)]
    kind = SimpleNamespace(api_version="v1", kind="ConfigMap")
    codec = SimpleNamespace(
        item=lambda kv: kv.value,
        spliced=True,
        kind=kind,
        message=lambda kv: kv.value,
        list_head=b"",
    )

    async def all_of(chunks):
        return [chunk async for chunk in chunks]

    async def play():
        cut = [items[start : start + 2] for start in range(0, len(items), 2)]
        joined = all_of(read._joined([b"x"] * 2 * parts))
        listed = all_of(read._list_chunks(codec, b"[", cut))
        page = Page(items, 1, "", None)
        streams = [await read.whole_list(codec, page), await read._protobuf_list(codec, page)]
        if parts > 1:
            assert [(200, True)] * 2 == [(each.status, each.packed) for each in streams]
        packed = read._protobuf_list(codec, page)
        began = asyncio.get_running_loop().time()
        found = [await turns_during(each) for each in (joined, listed, packed)]
        return found, asyncio.get_running_loop().time() - began

    assert ([parts + 1, parts + 1, parts], 0.0) == run_virtual(play())


async def test_others_have_their_turn_between_deletions(api):
    await fill(api, 8)

    turns = await turns_during(api.exchange("DELETE", CONFIGMAPS))

    assert turns >= 8


async def turns_during(request):
    """How often another task runs while something is done."""
    task, turns = asyncio.ensure_future(request), 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    await task
    return turns


async def test_what_another_deleted_meanwhile_is_left_out(api, monkeypatch):
    await fill(api, 3)
    listed = delete.read_page

    async def late(*given):
        page = await listed(*given)
        await api.ok("DELETE", f"{CONFIGMAPS}/a1")
        return page

    monkeypatch.setattr(delete, "read_page", late)

    answer = await api.ok("DELETE", f"{CONFIGMAPS}?labelSelector=even")

    assert ["a0", "a2"] == [item["metadata"]["name"] for item in answer["items"]]


async def test_a_deletion_that_is_refused_ends_that_of_a_collection(api, monkeypatch):
    await api.ok("POST", CONFIGMAPS, configmap("a"))
    wrong = {"preconditions": {"uid": "another"}}

    answer = await api.call("DELETE", CONFIGMAPS, wrong)

    assert 409 == answer.status
    assert 200 == (await api.call("GET", f"{CONFIGMAPS}/a")).status


async def test_others_have_their_turn_while_a_selector_looks_at_many(api, monkeypatch):
    monkeypatch.setattr("bayplan.apiserver.aside.PAUSE_COST", 1)
    await fill(api, 8)

    assert 8 <= await turns_during(api.exchange("GET", f"{CONFIGMAPS}?labelSelector=even"))


async def test_a_long_look_into_a_list_waits_for_its_turn(api, monkeypatch):
    asked = []

    async def turn(request):
        asked.append(request.verb)

    monkeypatch.setattr(read, "turn", turn)
    monkeypatch.setattr(read, "ASIDE_ITEMS", 2)
    await fill(api, 3)

    await api.call("GET", CONFIGMAPS, headers={"accept": "application/yaml"})
    await api.call("GET", f"{CONFIGMAPS}?limit=1", headers={"accept": "application/yaml"})

    assert 1 == len(asked)

"""Whatever is selected and from when on: a list and the watch after it are the list of the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.apiserver.verbs import watch as watching
from tests.apiserver.api import CONFIGMAPS, Api, Stream

NAMES = ["a", "b", "c"]
QUERIES = [
    "",
    "labelSelector=l%3Dx",
    "labelSelector=l%20in%20(x,y)",
    "labelSelector=l!%3Dx",
    "labelSelector=l",
    "fieldSelector=metadata.name%3Da",
    "fieldSelector=metadata.name!%3Da",
    "fieldSelector=metadata.name%3Da&labelSelector=l%3Dx",
    "fieldSelector=metadata.namespace%3Ddefault&labelSelector=l%3Dy",
]
PLACES = [CONFIGMAPS, "/api/v1/configmaps"]
FORMS = [
    "application/json",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
]
ALL = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

steps = st.one_of(
    st.tuples(st.just("label"), st.sampled_from(NAMES), st.sampled_from(["x", "y", ""])),
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.just("")),
    st.tuples(
        st.just("watch"),
        st.tuples(st.sampled_from(PLACES), st.sampled_from(QUERIES), st.sampled_from(FORMS)),
        st.sampled_from(["listed", "all", "newest"]),
    ),
)
State = dict[str, str]  # versions of objects by name


def _metas(shown: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the metadata of what a list or an event shows, in whatever form."""
    if "rows" in shown:
        return [row["object"]["metadata"] for row in shown["rows"]]
    return [item["metadata"] for item in shown.get("items", [shown])]


def _state(listed: dict[str, Any]) -> State:
    """Return what a list shows, but for what each namespace has anyway."""
    metas = _metas(listed)
    return {m["name"]: m["resourceVersion"] for m in metas if m["name"] in NAMES}


class Follower:
    """A client that watches, and what it believes there is."""

    def __init__(self, target: str, accept: str) -> None:
        self.target, self.headers = target, {"accept": accept}
        self.listing = {"accept": accept.replace("Metadata;", "MetadataList;")}
        self.known: State = {}
        self.stream = Stream()
        self.ended = False  # whether all there was has been told

    async def open(self, api: Api, begin: str) -> None:
        query = "?watch=1"
        if begin == "listed":
            listed = await api.ok("GET", self.target, headers=self.listing)
            self.known = _state(listed)
            query += f"&resourceVersion={listed['metadata']['resourceVersion']}"
        elif begin == "all":
            query += f"&{ALL}"
        path, _, more = self.target.partition("?")
        self.stream = await api.watch(f"{path}{query}&{more}", headers=self.headers)

    def believes(self) -> State:
        state = dict(self.known)
        for event in self.stream.events():
            kind, shown = event["type"], event["object"]
            if kind == "BOOKMARK":
                self.ended = True
                continue
            (meta,) = _metas(shown)
            name, version = meta["name"], meta["resourceVersion"]
            if name not in NAMES:
                continue
            assert (kind == "ADDED") == (name not in state), (kind, name)
            assert int(version) > int(state.get(name, 0)), "it never goes back"
            if kind == "DELETED":
                del state[name]
            else:
                state[name] = version
        return state


async def _change(api: Api, what: str, name: str, label: str) -> None:
    if what == "delete":
        await api.call("DELETE", f"{CONFIGMAPS}/{name}")
        return
    labels = {"l": label} if label else {}
    body = {"metadata": {"name": name, "labels": labels}}
    answer = await api.call("PUT", f"{CONFIGMAPS}/{name}", body)
    if answer.status == 404:
        await api.ok("POST", CONFIGMAPS, body)


@settings(max_examples=25, deadline=None)
@given(script=st.lists(steps, min_size=4, max_size=24), size=st.sampled_from([1, 1 << 17]))
def test_who_lists_and_watches_knows_what_there_is(script: list[Any], size: int) -> None:
    async def play() -> None:
        api = await Api.start()
        followers: list[Follower] = []
        for what, which, how in script:
            if what != "watch":
                await _change(api, what, which, how)
                continue
            place, query, accept = which
            follower = Follower(f"{place}?{query}", accept)
            await follower.open(api, how)
            followers.append(follower)
        for follower in followers:
            there = _state(await api.ok("GET", follower.target, headers=follower.listing))
            for _ in range(50):
                await asyncio.sleep(0)
            assert there == follower.believes(), follower.target
            await follower.stream.leave()
        await api.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watching, "BATCH_BYTES", size)
        asyncio.run(play())


async def test_events_are_counted_whoever_is_told_of_them(api: Api) -> None:
    """Those of the beginning, those that wake a watch and those that are written straight."""

    def counted() -> float:
        return api.server.backend.metrics.events("", "v1", "configmaps").value

    await _change(api, "label", "a", "x")
    before = counted()
    streams = [await api.watch(f"{CONFIGMAPS}?watch=1&{query}") for query in ("", QUERIES[1])]
    for stream in streams:
        await stream.until(1)
    begun = counted()
    there = [len(stream.events()) for stream in streams]
    await _change(api, "label", "b", "x")
    for stream, known in zip(streams, there, strict=True):
        await stream.until(known + 1)

    assert (sum(there), 2) == (begun - before, counted() - begun)
    for stream in streams:
        await stream.leave()


async def test_a_deleted_object_is_told_as_it_last_matched_at_the_version_of_the_change(
    api: Api,
) -> None:
    await _change(api, "label", "a", "x")
    stream = await api.watch(f"{CONFIGMAPS}?watch=1&{QUERIES[1]}")
    await stream.until(1)
    await _change(api, "label", "a", "y")
    left = (await api.ok("GET", f"{CONFIGMAPS}/a"))["metadata"]["resourceVersion"]
    last = (await stream.until(2))[1]
    await stream.leave()

    meta = last["object"]["metadata"]
    assert ("DELETED", {"l": "x"}, left) == (last["type"], meta["labels"], meta["resourceVersion"])

"""Watches: what enters and leaves, bookmarks, timeouts, slow readers, shared bytes."""

import asyncio
from collections import Counter

import pytest

from bayplan.apiserver import aside
from bayplan.apiserver.codec import Codec
from bayplan.apiserver.verbs import watch
from bayplan.clock import run_virtual
from bayplan.store.memory import MemoryStore
from tests.apiserver.api import CONFIGMAPS, PODS, Api, configmap, pod, shown

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
LARGE_DATA = {"data": {"key": "v" * aside.LARGE}}


async def test_a_pod_that_is_bound_leaves_a_watch_of_unbound_pods(api):
    await api.ok("POST", PODS, pod("p"))
    stream = await api.watch(f"{PODS}?watch=1&fieldSelector=spec.nodeName%3D")
    binding = {"metadata": {"name": "p"}, "target": {"name": "n"}}

    await api.ok("POST", f"{PODS}/p/binding", binding)
    events = await stream.until(2)
    await stream.leave()

    bound = await api.ok("GET", f"{PODS}/p")
    assert [("ADDED", "p"), ("DELETED", "p")] == shown(events)
    assert "nodeName" not in events[1]["object"]["spec"], "it shows the last content that matched"
    version = events[1]["object"]["metadata"]["resourceVersion"]
    assert bound["metadata"]["resourceVersion"] == version


async def test_many_watchers_share_the_encoding_of_an_event(api, monkeypatch):
    """Each event is spliced once, however many read it."""
    streams = [await api.watch(f"{CONFIGMAPS}?watch=1") for _ in range(50)]
    spliced = []
    whole = Codec.whole
    monkeypatch.setattr(Codec, "whole", lambda self, kv: spliced.append(kv.key) or whole(self, kv))

    await api.ok("POST", CONFIGMAPS, configmap("c"))
    for stream in streams:
        await stream.until(1)
        await stream.leave()

    assert 2 == len(spliced), "once for the answer of the create, once for all watchers"


@pytest.mark.parametrize(
    ("query", "accept", "written"),
    [
        ("", PARTIAL, 1),
        ("&labelSelector=l%3Dx", PARTIAL, 1),
        ("&fieldSelector=metadata.name%3Dbig", PARTIAL, 1),
        ("&fieldSelector=metadata.name%3Dother", PARTIAL, 0),
        ("&labelSelector=l%3Dy", PARTIAL, 0),
        ("", TABLE, 3),
        ("", "application/json", 0),
    ],
)
async def test_a_large_object_is_written_beside_the_loop_once_for_all_that_ask_alike(
    api, monkeypatch, query, accept, written
):
    """Not by those that put stored bytes together; a table has columns of its own."""
    beside, asked = watch.beside, []

    async def seen(work, *given):
        asked.append(work.__name__)
        return await beside(work, *given)

    monkeypatch.setattr(watch, "beside", seen)
    version = api.server.store.revision
    target = f"{CONFIGMAPS}?watch=1&resourceVersion={version}{query}"
    streams = [await api.watch(target, {"accept": accept}) for _ in range(3)]
    plain = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={version}")
    await api.ok("POST", CONFIGMAPS, configmap("big", labels={"l": "x"}) | LARGE_DATA)
    await api.ok("POST", CONFIGMAPS, configmap("other", labels={"l": "y"}))
    await plain.until(2)
    for stream in streams:
        await stream.until(2 if not query else 1)
        await stream.leave()
    await plain.leave()

    assert ["_object"] * written == asked


async def test_a_reader_that_falls_behind_gets_410_and_stalls_nobody():
    api = await Api.start(MemoryStore(max_lag=16))
    slow = await api.watch(f"{CONFIGMAPS}?watch=1")
    fast = await api.watch(f"{CONFIGMAPS}?watch=1")
    slow.open.clear()  # its socket takes nothing any more
    for n in range(100):
        await api.ok("POST", CONFIGMAPS, configmap(f"c{n}"))
        await fast.until(n + 1)
    slow.open.set()
    await slow.task

    last = slow.events()[-1]
    assert ("ERROR", 410, "Expired") == (
        last["type"],
        last["object"]["code"],
        last["object"]["reason"],
    )
    assert 100 == len(fast.events())
    await fast.leave()
    await api.close()


async def test_nothing_is_left_of_a_watch_whose_client_has_gone(api):
    store, open_ones = api.server.store, api.server.backend.watchers
    await (await api.watch(f"{CONFIGMAPS}?watch=1")).leave()  # by now the server's own are there
    before = len(store._history.watchers()), len(open_ones)
    stream = await api.watch(f"{CONFIGMAPS}?watch=1")
    during = len(store._history.watchers()), len(open_ones)
    await stream.leave()

    assert (before[0] + 1, before[1] + 1) == during
    assert before == (len(store._history.watchers()), len(open_ones))


async def test_a_watch_from_a_version_that_is_gone_gets_410(api):
    await api.ok("POST", CONFIGMAPS, configmap("a"))
    await api.ok("POST", CONFIGMAPS, configmap("b"))
    await api.server.store.compact(api.server.store.revision)

    stream = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion=2")
    events = await stream.until(1)

    assert 200 == stream.status, "as upstream: the error is an event"
    assert ("ERROR", 410) == (events[0]["type"], events[0]["object"]["code"])
    await stream.task


async def _bookmarks():
    api = await Api.start()
    query = "watch=1&allowWatchBookmarks=true&timeoutSeconds=200&fieldSelector=metadata.name%3Dnone"
    query += f"&resourceVersion={api.server.store.revision}"
    stream = await api.watch(f"{CONFIGMAPS}?{query}")
    loop = asyncio.get_running_loop()
    await asyncio.sleep(70)
    quiet = len(stream.events())
    await api.ok("POST", CONFIGMAPS, configmap("seen-by-nobody"))
    written = api.server.store.revision
    await asyncio.sleep(60)
    told = stream.events()
    await stream.task
    await api.close()
    return quiet, told, stream.events(), loop.time(), written


def test_bookmarks_come_only_after_a_change_and_the_timeout_ends_the_stream():
    quiet, told, events, ended, written = run_virtual(_bookmarks())

    assert 0 == quiet
    assert ["BOOKMARK"] == [event["type"] for event in told]
    version = told[0]["object"]["metadata"]["resourceVersion"]
    assert str(written) == version, "a version ahead would make the client miss the next change"
    assert told == events, "nothing new before the end, so no second one"
    assert 200 == round(ended)


async def test_a_client_that_goes_away_leaves_nothing_behind(api):
    before = len(asyncio.all_tasks())
    streams = [await api.watch(f"{CONFIGMAPS}?watch=1") for _ in range(20)]
    for stream in streams:
        await stream.leave()

    assert before == len(asyncio.all_tasks())


async def test_an_event_wakes_only_the_watches_that_it_can_concern(api, monkeypatch):
    """Five thousand kubelets watch the pods of their nodes: one pod is one kubelet's business."""
    woken = []
    batch = watch._Watch._batch
    monkeypatch.setattr(watch._Watch, "_batch", lambda *args: woken.append(args) or batch(*args))
    selectors = [f"fieldSelector=spec.nodeName%3Dn{n}" for n in range(20)]
    selectors += [f"labelSelector=app%3Da{n}" for n in range(20)]
    selectors += [f"fieldSelector=metadata.name%3Dp{n}" for n in range(20)]
    streams = [await api.watch(f"{PODS}?watch=1&{selector}") for selector in selectors]

    while not all(watcher.asleep for watcher in api.server.backend.watchers):
        await asyncio.sleep(0)
    created = pod("p3", nodeName="n7")
    created["metadata"]["labels"] = {"app": "a5"}
    await api.ok("POST", PODS, created)
    seen = [await streams[n].until(1) for n in (7, 25, 43)]
    change = {"metadata": {"labels": {"app": "a6"}}}
    await api.ok("PATCH", f"{PODS}/p3", change)
    left = [await streams[n].until(count) for n, count in ((7, 2), (25, 2), (26, 1), (43, 2))]
    for stream in streams:
        await stream.leave()

    assert ["ADDED"] * 3 == [events[0]["type"] for events in seen]
    kinds = [[event["type"] for event in events] for events in left]
    added, modified = ["ADDED"], ["ADDED", "MODIFIED"]
    assert [modified, ["ADDED", "DELETED"], added, modified] == kinds
    assert 7 == len(woken)


class Turns:
    """Counts how often the event loop comes round."""

    def __init__(self):
        self.count = 0
        self._task = asyncio.create_task(self._run())

    async def _run(self):
        while True:
            self.count += 1
            await asyncio.sleep(0)

    def end(self):
        self._task.cancel()


@pytest.mark.parametrize("begin", ["", "&resourceVersion={version}"], ids=["first", "resumed"])
@pytest.mark.parametrize("terms", [1, 400], ids=["short", "long"])
async def test_a_watch_that_shows_nothing_of_much_lets_others_have_their_turn(
    api, monkeypatch, begin, terms
):
    monkeypatch.setattr(aside, "PAUSE_COST", 10_000)
    monkeypatch.setattr(watch, "BATCH_BYTES", 2000)
    version = (await api.ok("GET", CONFIGMAPS))["metadata"]["resourceVersion"]
    for n in range(100):
        await api.ok("POST", CONFIGMAPS, configmap(f"c{n}"))
    selector = ",".join(f"key{n}%3Dvalue" for n in range(terms))
    looked, fields = [], Codec.fields
    monkeypatch.setattr(
        Codec, "fields", lambda *given: looked.append(turns.count) or fields(*given)
    )

    turns = Turns()
    where = f"{CONFIGMAPS}?watch=1&labelSelector={selector}{begin.format(version=version)}"
    stream = await api.watch(where)
    async with asyncio.timeout(60):
        while len(looked) < 100:
            await asyncio.sleep(0)
    turns.end()
    await stream.leave()

    most = max(Counter(looked).values())
    assert most <= (1 if terms == 400 else 10)


async def test_columns_come_with_the_first_row_only(api):
    await api.ok("POST", PODS, pod("a"))
    await api.ok("POST", PODS, pod("b"))

    stream = await api.watch(f"{PODS}?watch=1", {"accept": TABLE})
    events = await stream.until(2)
    await stream.leave()

    assert ["Table", "Table"] == [event["object"]["kind"] for event in events]
    assert [True, False] == [bool(e["object"].get("columnDefinitions")) for e in events]


async def test_columns_come_with_the_first_row_when_a_later_one_is_large(api):
    version = api.server.store.revision
    await api.ok("POST", CONFIGMAPS, configmap("small"))
    await api.ok("POST", CONFIGMAPS, configmap("big") | LARGE_DATA)

    stream = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={version}", {"accept": TABLE})
    events = await stream.until(2)
    await stream.leave()

    assert [True, False] == [bool(e["object"].get("columnDefinitions")) for e in events]


async def test_what_was_written_beside_the_loop_is_shown_for_its_own_event_only(api, monkeypatch):
    """An event that history has let go may leave its place in memory to another one."""
    opened, written = [], []
    start = watch._Watch.start
    monkeypatch.setattr(
        watch._Watch, "start", lambda self, *given: opened.append(self) or start(self, *given)
    )
    version = api.server.store.revision
    stream = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={version}", {"accept": PARTIAL})
    opened[0].write_straight(lambda chunk: written.append(chunk) or True)
    await api.ok("POST", CONFIGMAPS, configmap("big") | LARGE_DATA)
    await stream.until(1)
    [event] = api.server.store.watch("core/configmaps/", after=version).take()
    await api.ok("POST", PODS, pod("small"))

    event.kv, event.cache = await api.server.store.get("core/pods/default/small"), None
    opened[0].watcher.direct([event], {})
    await stream.leave()

    assert [True] == [b'"name":"small"' in chunk for chunk in written]


async def test_no_change_is_lost_between_list_and_watch(api):
    writer = asyncio.create_task(_write_many(api))
    listed = await api.ok("GET", CONFIGMAPS)
    version = listed["metadata"]["resourceVersion"]
    stream = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={version}")
    await writer
    have = {item["metadata"]["name"] for item in listed["items"]}
    events = await stream.until(200 - len(have))
    await stream.leave()

    seen = [event["object"]["metadata"]["name"] for event in events]
    assert len(seen) == len(set(seen))
    assert {f"c{n}" for n in range(200)} == have | set(seen)


async def _write_many(api):
    for n in range(200):
        await api.ok("POST", CONFIGMAPS, configmap(f"c{n}"))
        await asyncio.sleep(0)


LONG = 2**63 - 1
VERSION = 'invalid resource version: resourceVersion: Invalid value: "{0}": strconv.ParseUint: '
ODD = {
    "version 2^64": (f"resourceVersion={2**64}", 400, "value out of range"),
    "version negative": ("resourceVersion=-1", 400, VERSION.format(-1)),
    "continue": ("continue=x", 422, "resourceVersionMatch is forbidden when continue is provided"),
    "limit": ("limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
    "timeout empty": ("timeoutSeconds=", 400, 'strconv.ParseInt: parsing "": invalid syntax'),
    "match": ("resourceVersionMatch=Exact", 422, "unless sendInitialEvents is provided"),
    "initial": ("sendInitialEvents=true", 422, "requires setting resourceVersionMatch"),
}


@pytest.mark.parametrize("what", ODD)
async def test_odd_parameters_are_refused_in_upstream_s_words(api, what):
    """`tests/kube/test_watch_parameters.py` asks the real server the same, and more."""
    query, status, words = ODD[what]

    answer = await api.call("GET", f"{CONFIGMAPS}?watch=1&{query}")

    assert status == answer.status
    assert words in answer.body["message"]


@pytest.mark.parametrize("seconds", [-1, LONG])
async def test_a_time_that_is_over_is_told_in_the_stream(api, seconds):
    """So long a time is negative as Go counts it."""
    stream = await api.watch(f"{CONFIGMAPS}?watch=1&timeoutSeconds={seconds}")
    await stream.task

    (event,) = stream.events()
    found = event["object"]
    assert ("ERROR", 500) == (event["type"], found["code"])
    assert "context deadline exceeded" == found["message"]


async def test_a_watch_from_nowhere_ends_its_beginning_with_a_bookmark(api):
    await api.ok("POST", CONFIGMAPS, configmap("c"))
    stream = await api.watch(f"{CONFIGMAPS}?watch=1&allowWatchBookmarks=true")

    first, mark = await stream.until(2)
    await stream.leave()

    assert ("ADDED", "BOOKMARK") == (first["type"], mark["type"])
    said = mark["object"]["metadata"]["annotations"]
    assert {"k8s.io/initial-events-end": "true"} == said

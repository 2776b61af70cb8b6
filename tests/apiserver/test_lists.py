"""Lists: pages, selectors, versions and forms, and that long ones come in parts."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from bayplan.api.yaml import load_all
from bayplan.apiserver.verbs import options, read, watch
from bayplan.apiserver.verbs.read import cut
from bayplan.clock import run_virtual
from bayplan.store import KeyValue
from tests.apiserver.api import CONFIGMAPS, MERGE, PODS, configmap, pod
from tests.definitions import DEFINITIONS, definition

EVERYWHERE = "/api/v1/configmaps"
EVENT = {
    "eventTime": "2026-11-18T12:00:00.000000Z",
    "action": "Binding",
    "reason": "Scheduled",
    "reportingController": "example.com/scheduler",
    "reportingInstance": "one",
    "type": "Normal",
    "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
}


async def fill(api, count=7):
    """Configmaps a0, a1, … of which every other one is even."""
    for number in range(count):
        labels = {"even": str(number % 2 == 0).lower(), "number": str(number)}
        body = {"metadata": {"name": f"a{number}", "labels": labels}}
        await api.ok("POST", CONFIGMAPS, body)


async def pages(api, target):
    """The names on every page, and what each says of the rest."""
    found, token = [], ""
    while True:
        page = await api.ok("GET", f"{target}&continue={token}" if token else target)
        meta = page["metadata"]
        names = [item["metadata"]["name"] for item in page["items"]]
        found.append((names, meta.get("remainingItemCount")))
        token = meta.get("continue", "")
        if not token:
            return found


@pytest.mark.parametrize("at_once", [1, 2, 3, 500])
@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (0, [["a0", "a2", "a4", "a6"]]),
        (1, [["a0"], ["a2"], ["a4"], ["a6"]]),
        (2, [["a0", "a2"], ["a4", "a6"]]),
        (3, [["a0", "a2", "a4"], ["a6"]]),
        (4, [["a0", "a2", "a4", "a6"]]),
        (9, [["a0", "a2", "a4", "a6"]]),
    ],
)
async def test_pages_of_what_is_selected(api, monkeypatch, at_once, limit, expected):
    """However many are read at a time; how many are left is not told, as upstream."""
    monkeypatch.setattr(read, "PAGE", at_once)
    monkeypatch.setattr("bayplan.apiserver.aside.PAUSE_COST", 1)
    await fill(api)

    found = await pages(api, f"{CONFIGMAPS}?labelSelector=even%3Dtrue&limit={limit}")

    assert [(names, None) for names in expected] == found


async def test_pages_of_all(api):
    await fill(api, 5)

    found = await pages(api, f"{CONFIGMAPS}?limit=2")

    assert [(["a0", "a1"], 3), (["a2", "a3"], 1), (["a4"], None)] == found


@pytest.mark.parametrize(
    ("target", "names"),
    [
        (f"{CONFIGMAPS}?fieldSelector=metadata.name%3Da1", ["a1"]),
        (f"{CONFIGMAPS}?fieldSelector=metadata.name%3Da", []),
        (f"{CONFIGMAPS}?fieldSelector=metadata.name%3Da1&labelSelector=even%3Dtrue", []),
        (f"{CONFIGMAPS}?fieldSelector=metadata.name%3Da1&labelSelector=even%3Dfalse", ["a1"]),
        (f"{CONFIGMAPS}?fieldSelector=metadata.name!%3Da1&labelSelector=even%3Dfalse", ["a3"]),
        (f"{EVERYWHERE}?fieldSelector=metadata.name%3Da1", ["a1"]),
        (f"{EVERYWHERE}?fieldSelector=metadata.namespace%3Ddefault,metadata.name%3Da1", ["a1"]),
        ("/api/v1/namespaces?fieldSelector=metadata.name%3Ddefault", ["default"]),
        (f"{CONFIGMAPS}?labelSelector=number+in+(1,3)", ["a1", "a3"]),
        (f"{CONFIGMAPS}?labelSelector=number+notin+(1,3),even", ["a0", "a2"]),
        (f"{CONFIGMAPS}?labelSelector=!even", []),
    ],
)
async def test_what_selectors_leave(api, target, names):
    await fill(api, 4)

    found = await api.ok("GET", target)

    kept = [item["metadata"]["name"] for item in found["items"]]
    assert names == [name for name in kept if name != "kube-root-ca.crt"]


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("resourceVersionMatch=Exact", 422, "forbidden unless resourceVersion is provided"),
        ("resourceVersionMatch=Odd&resourceVersion=1", 422, 'supported values: "Exact"'),
        ("resourceVersionMatch=Exact&resourceVersion=0", 422, 'forbidden for resourceVersion "0"'),
        ("resourceVersionMatch=NotOlderThan&resourceVersion=0", 200, ""),
        ("sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"),
        ("resourceVersion=x", 400, "invalid resource version: "),
        ("resourceVersion=" + "9" * 21, 400, "value out of range"),
        ("limit=x", 400, ""),
        ("timeoutSeconds=x", 400, ""),
        ("limit=-1", 200, ""),
        (
            "watch=1&resourceVersionMatch=NotOlderThan",
            422,
            "forbidden for watch unless sendInitialEvents",
        ),
        ("watch=1&sendInitialEvents=true", 422, "requires setting resourceVersionMatch"),
        (
            "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact",
            422,
            'supported values: "NotOlderThan"',
        ),
    ],
)
async def test_which_versions_may_be_asked_for(api, query, status, text):
    answer = await api.call("GET", f"{CONFIGMAPS}?{query}")

    assert status == answer.status
    assert text in json.dumps(answer.body).replace('\\"', '"')


async def test_a_page_goes_on_at_its_own_version(api):
    await fill(api, 3)
    token = (await api.ok("GET", f"{CONFIGMAPS}?limit=1"))["metadata"]["continue"]
    going_on = f"{CONFIGMAPS}?limit=1&continue={token}"

    with_zero = await api.call("GET", f"{going_on}&resourceVersion=0")
    with_one = await api.call("GET", f"{going_on}&resourceVersion=1")
    matched = await api.call(
        "GET", f"{going_on}&resourceVersionMatch=NotOlderThan&resourceVersion=0"
    )

    assert (200, 400, 422) == (with_zero.status, with_one.status, matched.status)
    assert "not allowed when using continue" in with_one.body["message"]
    assert "is forbidden when continue is provided" in matched.body["message"]


async def test_a_list_at_a_version_shows_what_was_then(api):
    await fill(api, 2)
    version = (await api.ok("GET", CONFIGMAPS))["metadata"]["resourceVersion"]
    await api.ok("DELETE", f"{CONFIGMAPS}/a0")

    async def names(query):
        found = await api.ok("GET", f"{CONFIGMAPS}?{query}")
        return [item["metadata"]["name"] for item in found["items"]]

    assert ["a0", "a1"] == await names(f"resourceVersion={version}&resourceVersionMatch=Exact")
    assert ["a0", "a1"] == await names(f"resourceVersion={version}&limit=9")
    assert ["a1"] == await names(f"resourceVersion={version}")
    assert ["a1"] == await names(f"resourceVersion={version}&resourceVersionMatch=NotOlderThan")
    assert ["a1"] == await names("resourceVersion=0&limit=9")


async def test_a_version_that_is_gone_and_one_that_has_not_come(api, monkeypatch):
    monkeypatch.setattr(options, "FUTURE_WAIT_SECONDS", 0.01)
    await fill(api, 2)
    revision = api.server.store.revision
    await api.server.store.compact(revision)

    old = await api.call("GET", f"{CONFIGMAPS}?resourceVersion=1&resourceVersionMatch=Exact")
    early = await api.call("GET", f"{CONFIGMAPS}?resourceVersion={revision + 9}")

    assert (410, "Expired", f"too old resource version: 1 ({revision})") == (
        old.status,
        old.body["reason"],
        old.body["message"],
    )
    assert 504 == early.status
    assert "Too large resource version" in early.body["message"]


@pytest.mark.parametrize(
    ("limits", "parts"),
    [
        ((9, 999), [[1, 2, 3, 4, 5]]),
        ((2, 999), [[1, 2], [3, 4], [5]]),
        ((5, 999), [[1, 2, 3, 4, 5]]),
        ((1, 999), [[1], [2], [3], [4], [5]]),
        ((9, 20), [[1, 2], [3, 4], [5]]),
        ((9, 29), [[1, 2], [3, 4], [5]]),
        ((9, 30), [[1, 2, 3], [4, 5]]),
        ((9, 1), [[1], [2], [3], [4], [5]]),
        ((9, 50), [[1, 2, 3, 4, 5]]),
    ],
)
def test_a_list_is_cut_by_number_and_size(limits, parts):
    items = [KeyValue(str(n), b"x" * 10, n, n) for n in range(1, 6)]

    assert parts == [[kv.mod_revision for kv in part] for part in cut(items, *limits)]
    assert [] == list(cut([], *limits))


@pytest.mark.parametrize(
    "accept",
    ["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"],
)
async def test_a_list_in_parts_is_the_list(api, monkeypatch, accept):
    await fill(api)
    headers = {"accept": accept}
    whole = await api.call("GET", CONFIGMAPS, headers=headers)
    monkeypatch.setattr(read, "CHUNK_ITEMS", 2)
    monkeypatch.setattr(read, "PROTOBUF_ITEMS", 2)
    monkeypatch.setattr(read, "ASIDE_ITEMS", 2)

    stream = await api.exchange("GET", CONFIGMAPS, headers=headers)

    assert (200, accept) == (whole.status, whole.headers["content-type"])
    assert all(f"a{n}".encode() in whole.raw for n in range(5))
    assert whole.raw == b"".join(stream.pieces)
    assert whole.headers["content-type"] == stream.headers["content-type"]


@pytest.mark.parametrize(
    ("group", "plural", "body"),
    [
        ("/api/v1", "configmaps", {}),
        ("/apis/events.k8s.io/v1", "events", EVENT),
        ("/apis/example.com/v1", "boats", {"apiVersion": "example.com/v1", "kind": "Boat"}),
    ],
)
async def test_a_list_says_the_same_in_every_form(api, group, plural, body):
    """Items of built-in kinds do not repeat their kind, those of custom ones do."""
    await api.ok("POST", DEFINITIONS, definition("boats"))
    place = f"{group}/namespaces/default/{plural}"
    await api.ok("POST", place, body | {"metadata": {"name": "a"}})
    plain = await api.call("GET", place)
    pretty = await api.call("GET", f"{place}?pretty=true")
    yaml = await api.call("GET", place, headers={"accept": "application/yaml"})
    gone = await api.ok("DELETE", place)

    [item] = plain.body["items"]
    assert ("kind" in body) == ("kind" in item) == ("apiVersion" in item)
    assert [plain.body] == [pretty.body] == list(load_all(yaml.raw.decode()))
    assert [item] == gone["items"]
    assert plain.raw.count(b"\n") < 2 < 9 < pretty.raw.count(b"\n")


async def test_a_list_of_the_past_is_not_taken_from_an_index_of_now(api):
    bound = "/api/v1/namespaces/default/pods?fieldSelector=spec.nodeName%3Dn"
    await api.ok("POST", PODS, pod("old", nodeName="n"))
    version = api.server.store.revision
    await api.ok("POST", PODS, pod("new", nodeName="n"))

    async def names(more):
        return [item["metadata"]["name"] for item in (await api.ok("GET", bound + more))["items"]]

    assert ["old"] == await names(f"&resourceVersion={version}&resourceVersionMatch=Exact")
    assert ["new", "old"] == await names("")


async def test_a_store_behind_the_version_it_told_is_said_to_be_too_old(api, monkeypatch):
    async def at_once(backend, version):
        pass

    monkeypatch.setattr(read, "wait_for_version", at_once)
    await fill(api, 1)
    target = f"{CONFIGMAPS}?resourceVersion={api.server.store.revision + 9}"

    answer = await api.call("GET", f"{target}&resourceVersionMatch=Exact")

    assert 504 == answer.status
    assert "Too large resource version" in answer.body["message"]


async def test_lists_of_metadata_and_objects_in_the_form_of_the_other(api):
    await fill(api, 2)
    one = {"accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
    many = {"accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}

    shown = await api.ok("GET", CONFIGMAPS, headers=many)
    single = await api.ok("GET", f"{CONFIGMAPS}/a0", headers=one)

    assert ("PartialObjectMetadataList", "meta.k8s.io/v1") == (shown["kind"], shown["apiVersion"])
    assert ["a0", "a1"] == [item["metadata"]["name"] for item in shown["items"]]
    assert {"kind", "apiVersion", "metadata"} == set(shown["items"][0]) == set(single)
    assert 406 == (await api.call("GET", CONFIGMAPS, headers=one)).status
    assert 406 == (await api.call("GET", f"{CONFIGMAPS}/a0", headers=many)).status


async def test_an_object_is_read_as_new_as_was_asked(api, monkeypatch):
    monkeypatch.setattr(options, "FUTURE_WAIT_SECONDS", 0.01)
    await fill(api, 1)
    revision = api.server.store.revision

    assert 200 == (await api.call("GET", f"{CONFIGMAPS}/a0?resourceVersion={revision}")).status
    assert 504 == (await api.call("GET", f"{CONFIGMAPS}/a0?resourceVersion={revision + 9}")).status
    assert 404 == (await api.call("GET", f"{CONFIGMAPS}/none")).status


@pytest.mark.parametrize(
    ("sizes", "pieces"),
    [
        ([], []),
        ([4, 5], [9]),
        ([5, 5], [10]),
        ([5, 6], [5, 6]),
        ([11], [11]),
        ([11, 1, 9, 1], [11, 10, 1]),
    ],
)
def test_short_lines_of_a_watch_go_together(monkeypatch, sizes, pieces):
    monkeypatch.setattr(watch, "PIECE", 10)

    assert pieces == [len(piece) for piece in watch.gathered(b"x" * size for size in sizes)]


async def events(api, target, count, **more):
    """The first events of a watch, as (type, name, version)."""
    stream = await api.watch(target, **more)
    try:
        return [_told(event) for event in await stream.until(count)]
    finally:
        await stream.leave()


def _told(event):
    meta = event["object"]["metadata"]
    annotations = meta.get("annotations") or {}
    return event["type"], meta.get("name"), "k8s.io/initial-events-end" in annotations


@pytest.mark.parametrize("batch", [1, 1 << 20], ids=["one at a time", "together"])
async def test_a_watch_may_begin_with_all_there_is(api, monkeypatch, batch):
    monkeypatch.setattr(watch, "BATCH_BYTES", batch)
    await fill(api, 3)
    asked = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    even = f"{CONFIGMAPS}?{asked}&allowWatchBookmarks=true&labelSelector=even%3Dtrue"

    assert [
        ("ADDED", "a0", False),
        ("ADDED", "a2", False),
        ("BOOKMARK", None, True),
    ] == await events(api, even, 3)


async def test_what_enters_and_leaves_a_selection_is_added_and_deleted(api):
    await fill(api, 2)
    version = (await api.ok("GET", CONFIGMAPS))["metadata"]["resourceVersion"]

    async def label(name, even):
        body = {"metadata": {"labels": {"even": even}}}
        await api.ok("PATCH", f"{CONFIGMAPS}/{name}", body, headers={"content-type": MERGE})

    await label("a0", "false")
    await label("a1", "true")
    await label("a0", "maybe")
    await api.ok("PATCH", f"{CONFIGMAPS}/a1", {"data": {"b": "2"}})
    await api.ok("DELETE", f"{CONFIGMAPS}/a0")
    await api.ok("DELETE", f"{CONFIGMAPS}/a1")
    target = f"{CONFIGMAPS}?watch=1&labelSelector=even%3Dtrue&resourceVersion={version}"

    assert [
        ("DELETED", "a0", False),
        ("ADDED", "a1", False),
        ("MODIFIED", "a1", False),
        ("DELETED", "a1", False),
    ] == await events(api, target, 4)


async def test_watches_that_ask_alike_are_answered_alike(api, monkeypatch):
    """The second one is given what was found for the first; another asks for itself."""
    looked, line_of = [], watch._Watch._line_of

    def noting(self, event):
        looked.append((self.request.query["labelSelector"], event.kv.key[-2:]))
        return line_of(self, event)

    monkeypatch.setattr(watch._Watch, "_line_of", noting)
    backend, counted = api.server.backend, []
    remember = backend.remember_encoded
    backend.remember_encoded = lambda *words: counted.append(words) or remember(*words)
    target = f"{CONFIGMAPS}?watch=1&resourceVersion={api.server.store.revision}&labelSelector=even"
    watches = [await api.watch(f"{target}{value}") for value in ("%3Dtrue", "%3Dtrue", "", "!%3Dx")]
    await fill(api, 2)

    told = [[_told(event)[1] for event in await each.until(1)] for each in watches[:2]]
    both = [[_told(event)[1] for event in await each.until(2)] for each in watches[2:]]
    for each in watches:
        await each.leave()

    assert 1 == looked.count(("even=true", "a0"))
    assert len(looked) + 2 == len(counted), "what was chosen, and both lines, count as kept"
    assert [["a0"], ["a0"]] == told
    assert [["a0", "a1"], ["a0", "a1"]] == both


def test_an_alarm_that_is_cleared_does_not_ring():
    """It would hold on to a watch whose client has gone."""

    async def rings(clear):
        rang = []
        alarm = watch._Alarm(SimpleNamespace(rouse=lambda: rang.append(True)), [5.0])
        if clear:
            alarm.clear()
        await asyncio.sleep(9)
        return alarm.rang, rang, alarm.again()

    assert (True, [True], False) == run_virtual(rings(False))
    assert (False, [], False) == run_virtual(rings(True))


@pytest.mark.parametrize(
    ("place", "query", "told"),
    [
        pytest.param(CONFIGMAPS, "", ["a0", "a1", "new"], id="all, and then changes"),
        pytest.param(CONFIGMAPS, "sendInitialEvents=false", ["new"], id="changes only"),
        pytest.param(CONFIGMAPS, "sendInitialEvents=true", ["a0", "a1", "new"], id="all"),
        pytest.param(
            CONFIGMAPS, "sendInitialEvents=true&resourceVersion=1", ["a0", "a1", "new"], id="as new"
        ),
        pytest.param(CONFIGMAPS, "fieldSelector=metadata.name%3Dnew", ["new"], id="one name"),
        pytest.param(
            CONFIGMAPS, "fieldSelector=metadata.name!%3Da0", ["a1", "new"], id="all but one name"
        ),
        pytest.param(
            EVERYWHERE,
            "fieldSelector=metadata.namespace%3Ddefault",
            ["a0", "a1", "new"],
            id="one namespace",
        ),
        pytest.param(EVERYWHERE, "fieldSelector=metadata.name%3Dnew", ["new"], id="in all of them"),
    ],
)
async def test_what_a_watch_tells_of_what_was_and_what_comes(api, place, query, told):
    await fill(api, 2)
    match = "&resourceVersionMatch=NotOlderThan" if "Initial" in query else ""
    stream = await api.watch(f"{place}?watch=1&{query}{match}")
    await api.ok("POST", CONFIGMAPS, configmap("new"))
    try:
        found = await stream.until(len(told))
    finally:
        await stream.leave()

    assert [("ADDED", name, False) for name in told] == [_told(event) for event in found]


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json", ("v1", "ConfigMap")),
        (
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            ("meta.k8s.io/v1", "PartialObjectMetadata"),
        ),
    ],
)
async def test_a_bookmark_has_the_form_of_the_watch(api, accept, kind):
    asked = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    target = f"{CONFIGMAPS}?{asked}&allowWatchBookmarks=true"
    stream = await api.watch(target, headers={"accept": accept})
    try:
        [mark] = await stream.until(1)
    finally:
        await stream.leave()

    assert ("BOOKMARK", *kind) == (
        mark["type"],
        mark["object"]["apiVersion"],
        mark["object"]["kind"],
    )

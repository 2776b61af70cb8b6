"""Watches and lists with odd parameters: both servers accept or refuse them in the same words.

A watch that is open shows what is written after it began: all that came before has come then. One
from a version of the future shows nothing, and is ended by the server.
"""

from __future__ import annotations

import json
from contextlib import closing
from itertools import count

import pytest

from bayplan.testing.servers import start_embedded, start_kube
from tests.kube.twins import Connection

pytestmark = pytest.mark.kube
HUGE = 2**64
LONG = 2**63 - 1
ENDED = "&timeoutSeconds=3"
WATCHES = {
    f"rv {name}": f"resourceVersion={value}"
    for name, value in {
        "2^64": HUGE,
        "2^64-1": f"{HUGE - 1}{ENDED}",
        "2^63": f"{2**63}{ENDED}",
        "2^63-1": f"{LONG}{ENDED}",
        "negative": -1,
        "minus zero": "-0",
        "plus": "%2B1",
        "padded": "007",
        "hexadecimal": "0x10",
        "a fraction": "1.5",
        "an exponent": "1e3",
        "spaces": "%201",
        "underscores": "1_0",
        "other digits": "%D9%A1",
        "words": "abc",
        "empty": "",
        "zero": "0",
    }.items()
} | {
    "continue": "continue=abc",
    "continue with a version": "continue=abc&resourceVersion=0",
    "continue empty": "continue=",
    "limit": "limit=1",
    "limit negative": "limit=-1",
    "limit no number": "limit=x",
    "limit huge": f"limit={HUGE}",
    "timeout long": f"timeoutSeconds={LONG}",
    "timeout too long": f"timeoutSeconds={LONG + 1}",
    "timeout negative": "timeoutSeconds=-1",
    "timeout zero": "timeoutSeconds=0",
    "timeout no number": "timeoutSeconds=x",
    "timeout empty": "timeoutSeconds=",
    "match without a version": "resourceVersionMatch=Exact",
    "match older without a version": "resourceVersionMatch=NotOlderThan",
    "match exact": "resourceVersionMatch=Exact&resourceVersion=1",
    "match older": "resourceVersionMatch=NotOlderThan&resourceVersion=0",
    "match wrong": "resourceVersionMatch=Sometimes&resourceVersion=1",
    "match wrong alone": "resourceVersionMatch=Sometimes",
    "initial events alone": "sendInitialEvents=true",
    "no initial events": "sendInitialEvents=false",
    "no initial events with a match": "sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
    "initial events with a match": "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    "initial events exactly": "sendInitialEvents=true&resourceVersionMatch=Exact",
    "initial events wrong match": "sendInitialEvents=true&resourceVersionMatch=Sometimes",
    "initial events and bookmarks": "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    "&allowWatchBookmarks=true",
    "initial events of the future": "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    f"&resourceVersion={LONG}&timeoutSeconds=1",
    "initial events no boolean": "sendInitialEvents=maybe",
    "initial events empty": "sendInitialEvents=",
    "initial events and continue": "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    "&continue=abc",
    "bookmarks no boolean": "allowWatchBookmarks=maybe",
    "bookmarks": "allowWatchBookmarks=true",
    "bookmarks from zero": "allowWatchBookmarks=true&resourceVersion=0",
    "continue from a version": "continue=abc&resourceVersion=1",
    "timeout that goes round": f"timeoutSeconds={2**62}",
    "field wrong": "fieldSelector=spec.x=1",
    "two versions": "resourceVersion=abc&resourceVersion=0",
}
LISTS = {
    "limit negative": "limit=-1",
    "limit huge": f"limit={HUGE}",
    "continue wrong": "continue=abc",
    "continue with a version": "continue=abc&resourceVersion=1",
    "version 2^64": f"resourceVersion={HUGE}",
    "version negative": "resourceVersion=-1",
    "match without a version": "resourceVersionMatch=Exact",
    "match wrong": "resourceVersionMatch=Sometimes&resourceVersion=1",
    "exact zero": "resourceVersionMatch=Exact&resourceVersion=0",
    "initial events": "sendInitialEvents=true",
    "timeout negative": "timeoutSeconds=-1",
    "timeout huge": f"timeoutSeconds={HUGE}",
    "timeout empty": "timeoutSeconds=",
    "limit empty": "limit=",
    "version with spaces": "resourceVersion=%201",
    "version empty": "resourceVersion=",
}
# A wrong version of a watch is 500 there, which makes clients try again (api-differences.md).
LATE = ("ERROR", 500, "context deadline exceeded")
WRONG_VERSION = "resourceVersion: Invalid value"
LAST = "written-last"
SERIAL = count()


@pytest.fixture(scope="module")
def twins():
    with start_kube() as kube, start_embedded() as ours:
        yield kube, ours


def prepared(server):
    """A path with one object that nobody else writes to."""
    namespace = f"watched-{next(SERIAL)}"
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for at, name in (("/api/v1/namespaces", namespace), (path, "one")):
        assert server.ask("POST", at, {"metadata": {"name": name}})[0] == 201
    return path


def watched(cluster, query):
    """The status, and the lines until the server ends a watch or shows what was written last."""
    with closing(Connection(cluster)) as writing, closing(Connection(cluster)) as watching:
        path = prepared(writing)
        answer = watching.open("GET", f"{path}?watch=1&{query}")
        lines = []
        if answer.status == 200:  # what is watched from is fixed: this write comes after all else
            assert writing.ask("POST", path, {"metadata": {"name": LAST}})[0] == 201
        for line in answer:
            lines.append(line)
            if f'"name":"{LAST}"'.encode() in line:
                break
        return answer.status, lines


def listed(cluster, query):
    with closing(Connection(cluster)) as server:
        answer = server.open("GET", f"{prepared(server)}?{query}")
        return answer.status, list(answer)


def told(answer):
    """What a client learns: the error, or the events without versions of their own."""
    status, lines = answer
    if status != 200:
        found = json.loads(b"".join(lines))
        (found.get("details") or {}).pop("retryAfterSeconds", None)
        return status, found.get("reason"), found.get("message"), found.get("details")
    events = []
    for line in lines:
        event = json.loads(line)
        if "object" not in event:
            events.append(("list", len(event.get("items", []))))
            continue
        about = event["object"]
        about.get("details", {}).pop("retryAfterSeconds", None)
        shown = (about.get("message") or "").partition(", current")[0] or (
            about["metadata"].get("name"),
            about["kind"],
        )
        events.append((event["type"], about.get("code"), shown))
    return status, events


@pytest.mark.parametrize("name", WATCHES)
def test_both_take_or_refuse_a_watch_alike(twins, name):
    kube, ours = (told(watched(each, WATCHES[name])) for each in twins)

    if name in ("timeout negative", "timeout long") and not kube[1]:
        kube = (200, [LATE])  # at times it ends before it can tell
    if kube[0] == 500 and kube[2].startswith(WRONG_VERSION):
        kube = (400, "BadRequest", f"invalid resource version: {kube[2]}", None)
    assert kube == ours


@pytest.mark.parametrize("name", LISTS)
def test_both_take_or_refuse_a_list_alike(twins, name):
    kube, ours = (told(listed(each, LISTS[name])) for each in twins)

    assert kube == ours

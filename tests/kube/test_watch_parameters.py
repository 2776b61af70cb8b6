"""Watches and lists with odd parameters: both servers accept or refuse them in the same words."""

from __future__ import annotations

import json
import socket
import ssl
from urllib.parse import urlsplit

import pytest

from bayplan.testing.servers import start_embedded, start_kube
from tests.kube.twins import Connection

pytestmark = pytest.mark.kube
MAPS = "/api/v1/namespaces/default/configmaps"
HUGE = 2**64
LONG = 2**63 - 1
WATCHES = {
    f"rv {name}": f"resourceVersion={value}"
    for name, value in {
        "2^64": HUGE,
        "2^64-1": HUGE - 1,
        "2^63": 2**63,
        "2^63-1": LONG,
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


@pytest.fixture(scope="module")
def twins():
    with start_kube() as kube, start_embedded() as ours:
        for each in (kube, ours):
            server = Connection(each)
            body = {"metadata": {"name": "one"}, "data": {"a": "b"}}
            assert server.ask("POST", MAPS, body)[0] == 201
            server.close()
        yield kube, ours


def asked(cluster, query):
    """The status and, of a watch that is taken, what comes of it within a moment."""
    parts = urlsplit(cluster.server)
    plain = socket.create_connection((parts.hostname, parts.port), timeout=60)
    if parts.scheme == "https":
        plain = ssl._create_unverified_context().wrap_socket(plain)
    with plain:
        head = f"GET {MAPS}?{query} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n"
        plain.sendall(f"{head}Authorization: Bearer {cluster.token}\r\n\r\n".encode())
        data = b""
        try:
            while piece := plain.recv(1 << 16):
                data += piece
                if b"\r\n\r\n" in data and data.startswith(b"HTTP/1.1 200"):
                    plain.settimeout(0.7)
        except TimeoutError:
            data += b"\nSTILL\n"
    return int(data.split(b" ")[1]), data.partition(b"\r\n\r\n")[2]


def told(answer):
    """What a client learns: the error, or the events without versions of their own."""
    status, body = answer
    lines = [line for line in body.split(b"\n") if line.startswith(b"{")]
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
    return status, events, body.endswith(b"STILL\n")


@pytest.mark.parametrize("name", WATCHES)
def test_both_take_or_refuse_a_watch_alike(twins, name):
    kube, ours = (told(asked(each, f"watch=1&{WATCHES[name]}")) for each in twins)

    if name in ("timeout negative", "timeout long") and not kube[1]:
        kube = (200, [LATE], False)  # at times it ends before it can tell
    if kube[0] == 500 and kube[2].startswith(WRONG_VERSION):
        kube = (400, "BadRequest", f"invalid resource version: {kube[2]}", None)
    assert kube == ours


@pytest.mark.parametrize("name", LISTS)
def test_both_take_or_refuse_a_list_alike(twins, name):
    kube, ours = (told(asked(each, LISTS[name])) for each in twins)

    assert kube == ours

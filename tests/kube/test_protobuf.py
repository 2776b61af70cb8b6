"""Protobuf beside the real server: it reads what we write, and answers as we do."""

from __future__ import annotations

import http.client
import json
import re
import ssl
from urllib.parse import urlsplit

import pytest

from bayplan.apiserver.protobuf import decode, encode
from bayplan.testing.servers import start_embedded, start_kube
from tests.conformance.api.replay import load
from tests.conformance.test_api import HERE
from tests.definitions import DEFINITIONS, definition
from tests.kube.twins import Connection, normal

pytestmark = pytest.mark.kube
PROTOBUF = "application/vnd.kubernetes.protobuf"
META = "g=meta.k8s.io;v=v1"
ACCEPTS = [
    PROTOBUF,
    f"{PROTOBUF}, */*",
    f"{PROTOBUF},application/json",
    f"application/json;q=0.5,{PROTOBUF}",
    f"{PROTOBUF};as=Table;{META}",
    f"{PROTOBUF};as=Table;{META},application/json;as=Table;{META}",
    f"{PROTOBUF};as=PartialObjectMetadata;{META}",
    f"{PROTOBUF};as=PartialObjectMetadataList;{META},application/json",
    "application/cbor",
    "text/html",
]
CRD = definition(
    "ships", "ships.example", scope="Cluster", names={"singular": "ship", "listKind": "ShipList"}
)
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
CHANGED = re.compile(r'"lastTransitionTime": "[^"]+"')
SHIPS = "/apis/ships.example/v1/ships"
PATHS = [
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default",
    "/api/v1/namespaces/absent",
    "/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1",
    SHIPS,
    f"{SHIPS}/absent",
    f"{SHIPS}?watch=1&timeoutSeconds=1",
]


@pytest.fixture(scope="module")
def real():
    with start_kube() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    with start_embedded(tmp_path_factory.mktemp("embedded")) as cluster:
        yield cluster


def raw(cluster, method, path, body=None, headers=None):
    """Send bytes; return status, media type and bytes."""
    parts = urlsplit(cluster.server)
    context = ssl._create_unverified_context()
    client = http.client.HTTPSConnection(parts.hostname, parts.port, context=context, timeout=60)
    given = {"Authorization": f"Bearer {cluster.token}", **(headers or {})}
    client.request(method, path, body, given)
    answer = client.getresponse()
    found = answer.status, answer.headers["content-type"], answer.read()
    client.close()
    return found


def bodies():
    """What the recorded suites create, one object a kind and path."""
    found = {}
    for suite in ("kinds", "recorded"):
        for step in load(HERE / f"{suite}.json.gz"):
            body = step.get("body")
            if step.get("method") == "POST" and isinstance(body, dict) and "metadata" in body:
                created = step["want"].get("body", {})
                if step["want"]["status"] == 201 and isinstance(created, dict):
                    kind = body.get("kind") or created.get("kind")
                    version = body.get("apiVersion") or created.get("apiVersion")
                    if kind and version and "?" not in step["path"]:
                        key = (version, kind, json.dumps(body, sort_keys=True))
                        found.setdefault(key, (step["path"], body, version, kind))
    return list(found.values())


def test_the_real_server_reads_our_bytes(real):
    """Every object of the recorded suites, sent as JSON and as our protobuf, is taken alike."""
    connection = Connection(real)
    kinds = set()
    for path, body, version, kind in bodies():
        namespace = path.split("/namespaces/")[1].split("/")[0] if "/namespaces/" in path else ""
        target = path.replace(f"/namespaces/{namespace}/", "/namespaces/default/")
        obj = {**body, "apiVersion": version, "kind": kind}
        obj["metadata"] = {**body["metadata"]}
        obj["metadata"].pop("namespace", None)
        try:
            sent = encode(obj)
        except (AssertionError, AttributeError, KeyError, TypeError, ValueError):
            continue  # not a canonical object: the suites send wrong ones too
        status, plain = connection.ask("POST", f"{target}?dryRun=All", obj, plain=True)
        if status != 201:
            continue
        headers = {"Content-Type": PROTOBUF, "Accept": "application/json"}
        got, _, answer = raw(real, "POST", f"{target}?dryRun=All", sent, headers)
        expected = unnamed(json.loads(plain))
        assert (201, expected) == (got, unnamed(json.loads(answer))), (target, obj)
        kinds.add(kind)
    connection.close()
    assert len(kinds) > 30, sorted(kinds)


def unnamed(obj):
    """Return an object without what is drawn anew each time."""
    text = UID.sub("uid", json.dumps(normal(obj)))
    shown = json.loads(CHANGED.sub('"lastTransitionTime": "now"', text))
    shown["metadata"].pop("managedFields", None)
    if "generateName" in shown["metadata"]:
        shown["metadata"].pop("name", None)
    return shown


def test_both_servers_choose_the_same_form(real, ours):
    for cluster in (real, ours):
        connection = Connection(cluster)
        status, made = connection.ask("POST", DEFINITIONS, CRD)
        assert 201 == status, made
        while connection.ask("GET", SHIPS, plain=True)[0] != 200:
            pass
        connection.close()
    different = {}
    for path in PATHS:
        for accept in ACCEPTS:
            headers = {"Accept": accept}
            theirs = raw(real, "GET", path, headers=headers)
            own = raw(ours, "GET", path, headers=headers)
            if theirs[:2] != own[:2]:
                different[path, accept] = f"{theirs[:2]} {own[:2]}"

    assert "" == "\n".join(f"{what}: {how}" for what, how in different.items())


def test_answers_say_the_same_in_both_forms(ours):
    connection = Connection(ours)
    groups = connection.ask("GET", "/apis")[1]["groups"]
    versions = ["/api/v1", *(f"/apis/{g['preferredVersion']['groupVersion']}" for g in groups)]
    seen = 0
    for base in versions:
        for resource in connection.ask("GET", base)[1]["resources"]:
            if "list" not in resource["verbs"] or "ships" in base or "metrics" in base:
                continue
            path = f"{base}/{resource['name']}"
            plain = connection.ask("GET", path)[1]
            status, media, data = raw(ours, "GET", path, headers={"Accept": PROTOBUF})
            assert (200, PROTOBUF) == (status, media), path
            found = decode(data)
            shown = [one["metadata"]["name"] for one in found.get("items", [])]
            assert [one["metadata"]["name"] for one in plain["items"]] == shown
            seen += 1
    connection.close()
    assert seen > 40

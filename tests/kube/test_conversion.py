"""Conversion webhooks behave as with the real kube-apiserver: one webhook, both servers."""

from __future__ import annotations

import asyncio
import copy
import threading
import time
from collections.abc import Iterator

import pytest

from bayplan.testing.servers import start_embedded, start_kube
from tests.apiserver.crd.converted import convert, definition, gate, path
from tests.apiserver.dynamic.hooks import Hooks
from tests.definitions import DEFINITIONS
from tests.kube.twins import Connection, normal, without_managers

pytestmark = pytest.mark.kube
ONE = f"{DEFINITIONS}/gates.conv.example.com"
WRONG = {
    "refusal": lambda r: {"result": {"status": "Failed", "message": "no such luck"}},
    "silence": lambda r: {"result": {}},
    "nothing": lambda r: {"result": {"status": "Success"}, "convertedObjects": []},
    "same": lambda r: {"result": {"status": "Success"}, "convertedObjects": r["objects"]},
    "another": lambda r: _changed(r, name="b"),
    "label": lambda r: _changed(r, labels={"a b": "c"}),
    "unavailable": lambda r: {"raw": {"text": "out of order", "status": 503}},
    "error": lambda r: {"raw": {"text": "out of order", "status": 500}},
}


def _changed(request, **metadata):
    answer = convert(request)
    for obj in answer["convertedObjects"]:
        obj["metadata"] = {**obj["metadata"], **metadata}
    return answer


@pytest.fixture(scope="module")
def hooks(tmp_path_factory) -> Iterator[Hooks]:
    """A webhook that runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    made = Hooks(tmp_path_factory.mktemp("hooks"))
    asyncio.run_coroutine_threadsafe(made.__aenter__(), loop).result(60)
    made.handlers["/convert"] = convert
    yield made
    asyncio.run_coroutine_threadsafe(made.__aexit__(), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(scope="module")
def twins(hooks):
    with start_kube() as real, start_embedded(None, "--store=memory") as ours:
        pair = Connection(real), Connection(ours)
        for connection in pair:
            assert connection.ask("POST", DEFINITIONS, definition(hooks))[0] == 201
            wait_until(connection, lambda each: each.ask("GET", path("v2"), plain=True)[0] == 200)
        yield pair
        for connection in pair:
            connection.close()


@pytest.fixture
def clean(twins, hooks):
    """Both servers without an object."""
    yield twins
    hooks.handlers["/convert"] = convert
    for connection in twins:
        assert connection.ask("DELETE", path("v1"))[0] == 200


def wait_until(connection, ready) -> None:
    deadline = time.monotonic() + 60
    while not ready(connection):
        assert time.monotonic() < deadline, "the server is not ready"
        time.sleep(0.1)


def both(twins, method, target, body=None, media="application/json"):
    """Ask both; return the answer that they share. Managers of other versions are not mapped."""
    real, ours = (each.ask(method, target, copy.deepcopy(body), media) for each in twins)
    assert (real[0], without_managers(real[1])) == (ours[0], without_managers(ours[1]))
    return ours


def test_verbs_in_both_versions(clean):
    both(clean, "POST", path("v1"), gate("v1", "a", hostPort="a:1"))
    both(clean, "POST", path("v2"), gate("v2", "b", host="b", port="2", size=7, other=1))
    for version in ("v1", "v2"):
        for name in ("a", "b"):
            assert both(clean, "GET", path(version, name))[0] == 200
        real, ours = (each.ask("GET", path(version))[1]["items"] for each in clean)
        assert normal(real) == normal(ours)
        assert len(ours) == 2
    merge = "application/merge-patch+json"
    both(clean, "PATCH", path("v2", "a"), {"spec": {"port": "9"}}, merge)
    both(clean, "PATCH", path("v1", "b") + "/status", {"status": {"ok": "x"}}, merge)
    both(clean, "GET", path("v2", "b"))
    both(clean, "DELETE", path("v2", "b"))
    assert both(clean, "GET", path("v1", "b"))[0] == 404


def test_applied_in_another_version(clean):
    media = "application/apply-patch+yaml"
    target = path("v2", "a") + "?fieldManager=me"
    both(clean, "PATCH", target, gate("v2", "a", host="h", port="1"), media)
    both(clean, "PATCH", target, gate("v2", "a", host="z", port="1"), media)
    both(clean, "PATCH", target + "&dryRun=All", gate("v2", "a", host="q", port="1"), media)
    assert both(clean, "GET", path("v1", "a"))[1]["spec"]["hostPort"] == "z:1"


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_said_of_a_bad_answer(clean, hooks, wrong):
    for each in clean:
        assert each.ask("POST", path("v1"), gate("v1", "a", hostPort="a:1"))[0] == 201
    hooks.handlers["/convert"] = WRONG[wrong]
    assert both(clean, "GET", path("v2", "a"))[0] == 500
    assert both(clean, "POST", path("v2"), gate("v2", "c", host="c"))[0] == 500


def test_an_answer_that_is_no_json(clean, hooks):
    for each in clean:
        assert each.ask("POST", path("v1"), gate("v1", "a", hostPort="a:1"))[0] == 201
    hooks.handlers["/convert"] = lambda r: {"raw": {"text": "so what", "status": 200}}
    real, ours = (each.ask("GET", path("v2", "a")) for each in clean)
    said = [answer[1]["message"].partition("json parse error")[0] for answer in (real, ours)]
    assert (real[0], said[0]) == (ours[0], said[1])


def test_a_webhook_that_is_not_there(clean, hooks):
    for each in clean:
        assert each.ask("POST", path("v1"), gate("v1", "a", hostPort="a:1"))[0] == 201
        found = each.ask("GET", ONE)[1]
        config = found["spec"]["conversion"]["webhook"]["clientConfig"]
        config["url"] = "https://127.0.0.1:1/convert"
        assert each.ask("PUT", ONE, found)[0] == 200
        wait_until(each, lambda each: each.ask("GET", path("v2", "a"))[0] == 500)
    both(clean, "GET", path("v2", "a"))
    for each in clean:
        found = each.ask("GET", ONE)[1]
        config = found["spec"]["conversion"]["webhook"]["clientConfig"]
        config["url"] = hooks.url + "/convert"
        assert each.ask("PUT", ONE, found)[0] == 200
        wait_until(each, lambda each: each.ask("GET", path("v2", "a"))[0] == 200)


CONVERSIONS = {
    "no config": {"strategy": "Webhook"},
    "url and service": {"url": "https://a/b", "service": {"name": "a", "namespace": "b"}},
    "http": {"url": "http://a/b"},
    "no host": {"url": "https:///b"},
    "user and query": {"url": "https://me@a/b?c=d#e"},
    "no name": {"service": {"namespace": "b"}},
    "port": {"service": {"name": "a", "namespace": "b", "port": 70000}},
    "path": {"service": {"name": "a", "namespace": "b", "path": "x//Y"}},
    "strategy": {"strategy": "Magic"},
    "unwanted": {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}},
    "review": {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"url": "https://a/b"},
            "conversionReviewVersions": ["v3", "v3", "V4"],
        },
    },
}


@pytest.mark.parametrize("given", CONVERSIONS)
def test_what_is_said_of_a_bad_conversion(twins, hooks, given):
    wanted = definition(hooks)
    conversion = CONVERSIONS[given]
    if "strategy" not in conversion:
        hook = {"clientConfig": conversion, "conversionReviewVersions": ["v1"]}
        conversion = {"strategy": "Webhook", "webhook": hook}
    wanted["spec"]["conversion"] = conversion
    assert both(twins, "POST", DEFINITIONS + "?dryRun=All", wanted)[0] == 422


def test_a_new_storage_version(clean):
    for each in clean:
        assert each.ask("POST", path("v1"), gate("v1", "a", hostPort="a:1"))[0] == 201
    _store_in(clean, 1)
    both(clean, "GET", path("v2", "a"))
    for each in clean:
        wait_until(each, _moved)
    both(clean, "GET", path("v1", "a"))
    _store_in(clean, 0)


def _store_in(twins, index) -> None:
    for each in twins:
        found = each.ask("GET", ONE)[1]
        for position, version in enumerate(found["spec"]["versions"]):
            version["storage"] = position == index
        code, found = each.ask("PUT", ONE, found)
        assert (code, found["status"]["storedVersions"]) == (200, ["v1", "v2"])


def _moved(connection) -> bool:
    """Write an object unchanged; the version grows if it is stored anew."""
    before = connection.ask("GET", path("v1", "a"))[1]
    code, after = connection.ask("PUT", path("v1", "a"), before)
    assert code == 200
    return after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]

import json
import threading

import msgspec
import pytest

from bayplan.api.duration import seconds
from bayplan.config.types import Extender as ExtenderConfig
from bayplan.config.types import ExtenderManagedResource
from bayplan.extender import Extender
from bayplan.extender.client import HttpExtender, TextCache
from bayplan.extender.http import Caller
from bayplan.framework.contract.extender import ExtenderError
from bayplan.framework.contract.results import Victims
from bayplan.testing.builders import make_node, make_pod
from tests.extender.servers import plain_server, serving

POD = make_pod("p").uid("u0").build()
A, B, C = NODES = [make_node(name).uid(f"n-{name}").build() for name in "abc"]


@pytest.fixture
def caller():
    caller = Caller(max_answer=1_000_000)
    yield caller
    caller.close()


def client_of(caller, url, texts=None, **settings):
    verbs = {
        "filter_verb": "filter",
        "prioritize_verb": "prioritize",
        "preempt_verb": "preempt",
        "bind_verb": "bind",
        "weight": 2,
        "http_timeout": seconds(30),
    }
    return HttpExtender(ExtenderConfig(url_prefix=url, **(verbs | settings)), caller, texts)


@pytest.mark.parametrize("names_only", [True, False], ids=["names only", "whole nodes"])
def test_filter_against_our_kit(caller, names_only):
    app = Extender()
    app.filter(lambda names: {"b": "too hot"})
    with serving(app) as url:
        client = client_of(caller, url + "/", node_cache_capable=names_only)

        result = client.filter(POD, NODES)

    assert (("a", "c"), {"b": "too hot"}) == (result.node_names, result.failed)


def test_filter_against_a_plain_server_that_answers_in_lower_case(caller):
    seen = []

    def answer(path, body):
        seen.append((path, sorted(body)))
        return 200, json.dumps({"nodenames": body["NodeNames"][:1], "failednodes": {}}).encode()

    with plain_server(answer) as url:
        result = client_of(caller, url, node_cache_capable=True).filter(POD, [A, B])

    assert ("a",) == result.node_names
    assert [("/filter", ["NodeNames", "Nodes", "Pod"])] == seen


def test_whole_objects_are_sent_as_the_api_server_wrote_them(caller):
    seen = []

    class Source:
        def text_of(self, item):
            text = {"metadata": {"name": item.metadata.name, "managedFields": [1]}, "unknown": 1}
            return json.dumps(text).encode()

    def answer(path, body):
        seen.append(body)
        return 200, b"{}"

    with plain_server(answer) as url:
        client = client_of(caller, url, TextCache(Source()))
        client.filter(POD, [A])

    [body] = seen
    assert {"metadata": {"name": "p"}, "unknown": 1} == body["Pod"]
    assert [{"metadata": {"name": "a"}, "unknown": 1}] == body["Nodes"]["items"]


def test_a_node_that_changed_is_sent_as_it_is_now(caller):
    seen = []

    def answer(path, body):
        seen.append(body["Nodes"]["items"][0]["metadata"]["labels"])
        return 200, b"{}"

    with plain_server(answer) as url:
        client = client_of(caller, url, TextCache())
        for version, colour in (("1", "red"), ("1", "red"), ("2", "green")):
            node = make_node("a").uid("n-a").label({"colour": colour}).build()
            meta = msgspec.structs.replace(node.metadata, resource_version=version)
            client.filter(POD, [msgspec.structs.replace(node, metadata=meta)])

    assert ["red", "red", "green"] == [labels["colour"] for labels in seen]


def test_scores_are_read_as_they_are(caller):
    app = Extender()
    app.prioritize(lambda names: {"a": 10, "b": 3})
    with serving(app) as url:
        scores = client_of(caller, url, node_cache_capable=True).prioritize(POD, [A, B])

    assert {"a": 10, "b": 3} == scores


def test_scores_of_a_node_that_is_named_twice_add_up_as_upstream(caller):
    listed = [{"Host": name, "Score": score} for name, score in (("a", 3), ("b", 1), ("a", 4))]

    with plain_server(lambda path, body: (200, json.dumps(listed).encode())) as url:
        scores = client_of(caller, url).prioritize(POD, [A, B])

    assert {"a": 7, "b": 1} == scores


def test_calls_that_were_begun_together_share_the_wait(caller):
    app = Extender()
    both_in = threading.Barrier(2, timeout=60)

    @app.prioritize
    def slow(names):
        both_in.wait()  # passes only if the second call comes while the first is under way
        return {}

    with serving(app) as url:
        client = client_of(caller, url, node_cache_capable=True)
        waits = [client.prioritize_later(POD, [A]) for _ in range(2)]

        assert [{"a": 0}] * 2 == [wait() for wait in waits]


@pytest.mark.parametrize("names_only", [True, False], ids=["UIDs only", "whole pods"])
def test_preempt_and_bind_against_our_kit(caller, names_only):
    app = Extender()
    bound = []
    app.preempt(lambda victims: ["b"])
    app.bind(lambda pod_name, node: bound.append((pod_name, node)))
    one, two = (make_pod(name).uid(name).build() for name in ("v1", "v2"))
    with serving(app) as url:
        client = client_of(caller, url, node_cache_capable=names_only)
        left = client.process_preemption(POD, {"a": Victims((one,)), "b": Victims((two,), 1)})
        client.bind(POD, "b")

    assert {"b": Victims((two,), 1)} == left
    assert [("p", "b")] == bound


NAMED = {"NodeNames": ["a", "b"]}
WHOLE = {"Nodes": {"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "stranger"}}]}}


@pytest.mark.parametrize(
    ("names_only", "answer", "kept"),
    [
        pytest.param(True, NAMED, ("a", "b"), id="names"),
        pytest.param(True, WHOLE, ("a",), id="nodes where names were asked for"),
        pytest.param(True, {}, (), id="neither"),
        pytest.param(False, WHOLE, ("a",), id="nodes"),
        pytest.param(False, NAMED, (), id="names where nodes were asked for"),
        pytest.param(False, {}, (), id="neither of nodes"),
    ],
)
def test_which_part_of_an_answer_counts_as_upstream(caller, names_only, answer, kept):
    with plain_server(lambda path, body: (200, json.dumps(answer).encode())) as url:
        client = client_of(caller, url, node_cache_capable=names_only)

        assert kept == client.filter(POD, NODES).node_names


@pytest.mark.parametrize("answer", [(200, b"{}"), (200, b'{"Error":""}')])
def test_a_bind_without_an_error_is_done(caller, answer):
    with plain_server(lambda path, body: answer) as url:
        client_of(caller, url).bind(POD, "a")


def test_a_bind_that_fails_says_why(caller):
    with (
        plain_server(lambda path, body: (200, b'{"Error":"no disk"}')) as url,
        pytest.raises(ExtenderError, match=r'extender "http.*": no disk'),
    ):
        client_of(caller, url).bind(POD, "a")


def test_texts_are_made_once_a_version_and_bounded(monkeypatch):
    monkeypatch.setattr(TextCache, "LIMIT", 2)
    asked = []

    class Source:
        def text_of(self, item):
            asked.append(item.metadata.name)
            return None

    texts = TextCache(Source())
    first = [texts.of(node) for node in (A, A, B)]
    again = [texts.of(node) for node in (A, C, A)]

    assert ["a", "b", "c", "a"] == asked
    assert (first[0], first[0], first[0]) == (first[1], again[0], again[2])
    assert b"b" in first[2]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param(
            (500, b"{}"), "failed filter with extender at URL .*/filter, code 500", id="5"
        ),
        pytest.param((302, b"{}"), "code 302", id="redirect is not followed"),
        pytest.param((200, b"<html>"), "answered garbage", id="not JSON"),
        pytest.param((200, b'{"NodeNames":"a"}'), "answered garbage.*NodeNames", id="wrong type"),
        pytest.param((200, b'{"Error":"no disk"}'), 'extender "http.*": no disk', id="error"),
        pytest.param((200, b"x" * 1_000_001), "larger than 1000000 bytes", id="too large"),
    ],
)
def test_bad_answers_are_errors_that_name_the_extender(caller, answer, says):
    with (
        plain_server(lambda path, body: answer) as url,
        pytest.raises(ExtenderError, match=says),
    ):
        client_of(caller, url, node_cache_capable=True).filter(POD, [A])


def test_a_hanging_extender_is_cut_off_at_the_deadline(caller):
    release, answered = threading.Event(), []

    def hang(path, body):
        answered.append(release.wait(60))
        return 200, b"{}"

    with plain_server(hang) as url:
        client = client_of(caller, url, node_cache_capable=True, http_timeout=seconds(0.2))
        with pytest.raises(ExtenderError, match=r"no whole answer within 0\.2s"):
            client.filter(POD, [A])
        before = list(answered)
        release.set()

    assert [] == before


def test_an_extender_that_is_not_there_is_named(caller):
    client = client_of(caller, "http://127.0.0.1:1", node_cache_capable=True)

    with pytest.raises(ExtenderError, match="failed filter with extender at URL http://127"):
        client.filter(POD, [A])


def test_victims_that_were_not_proposed_are_refused(caller):
    body = b'{"nodeNameToMetaVictims":{"a":{"pods":[{"uid":"stranger"}]}}}'
    one = make_pod("v").uid("u1").build()
    with (
        plain_server(lambda path, _: (200, body)) as url,
        pytest.raises(ExtenderError, match="stranger"),
    ):
        client_of(caller, url, node_cache_capable=True).process_preemption(
            POD, {"a": Victims((one,))}
        )


def test_managed_resources_decide_who_is_asked(caller):
    gpu = (ExtenderManagedResource("example.com/gpu"),)
    client = client_of(caller, "http://x", managed_resources=gpu)

    assert not client.interested(make_pod("p").req(cpu="1").build())
    assert client.interested(make_pod("p").req({"example.com/gpu": "1"}).build())
    assert client_of(caller, "http://x").interested(POD)

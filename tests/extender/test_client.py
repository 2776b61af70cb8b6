import json
import threading
import time

import pytest

from bayplan.config.duration import seconds
from bayplan.config.types import Extender as ExtenderConfig
from bayplan.config.types import ExtenderManagedResource
from bayplan.extender import Extender, wire
from bayplan.extender.client import ExtenderClient, in_calling_order
from bayplan.extender.http import Caller, ExtenderError
from tests.extender.servers import plain_server, serving

POD = b'{"metadata":{"name":"p","namespace":"default","uid":"u0"},"spec":{"containers":[]}}'


class Texts:
    def node_json(self, name):
        return json.dumps({"metadata": {"name": name}}).encode()


@pytest.fixture
def caller():
    caller = Caller(max_answer=1_000_000)
    yield caller
    caller.close()


def client_of(caller, url, **settings):
    verbs = {
        "filter_verb": "filter",
        "prioritize_verb": "prioritize",
        "preempt_verb": "preempt",
        "bind_verb": "bind",
        "weight": 2,
        "http_timeout": seconds(0.4),
    }
    return ExtenderClient(ExtenderConfig(url_prefix=url, **(verbs | settings)), caller)


@pytest.mark.parametrize("names_only", [True, False], ids=["names only", "whole nodes"])
def test_filter_against_our_kit(caller, names_only):
    app = Extender()
    app.filter(lambda names: {"b": "too hot"})
    with serving(app) as url:
        client = client_of(caller, url + "/", node_cache_capable=names_only)

        result = client.filter(POD, ["a", "b", "c"], Texts())

    assert (result.kept, result.failed) == (["a", "c"], {"b": "too hot"})


def test_filter_against_a_plain_server_that_answers_in_lower_case(caller):
    seen = []

    def answer(path, body):
        seen.append((path, sorted(body)))
        return 200, json.dumps({"nodenames": body["NodeNames"][:1], "failednodes": {}}).encode()

    with plain_server(answer) as url:
        result = client_of(caller, url, node_cache_capable=True).filter(POD, ["a", "b"], Texts())

    assert result.kept == ["a"]
    assert seen == [("/filter", ["NodeNames", "Nodes", "Pod"])]


def test_scores_are_weighted_and_brought_to_the_plugins_scale(caller):
    app = Extender()
    app.prioritize(lambda names: {"a": 10, "b": 3})
    with serving(app) as url:
        client = client_of(caller, url, node_cache_capable=True)
        call = client.prioritize_call(POD, ["a", "b"], Texts())
        [body] = caller.call([call])

    assert client.weighted(body) == {"a": 200, "b": 60}


def test_calls_to_several_extenders_share_the_wait(caller):
    app = Extender()
    both_in = threading.Barrier(2, timeout=5)

    @app.prioritize
    def slow(names):
        both_in.wait()  # passes only if the second call comes while the first is under way
        return {}

    with serving(app) as url:
        client = client_of(caller, url, node_cache_capable=True, http_timeout=seconds(5))
        call = client.prioritize_call(POD, ["a"], Texts())
        answers = caller.call([call, call])

    assert answers == [b'[{"Host":"a","Score":0}]'] * 2


def test_preempt_and_bind_against_our_kit(caller):
    app = Extender()
    bound = []
    app.preempt(lambda victims: ["b"])
    app.bind(lambda pod_name, node: bound.append((pod_name, node)))
    proposal = {"a": wire.Victims(uids=["u1"]), "b": wire.Victims(uids=["u2"])}
    with serving(app) as url:
        client = client_of(caller, url, node_cache_capable=True)
        left = client.preempt(POD, proposal)
        client.bind(wire.BindingArgs("p", "default", "u0", "b"))

    assert {"b": wire.Victims(uids=["u2"])} == left
    assert bound == [("p", "b")]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param(
            (500, b"{}"), "failed filter with extender at URL .*/filter, code 500", id="500"
        ),
        pytest.param((302, b"{}"), "code 302", id="redirect is not followed"),
        pytest.param((200, b"<html>"), "answered garbage", id="not JSON"),
        pytest.param((200, b'{"NodeNames":"a"}'), "answered garbage.*NodeNames", id="wrong type"),
        pytest.param((200, b'{"Error":"no disk"}'), 'extender "http.*": no disk', id="error field"),
        pytest.param(
            (200, b'{"NodeNames":["zz"]}'),
            'claims a filtered node "zz" which is',
            id="unknown node",
        ),
        pytest.param((200, b"x" * 1_000_001), "larger than 1000000 bytes", id="too large"),
    ],
)
def test_bad_answers_are_errors_that_name_the_extender(caller, answer, says):
    with (
        plain_server(lambda path, body: answer) as url,
        pytest.raises(ExtenderError, match=says),
    ):
        client_of(caller, url, node_cache_capable=True).filter(POD, ["a"], Texts())


def test_a_hanging_extender_is_cut_off_at_the_deadline(caller):
    release = threading.Event()

    def hang(path, body):
        release.wait(10)
        return 200, b"{}"

    with plain_server(hang) as url:
        client = client_of(caller, url, node_cache_capable=True, http_timeout=seconds(0.2))
        start = time.monotonic()
        with pytest.raises(ExtenderError, match=r"no whole answer within 0\.2s"):
            client.filter(POD, ["a"], Texts())
        took = time.monotonic() - start
        release.set()

    assert took < 2


def test_an_extender_that_is_not_there_is_named(caller):
    client = client_of(caller, "http://127.0.0.1:1", node_cache_capable=True)

    with pytest.raises(ExtenderError, match="failed filter with extender at URL http://127"):
        client.filter(POD, ["a"], Texts())


def test_victims_that_were_not_proposed_are_refused(caller):
    body = b'{"nodeNameToMetaVictims":{"a":{"pods":[{"uid":"stranger"}]}}}'
    with (
        plain_server(lambda path, _: (200, body)) as url,
        pytest.raises(ExtenderError, match="stranger"),
    ):
        client_of(caller, url, node_cache_capable=True).preempt(
            POD, {"a": wire.Victims(uids=["u1"])}
        )


def test_managed_resources_decide_who_is_asked(caller):
    client = client_of(
        caller, "http://x", managed_resources=(ExtenderManagedResource("example.com/gpu"),)
    )

    assert not client.is_interested(["cpu"])
    assert client.is_interested(["cpu", "example.com/gpu"])
    assert client_of(caller, "http://x").is_interested([])


def test_ignorable_extenders_are_called_last(caller):
    one, two, three = (
        client_of(caller, f"http://{n}", ignorable=ignorable)
        for n, ignorable in enumerate([True, False, False])
    )

    assert [two, three, one] == in_calling_order([one, two, three])

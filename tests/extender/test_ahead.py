"""Several pods' calls under way over HTTP: who promises, what is under way, what comes of it."""

import json
import threading

import pytest
from msgspec.structs import replace

from bayplan.api.duration import seconds
from bayplan.config.types import Extender as ExtenderConfig
from bayplan.extender import Extender
from bayplan.extender.client import HttpExtender
from bayplan.framework.contract.extender import AheadExtender, ExtenderError
from bayplan.testing.builders import make_node, make_pod
from tests.engine.loop.helper import World
from tests.extender.servers import plain_server, serving

NODES = [make_node(name).uid(f"n-{name}").build() for name in "abcdef"]
PODS = [make_pod(f"p{n}").uid(f"u{n}").req({"cpu": "100m"}) for n in range(40)]


def client_of(caller, url, ahead="promised", **settings):
    verbs = {"filter_verb": "filter", "prioritize_verb": "prioritize", "weight": 2}
    config = ExtenderConfig(url_prefix=url, **(verbs | {"http_timeout": seconds(30)} | settings))
    return HttpExtender(config, caller, ahead=ahead)


def choosy(**options):
    """An extender that answers by pod and nodes."""
    app = Extender(**options)

    @app.filter
    def some(pod, names):
        return {n: "not today" for n in names if hash_of(pod, n) % 5 == 0}

    @app.prioritize
    def points(pod, names):
        return {n: hash_of(pod, n, len(names)) % 11 for n in names}

    return app


def hash_of(pod, *about):
    return sum(map(ord, f"{pod.metadata.name}{about}"))


def decided(client):
    world = World(*NODES, extenders=[client])
    world.show(*PODS)
    world.run()
    world.scheduler.engine.ahead.drop()
    return {f"p{n}": world.node_of(f"p{n}") for n in range(len(PODS))}, world.scheduler.engine.ahead


@pytest.mark.parametrize("pairs", [True, False], ids=["one call", "ordinary calls"])
@pytest.mark.parametrize("names_only", [True, False], ids=["names only", "whole nodes"])
def test_decisions_over_http_are_those_of_asking_in_turn(caller, names_only, pairs):
    with serving(choosy(pairs=pairs, ahead=True)) as url:
        in_turn, none = decided(client_of(caller, url, "never", node_cache_capable=names_only))
        found, ahead = decided(client_of(caller, url, node_cache_capable=names_only))

    assert not none.counts
    assert in_turn == found
    assert ahead.counts["used"] > len(PODS) // 2


@pytest.mark.parametrize(
    ("promise", "flag", "asked_ahead"),
    [
        (True, "promised", True),
        (False, "promised", False),
        (True, "never", False),
        (False, "always", True),
    ],
)
def test_who_is_asked_ahead(caller, promise, flag, asked_ahead):
    with serving(choosy(ahead=promise)) as url:
        client = client_of(caller, url, flag, node_cache_capable=True)
        client.filter(PODS[0].build(), NODES)

        assert asked_ahead == client.ahead
        assert isinstance(client, AheadExtender)


def test_a_promise_ends_with_the_program_that_gave_it(caller):
    with serving(choosy(ahead=True, pairs=False)) as url:
        client = client_of(caller, url, node_cache_capable=True)
        client.filter(PODS[0].build(), NODES)
    with plain_server(lambda path, body: (200, b'{"NodeNames":["a"]}')) as url:
        client._base = url
        client.filter(PODS[0].build(), NODES)

        assert not client.ahead


def test_an_answer_that_comes_slowly_is_not_waited_for(caller):
    release = threading.Event()

    def slow(path, body):
        release.wait(60)
        return 200, json.dumps({"NodeNames": body["NodeNames"]}).encode()

    with plain_server(slow) as url:
        wait = client_of(caller, url, node_cache_capable=True).filter_later(PODS[0].build(), NODES)
        looks = [wait.ready(), wait.ready()]
        release.set()

        assert [False, False] == looks
        assert tuple("abcdef") == wait().node_names


def test_calls_of_several_pods_are_under_way_together(caller):
    all_in = threading.Barrier(5, timeout=60)

    def slow(path, body):
        all_in.wait()  # passes only if five calls are under way at once
        return 200, json.dumps({"NodeNames": body["NodeNames"]}).encode()

    with plain_server(slow) as url:
        client = client_of(caller, url, node_cache_capable=True)
        waits = [client.filter_later(pod.build(), NODES) for pod in PODS[:5]]

        assert [tuple("abcdef")] * 5 == [wait().node_names for wait in waits]


def test_a_dropped_call_leaves_nothing_behind(caller):
    release = threading.Event()

    def slow(path, body):
        release.wait(60)
        return 200, b"{}"

    with plain_server(slow) as url:
        client = client_of(caller, url, node_cache_capable=True)
        for pod in PODS[:3]:
            client.filter_later(pod.build(), NODES).drop()
        busy = len(caller._busy)
        release.set()

    assert 0 == busy


def test_a_call_that_cannot_be_sent_is_ready_and_fails(caller):
    client = client_of(caller, "http://127.0.0.1:1", node_cache_capable=True)
    wait = client.filter_later(PODS[0].build(), NODES)

    assert wait.ready()
    with pytest.raises(ExtenderError, match="failed filter"):
        wait()


@pytest.mark.parametrize("changed", ["pod", "nodes"])
def test_scores_of_a_pair_are_only_for_what_they_are_about(caller, changed):
    with serving(choosy(ahead=True)) as url:
        client = client_of(caller, url, node_cache_capable=True)
        pod = PODS[1].build()
        client.filter(pod, NODES)
        client.prioritize(pod, NODES)
        kept = client.filter(pod, NODES).node_names
        nodes = [node for node in NODES if node.metadata.name in kept]
        if changed == "pod":
            pod = replace(pod, metadata=replace(pod.metadata, resource_version="7"))
        else:
            nodes = nodes[1:]
        scores = client.prioritize(pod, nodes)

    assert {n.name: hash_of(pod, n.name, len(nodes)) % 11 for n in nodes} == scores

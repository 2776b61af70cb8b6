import asyncio
import threading

import pytest
import structlog

from bayplan.api import Node, ObjectMeta
from bayplan.errors import BayplanError
from bayplan.extender import Extender, NodeCache, watchdog, wire

ZONE = "topology.kubernetes.io/zone"


def node(name, zone):
    labels = {ZONE: zone} if zone else {}
    return Node(metadata=ObjectMeta(name=name, labels=labels))


def cache():
    found = NodeCache()
    found.put(node("a", "z1"))
    found.index("zone", lambda one: one.metadata.labels.get(ZONE))
    found.put(node("b", "z1"))
    found.put(node("c", ""))
    return found


def test_an_index_follows_nodes_that_come_change_and_go():
    nodes = cache()

    assert {"a", "b"} == nodes.where("zone", "z1")
    nodes.put(node("a", "z2"))
    assert {"b"} == nodes.where("zone", "z1")
    nodes.drop("b")
    nodes.drop("never was")
    assert set() == nodes.where("zone", "z1")
    assert {"a"} == nodes.where("zone", "z2")
    assert ["a", "c"] == sorted(one.metadata.name for one in nodes)
    assert 2 == len(nodes)


def test_an_unknown_or_doubled_index_is_named():
    nodes = cache()

    with pytest.raises(BayplanError, match='no index "rack"; there are: zone'):
        nodes.where("rack", "r1")
    with pytest.raises(BayplanError, match='"zone" already'):
        nodes.index("zone", lambda one: None)


async def test_a_call_by_names_gets_typed_nodes_from_the_cache():
    app = Extender(nodes=cache())
    app.filter(lambda nodes: [one.metadata.name for one in nodes if one.metadata.labels])

    answer = await app.answer("filter", wire.encode_args(b"{}", names=["a", "c"]))

    assert ["a"] == wire.decode_filter_result(answer).node_names


async def test_a_node_that_the_cache_lacks_is_named():
    app = Extender(nodes=cache())
    app.filter(lambda nodes: [])

    answer = await app.answer("filter", wire.encode_args(b"{}", names=["a", "new"]))

    assert "does not know new yet" in wire.decode_filter_result(answer).error


@pytest.mark.parametrize("kind", ["thread", "coroutine"])
async def test_a_slow_function_is_told_with_its_place_while_it_runs(kind):
    app = Extender(slow_seconds=0.01)
    told = asyncio.Event()
    go_on = threading.Event()

    def slow_thread(names):
        go_on.wait(60)
        return names

    async def slow_coroutine(names):
        await told.wait()
        return names

    app.filter(slow_thread if kind == "thread" else slow_coroutine)

    def note(logger, method, event):
        if event["event"] == "extender function is slow":
            told.set()
            go_on.set()
        raise structlog.DropEvent

    with structlog.testing.capture_logs(processors=[note]):
        await app.answer("filter", wire.encode_args(b"{}", names=["a"]))

    assert 1.0 == app.registry.get_sample_value("extender_slow_calls_total", {"verb": "filter"})


async def test_the_end_does_not_wait_for_a_function_that_hangs():
    app, begun, go_on = Extender(), threading.Event(), threading.Event()
    app.filter(lambda names: begun.set() or (go_on.wait(60) and names))
    call = asyncio.create_task(app.answer("filter", wire.encode_args(b"{}", names=["a"])))
    await asyncio.to_thread(begun.wait, 60)
    events, sent = iter(["lifespan.startup", "lifespan.shutdown"]), []

    async def receive():
        return {"type": next(events)}

    async def send(event):
        sent.append((event["type"], go_on.is_set()))

    late = threading.Timer(60, go_on.set)
    late.start()
    await app({"type": "lifespan"}, receive, send)
    late.cancel()
    go_on.set()
    await call

    assert [(f"lifespan.{what}.complete", False) for what in ("startup", "shutdown")] == sent


async def test_the_end_waits_for_what_goes_on_in_the_background():
    app, begun, ended, sent = Extender(), asyncio.Event(), asyncio.Event(), []

    async def work():
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # it has something to put away
            ended.set()

    async def receive():
        if not sent:
            return {"type": "lifespan.startup"}
        await begun.wait()
        return {"type": "lifespan.shutdown"}

    async def send(event):
        sent.append((event["type"], ended.is_set()))

    app.background.append(work)
    await app({"type": "lifespan"}, receive, send)

    assert [("lifespan.startup.complete", False), ("lifespan.shutdown.complete", True)] == sent


async def test_how_long_a_call_has_taken_is_told_once(monkeypatch):
    told, now = [], [1000.0]
    monkeypatch.setattr(watchdog.time, "monotonic", lambda: now[0])
    watch = watchdog.Watchdog(5.0, lambda *words: told.append(words))
    for seconds in (5.0, 7.0):
        with watch.watch("filter"):
            now[0] += seconds

    assert [("filter", 7.0, "its end; the event loop was held")] == told


async def test_a_quick_function_is_not_told():
    app = Extender(slow_seconds=600)
    app.filter(lambda names: names)

    await app.answer("filter", wire.encode_args(b"{}", names=["a"]))

    assert app.registry.get_sample_value("extender_slow_calls_total", {"verb": "filter"}) is None


@pytest.mark.parametrize(("scores", "result"), [({"a": 3}, "answered"), ([3], "error")])
async def test_calls_of_a_pair_are_counted_by_how_they_end(scores, result):
    app = Extender()
    app.prioritize(lambda names: scores)

    found, text = await app._scores(wire.ExtenderArgs(b"{}", None, ["a"]))

    assert (result == "error") == bool(text) == (not found)
    for each in ("answered", "error"):
        labels = {"verb": "prioritize", "result": each}
        count = app.registry.get_sample_value("extender_calls_total", labels)
        assert (1.0 if each == result else None) == count

"""Plugins that wait hold up pods, and nothing else: they are asked in a thread."""

import asyncio
import threading
import time
from types import SimpleNamespace

import pytest

from bayplan.api import Node, Pod, PodGroup, convert
from bayplan.apiserver.server import ApiServer
from bayplan.client import AsgiTransport, Client
from bayplan.client.resources import PODS
from bayplan.config import DEFAULT_GATES, FeatureGates, default_config, from_data
from bayplan.plugins import in_tree_registry
from bayplan.scheduler import live, wariness
from bayplan.scheduler.event_recorder import EventRecorder
from bayplan.store.memory import MemoryStore
from tests.engine.clusters import plugin_config
from tests.scheduler.test_aside import add_node


class Waiting:
    """Waits at one of its points until the event loop has had a turn."""

    name = "Waiting"

    def __init__(self, point):
        self._point = point
        self.asked, self.go = threading.Event(), threading.Event()
        self.freed = []

    def _wait(self, point):
        if point == self._point:
            self.asked.set()
            self.freed.append(self.go.wait(60))
            self.go.clear()

    def pre_enqueue(self, pod):
        self._wait("pre_enqueue")

    def filter_node(self, state, pod, node):
        self._wait("filter_node")

    def post_bind(self, state, pod, node_name):
        self._wait("post_bind")

    async def free(self):
        """Let it go on, from the event loop, as often as it waits."""
        while True:
            if self.asked.is_set():
                self.asked.clear()
                self.go.set()
            await asyncio.sleep(0)


def scheduler(client, config, registry, gates=DEFAULT_GATES, **more):
    recorder = EventRecorder(client, hostname="h")
    return live.LiveScheduler(
        config=config,
        gates=gates,
        registry=registry,
        client=client,
        recorder=recorder,
        **more,
    )


@pytest.mark.parametrize("point", ["pre_enqueue", "filter_node", "post_bind"])
async def test_while_a_plugin_waits_the_loop_goes_on(point):
    server = ApiServer(MemoryStore(), admin_token="t")
    await server.start()
    client, plugin = Client(AsgiTransport(server, token="t")), Waiting(point)
    registry = {**in_tree_registry(), "Waiting": lambda args, handle: plugin}
    config = from_data(plugin_config(multiPoint={"enabled": [{"name": "Waiting"}]}))
    scheduling = scheduler(client, config, registry)
    informing = asyncio.create_task(scheduling.run_informers())
    await scheduling.wait_synced()
    await add_node(client, "n")
    tasks = [informing, asyncio.create_task(scheduling.run()), asyncio.create_task(plugin.free())]
    spec = {"containers": [{"name": "c", "image": "x"}]}
    async with asyncio.timeout(60):
        for name in "ab":
            await client.create(PODS, {"metadata": {"name": name}, "spec": spec}, "default")
        while len(plugin.freed) < 2:
            await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await client.close()
    await server.close()

    assert [True, True] == plugin.freed


@pytest.mark.parametrize(("wall", "wary"), [(time.time, True), (lambda: 0.0, False)])
def test_a_slow_turn_of_any_plugin_leads_to_the_thread_but_in_virtual_time(monkeypatch, wall, wary):
    made = scheduler(Client(None), default_config(), in_tree_registry(), wall=wall)
    seconds = iter([0.0, 0.3])
    clock = SimpleNamespace(time=time.time, perf_counter=lambda: next(seconds))
    monkeypatch.setattr(live, "time", clock)
    assert not made._wary

    made._turn()

    assert wary == bool(made._wary)


def test_enough_quick_turns_in_a_row_lead_to_the_loop():
    wary = wariness.Wariness()
    wary.took(wariness.SLOW_TURN + 0.1)
    for _ in range(wariness.QUICK_TURNS - 1):
        wary.took(0.0)
    assert wary
    wary.took(wariness.SLOW_TURN + 0.1)
    for _ in range(wariness.QUICK_TURNS):
        assert wary
        wary.took(0.0)

    assert not wary


@pytest.mark.parametrize(("kind", "counted"), [(Pod, 1), (Node, 0)])
async def test_a_turn_counts_that_tries_a_pod_which_was_held_back(monkeypatch, kind, counted):
    made = scheduler(Client(None), default_config(), in_tree_registry())
    still = SimpleNamespace(time=time.time, perf_counter=lambda: 0.0)
    monkeypatch.setattr(live, "time", still)
    made._performer = SimpleNamespace(perform=lambda actions: None, pending_binds=0)
    made._wary.begin()
    made._running = True
    made._changed([("ADDED", convert(kind, {"metadata": {"name": "a", "uid": "u"}}), None)])

    await made._turn_aside()

    assert wariness.QUICK_TURNS - counted == made._wary._wanted


async def test_what_came_before_is_taken_over_before_what_comes_later():
    """Also where the thread is left between the two."""
    made = scheduler(Client(None), default_config(), in_tree_registry())
    taken = []
    made._take = taken.append
    made._wary.begin()
    made._running = True
    made._changed("first")
    made._wary = wariness.Wariness()

    made._changed("second")
    assert [] == taken
    made._turn()
    made._take_held()

    assert ["first", "second"] == taken


@pytest.mark.parametrize("wary", [True, False])
async def test_a_result_that_cannot_be_taken_over_hides_nothing_that_came_after_it(wary):
    made = scheduler(Client(None), default_config(), in_tree_registry())
    taken = []
    made._take = taken.append
    made._handle = {}.pop
    made._running = made._aside = True
    if wary:
        made._wary.begin()
    made._report("odd")
    made._changed("later")

    await made._turn_aside()

    assert (["later"], 1) == (taken, made.metrics.handling_errors._value.get())


@pytest.mark.parametrize(("wall", "aside"), [(time.time, True), (lambda: 0.0, False)])
def test_pod_groups_are_tried_in_the_thread_but_in_virtual_time(wall, aside):
    """An attempt of hundreds of pods cannot be cut."""
    gates = FeatureGates({"GenericWorkload": True}, "1.37")
    made = scheduler(Client(None), default_config(), in_tree_registry(), wall=wall, gates=gates)
    before = made._goes_aside
    policy = {"gang": {"minCount": 2}}
    body = {"metadata": {"name": "g", "namespace": "a"}, "spec": {"schedulingPolicy": policy}}
    made.core.put(convert(PodGroup, body), 0.0)

    assert (False, aside) == (before, made._goes_aside)


async def test_who_asks_about_a_pod_is_answered_after_the_attempts_under_way():
    go = asyncio.Event()

    async def patient(step, now, /, *, limit):
        await go.wait()
        return step(now, limit=limit)

    made = scheduler(Client(None), default_config(), in_tree_registry(), aside=patient)
    deciding = asyncio.create_task(made._turn_aside())
    await asyncio.sleep(0)
    asking = asyncio.create_task(made.explain("default/unknown"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not asking.done()

    go.set()

    assert None is await asking
    await deciding

"""While an extender makes the core wait in a thread, nobody else touches the core."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from bayplan.apiserver.server import ApiServer
from bayplan.client import AsgiTransport, Client
from bayplan.client.resources import NODES, PODS
from bayplan.config import DEFAULT_GATES, default_config
from bayplan.framework.contract.extender import ExtenderFilterResult
from bayplan.plugins import in_tree_registry
from bayplan.scheduler.event_recorder import EventRecorder
from bayplan.scheduler.live import LiveScheduler
from bayplan.store.memory import MemoryStore


class Patient(SimpleNamespace):
    """An extender that answers when it is told to."""

    name, weight = "patient", 1
    is_filter = blocking = True
    ignorable = is_prioritizer = is_binder = supports_preemption = False

    def interested(self, pod):
        return True

    def filter(self, pod, nodes):
        self.asked.set()
        assert self.go.wait(60)
        return ExtenderFilterResult(tuple(node.metadata.name for node in nodes))


async def add_node(client, name):
    capacity = {"cpu": "2", "memory": "8Gi", "pods": "20"}
    await client.create(NODES, {"metadata": {"name": name}, "status": {"capacity": capacity}})


async def test_a_scheduler_that_ends_leaves_the_core_to_the_thread_that_uses_it():
    server = ApiServer(MemoryStore(), admin_token="t")
    await server.start()
    client = Client(AsgiTransport(server, token="t"))
    extender = Patient(asked=threading.Event(), go=threading.Event())
    live = LiveScheduler(
        config=default_config(),
        gates=DEFAULT_GATES,
        registry=in_tree_registry(),
        client=client,
        recorder=EventRecorder(client, hostname="h"),
        extenders=[extender],
    )
    known = live.core.cache.table
    informing = asyncio.create_task(live.run_informers())
    await live.wait_synced()
    await add_node(client, "first")
    spec = {"containers": [{"name": "c", "image": "x"}]}
    await client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default")
    running = asyncio.create_task(live.run())
    try:
        await asyncio.to_thread(extender.asked.wait, 60)
        running.cancel()
        await add_node(client, "second")
        while len(live._feed.informers["Node"].store) < 2:  # it has come, and is held back
            await asyncio.sleep(0)
        assert 1 == known.count
    finally:
        extender.go.set()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert 2 == known.count
    informing.cancel()
    await asyncio.gather(informing, return_exceptions=True)
    await client.close()
    await server.close()

"""Steps that hold the event loop are seen, and large YAML is not one of them."""

import asyncio
import time

from bayplan.api import yaml
from bayplan.apiserver import bodies
from bayplan.apiserver.watchdog import Watchdog
from tests.apiserver.api import CONFIGMAPS, configmap

YAML = {"content-type": "application/yaml"}


async def test_a_step_that_holds_the_loop_is_counted():
    watchdog = Watchdog()
    task = asyncio.create_task(watchdog.run())
    await asyncio.sleep(0)
    end = time.thread_time() + 0.15
    while time.thread_time() < end:
        pass
    async with asyncio.timeout(20):
        while not watchdog.long_steps:
            await asyncio.sleep(0.01)
    task.cancel()

    assert watchdog.longest > 0.05
    assert "bayplan_apiserver_loop_long_steps_total 1\n" in watchdog.metrics()


async def test_metrics_tell_the_longest_step(api):
    found = await api.call("GET", "/metrics")

    assert b"bayplan_apiserver_loop_held_seconds_max 0.0" in found.raw


async def test_a_large_yaml_body_is_read_beside_the_loop(api, monkeypatch):
    read = []
    parse = bodies.parse
    monkeypatch.setattr(bodies, "parse", lambda *given: read.append(given[0]) or parse(*given))
    large = configmap("x") | {"data": {f"k{n}": "v" * 20 for n in range(2000)}}

    await api.ok("POST", CONFIGMAPS, yaml.dump(large).encode(), headers=YAML)
    found = await api.ok("GET", f"{CONFIGMAPS}/x")

    assert 2000 == len(found["data"])
    assert ["application/yaml"] == read, "once"

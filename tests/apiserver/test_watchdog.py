"""Steps that hold the event loop are seen, and large YAML is not one of them."""

import asyncio
import json
import pkgutil
import threading
import time

import pytest

from bayplan.api import yaml
from bayplan.apiserver import bodies
from bayplan.apiserver.watchdog import Watchdog
from tests.apiserver.api import CONFIGMAPS, configmap
from tests.apiserver.test_bombs import APPLY, DEFINITIONS, THINGS, definition, thing

YAML = {"content-type": "application/yaml"}


async def test_a_step_that_holds_the_loop_is_counted():
    watchdog = Watchdog()
    task = asyncio.create_task(watchdog.run())
    await asyncio.sleep(0)
    end = time.thread_time() + 0.15
    while time.thread_time() < end:
        pass
    async with asyncio.timeout(60):
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


HEAVY = {
    "strategic merge": "bayplan.apiserver.verbs.patch.apply_strategic_merge",
    "merge patch": "bayplan.apiserver.verbs.patch.apply_merge_patch",
    "apply": "bayplan.apiserver.verbs.apply.server_side_apply",
    "validation": "bayplan.apiserver.validation.validate_update",
    "who owns what": "bayplan.apiserver.ownership.track_update",
}
MEDIA = {"apply": "application/apply-patch+yaml", "merge patch": "application/merge-patch+json"}
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.mark.parametrize("work", sorted(HEAVY))
@pytest.mark.parametrize(("keys", "beside"), [(3, False), (4000, True)], ids=["small", "large"])
async def test_work_on_large_objects_is_done_beside_the_loop(api, monkeypatch, work, keys, beside):
    await api.ok("POST", CONFIGMAPS, configmap("x"))
    threads = spy(monkeypatch, HEAVY[work])
    body = {"apiVersion": "v1", "kind": "ConfigMap"} | configmap("x")
    body["data"] = {f"k{n}": "v" * 20 for n in range(keys)}
    query = "?fieldManager=me&force=true" if work == "apply" else ""

    media = {"content-type": MEDIA.get(work, STRATEGIC)}
    await api.ok("PATCH", f"{CONFIGMAPS}/x{query}", json.dumps(body).encode(), headers=media)

    assert {beside} == {thread != threading.get_ident() for thread in threads}


WALKS = {
    "default": "bayplan.apiserver.pipeline.default",
    "owners given twice": "bayplan.apiserver.pipeline._dedup_owners",
    "write": "bayplan.apiserver.codec.Codec.encode",
}


@pytest.mark.parametrize("work", sorted(WALKS))
@pytest.mark.parametrize("applied", [False, True], ids=["created", "applied"])
@pytest.mark.parametrize(("keys", "beside"), [(3, False), (4000, True)], ids=["small", "large"])
async def test_a_large_new_object_is_gone_through_beside_the_loop(
    api, monkeypatch, work, applied, keys, beside
):
    threads = spy(monkeypatch, WALKS[work])
    body = {"apiVersion": "v1", "kind": "ConfigMap"} | configmap("x")
    body["data"] = {f"k{n}": "v" * 20 for n in range(keys)}
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    body["metadata"]["ownerReferences"] = [owner | {"uid": uid} for uid in "ab"]

    if applied:
        await api.ok("PATCH", f"{CONFIGMAPS}/x?fieldManager=me", body, headers=APPLY)
    else:
        await api.ok("POST", CONFIGMAPS, body)

    assert {beside} == {thread != threading.get_ident() for thread in threads}


async def test_rules_of_users_run_beside_the_loop(api, monkeypatch):
    numbers = {"type": "array", "maxItems": 5, "items": {"type": "integer"}}
    numbers["x-kubernetes-validations"] = [{"rule": "self.all(a, a > 0)"}]
    await api.ok("POST", DEFINITIONS, definition({"numbers": numbers}))
    threads = spy(monkeypatch, "bayplan.apiserver.crd.validate_create")

    await api.ok("POST", THINGS, thing(numbers=[1, 2]))
    refused = await api.call("POST", THINGS, thing(numbers=[0]))

    assert 422 == refused.status
    assert [True, True] == [thread != threading.get_ident() for thread in threads]


@pytest.mark.parametrize(("count", "beside"), [(2, False), (120, True)], ids=["short", "long"])
async def test_long_tables_are_made_beside_the_loop(api, monkeypatch, count, beside):
    for n in range(count):
        await api.ok("POST", CONFIGMAPS, configmap(f"c{n}"))
    threads = spy(monkeypatch, "bayplan.apiserver.tables.render")

    accept = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    found = await api.ok("GET", CONFIGMAPS, headers=accept)

    assert len(found["rows"]) >= count
    assert [beside] == [thread != threading.get_ident() for thread in threads]


@pytest.mark.parametrize(("keys", "beside"), [(3, False), (1000, True)], ids=["small", "large"])
async def test_a_large_object_is_written_as_yaml_beside_the_loop(api, monkeypatch, keys, beside):
    made = configmap("x") | {"data": {f"k{n}": "v" * 20 for n in range(keys)}}
    await api.ok("POST", CONFIGMAPS, made)
    threads = spy(monkeypatch, "bayplan.apiserver.responses.dump")

    accept = {"accept": "application/yaml"}
    assert 200 == (await api.call("GET", f"{CONFIGMAPS}/x", headers=accept)).status
    answer = await api.call("PATCH", f"{CONFIGMAPS}/x", {"data": {"a": "2"}}, headers=accept)

    assert 200 == answer.status
    assert [beside] * 2 == [thread != threading.get_ident() for thread in threads]


def spy(monkeypatch, path):
    """Note the thread of each call."""
    place, _, name = path.rpartition(".")
    owner = pkgutil.resolve_name(place)
    real, threads = getattr(owner, name), []

    def noted(*given, **named):
        threads.append(threading.get_ident())
        return real(*given, **named)

    monkeypatch.setattr(owner, name, noted)
    return threads

"""What grows with the number of stored things is done beside the event loop, or in small parts.

Work is counted, not timed: in which thread it is done, and how often.
"""

import asyncio
import threading
from collections import Counter

import msgspec

from bayplan.apiserver import aside, capacity
from bayplan.apiserver.discovery import Discovery
from bayplan.apiserver.dynamic import configured
from bayplan.apiserver.kinds import Registry
from bayplan.apiserver.remotes import Remotes
from bayplan.apiserver.verbs import cleanup
from tests.apiserver.api import CONFIGMAPS, PODS, Api, configmap, pod
from tests.apiserver.dynamic.hooks import HOOKS, Hooks, allow
from tests.apiserver.dynamic.test_policies import policy
from tests.apiserver.test_bombs import DEFINITIONS, THINGS, definition, thing
from tests.apiserver.test_watchdog import spy

VALIDATING = f"{HOOKS}/validatingwebhookconfigurations"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["endpoints"]}
AGGREGATED = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}


def configuration(name, count):
    hook = {
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchConditions": [{"name": "c", "expression": "object.metadata.name == 'x'"}],
    }
    hooks = [{"name": f"h{n}.example.com", **hook} for n in range(count)]
    return {"metadata": {"name": name}, "webhooks": hooks}


async def test_only_changed_webhooks_are_compiled_and_beside_the_loop(api, monkeypatch):
    threads = spy(monkeypatch, "bayplan.apiserver.dynamic.webhooks.Webhook")
    await api.ok("POST", VALIDATING, configuration("many", 20))
    await api.ok("POST", CONFIGMAPS, configmap("a"))
    first = len(threads)

    await api.ok("POST", VALIDATING, configuration("one", 1))
    await api.ok("POST", CONFIGMAPS, configmap("b"))
    await api.ok("DELETE", f"{VALIDATING}/many")
    await api.ok("POST", CONFIGMAPS, configmap("c"))

    assert (20, 21) == (first, len(threads))
    assert threading.get_ident() not in threads


async def test_policies_are_compiled_once_and_beside_the_loop(api, monkeypatch):
    threads = spy(monkeypatch, "bayplan.apiserver.dynamic.policies.Policy")
    await policy(api, validations=[{"expression": "object.metadata.name != 'bad'"}])

    answers = [await api.call("POST", CONFIGMAPS, configmap(name)) for name in ("good", "bad")]
    await api.ok("POST", VALIDATING, configuration("one", 1))
    answers.append(await api.call("POST", CONFIGMAPS, configmap("bad")))

    assert [201, 422, 422] == [answer.status for answer in answers]
    assert 1 == len(threads)
    assert threading.get_ident() not in threads


async def test_writes_wait_for_a_configuration_that_is_being_compiled(api, monkeypatch):
    """What was acknowledged before a write counts for it, also if another one asked first."""
    held = threading.Event()
    await policy(api, validations=[{"expression": "object.metadata.name != 'bad'"}])
    build = configured._build

    def slow(*given):
        assert held.wait(60)
        return build(*given)

    monkeypatch.setattr(configured, "_build", slow)
    writes = [asyncio.create_task(api.call("POST", CONFIGMAPS, configmap("bad"))) for _ in range(5)]
    for _ in range(20):
        await asyncio.sleep(0)
    held.set()

    assert [422] * 5 == [(await write).status for write in writes]


async def test_a_context_is_made_once_and_beside_the_loop(api, monkeypatch, tmp_path):
    threads = spy(monkeypatch, "bayplan.apiserver.calling.trusting")
    async with Hooks(tmp_path) as hooks:
        hooks.handlers["/v"] = allow
        body = hooks.config("ValidatingWebhookConfiguration", {"path": "/v"})
        await api.ok("POST", VALIDATING, body)

        await asyncio.gather(
            *(api.ok("POST", CONFIGMAPS, configmap(f"c{n}")) for n in range(5)),
        )

        assert 5 == len(hooks.asked)
    assert 1 == len(threads)
    assert threading.get_ident() not in threads


async def test_descriptions_are_made_once_and_beside_the_loop(api, monkeypatch):
    threads = spy(monkeypatch, "bayplan.apiserver.openapi._v2")
    protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

    asked = [api.call("GET", "/openapi/v2") for _ in range(3)]
    asked += [api.call("GET", "/openapi/v2", headers={"accept": protobuf})]
    answers = await asyncio.gather(*asked)

    assert [200] * 4 == [answer.status for answer in answers]
    assert 1 == len(threads)
    assert threading.get_ident() not in threads


async def test_a_large_definition_is_served_from_beside_the_loop(api, monkeypatch):
    threads = spy(monkeypatch, "bayplan.apiserver.crd.kinds_of")
    fields = {f"f{n}": {"type": "string"} for n in range(4000)}

    await api.ok("POST", DEFINITIONS, definition(fields))
    made = await api.ok("POST", THINGS, thing(f7="x"))

    assert "x" == made["spec"]["f7"]
    assert threads
    assert threading.get_ident() not in threads


class Looked(dict):
    """Counts how often all of it is gone through."""

    times = 0

    def values(self):
        self.times += 1
        return super().values()


async def test_discovery_goes_through_all_kinds_once():
    registry = Registry()
    some = next(iter(registry))
    kinds = Looked(registry._kinds)
    for n in range(100):
        one = msgspec.structs.replace(some, group=f"g{n}.example.com", custom=True)
        kinds[one.group, one.version, one.resource] = one
    registry._kinds = kinds
    registry._changed()
    discovery = Discovery(registry, Remotes())
    whole = discovery.document("/apis", aggregated=True)
    listed = discovery.document("/apis", aggregated=False)

    assert len(listed["groups"]) == len(whole["items"]) > 100
    assert kinds.times <= 2


async def test_the_objects_of_a_definition_go_one_at_a_turn(api, monkeypatch):
    await api.ok("POST", DEFINITIONS, definition({"x": {"type": "string"}}))
    for n in range(20):
        await api.ok("POST", THINGS, thing() | {"metadata": {"name": f"t{n}"}})
    turn, deleted, delete = 0, [], cleanup.delete_object

    async def count():
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def noted(*given):
        deleted.append(turn)
        return delete(*given)

    monkeypatch.setattr(cleanup, "delete_object", noted)
    counting = asyncio.create_task(count())
    name = (await api.ok("GET", DEFINITIONS))["items"][0]["metadata"]["name"]
    await api.ok("DELETE", f"{DEFINITIONS}/{name}")
    async with asyncio.timeout(60):
        while len(deleted) < 20:
            await asyncio.sleep(0)
    counting.cancel()

    assert (20, 1) == (len(deleted), max(Counter(deleted).values()))


async def test_room_is_counted_by_the_pods_of_the_node(monkeypatch):
    api = await Api.start(check_capacity=True)
    status = {"allocatable": {"cpu": "1", "pods": "3"}}
    await api.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}, "status": status})
    for n in range(40):
        await api.ok("POST", PODS, pod(f"p{n}", nodeName=f"n{n % 20}"))
    await api.ok("POST", PODS, pod("x"))
    await api.ok("POST", PODS, pod("y"))
    looked, requests = [], capacity.requests_of
    monkeypatch.setattr(capacity, "requests_of", lambda it: looked.append(it) or requests(it))

    answers = [
        await api.call(
            "POST", f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": {"name": "n1"}}
        )
        for name in ("x", "y")
    ]

    assert [201, 409] == [answer.status for answer in answers]
    assert (2 + 1) + (3 + 1) == len(looked)
    await api.close()


async def test_work_is_cut_by_its_cost(monkeypatch):
    monkeypatch.setattr(aside, "PAUSE_COST", 10)
    turns = []
    pauses = aside.Pauses()
    loop = asyncio.get_running_loop()
    loop.call_soon(turns.append, "other")

    for n in range(3):
        await pauses.after(4)
        turns.append(n)

    assert [0, 1, "other", 2] == turns

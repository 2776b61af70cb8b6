"""Above its capacity the server sheds, stays quick for what it takes, tells the truth, recovers."""

import asyncio
import json

import pytest

from bayplan import intake
from bayplan.apiserver.aside import AT_ONCE, LARGE, WAITING
from bayplan.apiserver.fairness.seats import ROOM
from bayplan.apiserver.server import ApiServer
from bayplan.client import AsgiTransport, Client
from bayplan.client.resources import CONFIG_MAPS
from bayplan.clock import run_virtual
from bayplan.store import MemoryStore
from tests.apiserver.api import CONFIGMAPS, configmap
from tests.apiserver.crd import converted
from tests.apiserver.dynamic.hooks import HOOKS, Hooks, allow
from tests.definitions import DEFINITIONS

SEATS = 4
WRITE_SECONDS = 0.01


class SlowStore(MemoryStore):
    """Each write takes a while, as on a disk; notes how many go on at once."""

    now = most = 0

    async def put(self, key, value, *, expect=None):
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(WRITE_SECONDS)
        self.now -= 1
        return await super().put(key, value, expect=expect)


async def flooded(store, agents):
    server = ApiServer(store, admin_token="t", max_writes=SEATS)
    await server.start()
    store.most = 0  # what a server writes at its start needs no seat
    transport = AsgiTransport(server, token="t")
    loop = asyncio.get_running_loop()

    async def write(n):
        headers = {"content-type": "application/json", "user-agent": f"a{n % agents}"}
        began = loop.time()
        body = json.dumps(configmap(f"c{n}")).encode()
        answer = await transport.request("POST", CONFIGMAPS, headers, body, None)
        return answer, loop.time() - began

    flood = [asyncio.create_task(write(n)) for n in range(1000)]
    await asyncio.sleep(WRITE_SECONDS / 2)
    health = await transport.request("GET", "/readyz", {}, None, None)
    answers = await asyncio.gather(*flood)
    after = await asyncio.create_task(write(5000))
    return health, answers, after


def test_a_flood_is_shed_and_what_is_taken_stays_quick():
    for agents in (1, 1000):  # who lies about who they are gets no further
        store = SlowStore()
        health, answers, after = run_virtual(flooded(store, agents))
        taken = [seconds for answer, seconds in answers if answer.status == 201]
        shed = [answer for answer, _ in answers if answer.status == 429]

        assert 1000 == len(taken) + len(shed)
        assert len(taken) <= SEATS * (1 + ROOM)
        assert store.most <= SEATS
        assert max(taken) <= WRITE_SECONDS * (2 + ROOM)
        assert {"1"} == {answer.headers["retry-after"] for answer in shed}
        assert 200 == health.status
        assert 201 == after[0].status
        assert after[1] <= WRITE_SECONDS * 1.5


def test_clients_that_come_back_later_all_get_through():
    async def main():
        server = ApiServer(SlowStore(), admin_token="t", max_writes=SEATS)
        await server.start()
        client = Client(AsgiTransport(server, token="t"))
        made = (client.create(CONFIG_MAPS, configmap(f"c{n}"), "default") for n in range(60))
        await asyncio.gather(*made)
        return len(json.loads(await client.list(CONFIG_MAPS, "default"))["items"])

    assert run_virtual(main()) >= 60


HOW = {
    "merge": ("PATCH", {"content-type": "application/merge-patch+json"}),
    "strategic": ("PATCH", {"content-type": "application/strategic-merge-patch+json"}),
    "replace": ("PUT", {"content-type": "application/json"}),
    "yaml": ("PUT", {"content-type": "application/yaml"}),
    "delete": ("DELETE", {"content-type": "application/json"}),
    "table": ("GET", {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}),
}


class Attempts:
    """Counts requests between their first look into the large object and their answer."""

    def __init__(self, monkeypatch):
        self.now = self.most = 0
        thread = asyncio.to_thread

        async def counted(work, *given, **named):
            task = asyncio.current_task()
            if task not in self.begun:
                self.begun.add(task)
                self.now += 1
                self.most = max(self.most, self.now)
            return await thread(work, *given, **named)

        self.begun = set()
        monkeypatch.setattr(asyncio, "to_thread", counted)

    async def run(self, call):
        try:
            return await call
        finally:
            self.now -= asyncio.current_task() in self.begun


@pytest.mark.parametrize("how", HOW)
async def test_few_requests_have_a_large_object_taken_apart_at_once(api, how, monkeypatch):
    """Each takes dozens of times its bytes, however small a body asks for it."""
    large = configmap("large") | {"data": {"a": "x" * 2 * LARGE}}
    await api.ok("POST", CONFIGMAPS, large)
    method, headers = HOW[how]
    body = large if method == "PUT" else {"metadata": {"labels": {"a": "b"}}}
    path = f"{CONFIGMAPS}/large" + ("" if method == "GET" else "?dryRun=All")
    seen = Attempts(monkeypatch)

    async def one():
        given = None if method in ("GET", "DELETE") else body
        return await seen.run(api.call(method, path, given, headers=headers))

    answers = await asyncio.gather(*(one() for _ in range(6 * AT_ONCE)))

    assert {200} == {answer.status for answer in answers}
    assert 0 < seen.most <= AT_ONCE


async def test_beyond_the_turns_of_large_objects_requests_are_shed_and_small_ones_pass(api):
    large = configmap("large") | {"data": {"a": "x" * 2 * LARGE}}
    await api.ok("POST", CONFIGMAPS, large)
    patch = {"metadata": {"labels": {"a": "b"}}}
    merge = HOW["merge"][1]
    flood = [
        asyncio.create_task(api.call("PATCH", f"{CONFIGMAPS}/large", patch, headers=merge))
        for _ in range(AT_ONCE + WAITING + 20)
    ]
    small = await api.call("POST", CONFIGMAPS, configmap("small"))
    codes = [answer.status for answer in await asyncio.gather(*flood)]

    assert 201 == small.status
    assert {200, 429} == set(codes)
    assert 200 == (await api.call("PATCH", f"{CONFIGMAPS}/large", patch, headers=merge)).status


async def test_a_body_counts_until_its_request_is_answered(api, monkeypatch):
    """Also as what it unpacks to; one that waits for its turn is held as long."""
    monkeypatch.setattr(intake, "MAX_INTAKE", 4 * LARGE)
    large = configmap("large") | {"data": {"a": "x" * 2 * LARGE}}
    path = f"{CONFIGMAPS}?dryRun=All"
    calls = (api.call("POST", path, large) for _ in range(8))
    codes = [answer.status for answer in await asyncio.gather(*calls)]

    assert {201, 429} == set(codes)
    assert 201 == (await api.call("POST", path, large)).status


async def test_large_objects_go_on_while_others_wait_for_webhooks(api, tmp_path):
    """How long a webhook takes is not ours to bound, so it is waited for without a turn."""
    large = {"data": {"a": "x" * 2 * LARGE}}
    only = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}
    asked, answered = asyncio.Semaphore(0), asyncio.Event()
    async with Hooks(tmp_path) as hooks:
        made = hooks.config("ValidatingWebhookConfiguration", {"path": "/slow", **only})
        await api.ok("POST", f"{HOOKS}/validatingwebhookconfigurations", made)
        hooks.handlers["/slow"], answer = allow, hooks.answered

        async def slow(request):
            asked.release()
            await answered.wait()
            return await answer(request)

        hooks.answered = slow
        writes = [
            asyncio.create_task(api.call("POST", CONFIGMAPS, configmap(f"c{number}") | large))
            for number in range(2 * AT_ONCE)
        ]
        for _ in writes:
            await asked.acquire()
        elsewhere = CONFIGMAPS.replace("default", "kube-system")
        other = await api.call("POST", elsewhere, configmap("d") | large)
        answered.set()
        answers = await asyncio.gather(*writes)

    assert 201 == other.status
    assert {201} == {answer.status for answer in answers}


async def test_large_objects_go_on_while_others_wait_for_conversions(api, tmp_path):
    asked, answered = asyncio.Semaphore(0), asyncio.Event()
    long = "x" * 2 * LARGE
    async with Hooks(tmp_path) as hooks:
        await api.ok("POST", DEFINITIONS, converted.definition(hooks))
        hooks.handlers["/convert"], answer = converted.convert, hooks.answered

        async def slow(request):
            asked.release()
            await answered.wait()
            return await answer(request)

        hooks.answered = slow
        gates = [converted.gate("v2", f"g{n}", host=long, port="1") for n in range(2 * AT_ONCE)]
        writes = [
            asyncio.create_task(api.call("POST", converted.path("v2"), gate)) for gate in gates
        ]
        for _ in writes:
            await asyncio.wait_for(asked.acquire(), 60)
        other = await api.call("POST", CONFIGMAPS, configmap("d") | {"data": {"a": long}})
        answered.set()
        answers = await asyncio.gather(*writes)

    assert 201 == other.status
    assert {201} == {answer.status for answer in answers}

"""Above its capacity the server sheds, stays quick for what it takes, tells the truth, recovers."""

import asyncio
import json

from bayplan.apiserver.fairness.seats import ROOM
from bayplan.apiserver.server import ApiServer
from bayplan.client import AsgiTransport, Client
from bayplan.client.resources import CONFIG_MAPS
from bayplan.clock import run_virtual
from bayplan.store import MemoryStore
from tests.apiserver.api import CONFIGMAPS, configmap

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

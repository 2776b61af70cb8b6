"""No two services have one address or port, however many are written at once."""

import asyncio

import pytest

from bayplan.store.etcd import EtcdStore
from bayplan.store.memory import MemoryStore
from bayplan.testing.etcd import find_etcd, start_etcd
from tests.apiserver.api import Api

SERVICES = "/api/v1/namespaces/default/services"


class Slow(MemoryStore):
    """Lets others go first before it writes, as one on a disk or behind a network does."""

    async def put(self, key, value, *, expect=None):
        await asyncio.sleep(0.001)
        return await super().put(key, value, expect=expect)

    async def transact(self, ops):
        await asyncio.sleep(0.001)
        return await super().transact(ops)


@pytest.fixture
async def api():
    started = await Api.start(Slow())
    yield started
    await started.close()


def service(name, **spec):
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


SAME = [
    pytest.param({"clusterIP": "10.96.7.7"}, id="address"),
    pytest.param({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30007}]}, id="port"),
]


@pytest.mark.parametrize("asked", SAME)
async def test_of_creates_that_ask_for_the_same_one_gets_it(api, asked):
    answers = await asyncio.gather(
        *(api.call("POST", SERVICES, service(f"s{i}", **asked)) for i in range(3))
    )

    assert [201, 422, 422] == sorted(answer.status for answer in answers)
    told = [answer.body["message"] for answer in answers if answer.status == 422]
    assert all("is already allocated" in text for text in told)


@pytest.mark.parametrize("asked", SAME)
async def test_of_changes_that_ask_for_the_same_one_gets_it(api, asked):
    for name in ("a", "b"):
        body = {"metadata": {"name": name}, "spec": {"type": "ExternalName", "externalName": "x"}}
        await api.ok("POST", SERVICES, body)
    change = {"spec": {"type": "ClusterIP", "externalName": None, "ports": [{"port": 80}], **asked}}

    answers = await asyncio.gather(
        *(api.call("PATCH", f"{SERVICES}/{name}", change) for name in ("a", "b"))
    )

    assert [200, 422] == sorted(answer.status for answer in answers)


async def test_what_a_service_had_another_may_ask_for_at_once(api):
    for name in ("a", "b"):
        await api.ok("POST", SERVICES, service(name, clusterIP="10.96.7.7"))
        await api.ok("DELETE", f"{SERVICES}/{name}")


async def test_a_dry_run_takes_nothing(api):
    shown = await api.ok("POST", f"{SERVICES}?dryRun=All", service("a"))
    made = await api.ok("POST", SERVICES, service("a", clusterIP=shown["spec"]["clusterIP"]))

    assert shown["spec"]["clusterIP"] == made["spec"]["clusterIP"]


async def test_a_server_does_not_know_what_another_handed_out(api):
    """Else what a simulation shows would depend on those that ran before it."""
    other = await Api.start()
    first = [await each.ok("POST", SERVICES, service("a")) for each in (api, other)]
    await other.close()

    assert 1 == len({made["spec"]["clusterIP"] for made in first})


@pytest.mark.skipif(find_etcd() is None, reason="there is no etcd program")
@pytest.mark.xdist_group("apiserver-etcd")
async def test_two_servers_on_one_etcd_hand_out_different_ones(tmp_path):
    with start_etcd(tmp_path) as etcd:
        servers = [await Api.start(await EtcdStore.open([etcd.url])) for _ in range(2)]
        made = await asyncio.gather(
            *(
                each.ok("POST", SERVICES, service(f"s{i}-{j}", type="NodePort"))
                for i, each in enumerate(servers)
                for j in range(10)
            )
        )
        asked = {"clusterIP": "10.96.7.7"}
        same = await asyncio.gather(
            *(e.call("POST", SERVICES, service(f"t{i}", **asked)) for i, e in enumerate(servers))
        )
        for each in servers:
            await each.close()

    assert 20 == len({item["spec"]["clusterIP"] for item in made})
    assert 20 == len({item["spec"]["ports"][0]["nodePort"] for item in made})
    assert [201, 422] == sorted(answer.status for answer in same)

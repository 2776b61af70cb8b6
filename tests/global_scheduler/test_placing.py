import asyncio
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path

import msgspec

from bayplan.api import yaml
from bayplan.apiserver.server import ApiServer
from bayplan.client import AsgiTransport, Client
from bayplan.client.resources import CORE_EVENTS, CUSTOM_KINDS, PODS
from bayplan.global_scheduler.draining import drain
from bayplan.global_scheduler.evicting import Evictions
from bayplan.global_scheduler.files import must_load
from bayplan.global_scheduler.kinds import ALLOCATIONS, STACKS, VIRTUAL_MACHINES, in_tree_adapters
from bayplan.global_scheduler.placer import Placer
from bayplan.global_scheduler.placing import Placing
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.service import Allocations
from bayplan.store import MemoryStore
from bayplan.store.errors import Unavailable
from tests.waiting import until

FOLDER = Path(str(files("bayplan.global_scheduler")))
SAMPLE = FOLDER / "sample"


def machine(name="demovm", **changes):
    pod = yaml.load((SAMPLE / "vm.yaml").read_bytes())
    pod["metadata"]["name"] = name
    pod["spec"]["virtualMachine"] |= changes
    return pod


@asynccontextmanager
async def world(*kinds, store=None, api=None, **options):
    """An API server, the allocation service and the placing of some kinds, all in this process."""
    api = api or ApiServer(MemoryStore())
    await api.start()
    client = Client(AsgiTransport(api, token=api.admin_token))
    base = must_load(SAMPLE)
    loop = asyncio.get_running_loop()
    service = Allocations(
        store or MemoryStore(),
        base.inventory,
        Placer(base.policy, in_tree_registry()),
        clock=loop.time,
    )
    await service.start()
    placings = [
        Placing(client, service, in_tree_adapters()[kind], clock=loop.time, **options)
        for kind in kinds
    ]
    tasks = [asyncio.create_task(placing.run()) for placing in placings]
    try:
        service.placings = placings
        yield client, service
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await service.stop()


async def events_of(client):
    async with asyncio.timeout(60):
        while True:
            found = msgspec.json.decode(await client.list(CORE_EVENTS, "default"))["items"]
            if found:
                return found
            await asyncio.sleep(0.01)


async def test_the_demo_machine_is_bound_to_its_zone():
    async with world("pods") as (client, service):
        await client.create(PODS, machine(), "default")
        pod = await until(client, PODS, "demovm", lambda pod: pod["spec"].get("nodeName"))

    assert "az1" == pod["spec"]["nodeName"]
    assert "Pending" == pod["status"]["phase"]
    [condition] = pod["status"]["conditions"]
    assert ("PodScheduled", "True") == (condition["type"], condition["status"])
    [record] = service.ledger.records.values()
    assert pod["metadata"]["uid"] == record.id
    assert (1,) == record.groups[0].charges.takes["eips/region1/common_pool1"]


async def test_a_machine_that_does_not_fit_says_why_and_is_placed_when_room_comes_free():
    async with world("pods") as (client, service):
        big = machine("big", resourceCommonInfo={"count": 18})
        await client.create(PODS, big, "default")
        await until(client, PODS, "big", lambda pod: pod["spec"].get("nodeName"))
        await client.create(PODS, machine("late"), "default")
        late = await until(client, PODS, "late", lambda pod: pod["status"].get("conditions"))
        events = await events_of(client)
        await client.delete(PODS, "big", "default", grace_period=0)
        await until(client, PODS, "late", lambda pod: pod["spec"].get("nodeName"))

    [condition] = late["status"]["conditions"]
    text = "0/1 sites are available: 1 Insufficient EIPs."
    assert ("False", "Unschedulable", text) == (
        condition["status"],
        condition["reason"],
        condition["message"],
    )
    assert [("FailedScheduling", text)] == [(e["reason"], e["message"]) for e in events]
    assert 1 == len(service.ledger.records)


async def test_a_wrong_machine_is_told_which_field_is_wrong():
    async with world("pods") as (client, _):
        await client.create(PODS, machine(flavors=[{"flavorID": "zz"}]), "default")
        pod = await until(client, PODS, "demovm", lambda pod: pod["status"].get("conditions"))

    message = pod["status"]["conditions"][0]["message"]
    assert 'spec.virtualMachine.flavors[0].flavor_id: "zz" is not offered in any region' == message


async def test_ordinary_pods_are_left_alone():
    async with world("pods") as (client, service):
        body = {
            "metadata": {"name": "plain"},
            "spec": {"containers": [{"name": "c", "image": "pause"}]},
        }
        await client.create(PODS, body, "default")
        await client.create(PODS, machine(), "default")
        await until(client, PODS, "demovm", lambda pod: pod["spec"].get("nodeName"))
        plain = msgspec.json.decode(await client.get(PODS, "plain", "default"))

    assert "nodeName" not in plain["spec"]
    assert 1 == len(service.ledger.records)


async def test_a_restart_releases_what_is_gone_and_keeps_the_rest():
    store, api = MemoryStore(), ApiServer(MemoryStore())
    async with world("pods", store=store, api=api) as (client, _):
        for name in ("stays", "goes"):
            await client.create(PODS, machine(name), "default")
            await until(client, PODS, name, lambda pod: pod["spec"].get("nodeName"))
    await client.delete(PODS, "goes", "default", grace_period=0)
    async with world("pods", store=store, api=api) as (client, service):
        async with asyncio.timeout(60):
            while len(service.ledger.records) != 1:
                await asyncio.sleep(0.01)
        [record] = service.ledger.records.values()

    assert "stays" == record.allocation.stack.name


class FailsOnce(MemoryStore):
    """Does not take the next write once told so."""

    fail = False

    async def transact(self, ops):
        if self.fail:
            self.fail = False
            raise Unavailable("the store is away")
        return await super().transact(ops)


async def short(seconds):
    await asyncio.sleep(min(seconds, 0.01))


async def until_empty(service):
    async with asyncio.timeout(60):
        while service.ledger.records:
            await asyncio.sleep(0.01)


async def test_a_release_that_the_store_did_not_take_is_tried_again():
    store = FailsOnce()
    async with world("pods", store=store, pause=short) as (client, service):
        await client.create(PODS, machine(), "default")
        await until(client, PODS, "demovm", lambda pod: pod["spec"].get("nodeName"))
        store.fail = True
        await client.delete(PODS, "demovm", "default", grace_period=0)
        await until_empty(service)

    assert not store.fail


async def test_what_went_while_another_owned_it_is_released_when_the_share_moves():
    mine = {"all": True}
    share = {"is_mine": lambda uid: mine["all"], "pause": short}
    async with world("pods", **share) as (client, service):
        await client.create(PODS, machine(), "default")
        await until(client, PODS, "demovm", lambda pod: pod["spec"].get("nodeName"))
        mine["all"] = False
        await client.delete(PODS, "demovm", "default", grace_period=0)
        [placing] = service.placings
        async with asyncio.timeout(60):
            while placing.informer.store:
                await asyncio.sleep(0.01)
        assert 1 == len(service.ledger.records)

        mine["all"] = True
        placing.reconsider()
        await until_empty(service)


def second_site(inventory):
    """The inventory with a twin of its site in another zone."""
    [site] = inventory.sites
    hosts = [msgspec.structs.replace(host, zone="az2") for host in inventory.hosts]
    pools = [msgspec.structs.replace(pool, zone="az2") for pool in inventory.volume_pools]
    return msgspec.structs.replace(
        inventory,
        sites=(site, msgspec.structs.replace(site, id="site2", zone="az2")),
        hosts=(*inventory.hosts, *hosts),
        volume_pools=(*inventory.volume_pools, *pools),
    )


async def test_machines_with_an_owner_are_evicted_from_a_drained_site():
    async with world("pods") as (client, service):
        owned = machine("owned")
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}
        owned["metadata"]["ownerReferences"] = [owner | {"controller": True}]
        for body in (owned, machine("bare")):
            await client.create(PODS, body, "default")
            await until(client, PODS, body["metadata"]["name"], lambda p: p["spec"].get("nodeName"))
        service.evict = Evictions(client, service.placings[0].informer).evict
        service.replace_inventory(second_site(service.inventory))

        done = await drain(service, "site1")

        assert {"owned": True, "bare": False} == {e.name: e.evicted for e in done.moved}
        told = next(entry.message for entry in done.moved if entry.name == "bare")
        assert "nothing would make it again" in told
        gone = await until(
            client, PODS, "owned", lambda pod: pod["metadata"].get("deletionTimestamp")
        )
        assert "az1" == gone["spec"]["nodeName"]
        assert [True] == [
            e.evicted for e in (await drain(service, "site1")).moved if e.name == "owned"
        ]
        again = machine("owned-2")
        await client.create(PODS, again, "default")
        new = await until(client, PODS, "owned-2", lambda pod: pod["spec"].get("nodeName"))

    assert "az2" == new["spec"]["nodeName"]


async def test_custom_resources_are_placed_too():
    async with world("virtualmachines", "stacks", "allocations") as (client, service):
        for crd in yaml.load_all((FOLDER / "crds.yaml").read_bytes()):
            await client.create(CUSTOM_KINDS, crd)
        template = yaml.load((SAMPLE / "vm.yaml").read_bytes())["spec"]["virtualMachine"]
        resources = [{"name": "r", "flavors": [{"flavor_id": "c6.large.2"}]}]
        bodies = [
            (VIRTUAL_MACHINES, template),
            (STACKS, {"resources": resources, "labels": {"app": "web"}}),
            (ALLOCATIONS, {"resource_group": {"name": "g", "resources": resources}, "replicas": 3}),
        ]
        for resource, spec in bodies:
            body = {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "metadata": {"name": "one"},
                "spec": spec,
            }
            await client.create(resource, body, "default")
        found = [
            await until(
                client, resource, "one", lambda item: item.get("status", {}).get("phase") == "Bound"
            )
            for resource, _ in bodies
        ]

        service.replace_inventory(second_site(service.inventory))
        done = await drain(service, "site1")
        moved = [
            await until(
                client, resource, "one", lambda item: item["status"]["groups"][0]["site"] == "site2"
            )
            for resource, _ in bodies
        ]

    assert done.empty
    assert {"az2"} == {item["status"]["node"] for item in moved}
    assert [1, 1, 3] == [len(item["status"]["groups"]) for item in found]
    assert {"az1"} == {item["status"]["node"] for item in found}
    assert 3 == len(service.ledger.records)


async def test_one_that_ends_while_something_is_to_be_tried_again_leaves_no_task_behind():
    begun, ended = asyncio.Event(), []

    async def pause(seconds):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(seconds)

    async with world("pods", pause=pause) as (client, _):
        await client.create(PODS, machine("big", resourceCommonInfo={"count": 19}), "default")
        await begun.wait()
    await asyncio.sleep(0)

    assert 1 == len(ended)

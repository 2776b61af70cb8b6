"""Copies in members: made, made again, left behind and deleted, with members that are made up."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import msgspec
import pytest

from bayplan.global_scheduler import dispatch
from bayplan.global_scheduler.dispatch import GROUP_LABEL, Dispatcher, copies, left_behind
from bayplan.global_scheduler.kinds import ALLOCATIONS
from bayplan.testing import make_pod
from tests.global_scheduler.test_between import ALLOCATION, MAPS, clients, read
from tests.global_scheduler.test_between import placed as placed_on


def placed(groups, dispatched):
    item = placed_on()
    status = {"groups": [{"cluster": name} for name in groups], "dispatched": dispatched}
    item.status.update(
        {key: msgspec.Raw(msgspec.json.encode(value)) for key, value in status.items()}
    )
    return item


def member(client, *nodes, number="0", online=True):
    """A member with pods of the allocation `u` on nodes; without a name they wait."""
    pods = {
        str(at): make_pod(f"p{at}").label({GROUP_LABEL: number}).node(node).build()
        for at, node in enumerate(nodes)
    }
    return SimpleNamespace(client=client, online=online, by_allocation={"u": pods})


@asynccontextmanager
async def dispatching(**members):
    """A dispatcher on a server that stands for all members."""
    async with clients() as (client, _):
        for name, given in members.items():
            members[name] = member(client, *given.pop("nodes", ()), **given)
        known = SimpleNamespace(by_name=members, on_change=lambda listener: None)
        body = ALLOCATION | {"metadata": {"name": "web"}}
        await client.create(ALLOCATIONS, body, "default")
        yield Dispatcher(client, known), client


@pytest.mark.parametrize(
    ("old", "new", "leaves"),
    [
        pytest.param({"nodes": ["n"]}, {"nodes": ["n"]}, True, id="its successor is scheduled"),
        pytest.param({"nodes": ["n"]}, {"nodes": ["n", ""]}, False, id="one pod of it waits"),
        pytest.param({"nodes": ["n"]}, {}, False, id="it has no pods yet"),
        pytest.param(
            {"nodes": ["n"]}, {"nodes": ["n"], "number": "1"}, False, id="another group's pods"
        ),
        pytest.param({}, {}, True, id="it has no pods itself"),
        pytest.param({"online": False}, {"nodes": ["n"]}, False, id="its member is away"),
    ],
)
async def test_a_copy_is_left_until_its_successor_is_scheduled(old, new, leaves):
    async with dispatching(old=dict(old), new=dict(new)) as (dispatcher, client):
        item = placed(["new"], ["new/0", "old/0"])
        [(_, manifest)] = left_behind(item)
        await client.create(MAPS, manifest, "default")

        leaving = await dispatcher._leave(item, copies(item))

        assert ([] if leaves else ["old"]) == leaving
        found = await client.list(MAPS, "default")
        assert leaves == (b'"web-0"' not in found)
        status = (await read(client, ALLOCATIONS, "web")).get("status", {})
        assert (["new/0"] if leaves else None) == status.get("dispatched")


async def test_copies_of_a_group_that_is_gone_are_deleted_at_once():
    async with dispatching(old={"nodes": ["n"]}) as (dispatcher, client):
        item = placed([], ["old/0", "old/3"])
        for _, manifest in left_behind(item):
            await client.create(MAPS, manifest, "default")

        assert [] == await dispatcher._leave(item, copies(item))
        assert b'"web-' not in await client.list(MAPS, "default")


async def test_a_member_that_is_no_longer_known_keeps_nobody_waiting():
    async with dispatching() as (dispatcher, client):
        item = placed([], ["gone/0"])

        assert [] == await dispatcher._leave(item, copies(item))
        assert [] == (await read(client, ALLOCATIONS, "web"))["status"]["dispatched"]


async def test_a_name_that_another_has_is_tried_again(monkeypatch):
    monkeypatch.setattr(dispatch, "TAKEN_RETRY", 0.01)
    async with dispatching(m={}) as (dispatcher, client):
        await client.create(MAPS, {"metadata": {"name": "web-0"}}, "default")
        status = {"status": {"groups": [{"cluster": "m"}]}}
        await client.patch_status(ALLOCATIONS, "web", status, "default", kind="merge")
        running = asyncio.create_task(dispatcher.run())
        try:
            async with asyncio.timeout(60):
                while not await reported(client, "problem"):
                    await asyncio.sleep(0.01)
                await client.delete(MAPS, "web-0", "default")
                while not (await reported(client, "objects"))[0]["there"]:
                    await asyncio.sleep(0.01)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        assert "0" == (await read(client, MAPS, "web-0"))["metadata"]["labels"][GROUP_LABEL]
        assert not await reported(client, "problem")


async def reported(client, fact):
    """What the allocation's status says of its first member."""
    members = (await read(client, ALLOCATIONS, "web"))["status"].get("members")
    return members and members[0].get(fact)

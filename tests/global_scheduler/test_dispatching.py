"""Copies in members: made, made again, left behind and deleted, with members that are made up."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import msgspec
import pytest

from bayplan.global_scheduler import dispatch
from bayplan.global_scheduler.copies import GROUP_LABEL, dispatched, resource_of, wanted
from bayplan.global_scheduler.dispatch import Dispatcher
from bayplan.global_scheduler.kinds import ALLOCATIONS
from bayplan.global_scheduler.members import Changes
from bayplan.testing import make_pod
from tests.global_scheduler.test_between import ALLOCATION, MAPS, clients, read
from tests.global_scheduler.test_between import placed as placed_on

MAP = "ConfigMap.v1"


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
    return SimpleNamespace(name="", client=client, online=online, by_allocation={"u": pods})


@asynccontextmanager
async def dispatching(**members):
    """A dispatcher on a server that stands for all members."""
    async with clients() as (client, _):
        for name, given in members.items():
            members[name] = member(client, *given.pop("nodes", ()), **given)
            members[name].name = name
        known = SimpleNamespace(by_name=members, on_change=lambda listener: None)
        body = ALLOCATION | {"metadata": {"name": "web"}}
        await client.create(ALLOCATIONS, body, "default")
        yield Dispatcher(client, known), client


async def reconcile(dispatcher, item):
    """Have an item that is made up looked at, as if it were the server's newest."""
    version = (await read(dispatcher._client, ALLOCATIONS, "web"))["metadata"]["resourceVersion"]
    meta = msgspec.structs.replace(item.metadata, resource_version=version)
    await dispatcher._reconcile(msgspec.structs.replace(item, metadata=meta))


@asynccontextmanager
async def at_work(dispatcher):
    running = asyncio.create_task(dispatcher.run())
    try:
        async with asyncio.timeout(60):
            yield running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


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
        # one server stands for all: what leaves the old member has a name of its own
        marks = [f"new/0/{MAP}/web-0", f"old/0/{MAP}/old-0"]
        item = placed(["new"], marks)
        [left] = (copy for copy in dispatched(item).values() if copy.member == "old")
        await client.create(MAPS, left.manifest, "default")

        await reconcile(dispatcher, item)

        found = await client.list(MAPS, "default")
        assert leaves == (b'"old-0"' not in found)
        status = (await read(client, ALLOCATIONS, "web"))["status"]
        assert marks[: 1 if leaves else 2] == status.get("dispatched", marks)
        assert ([] if leaves else ["old"]) == [
            one["name"] for one in status["members"] if one.get("leaving")
        ]


async def test_copies_of_a_group_that_is_gone_are_deleted_at_once():
    async with dispatching(old={"nodes": ["n"]}) as (dispatcher, client):
        item = placed([], ["old/0", "old/3"])
        for copy in dispatched(item).values():
            await client.create(MAPS, copy.manifest, "default")

        await reconcile(dispatcher, item)

        assert b'"web-' not in await client.list(MAPS, "default")


async def test_a_member_that_is_no_longer_known_keeps_nobody_waiting():
    async with dispatching() as (dispatcher, client):
        await reconcile(dispatcher, placed([], ["gone/0"]))

        assert [] == (await read(client, ALLOCATIONS, "web"))["status"]["dispatched"]


@pytest.mark.parametrize("known", [True, False])
async def test_a_member_that_is_away_or_unknown_gets_no_copy_and_is_no_problem(known):
    async with dispatching(**({"m": {"online": False}} if known else {})) as (dispatcher, client):
        await reconcile(dispatcher, placed(["m"], []))

        members = (await read(client, ALLOCATIONS, "web"))["status"].get("members", [])
        assert [None] * known == [one.get("problem") for one in members]
        assert [[{"name": "web-0", "there": False}]] * known == [one["objects"] for one in members]
        assert b'"web-0"' not in await client.list(MAPS, "default")


async def test_a_name_that_another_has_is_tried_again(monkeypatch):
    monkeypatch.setattr(dispatch, "RETRY_SECONDS", 0.01)
    async with dispatching(m={}) as (dispatcher, client):
        await client.create(MAPS, {"metadata": {"name": "web-0"}}, "default")
        status = {"status": {"groups": [{"cluster": "m"}]}}
        await client.patch_status(ALLOCATIONS, "web", status, "default", kind="merge")
        async with at_work(dispatcher):
            while not await reported(client, "problem"):
                await asyncio.sleep(0.01)
            await client.delete(MAPS, "web-0", "default")
            while not (await reported(client, "objects"))[0]["there"]:
                await asyncio.sleep(0.01)

        assert "0" == (await read(client, MAPS, "web-0"))["metadata"]["labels"][GROUP_LABEL]
        assert not await reported(client, "problem")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param("text", ": expected an object", id="no object"),
        pytest.param({"metadata": "x"}, ".metadata: expected an object", id="metadata"),
        pytest.param({"metadata": {"labels": "x"}}, ".metadata.labels: expected", id="labels"),
        pytest.param(
            {"spec": {"template": {"metadata": [1]}}},
            ".spec.template.metadata: expected an object",
            id="the metadata of pods",
        ),
        pytest.param({"kind": "../secrets"}, ".kind: must be", id="a path as kind"),
        pytest.param({"kind": "pods/p/eviction?x="}, ".kind: must be", id="another's subresource"),
        pytest.param({"apiVersion": "../v1"}, ".apiVersion: must be", id="a path as version"),
        pytest.param({"metadata": {"name": "a/b"}}, ".metadata.name: must have no /", id="name"),
        pytest.param(
            {"metadata": {"namespace": "kube-system"}}, 'the Allocation, "default"', id="elsewhere"
        ),
        pytest.param({"metadata": {"namespace": 5}}, 'the Allocation, "default"', id="a number"),
    ],
)
async def test_a_template_that_cannot_be_copied_is_told_and_holds_up_no_other(changes, told):
    """Nothing of it may reach beyond the namespace that its author may write to."""
    async with dispatching(m={}) as (dispatcher, client):
        template = changes
        if isinstance(changes, dict):
            template = ALLOCATION["spec"]["template"] | changes
        body = {"apiVersion": ALLOCATIONS.api_version, "kind": "Allocation"}
        bad = body | {"metadata": {"name": "bad"}, "spec": {"template": template}}
        await client.create(ALLOCATIONS, bad, "default")
        for name in ("bad", "web"):
            status = {"status": {"groups": [{"cluster": "m"}]}}
            await client.patch_status(ALLOCATIONS, name, status, "default", kind="merge")
        dispatcher._members_changed(Changes(reached={"m"}))
        async with at_work(dispatcher) as running:
            while not await reported(client, "objects"):
                assert not running.done()
                await asyncio.sleep(0.01)
            while not (problem := await reported(client, "problem", of="bad")):
                await asyncio.sleep(0.01)
            dispatcher._members_changed(Changes(reached={"m"}))

        assert problem.startswith("spec.template")
        assert told in problem
        maps = msgspec.json.decode(await client.list(MAPS))["items"]
        mine = [one["metadata"] for one in maps if GROUP_LABEL in one["metadata"].get("labels", {})]
        assert [("default", "web-0")] == [(meta["namespace"], meta["name"]) for meta in mine]


async def test_what_is_wrong_is_told_of_a_new_allocation_of_the_same_name_too():
    async with dispatching(m={}) as (dispatcher, client):
        bad = ALLOCATION | {"metadata": {"name": "bad"}, "spec": {"template": "text"}}
        async with at_work(dispatcher):
            for _ in range(2):
                await client.create(ALLOCATIONS, bad, "default")
                while not await reported(client, "problem", of="bad"):
                    await asyncio.sleep(0.01)
                await client.delete(ALLOCATIONS, "bad", "default")


async def test_copies_go_with_an_allocation_whose_template_names_another_namespace_by_now():
    async with dispatching(m={}) as (dispatcher, client):
        item = placed(["m"], ["m/0", "m/1"])
        for copy in dispatched(item).values():
            await client.create(MAPS, copy.manifest, "default")
        template = item.value("spec", "template")
        template["metadata"]["namespace"] = "kube-system"
        with_template(item, template)
        going = msgspec.structs.replace(item.metadata, deletion_timestamp="2026-01-01T00:00:00Z")

        await reconcile(dispatcher, msgspec.structs.replace(item, metadata=going))

        assert b'"web-' not in await client.list(MAPS, "default")


def with_template(item, template):
    item.spec["template"] = msgspec.Raw(msgspec.json.encode(template))
    return item


SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web"}}
LEASE = SECRET | {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
MAP_OF_ANOTHER_NAME = ALLOCATION["spec"]["template"] | {"metadata": {"name": "new"}}


@pytest.mark.parametrize(
    ("template", "mark"),
    [
        pytest.param(MAP_OF_ANOTHER_NAME, f"m/0/{MAP}/new-0", id="name"),
        pytest.param(SECRET, "m/0/Secret.v1/web-0", id="kind"),
        pytest.param(LEASE, "m/0/Lease.v1.coordination.k8s.io/web-0", id="group"),
    ],
)
async def test_a_copy_goes_whose_template_became_another(template, mark):
    """Its room is the successor's: it waits for none in the same member."""
    async with dispatching(m={"nodes": ["n", ""]}) as (dispatcher, client):
        item = placed(["m"], ["m/0", "gone/5/no kind/web-5", f"gone/x/{MAP}/web-x"])
        await reconcile(dispatcher, item)
        [noted] = (await read(client, ALLOCATIONS, "web"))["status"]["dispatched"]
        assert f"m/0/{MAP}/web-0" == noted
        await reconcile(dispatcher, with_template(placed(["m"], [noted]), template))

        assert b'"web-0"' not in await client.list(MAPS, "default")
        assert [mark] == (await read(client, ALLOCATIONS, "web"))["status"]["dispatched"]
        back = placed(["m"], [mark])
        await reconcile(dispatcher, back)
        assert b'"web-0"' in await client.list(MAPS, "default")


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Pod", "pods"),
        ("StatefulSet", "statefulsets"),
        ("NetworkPolicy", "networkpolicies"),
        ("Gateway", "gateways"),
        ("Ingress", "ingresses"),
        ("Mailbox", "mailboxes"),
        ("Mesh", "meshes"),
        ("Endpoints", "endpoints"),
    ],
)
def test_how_the_resource_of_a_kind_is_called(kind, plural):
    assert plural == resource_of({"kind": kind}).plural


def test_a_copy_stays_whose_template_names_another_version_of_its_kind():
    item = placed(["m"], ["m/0/ConfigMap.v0/web-0"])

    assert wanted(item).keys() == dispatched(item).keys()


@pytest.mark.parametrize("template", ["text", MAP_OF_ANOTHER_NAME, None])
async def test_copies_go_with_an_allocation_whatever_its_template_became(template):
    async with dispatching(m={}) as (dispatcher, client):
        status = {"status": {"groups": [{"cluster": "m"}]}}
        await client.patch_status(ALLOCATIONS, "web", status, "default", kind="merge")
        async with at_work(dispatcher):
            while not await reported(client, "objects"):
                await asyncio.sleep(0.01)
        await client.patch(ALLOCATIONS, "web", {"spec": {"template": template}}, "default")
        await client.delete(ALLOCATIONS, "web", "default")
        async with at_work(Dispatcher(client, dispatcher._members)):
            while b'"web"' in await client.list(ALLOCATIONS, "default"):
                await asyncio.sleep(0.01)

        assert b'"web-' not in await client.list(MAPS, "default")


async def test_what_was_wrong_with_a_template_is_told_until_it_is_corrected():
    """Also of an allocation that has no place yet, and by another dispatcher than told it."""
    async with dispatching(m={}) as (dispatcher, client):
        await client.patch(ALLOCATIONS, "web", {"spec": {"template": "text"}}, "default")
        async with at_work(dispatcher):
            while not await reported(client, "problem"):
                await asyncio.sleep(0.01)
        await client.patch(ALLOCATIONS, "web", {"spec": {"template": SECRET}}, "default")
        async with at_work(Dispatcher(client, dispatcher._members)):
            while await reported(client, "problem"):
                await asyncio.sleep(0.01)


async def test_what_goes_wrong_with_one_allocation_is_tried_again_beside_the_others(monkeypatch):
    monkeypatch.setattr(dispatch, "RETRY_SECONDS", 0.01)
    async with dispatching(m={}) as (dispatcher, client):
        status = {"status": {"groups": [{"cluster": "m"}]}}
        await client.patch_status(ALLOCATIONS, "web", status, "default", kind="merge")
        ask, failing = dispatcher._ask, [ValueError("never thought of")]

        async def asked(*arguments):
            if failing:
                raise failing.pop()
            return await ask(*arguments)

        monkeypatch.setattr(dispatcher, "_ask", asked)
        async with at_work(dispatcher) as running:
            while not await reported(client, "objects"):
                assert not running.done()
                await asyncio.sleep(0.01)

        assert "0" == (await read(client, MAPS, "web-0"))["metadata"]["labels"][GROUP_LABEL]


async def reported(client, fact, of="web"):
    """What the allocation's status says of its first member."""
    members = (await read(client, ALLOCATIONS, of)).get("status", {}).get("members")
    return members and members[0].get(fact)

"""Between looking and acting others act: nothing of theirs is touched, and what they did counts."""

from contextlib import asynccontextmanager
from types import SimpleNamespace

import msgspec
import pytest

from bayplan.api import yaml
from bayplan.apiserver.server import ApiServer
from bayplan.client import AsgiTransport, Client, Conflict
from bayplan.client.resources import CUSTOM_KINDS, PODS, Resource
from bayplan.global_scheduler import dispatch
from bayplan.global_scheduler.copies import wanted
from bayplan.global_scheduler.dispatch import FINALIZER, Dispatcher
from bayplan.global_scheduler.evicting import Evictions
from bayplan.global_scheduler.kinds import ALLOCATIONS, Placeable
from bayplan.global_scheduler.service import ConflictError
from bayplan.store import MemoryStore
from tests.global_scheduler.sites import ask
from tests.global_scheduler.test_placing import FOLDER
from tests.global_scheduler.test_service import service_on, snapshot, with_id

MAPS = Resource("", "v1", "configmaps", "ConfigMap")
ALLOCATION = {
    "apiVersion": ALLOCATIONS.api_version,
    "kind": "Allocation",
    "metadata": {"name": "web"},
    "spec": {"template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}}},
    "status": {"groups": [{"cluster": "m"}, {"cluster": "m"}]},
}
CONTROLLER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r"}
POD = {
    "metadata": {"name": "p", "ownerReferences": [{**CONTROLLER, "controller": True}]},
    "spec": {"containers": [{"name": "c", "image": "pause"}]},
}


class Racing(Client):
    """Lets somebody else act between an answer and what follows from it, once."""

    meanwhile = None

    async def get(self, *arguments, **options):
        answer = await super().get(*arguments, **options)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return answer


@asynccontextmanager
async def clients():
    """One that is raced, and one of somebody else, on one server that knows allocations."""
    api = ApiServer(MemoryStore())
    await api.start()
    raced, other = (kind(AsgiTransport(api, token=api.admin_token)) for kind in (Racing, Client))
    for crd in yaml.load_all((FOLDER / "crds.yaml").read_bytes()):
        await other.create(CUSTOM_KINDS, crd)
    try:
        yield raced, other
    finally:
        await api.close()


def dispatcher_on(client):
    member = SimpleNamespace(name="m", online=True, client=client)
    members = SimpleNamespace(by_name={"m": member}, on_change=lambda listener: None)
    return Dispatcher(client, members)


def placed(uid="u", **meta):
    body = ALLOCATION | {"metadata": {"name": "web", "namespace": "default", "uid": uid, **meta}}
    return msgspec.json.decode(msgspec.json.encode(body), type=Placeable)


async def read(client, resource, name):
    return msgspec.json.decode(await client.get(resource, name, "default"))


async def test_a_copy_that_became_another_s_object_is_not_deleted():
    async with clients() as (client, other):
        copy, _ = wanted(placed()).values()
        await client.create(MAPS, copy.manifest, "default")

        async def replace():
            await other.delete(MAPS, "web-0", "default")
            await other.create(MAPS, {"metadata": {"name": "web-0"}}, "default")

        client.meanwhile = replace

        with pytest.raises(Conflict):
            await dispatch._delete(client, copy)
        assert "labels" not in (await read(client, MAPS, "web-0"))["metadata"]


@pytest.mark.parametrize("uid", ["u", "another"], ids=["another group", "another allocation"])
async def test_what_is_not_the_very_copy_is_said_and_left(uid):
    async with clients() as (client, _):
        first, second = wanted(placed(uid)).values()
        stranger = (second if uid == "u" else first).manifest
        stranger["metadata"]["name"] = "web-0"
        await client.create(MAPS, stranger, "default")
        copy, _ = wanted(placed()).values()
        dispatcher = dispatcher_on(client)

        problem = await dispatcher._ask(dispatcher._members.by_name["m"], copy, dispatch._make)
        await dispatch._delete(client, copy)

        assert problem.startswith("configmaps default/web-0 is there and belongs to another")
        assert (
            stranger["metadata"]["labels"]
            == (await read(client, MAPS, "web-0"))["metadata"]["labels"]
        )


@pytest.mark.parametrize("keep", [True, False])
async def test_a_finalizer_that_another_adds_meanwhile_is_kept(keep):
    async with clients() as (client, other):
        mine = [] if keep else [FINALIZER]
        body = ALLOCATION | {"metadata": {"name": "web", "finalizers": mine}}
        await other.create(ALLOCATIONS, body, "default")
        dispatcher, before = dispatcher_on(client), await seen(client)
        more = {"metadata": {"finalizers": [*mine, "example.com/other"]}}
        await other.patch(ALLOCATIONS, "web", more, "default")

        with pytest.raises(Conflict):
            await dispatcher._finalize(before, keep=keep)
        await dispatcher._finalize(await seen(client), keep=keep)

        left = (await read(client, ALLOCATIONS, "web"))["metadata"]["finalizers"]
        right = ["example.com/other", *([FINALIZER] if keep else [])]
        assert sorted(right) == sorted(left)


async def seen(client):
    return msgspec.json.decode(await client.get(ALLOCATIONS, "web", "default"), type=Placeable)


def evictions_of(client, pod, **meta):
    """The pod as it was seen some time ago."""
    seen = msgspec.json.encode(pod | {"metadata": pod["metadata"] | meta})
    item = msgspec.json.decode(seen, type=Placeable)
    record = SimpleNamespace(id=item.metadata.uid)
    return Evictions(client, SimpleNamespace(store={"default/p": item})), record


async def test_a_pod_that_took_the_name_of_another_is_not_evicted():
    async with clients() as (client, other):
        pod = msgspec.json.decode(await client.create(PODS, POD, "default"))
        evictions, record = evictions_of(client, pod)
        await other.delete(PODS, "p", "default", grace_period=0)
        new = msgspec.json.decode(await other.create(PODS, POD, "default"))

        with pytest.raises(Conflict):
            await evictions.evict(record)

        assert new["metadata"]["uid"] == (await read(client, PODS, "p"))["metadata"]["uid"]


async def test_a_pod_that_goes_already_needs_nobody_to_make_it_again():
    async with clients() as (client, _):
        alone = {"metadata": {"name": "p"}, "spec": POD["spec"]}
        pod = msgspec.json.decode(await client.create(PODS, alone, "default"))

        evictions, record = evictions_of(client, pod)
        with pytest.raises(ConflictError, match="has no controller"):
            await evictions.evict(record)
        evictions, record = evictions_of(client, pod, deletionTimestamp="2026-01-01T00:00:00Z")
        await evictions.evict(record)

        assert pod["metadata"]["uid"] == (await read(client, PODS, "p"))["metadata"]["uid"]


async def test_no_moment_shows_staged_room_free_while_its_records_arrive():
    """Events of one transaction may come one by one, and decisions are made between them."""
    store = MemoryStore()
    writer, reader = service_on(store, crowded=10), service_on(store, name="two")
    await writer.start()
    watcher = store.watch("/global/", after=store.revision)
    whole = snapshot(reader.table)

    record = await writer.create(with_id(ask(1, count=1)))
    events = watcher.take()
    shown = []
    for event in events:
        reader.ledger.apply_events([event])
        shown.append(snapshot(reader.table))
    await writer.release(record.id)
    reader.ledger.apply_events(watcher.take())
    watcher.close()
    await writer.stop()

    kinds = [event.kv.key.split("/")[2] for event in events]
    assert ["staged", "taking", "allocations", "staged"] == kinds
    assert [shown[0]] * 4 == shown
    assert whole != shown[0]
    assert whole == snapshot(reader.table)
    assert {"/global/taking"} >= reader.ledger._newest.keys(), "of what is gone nothing is kept"
